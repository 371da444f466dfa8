# SPDX-License-Identifier: Apache-2.0

"""The NUMA topology of a host as one class of instance may use it.

Nova fits the floating vCPUs of a guest NUMA cell by counting: the vCPUs on
the shared CPUs of a host cell must not exceed their number times the ratio.
These views make that count come to the remaining capacity of the class.
"""

import copy

from nova import objects

from nova_prio.model import capacity


def limit_to_class(host_topology, report, demand):
    """Return the topology of a host with our driver as an instance may use it.

    :param host_topology: nova.objects.NUMATopology, whose values stay as
        they are
    :param report: the HostReport of the host, or one of
        ``scheduler.host_view``
    :param demand: ``capacity.Demand`` of the instance
    :returns: nova.objects.NUMATopology, the same one if nothing changes
    """
    if report.mix and demand.shared:
        host_topology = limit_to_rows(
            host_topology, report.ratio, report.low_by_cell, demand)
    if report.blocked:
        host_topology = mark_pinned(host_topology, report.blocked)
    return host_topology


def make_limits(cpu_allocation_ratio, ram_allocation_ratio,
                network_metadata=None):
    """Return the limits that Nova's claim on a host must keep.

    :param cpu_allocation_ratio: float, the one in force on the host
    :param ram_allocation_ratio: float, likewise
    :param network_metadata: nova.objects.NetworkMetadata or None
    :returns: nova.objects.NUMATopologyLimits
    """
    found = objects.NUMATopologyLimits(
        cpu_allocation_ratio=cpu_allocation_ratio,
        ram_allocation_ratio=ram_allocation_ratio)
    if network_metadata:
        found.network_metadata = network_metadata
    return found


def limit_to_rows(host_topology, ratio, low_by_cell, demand):
    """Return the topology of a mix host as an instance may use it.

    ``cpuset`` of each cell holds the CPUs of the class, and ``cpu_usage``
    leaves of them, at ``ratio``, the room of the rows that the instance draws
    from. Dedicated CPUs, pins and memory are unchanged. The result stays
    right when Nova adds instances of the same class to it.

    :param host_topology: nova.objects.NUMATopology, never written to
    :param ratio: CPU allocation ratio in force, a Decimal
    :param low_by_cell: dict, str of the cell's id -> vCPUs of the
        low-priority guests on it
    :param demand: ``capacity.Demand`` of the instance
    :returns: nova.objects.NUMATopology
    """
    return objects.NUMATopology(cells=[
        _cell(cell, ratio, low_by_cell.get(str(cell.id), 0), demand.priority)
        for cell in host_topology.cells])


def mark_pinned(host_topology, cpus):
    """Return the topology of a host with some CPUs shown as pinned.

    :param host_topology: nova.objects.NUMATopology, never written to
    :param cpus: frozenset of CPU numbers
    :returns: nova.objects.NUMATopology
    """
    cells = list(map(copy.copy, host_topology.cells))
    for cell in cells:
        cell.pinned_cpus = cell.pinned_cpus | (cell.pcpuset & cpus)
    return objects.NUMATopology(cells=cells)


def _cell(cell, ratio, low, priority):
    cpus = capacity.HostCPUs(
        frozenset(cell.pcpuset), frozenset(cell.cpuset), ratio, mix=True)
    left = capacity.calculate_remaining(cpus.sellable, capacity.calculate_used(
        0, low, max(cell.cpu_usage - low, 0)))
    if priority == capacity.LOW:
        usable, room = cpus.floating, left.low
    else:
        usable, room = cpus.shared, min(left.low, left.ordinary)
    # A shallow copy: deep copies take long.
    view = copy.copy(cell)
    view.cpuset = set(usable)
    # Nova's limit, in the floating point that Nova counts in.
    view.cpu_usage = int(len(usable) * float(ratio)) - room
    return view
