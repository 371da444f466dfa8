# SPDX-License-Identifier: Apache-2.0

"""The hosts and instances of a cloud for the planner of moves.

``cloud`` reads them, with the conversions of ``hosts`` and ``guests``, and
``loss`` calculates the loss of a host.
"""
