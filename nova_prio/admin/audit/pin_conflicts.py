# SPDX-License-Identifier: Apache-2.0

"""Find the pairs of instances with one dedicated CPU in Nova's records.

With stock Nova, and with old releases of this package, some failed moves leave
such records. nova-compute starts no guest on a CPU that is leased to another
instance. So one guest of such a pair may stay off after the next reboot of the
host, or of the guest.
"""

from __future__ import annotations

from collections import abc
import itertools
import typing

from nova import context as nova_context
from nova import objects
from nova.virt import hardware

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import host_view
from nova_prio.admin import host_inventory
from nova_prio.virt import demand

#: Status of a resize or a cold migration that awaits its confirmation.
_AWAITS_CONFIRMATION = 'finished'
_ATTRIBUTES = ['numa_topology', 'migration_context']
_KIND = 'pin_conflict'


class PinConflict(typing.NamedTuple):
    """Two instances whose records hold the same dedicated CPUs of a host.

    ``first`` and ``second`` are the UUIDs of the instances. ``cpus`` are the
    common CPUs in the format of Nova, such as "2-3".
    """

    first: str
    second: str
    cpus: str


def find_conflicts(
        host: str, instances: abc.Iterable[objects.Instance],
        migrations: abc.Collection[objects.Migration],
) -> abc.Iterator[PinConflict]:
    """Yield a PinConflict for each pair of instances.

    Nova changes the records of a task or of a move in several writes. Leave
    out an instance with a task, and an instance with an open migration that
    does not await its confirmation.

    :param host: name of the host
    :param instances: those on the host, and those that a resize has moved
        away and that await its confirmation; with NUMA topology and migration
        context
    :param migrations: the open migrations from and to the host
    """
    moving = {migration.instance_uuid for migration in migrations
              if migration.status != _AWAITS_CONFIRMATION}
    # An instance that moves away still has CPUs here until it is confirmed.
    departures = {migration.id for migration in migrations
                  if migration.source_compute == host}
    pins = {instance.uuid: _get_pins(host, instance, departures)
            for instance in instances
            if instance.task_state is None and instance.uuid not in moving}
    for first, second in itertools.combinations(sorted(pins), 2):
        common = pins[first] & pins[second]
        if common:
            yield PinConflict(
                first=first, second=second,
                cpus=hardware.format_cpu_spec(common))


def _get_pins(host: str, instance: objects.Instance,
              departures: abc.Container[int]) -> set[int]:
    """Return the CPUs of a host that the record of an instance holds.

    Until a resize is confirmed, the instance holds CPUs on both hosts. After a
    resize on the same host, these are the old and the new CPUs there.

    :param departures: ids of the open migrations from the host
    """
    pins = set()
    if instance.host == host:
        pins |= demand.get_instance_pins(instance)
    context = instance.migration_context
    if context and context.migration_id in departures:
        pins |= demand.get_topology_pins(context.old_numa_topology)
    return pins


def _read_resized_away(
        context: nova_context.RequestContext,
        instances: abc.Iterable[objects.Instance],
        migrations: abc.Iterable[objects.Migration],
) -> list[objects.Instance]:
    """Return the instances of unconfirmed resizes that are on other hosts.

    Until the confirmation, they still have CPUs of this host. Call this after
    both lists were read. If a resize is confirmed in between, its instance has
    no migration context, and so holds no CPU of this host.

    :param context: targets the cell of the host
    :param instances: those on the host
    :param migrations: the open migrations from and to the host
    """
    present = {instance.uuid for instance in instances}
    absent = [migration.instance_uuid for migration in migrations
              if migration.status == _AWAITS_CONFIRMATION and
              migration.instance_uuid not in present]
    if not absent:
        return []
    return list(objects.InstanceList.get_by_filters(
        context, {'uuid': absent, 'deleted': False},
        expected_attrs=_ATTRIBUTES))


def check(view: host_view.HostView) -> finding.Findings:
    """Yield a finding for each PinConflict of a host.

    A PinConflict is two instances whose records have the same dedicated CPU.
    A finding is about the first one. Its ``compute``, what Nova's records say,
    names the common CPUs and the second instance.
    """
    # Until the confirmation, these instances still have CPUs of this host.
    resized_away = _read_resized_away(
        view.context, view.instances, view.migrations)
    for conflict in find_conflicts(
            view.name, view.instances + resized_away, view.migrations):
        yield finding.Finding(
            _KIND, conflict.first,
            compute='CPUs %s, with %s' % (conflict.cpus, conflict.second))


def find_warnings(
        context: nova_context.RequestContext) -> abc.Iterator[str]:
    """Yield one text for each PinConflict of a cloud.

    A PinConflict is two instances whose records have the same dedicated CPU.

    Send three queries for each host, or six if the host has a PinConflict.

    :param context: targets no cell
    :raises oslo_db.exception.DBError: if the API database cannot be read, or
        another of :data:`nova_prio.admin.host_inventory.DATABASE_ERRORS`
    """
    for cell in objects.CellMappingList.get_all(context):
        if cell.is_cell0():
            continue
        try:
            for cell_context, host in host_view.list_hosts(context, cell):
                for conflict in _read_conflicts(cell_context, host.node):
                    yield (
                        'In the database, the instances %s and %s on host %s '
                        'have the same dedicated CPUs %s, so nova-compute may '
                        'refuse to start one of them. %s' % (
                            conflict.first, conflict.second, host.name,
                            conflict.cpus, finding.REMEDIES[_KIND]))
        except host_inventory.DATABASE_ERRORS:
            yield ('Cell %s does not answer, so its instances are not '
                   'checked; check its database.' % cell.uuid)


def _read_conflicts(context: nova_context.RequestContext,
                    node: objects.ComputeNode) -> list[PinConflict]:
    """Return each PinConflict of a host that two reads show.

    A PinConflict is two instances whose records have the same dedicated CPU.
    One read may show one that does not exist, because services write between
    its queries.

    :param context: targets the cell of the host
    """
    found = _read_conflicts_once(context, node)
    if found:
        repeated = _read_conflicts_once(context, node)
        found = [conflict for conflict in found if conflict in repeated]
    return found


def _read_conflicts_once(context: nova_context.RequestContext,
                         node: objects.ComputeNode) -> list[PinConflict]:
    """Return each PinConflict of a host that one read shows.

    A PinConflict is two instances whose records have the same dedicated CPU.
    It may not exist, because the records may change between the queries: the
    caller reads twice.

    :param context: targets the cell of the host
    """
    migrations = list(objects.MigrationList.get_in_progress_by_host_and_node(
        context, node.host, node.hypervisor_hostname))
    instances = host_view.read_instances(context, node, _ATTRIBUTES)
    # These await the confirmation of a resize to another host, and still have
    # CPUs of this one.
    resized_away = _read_resized_away(context, instances, migrations)
    return list(find_conflicts(
        node.host, instances + resized_away, migrations))
