# SPDX-License-Identifier: Apache-2.0

"""Whether a guest NUMA topology fits on a host, as Nova decides it.

Nova's own function writes into its arguments, logs much and tries each
permutation of cells. It is called only if counting CPUs and memory does not
decide.
"""

import copy

from nova.objects import fields
from nova.virt import hardware
from oslo_utils import units


def can_fit(host_topology, request):
    """Return False if the host certainly lacks free dedicated CPUs."""
    return request.demand.dedicated <= sum(
        len(cell.pcpuset - cell.pinned_cpus) for cell in host_topology.cells)


def fits_plain_cell(host_topology, request):
    """Return whether a guest fits that is one plain pinned cell.

    :param host_topology: nova.objects.NUMATopology
    :param request: Request with ``cell_memory_mb``
    """
    pcpus = request.demand.dedicated
    for cell in host_topology.cells:
        free = cell.pcpuset - cell.pinned_cpus
        if (pcpus <= len(free) and
                _has_memory(cell, request.cell_memory_mb) and
                pcpus <= sum(len(free & cores) for cores in cell.siblings)):
            return True
    return False


def _has_memory(cell, memory_mb):
    pages = cell.mempages
    if not pages:
        return memory_mb <= cell.memory - cell.memory_usage
    smallest = min(pages, key=lambda page: page.size_kb)
    memory_kb = memory_mb * units.Ki
    return (memory_kb <= smallest.free_kb and
            memory_kb % smallest.size_kb == 0)


class NovaFit:
    """Nova's own fit of one topology, on a copy that is made once.

    Nova writes the id, the page size and the pins into the cells that it
    tries. The first two, which it also reads, are restored before each host.

    :param topology: nova.objects.InstanceNUMATopology, never written to
    :param pci_requests: list of nova.objects.InstancePCIRequest, or None
    """

    def __init__(self, topology, pci_requests):
        self._topology = topology.obj_clone()
        self._pci_requests = pci_requests
        self._wants_socket = any(
            request.numa_policy == fields.PCINUMAAffinityPolicy.SOCKET
            for request in pci_requests or ())
        self._as_requested = [
            (cell.id, cell.pagesize if 'pagesize' in cell else None)
            for cell in topology.cells]

    def candidates(self, host_state, limits):
        """Return the allocation candidates with which it fits on a host.

        :param host_state: nova.scheduler.host_manager.HostState
        :param limits: nova.objects.NUMATopologyLimits
        """
        for cell, (number, pagesize) in zip(
                self._topology.cells, self._as_requested):
            cell.id, cell.pagesize = number, pagesize
        pci_stats = host_state.pci_stats
        if self._pci_requests and not self._wants_socket:
            # Nova copies the devices for each fit and, with them, the NUMA
            # topology, which takes most of the time and tells only sockets.
            pci_stats = copy.copy(pci_stats)
            pci_stats.numa_topology = None
        return [
            candidate for candidate in host_state.allocation_candidates
            if hardware.numa_fit_instance_to_host(
                host_state.numa_topology, self._topology, limits=limits,
                pci_requests=self._pci_requests, pci_stats=pci_stats,
                provider_mapping=candidate['mappings'])]
