# SPDX-License-Identifier: Apache-2.0

"""Explain which hosts take an instance, and why the others refuse it.

``requests`` builds the request that nova-conductor would send, and ``answers``
repeats the decision of nova-scheduler for each host. Both only read.
"""
