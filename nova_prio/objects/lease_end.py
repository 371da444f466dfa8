# SPDX-License-Identifier: Apache-2.0

"""The evidence that an instance no longer needs a LeaseSet.

A :class:`nova_prio.model.leases.LeaseSet` has the CPUs and vCPUs that an
instance has on a host for one flavor.

The records are read anew, without the lock of the tracker. A recount may have
read them while Nova was changing them, and
``InstanceList.get_by_filters`` leaves out the hidden copy of an instance that
is resized to another cell.
"""

import enum
import operator

from nova.compute import task_states
from nova import exception
from nova import objects

from nova_prio.objects import migration_states


class Need(enum.Enum):
    """Whether Nova's records still need a LeaseSet."""

    NEEDED = 'an instance or a move needs it, or has a task'
    UNNEEDED = 'no record needs it'
    OVER = 'no record needs it, and its migration is over'


def read_need(context, host, uuid, lease_set):
    """Return whether Nova's records need a LeaseSet, as a Need.

    A LeaseSet is the CPUs that nova-compute keeps for an instance on its host.
    If the instance has a task, the set is needed, even if its migration seems
    to be over: Nova writes the statuses 'reverted', 'completed' and 'error'
    while a move still goes on.

    :param context: nova.context.RequestContext of an administrator
    :param host: name of the host
    :param uuid: UUID of the instance
    :param lease_set: a LeaseSet that Nova did not count when its periodic task
        last counted the resources of the host
    :returns: ``Need.NEEDED``; ``Need.OVER`` if its migration is over, so that
        the set may end at once; else ``Need.UNNEEDED``
    :raises: the errors of the database
    """
    try:
        instance = objects.Instance.get_by_uuid(
            context, uuid, expected_attrs=[])
    except exception.InstanceNotFound:
        return Need.UNNEEDED
    migrations = objects.MigrationList.get_by_filters(
        context, {'instance_uuid': uuid})
    here = [migration for migration in migrations if host in (
        migration.source_compute, migration.dest_compute)]
    # The migrations of this host whose records still need the set.
    needing = [migration for migration in here
               if _needs(migration, instance, host, lease_set)]
    if instance.task_state is None:
        # If the record of a live migration is open without a task,
        # nova-compute has stopped meanwhile. Or an operator has reset the
        # state of the instance: until the record is quiet, the guest may still
        # arrive.
        needs_it = any(not migration.is_live_migration or
                       not migration_states.is_quiet(migration)
                       for migration in needing)
    elif needing:
        needs_it = True
    else:
        # Any task but a live migration between other hosts may need the set.
        needs_it = not _migrates_elsewhere(instance, migrations)
    if needs_it:
        return Need.NEEDED
    if instance.host == host or needing or any(
            migration_states.is_superseded(instance, migration)
            for migration in here):
        # The instance is here with another LeaseSet, or the record of a
        # migration is still open.
        return Need.UNNEEDED
    is_claimed_by_migration = any(
        migration.uuid == lease_set.migration_uuid for migration in migrations)
    newest = max(migrations, key=operator.attrgetter('id'), default=None)
    # A set that no migration has claimed ends with the newest migration, if
    # that one was from or to this host.
    if is_claimed_by_migration or newest in here:
        return Need.OVER
    return Need.UNNEEDED


def _needs(migration, instance, host, lease_set):
    """Return whether a migration from or to a host needs a LeaseSet there.

    A LeaseSet is the CPUs that nova-compute keeps for an instance. A migration
    to the host needs only the LeaseSet that it has claimed. A LeaseSet has no
    ``migration_uuid`` if it was read from a guest or a record: any migration
    may need it.

    :param host: name of the host
    """
    is_unfinished = (
        migration_states.is_open(migration) or
        migration_states.is_unfinished_revert(instance, migration))
    if not is_unfinished or migration_states.is_superseded(
            instance, migration):
        return False
    # The status of a live migration stays open until the source has counted
    # its resources again. If the instance has arrived on the destination,
    # nothing needs the CPUs on the source.
    has_arrived = (
        migration.is_live_migration and instance.task_state is None and
        instance.host == migration.dest_compute)
    if has_arrived and migration.dest_compute != host:
        return False
    is_of_other_migration = (
        lease_set.migration_uuid not in (None, migration.uuid))
    return migration.source_compute == host or not is_of_other_migration


def _migrates_elsewhere(instance, migrations):
    """Return whether the task is a live migration between other hosts.

    The caller knows that no open migration comes from or to its host: if a
    check has failed on this host, the conductor has tried another one. Then an
    open migration of the instance is one between other hosts.

    :param migrations: all migrations of the instance
    """
    return instance.task_state == task_states.MIGRATING and any(
        migration_states.is_open(migration) for migration in migrations)
