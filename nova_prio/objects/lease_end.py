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
    """The need of a LeaseSet in Nova's records."""

    NEEDED = 'an instance or a move needs it, or has a task'
    UNNEEDED = 'no record needs it'
    OVER = 'no record needs it, and its migration is over'


def read_need(context, host, uuid, lease_set):
    """Return the Need of a LeaseSet that Nova has not counted.

    Each task of the instance keeps the set: Nova writes the statuses
    'reverted', 'completed' and 'error' while a move still goes on.

    :param context: nova.context.RequestContext of an administrator
    :param host: name of the host
    :param uuid: UUID of the instance
    :param lease_set: the LeaseSet
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
    needing = [migration for migration in here
               if _needs(migration, instance, host, lease_set)]
    if instance.task_state is None:
        # If nova-compute stops during a live migration, the record of the
        # migration stays open.
        needs_it = any(not migration.is_live_migration
                       for migration in needing)
    else:
        needs_it = bool(needing) or not _migrates_elsewhere(
            instance, migrations)
    if needs_it:
        return Need.NEEDED
    # A set without a migration ends with the last one from or to the host.
    own = [migration for migration in migrations
           if migration.uuid == lease_set.migration_uuid]
    last = max(migrations, key=operator.attrgetter('id'), default=None)
    if instance.host != host and not needing and (own or last in here):
        return Need.OVER
    # If the instance is here, Nova has counted another set of it.
    return Need.UNNEEDED


def _needs(migration, instance, host, lease_set):
    """Return whether a migration from or to a host needs a LeaseSet there.

    A migration to the host needs only the set that it has claimed. A set has
    no migration if it was read from a guest or a record.
    """
    # The source sets the status 'completed' after its recount.
    is_delivered = (
        migration.is_live_migration and instance.task_state is None and
        instance.host == migration.dest_compute != host)
    is_of_other = (
        migration.source_compute != host and
        lease_set.migration_uuid not in (None, migration.uuid))
    is_unfinished = (
        migration_states.is_open(migration) or
        migration_states.is_unfinished_revert(instance, migration))
    return is_unfinished and not is_delivered and not is_of_other


def _migrates_elsewhere(instance, migrations):
    """Return whether a live migration is the task of an instance.

    The caller knows that no open migration comes from or to its host: if a
    check has failed there, the conductor has tried another host.
    """
    return instance.task_state == task_states.MIGRATING and any(
        migration_states.is_open(migration) for migration in migrations)
