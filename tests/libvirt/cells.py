# SPDX-License-Identifier: Apache-2.0

"""A host of two NUMA cells with two CPUs each, simulated on two CPUs."""

from tests.libvirt import topology
from tests.libvirt import two_hosts

#: NUMA cell -> its CPUs.
CELLS = {0: (0, 2), 1: (1, 3)}

real_cpus = topology.real_cpus


class Host(topology.Host, two_hosts.Host):
    """A host with the NUMA cells in CELLS that accepts migrations."""

    cells = CELLS
