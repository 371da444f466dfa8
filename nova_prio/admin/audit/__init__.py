# SPDX-License-Identifier: Apache-2.0

"""Check that Nova, Placement, computes and libvirt agree about every host.

``host_view`` and ``guest_audit`` read a host. ``host_audit``,
``pin_conflicts``, ``aggregates``, ``unfinished_migrations``,
``allocation_audit`` and ``guest_audit`` compare. ``repairs`` and
``unfinished_migrations`` repair, without touching a guest. ``run`` does this
for each host.
"""
