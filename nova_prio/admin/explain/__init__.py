# SPDX-License-Identifier: Apache-2.0

"""The judge: which hosts take an instance, and why the others refuse it.

``requests`` builds the request that nova-conductor would send,
``host_snapshot`` reads the hosts with Nova's HostManager, and ``judge`` lets
Nova's code decide about each host. All of them only read.
"""
