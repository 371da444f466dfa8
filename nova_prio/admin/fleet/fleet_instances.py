# SPDX-License-Identifier: Apache-2.0

"""Instances as the planner of moves sees them."""

from __future__ import annotations

from collections import abc
import dataclasses
import math
import typing

from nova.compute import vm_states
from nova import objects
from nova.objects import fields
import os_resource_classes as orc

from nova_prio.admin.fleet import fleet_hosts
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import resources
from nova_prio.virt import demand

if typing.TYPE_CHECKING:
    from nova_prio.admin import host_inventory

#: State of an instance -> the ways that nova-api allows, as the decorators of
#: live_migrate, resize and shelve in nova/compute/api.py name them.
WAYS = {
    vm_states.ACTIVE: frozenset(planner_fleet.WAYS),
    vm_states.PAUSED: frozenset((planner_fleet.LIVE, planner_fleet.SHELVE)),
    vm_states.STOPPED: frozenset((planner_fleet.COLD, planner_fleet.SHELVE)),
    vm_states.SUSPENDED: frozenset((planner_fleet.SHELVE,)),
}
#: The states in which nova-api evacuates an instance, as the decorator of
#: evacuate in the same file names them.
EVACUABLE = frozenset((vm_states.ACTIVE, vm_states.STOPPED, vm_states.ERROR))


class Details(typing.NamedTuple):
    """What commands show of an instance.

    ``class_name`` is one of ``flavor_cpus.CLASSES``. ``obstacle`` is a clause
    that tells why the instance cannot be moved, such as "is locked"; it is
    empty if the instance can be moved. ``labels`` are the name and the ID of
    the flavor, and the ID of the project.
    """

    name: str
    class_name: str
    vm_state: str
    task_state: str | None
    obstacle: str
    labels: frozenset[str] = frozenset()


def find_obstacle(instance: objects.Instance,
                  host: host_inventory.HostRecord, has_migration: bool) -> str:
    """Return why an instance cannot be moved, a clause, or ''.

    :param host: the host of the instance
    :param has_migration: whether the instance has an in-flight migration
    """
    if host.node.hypervisor_type == fields.HVType.IRONIC:
        return 'is a bare metal server'
    if not host.is_up:
        return 'is on a host whose nova-compute is down'
    if instance.task_state is not None:
        return 'has the task %s' % instance.task_state
    if has_migration:
        return 'has an in-flight migration'
    if instance.vm_state not in WAYS:
        return 'is in the state %s' % instance.vm_state
    # nova-api lets an administrator move a locked instance. But whoever has
    # locked it does not want that, so the planner leaves it.
    if instance.locked:
        return 'is locked'
    if _find_cells(instance, host) is None:
        return 'is on NUMA cells that its host does not have'
    return ''


def _find_cells(instance: objects.Instance, host: host_inventory.HostRecord,
                ) -> tuple[int, ...] | None:
    """Return the NUMA cells of the host that an instance uses.

    They are indexes in ``host.cells``. An instance without a NUMA topology
    uses none.

    :returns: None if the host does not have the cells
    """
    host_cells = [cell.id for cell in host.cells]
    indexes = []
    if instance.numa_topology is not None:
        for cell in instance.numa_topology.cells:
            if cell.id not in host_cells:
                return None
            indexes.append(host_cells.index(cell.id))
    return tuple(indexes)


def make_instance(instance: objects.Instance,
                  host: host_inventory.HostRecord, obstacle: str,
                  is_volume_backed: bool, group: str | None,
                  ) -> planner_fleet.Instance:
    """Return an instance for the planner.

    :param instance: with flavor, NUMA topology and PCI requests
    :param host: the host of the instance
    :param obstacle: result of :func:`find_obstacle`
    :param is_volume_backed: whether its root disk is a volume
    :param group: UUID of its server group, or None
    """
    # The planner can only keep an instance in aggregates. Its cell and its
    # availability zone, which it must not leave, count as two of them.
    needs = make_needs(
        instance.flavor, instance.numa_topology, is_volume_backed,
        aggregates=frozenset(fleet_hosts.name_cell_and_zone(host)))
    cells = _find_cells(instance, host)
    if cells is None:
        # There is no cell in which the usage of the instance could count.
        needs = dataclasses.replace(needs, cells=())
    # The ways in which nova-api moves it: 'live', 'cold' and 'shelve'.
    ways = frozenset[str]()
    if not obstacle:
        ways = WAYS[instance.vm_state]
    if not _can_live_migrate(instance):
        ways -= {planner_fleet.LIVE}
    return planner_fleet.Instance(
        uuid=instance.uuid, needs=needs, host=instance.host, ways=ways,
        group=group, cells=cells or ())


def _can_live_migrate(instance: objects.Instance) -> bool:
    """Return whether nova-conductor live-migrates the devices of an instance.

    It refuses PCI devices of an alias of the flavor, unless the alias marks
    all of them as ``live_migratable``.
    """
    if instance.pci_requests is None:
        return True
    return all(
        request.source != objects.InstancePCIRequest.FLAVOR_ALIAS or
        request.is_live_migratable()
        for request in instance.pci_requests.requests)


def make_needs(flavor: objects.Flavor,
               topology: objects.InstanceNUMATopology | None,
               is_volume_backed: bool,
               aggregates: frozenset[str]) -> resources.Needs:
    """Return what an instance needs, as nova-compute's tracker counts it.

    :param flavor: the embedded flavor
    :param topology: NUMA topology of the guest, or None
    :param is_volume_backed: whether its root disk is a volume, so that it
        needs no disk of the host for it
    :param aggregates: names of the aggregates that it must not leave
    """
    # The swap of a flavor is in MB.
    disk_gb = flavor.ephemeral_gb + math.ceil(flavor.swap / 1024)
    if not is_volume_backed:
        disk_gb += flavor.root_gb
    # An extra spec such as resources:DISK_GB overrides the amount.
    disk_gb = flavor_specs.get_placement_amount(
        flavor.extra_specs, orc.DISK_GB, default=disk_gb)
    return resources.Needs(
        demand.ResourceRequest.from_flavor(flavor, topology),
        disk_gb=disk_gb, cells=tuple(_make_cells(flavor, topology)),
        aggregates=aggregates)


def _make_cells(flavor: objects.Flavor,
                topology: objects.InstanceNUMATopology | None,
                ) -> abc.Iterator[resources.GuestCell]:
    """Yield the NUMA cells of a guest, which has none without a topology.

    The vCPUs of a cell are three numbers, the rows: dedicated CPUs, all shared
    vCPUs, and shared vCPUs without low priority.
    """
    if topology is None:
        return
    priority = flavor_specs.get_priority(flavor.extra_specs)
    for number, cell in enumerate(topology.cells):
        dedicated = len(cell.pcpuset)
        # Nova reserves the CPU of isolated emulator threads in the first cell.
        if number == 0 and topology.emulator_threads_isolated:
            dedicated += 1
        needed = cpu_capacity.Demand(
            priority, dedicated=dedicated, shared=len(cell.cpuset))
        rows = cpu_capacity.calculate_needed_rows(needed)
        yield resources.GuestCell(rows, cell.memory)
