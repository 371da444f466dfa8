# SPDX-License-Identifier: Apache-2.0

"""Whether a guest NUMA topology fits on a host, as Nova decides it.

A guest cell is a NUMA cell of the guest, a host cell one of the host. A guest
cell is pinned if each of its vCPUs gets a dedicated CPU of its own.
"""

import copy
import operator

from nova import objects
from nova.objects import fields
from nova.virt import hardware
from oslo_utils import units


class NumaFit:
    """The fit of the NUMA topology of one request, on any number of hosts.

    Nova's own function writes into its arguments, logs much and tries each
    permutation of cells. Call it only if counting CPUs and memory cannot
    decide.

    :param topology: nova.objects.InstanceNUMATopology, never written to
    :param pci_requests: list of nova.objects.InstancePCIRequest, or None
    :param network_metadata: nova.objects.NetworkMetadata or None
    """

    def __init__(self, topology, pci_requests, network_metadata):
        """Copy the topology; the class describes the parameters."""
        self._topology = topology.obj_clone()
        self._pci_requests = pci_requests
        self._network_metadata = network_metadata
        # Only with this policy, Nova compares the sockets of the devices and
        # of the CPUs, and reads the NUMA topology for it.
        self._needs_socket = any(
            request.numa_policy == fields.PCINUMAAffinityPolicy.SOCKET
            for request in pci_requests or ())
        # (id, page size or None) of each cell as requested: Nova's fit
        # overwrites them in the copy, and each host needs the requested ones.
        self._requested_cells = []
        for cell in topology.cells:
            # The field may not be set.
            pagesize = cell.pagesize if 'pagesize' in cell else None
            self._requested_cells.append((cell.id, pagesize))
        cell = topology.cells[0]
        _, pagesize = self._requested_cells[0]
        # A plain topology is one pinned cell without further requests.
        # Counting CPUs and memory decides on its fit.
        self._is_plain = not (
            len(topology.cells) > 1 or pci_requests or network_metadata or
            cell.cpu_policy != fields.CPUAllocationPolicy.DEDICATED or
            cell.cpu_thread_policy or pagesize)

    def fit_host(self, host_state, dedicated, cpu_ratio):
        """Return whether the topology fits on a host.

        As NUMATopologyFilter does, keep only the allocation candidates that
        fit in the host state, and set its limits, which nova-compute checks
        when it makes the claim.

        :param host_state: nova.scheduler.host_manager.HostState; changed. The
            caller has checked that it has a NUMA topology.
        :param dedicated: number of dedicated CPUs that the instance needs
        :param cpu_ratio: CPU allocation ratio in force, a float
        """
        cells = host_state.numa_topology.cells
        # First, the fast test: does the whole host have enough free CPUs?
        free_cpus = sum(
            len(cell.pcpuset - cell.pinned_cpus) for cell in cells)
        if dedicated > free_cpus:
            return False
        limits = objects.NUMATopologyLimits(
            cpu_allocation_ratio=cpu_ratio,
            ram_allocation_ratio=host_state.ram_allocation_ratio)
        if self._network_metadata:
            limits.network_metadata = self._network_metadata
        # A plain topology is one pinned NUMA cell without further requests.
        # If one cell of the host has enough CPUs and memory for it, all
        # allocation candidates fit.
        if self._is_plain:
            if not any(self._fits_cell(cell, dedicated) for cell in cells):
                return False
        else:
            host_state.allocation_candidates = self._select_candidates(
                host_state, limits)
        if not host_state.allocation_candidates:
            return False
        host_state.limits['numa_topology'] = limits
        return True

    def _fits_cell(self, cell, dedicated):
        """Return whether a guest with one pinned cell fits on a host cell.

        As Nova does, count only free CPUs that are in a set of thread
        siblings. The count of all free CPUs comes first, because it is fast
        and is enough to refuse most cells.

        :param cell: nova.objects.NUMACell
        :param dedicated: number of dedicated CPUs that the guest needs
        """
        free = cell.pcpuset - cell.pinned_cpus
        return (dedicated <= len(free) and
                _has_memory(cell, self._topology.cells[0].memory) and
                dedicated <= sum(len(free & cores) for cores in cell.siblings))

    def _select_candidates(self, host_state, limits):
        """Return the allocation candidates with which Nova's fit succeeds.

        An allocation candidate is the resources that Placement offers, a dict.
        Its 'mappings' are a dict, request group -> UUIDs of the providers.

        :param limits: nova.objects.NUMATopologyLimits of the host
        """
        # Nova's fit reads these values and overwrites them: restore those of
        # the request.
        for cell, (cell_id, pagesize) in zip(
                self._topology.cells, self._requested_cells):
            cell.id, cell.pagesize = cell_id, pagesize
        pci_stats = host_state.pci_stats
        if self._pci_requests and not self._needs_socket:
            # Nova copies the devices for each fit and, with them, the NUMA
            # topology. The copy takes most of the time, and only the socket
            # policy reads the topology.
            pci_stats = copy.copy(pci_stats)
            pci_stats.numa_topology = None
        fitting = []
        for candidate in host_state.allocation_candidates:
            if hardware.numa_fit_instance_to_host(
                    host_state.numa_topology, self._topology, limits=limits,
                    pci_requests=self._pci_requests, pci_stats=pci_stats,
                    provider_mapping=candidate['mappings']):
                fitting.append(candidate)
        return fitting


def _has_memory(cell, memory_mb):
    """Return whether a host cell has free memory in its smallest pages.

    Nova does the same for a pinned guest that requests no page size.

    :param cell: nova.objects.NUMACell; without ``mempages``, the host does not
        tell its page sizes
    """
    if not cell.mempages:
        return memory_mb <= cell.memory - cell.memory_usage
    smallest = min(cell.mempages, key=operator.attrgetter('size_kb'))
    memory_kb = memory_mb * units.Ki
    return (memory_kb <= smallest.free_kb and
            memory_kb % smallest.size_kb == 0)
