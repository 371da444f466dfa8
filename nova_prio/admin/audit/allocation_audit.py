# SPDX-License-Identifier: Apache-2.0

"""Compare the allocations in Placement with the expected allocations."""

from __future__ import annotations

import collections
from collections import abc
import functools
import typing

from nova.compute import vm_states
from nova import objects
from nova.objects import fields
import os_resource_classes as orc

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import repairs
from nova_prio.admin.audit import unfinished_migrations
from nova_prio.objects import migration_states
from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations

if typing.TYPE_CHECKING:
    from nova.scheduler.client import report

# From this version on, consumers have a type. Nova sets none.
_TYPE_VERSION, _NO_TYPE = '1.38', 'unknown'

_LEFT_BY_MOVE = repairs.AllocationFault('left_allocation', at_all_hosts=False)
_LEFT_OVER = repairs.AllocationFault('left_allocation', at_all_hosts=True)
_ORPHANED = repairs.AllocationFault('orphaned_allocation', at_all_hosts=True)


def check(view: host_view.HostView,
          client: report.SchedulerReportClient) -> finding.Findings:
    """Yield the findings of the allocations at a host.

    A consumer is the UUID of an instance or of a migration.

    :param view: its ``allocations`` are consumer -> resource class -> amount;
        its ``consumers`` are the instances and migrations of the host in Nova
    """
    for consumer in sorted(view.allocations.keys() - view.consumers):
        resources = view.allocations[consumer]
        # Without VCPU, PCPU, MEMORY_MB and DISK_GB, the allocation is not one
        # that Nova makes for a flavor, and none of the faults applies.
        if not allocations.select_managed(resources):
            continue
        placement = finding.format_amounts(resources)
        try:
            # None if the consumer may have this allocation.
            fault = _find_fault(view, client, consumer)
        except host_view.CellUnreachable as error:
            yield finding.Finding(
                finding.UNREAD, consumer, placement=placement, note=str(error))
            continue
        if fault:
            # The repair runs later. It looks for the fault again with
            # _find_fault, and removes nothing if the fault is no longer there.
            repair = functools.partial(
                repairs.remove_allocations, view, consumer, fault, _find_fault)
            yield finding.Finding(
                fault.kind, consumer, needed=finding.format_amounts({}),
                placement=placement, repair=repair)
    # Repair instances last: they may need the capacity that is freed above.
    yield from _check_instances(view, client)


def _check_instances(
        view: host_view.HostView,
        client: report.SchedulerReportClient) -> finding.Findings:
    """Yield a finding for each instance with unexpected allocations.

    Compare VCPU, PCPU, MEMORY_MB and DISK_GB, which the flavor decides. Skip
    instances that are being changed or moved.

    :param view: its ``total_allocations`` are UUID of an instance -> resource
        class -> amount, with the disks at other providers; ``sharing`` lists
        the UUIDs of these providers; ``classes`` are the resource classes that
        Placement offers for the host
    """
    # An allocation has drifted if it is not the expected one.
    for instance, expected in allocations.find_drifted(
            view.context, view.instances_at_rest, view.total_allocations,
            view.classes):
        # Leave out the amounts of other resource classes.
        present = allocations.select_managed(
            view.total_allocations.get(instance.uuid, {}))
        notes = []
        if _is_pinned_by_image(instance):
            notes.append('"nova-manage placement heal_allocations" would ask '
                         'for VCPU, because it ignores that the image pins '
                         'this instance.')
        if view.sharing:
            # The view read shared disks at another time than the other
            # amounts: read all amounts of the instance again.
            present, expected = allocation_repair.get_present_and_expected(
                view.context, client, [view.node.uuid] + view.sharing,
                instance)
            if present == expected:
                continue
            if present.get(orc.DISK_GB) != expected.get(orc.DISK_GB):
                notes.append('DISK_GB is the sum of the host and of the '
                             'resource providers that share disks with it '
                             '(%s).' % ', '.join(view.sharing))
        repair = functools.partial(
            repairs.repair_instance, view, instance.uuid)
        yield finding.Finding(
            _choose_kind(present, expected), instance.uuid,
            needed=finding.format_amounts(expected),
            placement=finding.format_amounts(present),
            note=' '.join(notes), repair=repair)


def _choose_kind(present: abc.Mapping[str, int],
                 expected: abc.Mapping[str, int]) -> str:
    """Return the kind of the finding for wrong allocations.

    :param present: resource class -> amount in Placement
    :param expected: resource class -> amount that the flavor asks for
    """
    if not present:
        return 'missing_allocation'
    surplus = collections.Counter(present)
    surplus.subtract(expected)
    # VCPU in place of PCPU, or the reverse: a surplus of one of them, and an
    # equal shortage, which is a negative surplus, of the other.
    if surplus[orc.PCPU] and surplus[orc.PCPU] == -surplus[orc.VCPU]:
        return 'wrong_class'
    return 'wrong_amount'


def _is_pinned_by_image(instance: objects.Instance) -> bool:
    """Return whether the image of an instance, not its flavor, pins it."""
    policy = fields.CPUAllocationPolicy
    return ('hw:cpu_policy' not in instance.flavor.extra_specs and
            instance.image_meta.properties.get('hw_cpu_policy') in (
                policy.DEDICATED, policy.MIXED))


def _find_fault(view: host_view.HostView, client: report.SchedulerReportClient,
                consumer: str) -> repairs.AllocationFault | None:
    """Return why a consumer must not have an allocation at a host.

    The consumer is read again, because it may have arrived at the host after
    the audit read the host.

    :param consumer: UUID of an instance or of a migration
    :returns: None if the allocation is right, or may become right
    :raises nova_prio.admin.audit.host_view.CellUnreachable: if the owner of
        the allocation cannot be determined
    """
    try:
        instance = host_view.find_instance(view.context, consumer)
    except host_view.NotScheduledYet:
        return None
    if instance is None:
        migration = host_view.find_migration(view.context, consumer)
        if migration:
            return _find_migration_fault(migration)
        return None if _is_of_other_service(client, consumer) else _ORPHANED
    # The context of an object targets the cell that the object was read from.
    idle_instance = migration_states.get_if_idle(instance._context, consumer)
    # None if the instance has a task or an open migration, or changed lately:
    # Nova may still work on it, and correct the allocation.
    if idle_instance is None:
        return None
    # During a move, the migration has the allocations of the instance at the
    # source host. If the move fails, Nova still has to move them back. If the
    # audit changed allocations of the instance before that, Placement would
    # refuse this write of Nova, and the migration would keep them for good.
    if allocations.migration_has_allocations(idle_instance, client):
        return None
    has_no_host = idle_instance.host is None
    # Such an instance must not have allocations at any host.
    if idle_instance.vm_state == vm_states.SHELVED_OFFLOADED or (
            has_no_host and idle_instance.vm_state == vm_states.ERROR):
        return _LEFT_OVER
    # An instance that is being built gets its host after its allocation.
    if has_no_host or idle_instance.host == view.name:
        return None
    # Nova itself deletes this allocation when the host starts again.
    if _was_evacuated(idle_instance, view.name):
        return None
    # The instance is on another host: only its allocation here is wrong.
    return _LEFT_BY_MOVE


def _find_migration_fault(
        migration: objects.Migration) -> repairs.AllocationFault | None:
    """Return why a migration must not have allocations.

    :returns: None if the migration may still need them
    """
    # The context of an object targets the cell that the object was read from.
    instance = host_view.find_instance(
        migration._context, migration.instance_uuid)
    # If the instance was deleted, its migration may still be open.
    if instance is None:
        return _LEFT_OVER
    idle_instance = migration_states.get_if_idle(
        instance._context, instance.uuid)
    # Nova may still work on the migration. Or the audit must end the migration
    # first, and moves or deletes its allocations then.
    if (migration_states.is_open(migration) or idle_instance is None or
            unfinished_migrations.needs_allocations(instance, migration)):
        return None
    # After a failed move, the instance is still on the source host: the repair
    # gives the instance back the allocations that its migration has.
    if migration_states.has_stayed(instance, migration):
        return _LEFT_OVER._replace(owner=instance.uuid)
    return _LEFT_OVER


def _is_of_other_service(client: report.SchedulerReportClient,
                         consumer: str) -> bool:
    """Return whether another service than Nova has made an allocation.

    Such a service gives its consumers a type. Nova gives none, for which
    Placement answers "unknown".
    """
    answer = allocations.get_json(
        client, '/allocations/' + consumer, _TYPE_VERSION)
    return answer.get('consumer_type', _NO_TYPE) not in (
        _NO_TYPE, 'INSTANCE', 'MIGRATION')


def _was_evacuated(instance: objects.Instance, host: str) -> bool:
    """Return whether a host must still clean up after an evacuation.

    When the source host starts again, Nova deletes the allocation of an
    evacuated instance. Nova also sets the status of the migration from "done"
    to "completed".

    :param host: name of the source host
    """
    return bool(objects.MigrationList.get_by_filters(instance._context, {
        'instance_uuid': instance.uuid, 'source_compute': host,
        'migration_type': fields.MigrationType.EVACUATION, 'status': 'done'}))
