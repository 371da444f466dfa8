# SPDX-License-Identifier: Apache-2.0


"""Whether Nova, Placement, computes and libvirt agree about every host.

What is said of a host is read first (``views``, ``guests``), compared next
(``allocations``, ``hosts``, ``guests``, ``migrations``), and mended then where
that does not touch a guest (``repairs``).
"""
