# SPDX-License-Identifier: Apache-2.0

"""A host of two NUMA cells with two CPUs each, on two CPUs of one cell."""

from tests.libvirt import topology
from tests.libvirt import two_hosts

#: NUMA cell -> its CPUs.
CELLS = {0: (0, 2), 1: (1, 3)}

folded = topology.folded


class Host(topology.Host, two_hosts.Host):
    """A host with these NUMA cells, which accepts migrations."""

    cells = CELLS
