# SPDX-License-Identifier: Apache-2.0

"""Find the unfinished migrations that no service works on, and end them.

If nova-compute is killed during a move, Nova leaves the migration open for
good, with its allocation. An instance that did not move also keeps its
migration context, with the CPUs that were claimed on the other host. Nova
leaves the context as well if a resize fails on the source host, or if a live
migration is aborted in the queue. nova-compute repairs none of this.
"""

import functools

from nova import exception
from nova import objects
from oslo_utils import timeutils

from nova_prio.admin.audit import finding
from nova_prio.compat import workarounds
from nova_prio.placement import allocations

#: Seconds without a change before a migration counts as unfinished. At the end
#: of a move Nova clears the task of the instance before it ends the migration,
#: and nova-compute saves the progress of a live migration every few seconds.
QUIET_SECONDS = 60

# Type of a migration -> its statuses while the source host works on it. The
# instance has a task then.
_AT_SOURCE = {
    'live-migration': ('queued', 'preparing', 'running'),
    'migration': ('pre-migrating', 'migrating'),
    'resize': ('pre-migrating', 'migrating')}


def check(view):
    """Yield a finding for each unfinished migration of a HostView."""
    ended = [workarounds.get_last_move(instance)
             for instance in view.idle_instances if instance.migration_context]
    for migration in [*view.migrations, *filter(None, ended)]:
        instance, status = _get_final_status(
            view.context, view.name, migration)
        if status is None:
            continue
        notes = ['The instance %s is on %s.' % (instance.uuid, instance.host)]
        if _has_context_of(instance, migration):
            notes.append('It keeps the CPUs that were claimed on %s.'
                         % migration.dest_compute)
        if migration.is_live_migration and migration.status in (
                'running', 'error') and status != 'completed':
            notes.append(
                'libvirt may have moved the guest to %s: if it runs there, '
                'destroy and undefine it before the instance is started again.'
                % migration.dest_compute)
        yield finding.Finding(
            view.name, finding.UNFINISHED_MIGRATION, migration.uuid,
            needed='%s without a claim' % status,
            placement=finding.format_amounts(
                view.total_allocations.get(migration.uuid, {})),
            compute=migration.status, note=' '.join(notes),
            repair=functools.partial(_end, view.name, migration))


def keeps_claim(instance, migration):
    """Return whether an instance keeps the claim of a move that has failed."""
    return (not allocations.is_open_migration(migration) and
            instance.host == migration.source_compute and
            instance.host != migration.dest_compute and
            _has_context_of(instance, migration))


def _has_context_of(instance, migration):
    context = instance.migration_context
    return bool(context) and context.migration_id == migration.id


def _get_final_status(context, host, migration):
    """Return the instance of a migration, and the status that ends it.

    :param host: name of the host to which the finding belongs
    :returns: (nova.objects.Instance or None, str); the latter is None if the
        migration is not unfinished
    """
    try:
        instance = objects.Instance.get_by_uuid(
            context, migration.instance_uuid,
            expected_attrs=['migration_context'])
    except exception.InstanceNotFound:
        return None, None
    return instance, _choose_status(host, migration, instance)


def _choose_status(host, migration, instance):
    """Return the status that ends a migration, or None; see above."""
    statuses = _AT_SOURCE.get(migration.migration_type)
    if statuses is None or instance.task_state is not None or not all(
            timeutils.is_older_than(
                record.updated_at or record.created_at, QUIET_SECONDS)
            for record in (migration, instance)):
        return None
    if migration.dest_compute == host and workarounds.never_began(migration):
        return 'failed'
    if migration.source_compute != host:
        return None
    if keeps_claim(instance, migration):
        return migration.status
    if migration.status not in statuses:
        return None
    if instance.host == host:
        return 'error'
    return ('completed' if migration.is_live_migration and
            instance.host == migration.dest_compute else None)


def _end(host, unfinished, context, client):
    """End a migration whose instance has arrived, or stays.

    Write to Placement first: if that fails, the next audit finds the migration
    again.

    :param host: name of the host to which the finding belongs
    :param unfinished: nova.objects.Migration, as the audit found it
    """
    migration = objects.Migration.get_by_id(context, unfinished.id)
    instance, status = _get_final_status(context, host, migration)
    if status is None or migration.status != unfinished.status:
        raise allocations.PlacementRefused(
            'The migration has changed since it was read')
    if instance.host == migration.source_compute:
        allocations.return_to_instance(context, client, migration)
    else:
        allocations.delete(context, client, migration.uuid)
    if _has_context_of(instance, migration):
        instance.drop_migration_context()
    migration.status = status
    migration.save()
