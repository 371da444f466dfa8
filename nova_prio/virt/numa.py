# SPDX-License-Identifier: Apache-2.0

"""The NUMA topology of a host, limited to the capacity of an instance class.

The classes are high priority, low priority and ordinary. Nova fits the shared
vCPUs of a guest NUMA cell by counting: on each host cell, the used vCPUs must
not exceed the shared CPUs times the ratio. The topologies that this module
returns make Nova count the remaining capacity of the class. No function writes
to its arguments.

:mod:`nova_prio.model.cpu_capacity` explains mix hosts and rows.
"""

import copy

import nova.conf
from nova import objects
from nova.virt import hardware
from oslo_utils import units

from nova_prio.model import cpu_capacity
from nova_prio.model import leases
from nova_prio.model import memory_pages

CONF = nova.conf.CONF


def limit_to_class(host_topology, report, demand):
    """Return the host topology with the capacity that an instance may use.

    The class of an instance is its priority, or that it has none. On a mix
    host, which has ``cpu_priority_mix_enable``, the class decides how many
    shared vCPUs fit, and on which CPUs.

    The ``hidden`` CPUs of the report count as pinned. These are dedicated CPUs
    that no other instance may get, although Nova does not count them as
    pinned. They are kept for an instance that Nova does not count at the
    moment, or a guest of an earlier configuration or of no instance uses them.

    :param host_topology: nova.objects.NUMATopology of a host with our driver
    :param report: ``capacity_report.CapacityReport`` of the host
    :param demand: ``cpu_capacity.Demand`` of the instance
    :returns: nova.objects.NUMATopology, the same one if nothing changes
    """
    if report.mix and demand.shared > 0:
        # Shallow copies: deep copies take long.
        cells = [copy.copy(cell) for cell in host_topology.cells]
        for cell in cells:
            _limit_cell(cell, report, demand.priority)
        host_topology = objects.NUMATopology(cells=cells)
    return block(host_topology, report.hidden)


def block(host_topology, cpus):
    """Return the host topology in which some dedicated CPUs count as pinned.

    Nova then pins no instance to these CPUs.

    :param host_topology: nova.objects.NUMATopology, or None
    :param cpus: frozenset of CPU numbers
    :returns: nova.objects.NUMATopology, the same one if nothing changes
    """
    if host_topology is None or not cpus:
        return host_topology
    cells = [copy.copy(cell) for cell in host_topology.cells]
    for cell in cells:
        cell.pinned_cpus = cell.pinned_cpus | (cell.pcpuset & cpus)
    return objects.NUMATopology(cells=cells)


def get_small_pages(host_topology, memory_mb, free_memory_mb):
    """Return the ``memory_pages.SmallPages`` of a host.

    This is the memory that is not set aside for huge pages.

    :param host_topology: nova.objects.NUMATopology, or None
    :param memory_mb: memory of the host, with that of huge pages
    :param free_memory_mb: memory that no instance has, likewise
    :returns: None if the host has no huge pages
    """
    pages = []
    for cell in host_topology.cells if host_topology else ():
        for each in cell.mempages:
            pages.append(memory_pages.Pages(
                size_kb=each.size_kb, total=each.total, used=each.used))
    return memory_pages.calculate_small_pages(
        memory_mb, free_memory_mb, pages)


def limits_small_pages(mix):
    """Return whether this host limits the memory that it sells in small pages.

    Small pages are the memory that is not set aside for huge pages. With
    ``[libvirt] file_backed_memory``, Nova takes the memory of all guests from
    files, and refuses page sizes: the pools are no part of this memory.

    :param mix: whether the host has ``cpu_priority_mix_enable``; other hosts
        sell what stock Nova admits
    """
    return mix and not CONF.libvirt.file_backed_memory


def read_small_pages(node, mix, uncounted):
    """Return the ``memory_pages.SmallPages`` that a host reports.

    Small pages are the memory that is not set aside for huge pages. Subtract
    the memory that the host has sold to instances that Nova does not count at
    the moment.

    :param node: nova.objects.ComputeNode that the tracker keeps
    :param mix: whether the host has ``cpu_priority_mix_enable``
    :param uncounted: list of ``leases.LeaseSet``: what the host keeps for
        these instances. An instance that is resized on this host has two, for
        its old and its new flavor.
    :returns: None if the host has no huge pages, or has no such limit
    """
    if not limits_small_pages(mix):
        return None
    topology = add_usage(
        node.numa_topology, [each.topology for each in uncounted])
    sold_mb = leases.calculate_totals(uncounted).ram_mb
    return get_small_pages(
        topology, node.memory_mb, node.free_ram_mb - sold_mb)


def limit_small_pages(host_topology, parts, small):
    """Return the host topology with the small pages that Nova may use for ANY.

    If an instance requests pages of ANY size (``hw:mem_page_size=any``), Nova
    takes a size of which enough is free. But Nova does not count the small
    pages of instances without a NUMA topology: it would use small pages that
    are not free, although another cell has huge pages.

    :param host_topology: nova.objects.NUMATopology
    :param parts: ``memory_pages.MemoryParts`` of the instance: a tuple of
        (page size, memory in MB), one for each NUMA cell
    :param small: ``memory_pages.SmallPages`` of the host, or None
    :returns: nova.objects.NUMATopology, the same one if nothing changes
    """
    # The limit for each host cell. If it is None, the instance does not
    # request ANY, or the host has no huge pages.
    limit_mb = memory_pages.calculate_limit_of_any(parts, small)
    if limit_mb is None:
        return host_topology
    # Nova takes only free pages: reserve those of each cell above the limit.
    cells = [copy.copy(cell) for cell in host_topology.cells]
    for cell in cells:
        cell.mempages = [copy.copy(each) for each in cell.mempages]
        for each in cell.mempages:
            if each.size_kb == small.page_kb:
                excess = each.free - limit_mb * units.Ki // small.page_kb
                each.reserved = each.reserved + max(excess, 0)
    return objects.NUMATopology(cells=cells)


def add_usage(text, topologies):
    """Return the topology of a host with the usage of more instances.

    This adds their shared vCPUs and memory. Their dedicated CPUs do not become
    pinned: a claim calls :func:`block` or :func:`limit_to_class` for these.

    :param text: nova.objects.NUMATopology of the host as JSON, or None
    :param topologies: list of nova.objects.InstanceNUMATopology, or None for
        an instance without a topology
    :returns: nova.objects.NUMATopology, or None
    """
    if not text:
        return None
    host_topology = objects.NUMATopology.obj_from_db_obj(text)
    for each in topologies:
        host_topology = hardware.numa_usage_from_instance_numa(
            host_topology, copy_without_pins(each))
    return host_topology


def copy_without_pins(topology):
    """Return a copy of a topology that is pinned to no CPUs of a host.

    Its vCPUs, memory and NUMA cells stay.

    :param topology: nova.objects.InstanceNUMATopology, or None
    """
    if topology is None:
        return None
    copied = topology.obj_clone()
    for cell in copied.cells:
        cell.cpu_pinning = None
        cell.cpuset_reserved = None
    return copied


def make_node(topology):
    """Return a compute node for Nova's test of the NUMA fit.

    The test reads only the topology of the node.

    :param topology: nova.objects.NUMATopology, or None
    :returns: nova.objects.ComputeNode
    """
    text = topology._to_json() if topology else None
    return objects.ComputeNode(numa_topology=text)


def make_limits(limits, report, ram_ratio):
    """Return the limits for Nova's test of the NUMA fit.

    They are the ratios of the host itself: a request that forces the host
    brings no limits, nor does a live migration in Nova 31 to 33 (Launchpad bug
    2153425).

    :param limits: nova.objects.NUMATopologyLimits of the request, or None
    :param report: ``capacity_report.CapacityReport``
    :param ram_ratio: allocation ratio of the memory
    :returns: nova.objects.NUMATopologyLimits, a new one
    """
    limits = limits.obj_clone() if limits else objects.NUMATopologyLimits()
    limits.cpu_allocation_ratio = float(report.ratio)
    # With mix (cpu_priority_mix_enable), a host never overcommits memory.
    limits.ram_allocation_ratio = (
        min(ram_ratio, 1.0) if report.mix else ram_ratio)
    return limits


def _limit_cell(cell, report, priority):
    """Change ``cpuset`` and ``cpu_usage`` of a NUMACell of a mix host.

    Such a host has ``cpu_priority_mix_enable``: low-priority instances also
    float on its dedicated CPUs.

    ``cpuset`` becomes the CPUs where the shared vCPUs of the instance may
    run. Nova calculates the remaining vCPUs as limit - ``cpu_usage``, where
    the limit is the number of these CPUs times the ratio. ``cpu_usage``
    becomes the limit minus the vCPUs that remain for the instance by our own
    calculation, so that Nova's result is the same.

    :param cell: nova.objects.NUMACell of the host; it is changed
    :param report: ``capacity_report.CapacityReport`` of the host
    :param priority: of the instance, 'high', 'low' or None
    """
    cpus = cpu_capacity.HostCPUs(
        dedicated=frozenset(cell.pcpuset), shared=frozenset(cell.cpuset),
        ratio=report.ratio, mix=True)
    # The vCPUs of low-priority instances on this cell. The rest of cpu_usage
    # are those of ordinary instances. Report and cell may be of different
    # times: if the report has more, no vCPUs are ordinary.
    low_vcpus = report.low_by_cell.get(cell.id, 0)
    # The remaining shared vCPUs of this cell: ``low`` for a low-priority
    # instance, ``ordinary`` for any other. Dedicated vCPUs do not matter here:
    # assume 0.
    left = cpu_capacity.calculate_left(
        cpus.sellable, cpu_capacity.calculate_used(
            0, low_vcpus, max(cell.cpu_usage - low_vcpus, 0)))
    if priority == cpu_capacity.LOW:
        usable, free_vcpus = cpus.floating, left.low
    else:
        usable, free_vcpus = cpus.shared, left.ordinary
    cell.cpuset = set(usable)
    # In floating point, as Nova calculates the limit.
    cell.cpu_usage = int(len(usable) * float(report.ratio)) - free_vcpus
