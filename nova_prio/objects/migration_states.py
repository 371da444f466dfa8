# SPDX-License-Identifier: Apache-2.0

"""Questions about Nova's migrations that their status alone does not answer.

Nova changes the records of one move in several writes. The status may say that
a move has ended which still goes on, or the other way round.
"""

from __future__ import annotations

import operator
import typing

from nova.compute import task_states
import nova.conf
from nova import exception
from nova import objects
from oslo_utils import timeutils

if typing.TYPE_CHECKING:
    from nova import context as nova_context

CONF = nova.conf.CONF

#: No service works on a record that has not changed for so many seconds. At
#: the end of a move Nova clears the task of the instance, then ends the
#: migration, then moves allocations. nova-compute saves the progress of a live
#: migration every few seconds.
QUIET_SECONDS = 60

# Types of migrations that move an instance while it is off.
_COLD_TYPES = ('migration', 'resize')
# Statuses of a migration that is over.
_ENDED = frozenset(('confirmed', 'reverted', 'error', 'failed', 'completed',
                    'cancelled', 'done'))
#: The other statuses: the migration is in progress or awaits a confirmation.
OPEN_STATUSES = ('accepted', 'queued', 'preparing', 'pre-migrating',
                 'migrating', 'running', 'running (post-copy)',
                 'post-migrating', 'finished', 'confirming', 'reverting')


def is_open(migration: objects.Migration) -> bool:
    """Return whether a migration is in progress or awaits confirmation."""
    return migration.status not in _ENDED


def is_quiet(record: objects.Instance | objects.Migration) -> bool:
    """Return whether nobody has changed a record for QUIET_SECONDS.

    A live migration that is being prepared waits for the destination and for
    its network, and does not change its record: this time does not count.
    """
    seconds = QUIET_SECONDS
    if isinstance(record, objects.Migration) and record.status == 'preparing':
        seconds += CONF.long_rpc_timeout + CONF.vif_plugging_timeout
    return timeutils.is_older_than(
        record.updated_at or record.created_at, seconds)


def never_began(migration: objects.Migration) -> bool:
    """Return whether a live migration is in its checks, or failed in them.

    Nova records the source node when the checks have passed.
    """
    return (migration.is_live_migration and
            migration.status in ('accepted', 'error') and
            migration.source_node is None)


def has_stayed(instance: objects.Instance,
               migration: objects.Migration) -> bool:
    """Return whether an instance is on the source host after a failed move.

    The migration must be the newest one of the instance, which must have its
    old flavor. The instance must then get the allocations back that the
    migration had during the move.
    """
    newest = get_newest(instance)
    return (newest is not None and newest.id == migration.id and
            instance.host == migration.source_compute and
            has_old_flavor(instance, migration) and
            migration.status in ('cancelled', 'error', 'failed', 'reverted'))


def is_unfinished_revert(instance: objects.Instance,
                         migration: objects.Migration) -> bool:
    """Return whether a revert still has to move an instance back.

    Nova sets the status "reverted" when the guest on the destination is gone.
    The source then sets the host and the old flavor of the instance, and
    starts the guest. Until then, the instance has the migration context.
    """
    # A resize on one host does not change the host: see whether the instance
    # has its old flavor again.
    has_moved_back = (
        migration.source_compute == migration.dest_compute and
        has_old_flavor(instance, migration))
    return (migration.status == 'reverted' and
            instance.host == migration.dest_compute and not has_moved_back and
            has_context_of(instance, migration))


def is_superseded(instance: objects.Instance,
                  migration: objects.Migration) -> bool:
    """Return whether an instance went another way during a cold move.

    If nova-compute was killed during the move, or an operator has reset the
    state of the instance, Nova lets it be moved again, evacuated or shelved.
    The open migration then never ends: the instance is on a third host, or it
    no longer has the migration context of this move.
    """
    is_stuck = (
        migration.migration_type in _COLD_TYPES and is_open(migration) and
        not migration.cross_cell_move and instance.task_state is None)
    hosts = migration.source_compute, migration.dest_compute
    return is_stuck and (
        instance.host not in hosts or
        not has_context_of(instance, migration))


def keeps_old_cpus(instance: objects.Instance, host: str) -> bool:
    """Return whether Nova has applied the context of an instance wrongly.

    The instance keeps the CPUs on the host that it had before, which are the
    old ones in its migration context: the last move leaves the host, or is an
    unfinished resize on the host.
    """
    if not has_applied_context(instance):
        return False
    migration = get_last_move(instance)
    return migration is not None and migration.source_compute == host and (
        migration.dest_compute != host or
        has_old_flavor(instance, migration))


def has_old_flavor(instance: objects.Instance,
                   migration: objects.Migration) -> bool:
    """Return whether an instance has the flavor from before a migration."""
    return instance.instance_type_id == migration.old_instance_type_id


def may_come_back(instance: objects.Instance,
                  migration: objects.Migration) -> bool:
    """Return whether a cold move may still be reverted to its source host.

    The instance has the destination as host. Nova, or an operator after a
    failure of a service, may still revert the move.
    """
    is_cold = migration.migration_type in _COLD_TYPES
    may_be_reverted = (
        is_cold and is_open(migration) and
        instance.host == migration.dest_compute)
    return may_be_reverted or is_unfinished_revert(instance, migration)


def is_unfinished_evacuation(instance: objects.Instance,
                             migration: objects.Migration) -> bool:
    """Return whether an ended evacuation will still move an instance.

    If the source host starts during the evacuation, its nova-compute sets the
    status to "completed", but the destination goes on. The destination sets
    the host of the instance, then deletes the migration context, then sets the
    status to "done". A failed evacuation also deletes the context. Therefore
    the instance will still move while it has the source as host, and the
    context.

    :param instance: read before the migration, together with its migration
        context. By now, the destination may have set the status to "done".
    """
    # No other kind of move has these statuses with this host and context.
    return (migration.status in ('completed', 'done') and
            instance.host == migration.source_compute and
            has_context_of(instance, migration))


def has_left_destination(claimed: objects.Migration,
                         present: objects.Migration | None) -> bool:
    """Return whether a live migration has ended or goes to another host.

    :param claimed: the live migration when its destination made the claim
    :param present: its present record; None if the record was deleted
    """
    if present is None:
        return True
    if is_open(present):
        # The conductor tries other hosts if a check failed on this host.
        return present.dest_compute != claimed.dest_compute
    # Only with the status "error" may the source still have to roll back,
    # which drops the claim. It does so during the task of the instance.
    if present.status != 'error':
        return True
    instance = get_instance(present._context, present)
    return (instance is None or
            instance.host != present.source_compute or
            instance.task_state != task_states.MIGRATING)


def get_instance(context: nova_context.RequestContext,
                 migration: objects.Migration) -> objects.Instance | None:
    """Return the instance of a migration, or None if it was deleted."""
    try:
        return objects.Instance.get_by_uuid(
            context, migration.instance_uuid,
            expected_attrs=['migration_context', 'pci_devices'])
    except exception.InstanceNotFound:
        return None


def get_if_idle(context: nova_context.RequestContext,
                uuid: str) -> objects.Instance | None:
    """Return the instance with a UUID.

    :returns: None if the instance does not exist, has a task, has an open
        migration, is being evacuated, or if it or one of its migrations
        changed lately: Nova may not be done with it
    """
    try:
        instance = objects.Instance.get_by_uuid(
            context, uuid, expected_attrs=[
                'flavor', 'migration_context', 'system_metadata'])
    except exception.InstanceNotFound:
        return None
    for migration in objects.MigrationList.get_by_filters(
            context, {'instance_uuid': uuid}):
        if (is_open(migration) or not is_quiet(migration) or
                is_unfinished_evacuation(instance, migration)):
            return None
    if instance.task_state is None and is_quiet(instance):
        return instance
    return None


def get_newest(instance: objects.Instance) -> objects.Migration | None:
    """Return the newest migration of an instance, or None."""
    migrations = objects.MigrationList.get_by_filters(
        instance._context, {'instance_uuid': instance.uuid})
    return max(migrations, key=operator.attrgetter('id'), default=None)


def has_context_of(instance: objects.Instance,
                   migration: objects.Migration) -> bool:
    """Return whether an instance has the migration context of a migration."""
    context = instance.migration_context
    return bool(context) and context.migration_id == migration.id


def has_applied_context(instance: objects.Instance) -> bool:
    """Return whether Nova has applied the migration context of an instance.

    Nova does so in memory, for its periodic count of the resources. The
    NUMA topology of the instance is then the same object as the new topology
    of the context.
    """
    # If a field is not loaded, do not load it: Nova would save it.
    if 'migration_context' not in instance or 'numa_topology' not in instance:
        return False
    claim = instance.migration_context
    return bool(claim) and claim.new_numa_topology is instance.numa_topology


def get_last_move(instance: objects.Instance) -> objects.Migration | None:
    """Return the migration of the migration context of an instance.

    It is None if the instance has no migration context, or if its migration
    does not exist.
    """
    if not instance.migration_context:
        return None
    try:
        return objects.Migration.get_by_id(
            instance._context, instance.migration_context.migration_id)
    except exception.MigrationNotFound:
        return None
