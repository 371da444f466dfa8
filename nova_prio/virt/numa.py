# SPDX-License-Identifier: Apache-2.0

"""The NUMA topology of a host, limited to the capacity of an instance class.

Nova fits the floating vCPUs of a guest NUMA cell by counting: the vCPUs on
the shared CPUs of a host cell must not exceed their number times the ratio.
The results of these functions make Nova count the remaining capacity of the
class. No function writes to its arguments.
"""

import copy

from nova import objects

from nova_prio.model import capacity


def limit_to_class(host_topology, report, demand):
    """Return the part of a host topology that an instance may use.

    The host runs the driver of this package. On a mix host, the class of the
    instance decides. CPUs that guests block count as pinned.

    :param host_topology: nova.objects.NUMATopology
    :param report: HostReport, or a report of ``scheduler.host_view``
    :param demand: ``capacity.Demand`` of the instance
    :returns: nova.objects.NUMATopology, the same one if nothing changes
    """
    if report.mix and demand.shared:
        host_topology = limit_to_rows(
            host_topology, report.ratio, report.low_by_cell, demand)
    if report.blocked:
        host_topology = mark_pinned(host_topology, report.blocked)
    return host_topology


def limit_to_rows(host_topology, ratio, low_by_cell, demand):
    """Return the part of a mix host's topology that an instance may use.

    ``cpuset`` of each cell holds the CPUs of the class. With ``cpu_usage``,
    Nova counts the remaining capacity of the rows that the instance needs,
    also after it adds instances of the same class. Dedicated CPUs, pins and
    memory are unchanged.

    :param ratio: CPU allocation ratio in force, a Decimal
    :param low_by_cell: dict, str of the cell's id -> vCPUs of the
        low-priority guests on it
    """
    return objects.NUMATopology(cells=[
        _limit_cell(cell, ratio, low_by_cell.get(str(cell.id), 0),
                    demand.priority) for cell in host_topology.cells])


def _limit_cell(cell, ratio, low, priority):
    cpus = capacity.HostCPUs(
        frozenset(cell.pcpuset), frozenset(cell.cpuset), ratio, mix=True)
    remaining = capacity.calculate_remaining(
        cpus.sellable, capacity.calculate_used(
            0, low, max(cell.cpu_usage - low, 0)))
    if priority == capacity.LOW:
        usable, free = cpus.floating, remaining.low
    else:
        usable, free = cpus.shared, min(remaining.low, remaining.ordinary)
    # A shallow copy: deep copies take long.
    limited = copy.copy(cell)
    limited.cpuset = set(usable)
    # Nova's limit, in floating point as Nova calculates it.
    limited.cpu_usage = int(len(usable) * float(ratio)) - free
    return limited


def mark_pinned(host_topology, cpus):
    """Return the topology of a host with some of its CPUs marked as pinned.

    :param cpus: frozenset of CPU numbers
    """
    cells = list(map(copy.copy, host_topology.cells))
    for cell in cells:
        cell.pinned_cpus = cell.pinned_cpus | (cell.pcpuset & cpus)
    return objects.NUMATopology(cells=cells)


def make_limits(cpu_allocation_ratio, ram_allocation_ratio,
                network_metadata=None):
    """Return the NUMATopologyLimits that Nova's claim on a host must keep."""
    limits = objects.NUMATopologyLimits(
        cpu_allocation_ratio=cpu_allocation_ratio,
        ram_allocation_ratio=ram_allocation_ratio)
    if network_metadata:
        limits.network_metadata = network_metadata
    return limits
