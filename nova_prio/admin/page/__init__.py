# SPDX-License-Identifier: Apache-2.0

"""The HTML pages of ``nova-prio capacity show`` and ``scenario play``.

``templates`` makes a page from the plain data of ``content``.
``capacity_page`` reads this data from Nova; the scenario player has its own.
"""
