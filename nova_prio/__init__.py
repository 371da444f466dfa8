# SPDX-License-Identifier: Apache-2.0

"""High- and low-priority instances on one host, beside stock Nova.

Start reading here:

* :mod:`nova_prio.model.cpu_capacity`: the terms, and how much a host can sell
* :mod:`nova_prio.model.flavor_specs`: the priority in a flavor
* :mod:`nova_prio.scheduler.filters.priority_filter`: which hosts may take an
  instance
* :mod:`nova_prio.virt.libvirt.driver`: the inventory of the host, and the
  guests
* :mod:`nova_prio.compat.interfaces`, :mod:`nova_prio.compat.hooks`: the parts
  of Nova that the package relies on, and every hook that it puts into Nova
"""
