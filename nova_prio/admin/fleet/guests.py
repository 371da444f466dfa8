# SPDX-License-Identifier: Apache-2.0

"""Instances as the planner of moves sees them."""

from __future__ import annotations

from collections import abc
import dataclasses
import math
import typing

from nova.compute import vm_states
from nova.objects import fields
import os_resource_classes as orc

from nova_prio.model import capacity
from nova_prio.model import flavor_specs
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import resources
from nova_prio.virt import demand

if typing.TYPE_CHECKING:
    from nova import objects

#: State of an instance -> the ways that nova-api allows, as the decorators of
#: live_migrate, resize and shelve in nova/compute/api.py name them.
WAYS = {
    vm_states.ACTIVE: frozenset(planner_fleet.WAYS),
    vm_states.PAUSED: frozenset((planner_fleet.LIVE, planner_fleet.SHELVE)),
    vm_states.STOPPED: frozenset((planner_fleet.COLD, planner_fleet.SHELVE)),
    vm_states.SUSPENDED: frozenset((planner_fleet.SHELVE,)),
}


class Details(typing.NamedTuple):
    """What commands show of an instance.

    ``obstacle`` is a clause that tells why the instance cannot be moved, such
    as "is locked"; it is empty if the instance can be moved.
    """

    name: str
    vm_state: str
    task_state: str | None
    obstacle: str


def find_obstacle(instance: objects.Instance, is_host_up: bool,
                  has_migration: bool, host_cells: abc.Container[int],
                  hypervisor_type: str | None = None) -> str:
    """Return why an instance cannot be moved, a clause, or ''.

    :param is_host_up: whether the nova-compute of its host is up
    :param has_migration: whether the instance has an in-flight migration
    :param host_cells: ids of the NUMA cells of its host
    :param hypervisor_type: of its host
    """
    if hypervisor_type == fields.HVType.IRONIC:
        return 'is a bare metal server'
    if not is_host_up:
        return 'is on a host whose nova-compute is down'
    if instance.task_state is not None:
        return 'has the task %s' % instance.task_state
    if has_migration:
        return 'has an in-flight migration'
    if instance.vm_state not in WAYS:
        return 'is in the state %s' % instance.vm_state
    # An administrator may move a locked instance, but the lock says not to.
    if instance.locked:
        return 'is locked'
    if not _is_on_cells(instance.numa_topology, host_cells):
        return 'is on NUMA cells that its host does not have'
    return ''


def _is_on_cells(topology: objects.InstanceNUMATopology | None,
                 host_cells: abc.Container[int]) -> bool:
    """Return whether a host has the NUMA cells that an instance uses."""
    return topology is None or all(
        cell.id in host_cells for cell in topology.cells)


def make_instance(instance: objects.Instance, obstacle: str,
                  is_volume_backed: bool, host_cells: abc.Sequence[int],
                  aggregates: frozenset[str], group: str | None,
                  ) -> planner_fleet.Instance:
    """Return an instance for the planner.

    :param instance: with a host, flavor and NUMA topology
    :param obstacle: result of :func:`find_obstacle`
    :param host_cells: ids of the NUMA cells of its host
    :param aggregates: names of the aggregates that it must not leave
    :param group: UUID of its server group, or None
    """
    topology = instance.numa_topology
    needs = make_needs(
        instance.flavor, topology, is_volume_backed, aggregates)
    cells: tuple[int, ...] = ()
    if not _is_on_cells(topology, host_cells):
        needs = dataclasses.replace(needs, cells=())
    elif topology is not None:
        cells = tuple(host_cells.index(cell.id) for cell in topology.cells)
    return planner_fleet.Instance(
        uuid=instance.uuid, needs=needs, host=instance.host,
        ways=frozenset() if obstacle else WAYS[instance.vm_state],
        group=group, cells=cells)


def make_needs(flavor: objects.Flavor,
               topology: objects.InstanceNUMATopology | None,
               is_volume_backed: bool, aggregates: frozenset[str],
               is_new: bool = False) -> resources.Needs:
    """Return the needs of an instance, with the numbers of the tracker.

    :param flavor: the embedded flavor
    :param topology: NUMA topology of the guest
    :param is_new: whether the instance is to be created
    """
    root_gb = 0 if is_volume_backed else flavor.root_gb
    disk_gb = (root_gb + flavor.ephemeral_gb +
               math.ceil(flavor.swap / 1024))
    return resources.Needs(
        demand.ResourceRequest.from_flavor(flavor, topology),
        disk_gb=flavor_specs.get_placement_amount(
            flavor.extra_specs, orc.DISK_GB, default=disk_gb),
        cells=tuple(_make_cells(flavor, topology)) if topology else (),
        aggregates=aggregates, is_new=is_new)


def _make_cells(flavor: objects.Flavor,
                topology: objects.InstanceNUMATopology,
                ) -> abc.Iterator[resources.GuestCell]:
    """Yield the NUMA cells of a guest."""
    priority = flavor_specs.get_priority(flavor.extra_specs)
    for number, cell in enumerate(topology.cells):
        # Nova reserves the CPU of isolated emulator threads in the first cell.
        isolated = int(number == 0 and topology.emulator_threads_isolated)
        yield resources.GuestCell(
            capacity.calculate_needed_rows(capacity.Demand(
                priority, len(cell.pcpuset) + isolated, len(cell.cpuset))),
            cell.memory)
