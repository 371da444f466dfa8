# SPDX-License-Identifier: Apache-2.0

"""High- and low-priority instances on one host, beside stock Nova.

Where to start reading:

* :mod:`nova_prio.capacity`: what a host can sell, and to whom (pure)
* :mod:`nova_prio.policy`: what a flavor and a hint ask for (pure)
* :mod:`nova_prio.interfaces`, :mod:`nova_prio.seams`: what is relied on in
  Nova, and every place where something is put into it
* :mod:`nova_prio.scheduler.filters.priority_filter`: which host may take it
* :mod:`nova_prio.compute.driver`: what the host reports and the guest gets
"""
