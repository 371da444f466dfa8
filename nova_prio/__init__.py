# SPDX-License-Identifier: Apache-2.0

"""High- and low-priority instances on one host, beside stock Nova.

Where to start reading:

* :mod:`nova_prio.model.capacity`: what a host can sell, and to whom (pure)
* :mod:`nova_prio.model.flavor_specs`: what a flavor and a hint ask for (pure)
* :mod:`nova_prio.compat.interfaces`, :mod:`nova_prio.compat.hooks`: what is relied on in
  Nova, and every place where something is put into it
* :mod:`nova_prio.scheduler.filters.priority_filter`: which host may take it
* :mod:`nova_prio.virt.libvirt.driver`: what the host reports and the guest gets
"""
