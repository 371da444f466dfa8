# SPDX-License-Identifier: Apache-2.0

"""Read the hosts and instances of a cloud for the planner of moves."""

from __future__ import annotations

import collections
from collections import abc
import dataclasses
import types
import typing

from nova.compute import vm_states
import nova.conf
from nova import context as nova_context
from nova import objects
import os_resource_classes as orc
import os_traits

from nova_prio.admin.fleet import fleet_hosts
from nova_prio.admin.fleet import fleet_instances
from nova_prio.admin import host_inventory
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import host_fit
from nova_prio.model.planner import resources
from nova_prio.objects import migration_states
from nova_prio.placement import allocations

if typing.TYPE_CHECKING:
    from nova.scheduler.client import report as report_client

#: Number of instances that one query reads.
PAGE = 500


class CloudFleet(typing.NamedTuple):
    """The hosts and instances of a cloud.

    ``hosts`` and ``instances`` are those of the planner. ``groups`` is UUID of
    a server group -> Group, and ``details`` UUID of an instance -> Details.
    ``migrations`` are in progress, or await a confirmation.
    ``silent_cells`` are the UUIDs of the cells that do not answer.
    ``not_live`` is name of a host -> names of the hosts to which Nova
    live-migrates nothing from it, because their hypervisor is older, or of
    another type.
    """

    hosts: tuple[resources.Host, ...]
    instances: tuple[planner_fleet.Instance, ...]
    groups: dict[str, planner_fleet.Group]
    details: dict[str, fleet_instances.Details]
    migrations: list[objects.Migration]
    silent_cells: tuple[str, ...]
    not_live: abc.Mapping[str, frozenset[str]] = types.MappingProxyType({})

    def add_not_live(self, refused: abc.Mapping[str, frozenset[str]],
                     ) -> dict[str, frozenset[str]]:
        """Return ``refused`` with the hosts in ``not_live`` added.

        For each instance that may be live-migrated, add the hosts to which
        Nova live-migrates nothing from its host, because their hypervisor is
        older or of another type.

        :param refused: UUID of an instance -> hosts that it may not use
        :returns: a new dict of the same form
        """
        found = dict(refused)
        for each in self.instances:
            hosts = self.not_live.get(each.host or '')
            # The ways to move it: live or cold migration, or shelving. The
            # planner knows one set of refused hosts for all ways, and prefers
            # live migration. So refuse these hosts for the other ways too.
            if hosts and planner_fleet.LIVE in each.ways:
                found[each.uuid] = hosts.union(found.get(each.uuid, ()))
        return found

    @property
    def group_of(self) -> dict[str, str | None]:
        """The server group of each instance: UUID -> UUID, or None."""
        return {each.uuid: each.group for each in self.instances}

    def list_members(self, aggregate: str) -> list[str]:
        """Return the names of the hosts of an aggregate."""
        members = []
        for host in self.hosts:
            if any(each.name == aggregate for each in host.aggregates):
                members.append(host.name)
        return members

    def format_instance(self, uuid: str) -> str:
        """Return the UUID of an instance with its name, if it is known."""
        name = self.details[uuid].name if uuid in self.details else ''
        return '%s (%s)' % (uuid, name) if name else uuid

    def list_empty_hosts(
            self, names: abc.Container[str]) -> dict[str, host_fit.HostFit]:
        """Return hosts as they are without their instances.

        :param names: those of the hosts
        :returns: dict, name of a host -> HostFit, which tells what fits there
        """
        fleet = self.make_fleet(names)
        for uuid in fleet.instances:
            fleet.put(uuid, planner_fleet.NOWHERE)
        return fleet.hosts

    def make_fleet(
            self, hosts: abc.Container[str] | None = None,
            refused: abc.Mapping[str, frozenset[str]] = types.MappingProxyType(
                {})) -> planner_fleet.Fleet:
        """Return a Fleet, on which the planner tries moves, before any move.

        :param hosts: names of the hosts, whose instances are included; None
            for all
        :param refused: UUID of an instance -> names of the hosts that Nova
            refused to move it to
        """
        if hosts is None:
            hosts = {host.name for host in self.hosts}
        return planner_fleet.Fleet(
            hosts=[host for host in self.hosts if host.name in hosts],
            instances=[_refuse(each, refused.get(each.uuid))
                       for each in self.instances if each.host in hosts],
            groups=self.groups)


def _refuse(instance: planner_fleet.Instance,
            hosts: frozenset[str] | None) -> planner_fleet.Instance:
    """Return an instance that the planner must not move to some hosts.

    :param hosts: names of the hosts; None for none
    """
    if not hosts:
        return instance
    needs = dataclasses.replace(instance.needs, refused_hosts=hosts)
    return dataclasses.replace(instance, needs=needs)


def read_fleet(
        context: nova_context.RequestContext,
        client: report_client.SchedulerReportClient,
        listed: tuple[list[host_inventory.HostRecord], list[str]] | None = None
        ) -> CloudFleet:
    """Return the hosts and instances of a cloud, as of the last reports.

    Each nova-compute reports the CPUs of its host. Send a fixed number of
    queries for each cell, and two for each page of instances. Hosts with
    several compute nodes, such as those of Ironic, are omitted with their
    instances.

    :param context: targets no cell
    :param listed: result of ``host_inventory.list_hosts``, if the caller has
        it; None to read the hosts
    :raises nova_prio.placement.allocations.PlacementRefused: if Placement
        cannot be read
    """
    if listed is None:
        listed = host_inventory.list_hosts(
            context, host_inventory.list_disabled(client))
    records, silent_cells = listed
    numbers = collections.Counter(host.name for host in records)
    hosts = {host.name: host for host in records if numbers[host.name] == 1}
    groups, group_of = _read_groups(context)
    instances: list[planner_fleet.Instance] = []
    # UUID -> open migration. A move may begin or end while the instances of a
    # cell are read: read the migrations before and after.
    migrations: dict[str, objects.Migration] = {}
    details = {}
    for cell in objects.CellMappingList.get_all(context):
        if cell.is_cell0() or cell.uuid in silent_cells:
            continue
        with nova_context.target_cell(context, cell) as cctxt:
            migrations.update(_read_open_migrations(cctxt))
            migrating = {each.instance_uuid for each in migrations.values()}
            for instance, is_volume_backed in _iterate_instances(cctxt):
                # A cross-cell resize may show an instance in two cells.
                if instance.host not in hosts or instance.uuid in details:
                    continue
                host = hosts[instance.host]
                # Why the instance cannot be moved, or ''.
                obstacle = fleet_instances.find_obstacle(
                    instance, host, instance.uuid in migrating)
                planned = fleet_instances.make_instance(
                    instance, host, obstacle, is_volume_backed,
                    group=group_of.get(instance.uuid))
                instances.append(planned)
                details[instance.uuid] = fleet_instances.Details(
                    name=instance.display_name,
                    class_name=planned.needs.class_name,
                    vm_state=instance.vm_state,
                    task_state=instance.task_state, obstacle=obstacle,
                    labels=frozenset((
                        instance.flavor.name, instance.flavor.flavorid,
                        instance.project_id)))
            migrations.update(_read_open_migrations(cctxt))
    guests_of = collections.defaultdict(list)
    for each in instances:
        guests_of[each.host].append(each)
    # UUIDs of the hosts whose disks are on another resource provider.
    sharing = _list_users_of_shared_disks(client)
    planner_hosts = [
        fleet_hosts.make_host(host, guests_of[name],
                              has_shared_disks=host.node.uuid in sharing)
        for name, host in hosts.items()]
    return CloudFleet(
        hosts=tuple(planner_hosts), instances=tuple(instances), groups=groups,
        details=details, migrations=list(migrations.values()),
        silent_cells=tuple(silent_cells), not_live=_find_not_live(hosts))


def _find_not_live(hosts: abc.Mapping[str, host_inventory.HostRecord],
                   ) -> dict[str, frozenset[str]]:
    """Return to which hosts nova-conductor refuses live migrations.

    It refuses a hypervisor of another type, and one that is older than that of
    the source unless an option of Nova allows this.

    :param hosts: name of a host -> its record
    :returns: name of a host -> names of these hosts
    """
    # (type, version) of a hypervisor -> names of its hosts.
    names = collections.defaultdict(list)
    for name, host in hosts.items():
        names[host.node.hypervisor_type,
              host.node.hypervisor_version].append(name)
    may_be_older = (
        nova.conf.CONF.workarounds.skip_hypervisor_version_check_on_lm)
    not_live = {}
    for source_type, source_version in names:
        refusing: list[str] = []
        for (kind, version), others in names.items():
            is_too_old = version < source_version and not may_be_older
            if kind != source_type or is_too_old:
                refusing += others
        for name in names[source_type, source_version]:
            not_live[name] = frozenset(refusing)
    return not_live


def _read_open_migrations(
        context: nova_context.RequestContext) -> dict[str, objects.Migration]:
    """Return the open migrations of a cell by UUID.

    :param context: targets the cell
    """
    return {each.uuid: each for each in objects.MigrationList.get_by_filters(
        context, {'status': list(migration_states.OPEN_STATUSES)})}


def _iterate_instances(context: nova_context.RequestContext,
                       ) -> abc.Iterator[tuple[objects.Instance, bool]]:
    """Yield the instances of a cell that use resources of a host.

    Soft-deleted instances count, too, until nova-compute reclaims them.
    Shelved offloaded instances do not, even if their records name a host.

    :param context: targets the cell
    :returns: iterator of (instance, whether its root disk is a volume, which
        is false for a flavor without a root disk: it needs no disk anyway)
    """
    marker = None
    # With 'deleted' false, Nova leaves out soft-deleted instances unless
    # 'soft_deleted' is true.
    while page := objects.InstanceList.get_by_filters(
            context, {'deleted': False, 'soft_deleted': True},
            sort_dir='asc',
            expected_attrs=['flavor', 'numa_topology', 'pci_requests'],
            limit=PAGE, marker=marker):
        # UUIDs of the instances of this page whose root disk is a volume.
        volume_backed = allocations.find_volume_backed(
            context, [each for each in page if each.flavor.root_gb])
        for instance in page:
            if instance.host and not vm_states.allow_resource_removal(
                    instance.vm_state, instance.task_state):
                yield instance, instance.uuid in volume_backed
        marker = page[-1].uuid


def _read_groups(context: nova_context.RequestContext,
                 ) -> tuple[dict[str, planner_fleet.Group], dict[str, str]]:
    """Return the server groups.

    :returns: (UUID of a group -> Group, UUID of a member -> UUID of its group)
    """
    groups, group_of = {}, {}
    for group in objects.InstanceGroupList.get_all(context):
        groups[group.uuid] = planner_fleet.Group(
            group.policy, int(group.rules.get('max_server_per_host', 1)))
        for member in group.members:
            group_of[member] = group.uuid
    return groups, group_of


def _list_users_of_shared_disks(
        client: report_client.SchedulerReportClient) -> set[str]:
    """Return the UUIDs of the resource providers that use shared disks.

    A provider shares its disks with the other members of its aggregates in
    Placement. It is in the result too, but is no host.
    """
    uuids: set[str] = set()
    for sharer in allocations.list_providers(
            client, os_traits.MISC_SHARES_VIA_AGGREGATE):
        inventories = allocations.read_provider(
            client, sharer['uuid'], 'inventories')
        # Without disks, the provider shares other resources.
        if orc.DISK_GB not in inventories:
            continue
        aggregates = allocations.read_provider(
            client, sharer['uuid'], 'aggregates')
        if aggregates:
            members = allocations.get_json(
                client, '/resource_providers?member_of=in:' +
                ','.join(sorted(aggregates)))['resource_providers']
            uuids.update(each['uuid'] for each in members)
    return uuids
