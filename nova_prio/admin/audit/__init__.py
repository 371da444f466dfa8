# SPDX-License-Identifier: Apache-2.0

"""Check that Nova, Placement, computes and libvirt agree about every host.

``host_view`` and ``guests`` read a host. ``allocations``, ``hosts``,
``pin_conflicts``, ``aggregates``, ``guests`` and ``migrations`` compare.
``repairs`` and ``migrations`` repair, without touching a guest. ``run`` does
this for each host.
"""
