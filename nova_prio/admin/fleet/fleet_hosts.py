# SPDX-License-Identifier: Apache-2.0

"""Compute hosts as the planner of moves sees them."""

from __future__ import annotations

from collections import abc
import dataclasses
import math

import nova.conf
from nova import objects

from nova_prio.admin import host_inventory
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import resources
from nova_prio.virt import demand
from nova_prio.virt import numa

#: Key of the aggregate metadata that name an availability zone.
_ZONE_KEY = 'availability_zone'


def name_cell_and_zone(host: host_inventory.HostRecord) -> list[str]:
    """Return names for the cell and the availability zone of a host.

    The planner takes both for aggregates that the instances of the host must
    not leave. Nova moves no instance to another cell: cross-cell migrations
    need a policy that is off by default. The planner moves no instance to
    another zone: only the request specification of an instance tells whether
    it needs the zone.

    :returns: [name of the cell, name of the zone], each to follow "is not in
        aggregate"
    """
    zone = nova.conf.CONF.default_availability_zone
    for aggregate in host.aggregates:
        if _ZONE_KEY in aggregate.metadata:
            zone = aggregate.metadata[_ZONE_KEY]
            break
    return ['of the cell %s' % host.cell, 'of the availability zone %s' % zone]


def make_host(host: host_inventory.HostRecord,
              guests: abc.Iterable[planner_fleet.Instance],
              has_shared_disks: bool) -> resources.Host:
    """Return a host for the planner.

    A host that is not registered takes no instance.

    :param guests: the instances of the host
    :param has_shared_disks: whether another resource provider shares its disks
        with the host
    """
    node, service = host.node, host.service
    needs = [each.needs for each in guests]
    # The report of nova-compute about the CPUs: the sellable and the used
    # vCPUs.
    report = host.report or _make_report(host, needs)
    # A host whose report has a problem takes no priority instance.
    if host.is_disabled and not report.problem:
        report = dataclasses.replace(
            report, problem='The host is disabled for priority instances.')
    if not report.mix:
        # The memory in small pages, outside of the pools of huge pages, limits
        # instances only with mix, if low-priority instances may also run on
        # the dedicated CPUs. The planner may assume mix for any host.
        small = numa.get_small_pages(
            objects.NUMATopology(cells=host.cells), node.memory_mb,
            node.free_ram_mb or 0)
        report = dataclasses.replace(report, small_pages=small)
    # What nova-compute counts as used, but no instance uses, is reserved. The
    # allocation ratio does not apply to it.
    reserved_mb = node.memory_mb_used - sum(
        each.request.memory_mb for each in needs)
    overcommit_mb = _calculate_overcommit(
        node.memory_mb, reserved_mb, node.ram_allocation_ratio)
    free_disk_gb = None
    if not has_shared_disks:
        reserved_gb = node.local_gb_used - sum(each.disk_gb for each in needs)
        free_disk_gb = (node.free_disk_gb or 0) + _calculate_overcommit(
            node.local_gb, reserved_gb, node.disk_allocation_ratio)
    aggregates = list(host.aggregates)
    # No instance may leave its cell and its zone. The planner can only keep it
    # in aggregates, so make an aggregate without metadata of each of the two.
    for name in name_cell_and_zone(host):
        aggregates.append(aggregate_metadata.Aggregate(name, {}))
    cells = [_make_cell(cell, report, node.ram_allocation_ratio)
             for cell in host.cells]
    is_enabled = bool(service and not service.disabled and host.is_up and
                      host.is_registered)
    return resources.Host(
        name=host.name, report=report, free_memory_mb=node.free_ram_mb or 0,
        overcommit_mb=overcommit_mb, free_disk_gb=free_disk_gb,
        aggregates=tuple(aggregates), cells=tuple(cells),
        is_enabled=is_enabled)


def _calculate_overcommit(total: int, reserved: int, ratio: float) -> int:
    """Return the amount that Placement sells beyond the total.

    :param total: memory in MB, or disk in GB
    :param reserved: amount that nova-compute counts as used, but that no
        instance of the host uses. It includes in-flight moves, so that the
        result is too small rather than too large.
    :param ratio: allocation ratio
    """
    # If an instance has arrived after the last count, more is used than
    # counted, and the amount is negative.
    reserved = max(reserved, 0)
    # As a decimal number, 1.1 is exactly 11/10.
    exact_ratio = cpu_capacity.parse_ratio(ratio)
    return math.floor((total - reserved) * (exact_ratio - 1))


def _make_report(host: host_inventory.HostRecord,
                 needs: abc.Iterable[resources.Needs],
                 ) -> capacity_report.CapacityReport:
    """Return a report about the CPUs of a host whose nova-compute wrote none.

    The host sells its dedicated and its shared CPUs, as stock Nova does. No
    priority instance may use it.

    :param needs: those of the instances of the host
    """
    node = host.node
    dedicated: set[int] = set()
    shared: set[int] = set()
    for cell in host.cells:
        dedicated |= cell.pcpuset
        shared |= cell.cpuset
    if not host.cells:
        shared.update(range(node.vcpus))
    cpus = cpu_capacity.HostCPUs(
        dedicated=frozenset(dedicated), shared=frozenset(shared), mix=False,
        ratio=cpu_capacity.parse_ratio(node.cpu_allocation_ratio))
    # Nova counts pinned and shared vCPUs in one number, ``vcpus_used``. An
    # instance needs three numbers of vCPUs, the rows. The low row counts its
    # vCPUs that are not pinned, whatever its priority; the others are pinned.
    pinned = sum(each.request.vcpus - each.request.needed_rows.low
                 for each in needs)
    pinned_cpus = demand.get_host_pins(node.numa_topology)
    # Take no instance for one with low priority: the host takes no priority
    # instance, so the difference does not matter.
    used = cpu_capacity.calculate_used(
        dedicated=len(pinned_cpus), low_shared=0,
        other_shared=node.vcpus_used - pinned)
    problem = 'The host has no compute driver for priority instances.'
    if host.problem:
        problem = 'The report of the host cannot be read.'
    return capacity_report.CapacityReport.from_usage(
        cpus=cpus, used=used, vcpus_used=node.vcpus_used, low_by_cell={},
        problem=problem)


def _make_cell(cell: objects.NUMACell, report: capacity_report.CapacityReport,
               memory_ratio: float) -> resources.Cell:
    """Return a NUMA cell for the planner.

    :param report: of nova-compute, about the CPUs of the host. ``hidden`` are
        CPUs that Nova takes for free, but no instance may be pinned to them.
        ``mix`` tells whether low-priority instances may also run on the
        dedicated CPUs.
    :param memory_ratio: allocation ratio of the memory
    """
    pinned = cell.pcpuset & (cell.pinned_cpus | report.hidden)
    # In ``cpu_usage``, Nova counts all shared vCPUs of the cell. The report
    # counts those of low priority: NUMA cell -> vCPUs. An instance that moves
    # may be only in the report, so the difference may be negative.
    low_shared = report.low_by_cell.get(cell.id, 0)
    other_shared = max(cell.cpu_usage - low_shared, 0)
    used = cpu_capacity.calculate_used(
        dedicated=len(pinned), low_shared=low_shared,
        other_shared=other_shared)
    # Nova reserves memory of a host, but none of a NUMA cell.
    overcommit_mb = _calculate_overcommit(
        cell.memory, reserved=0, ratio=memory_ratio)
    return resources.Cell(
        cpus=cpu_capacity.HostCPUs(
            dedicated=frozenset(cell.pcpuset), shared=frozenset(cell.cpuset),
            ratio=report.ratio, mix=report.mix),
        used=used, free_memory_mb=cell.memory - cell.memory_usage,
        overcommit_mb=overcommit_mb)
