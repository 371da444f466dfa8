# SPDX-License-Identifier: Apache-2.0

"""Find the unfinished migrations that no service works on, and end them.

If nova-compute is killed during a move, Nova leaves the migration open for
good, with its allocation. An instance that did not move also keeps its
migration context, with the CPUs that were claimed on the other host. Nova
leaves the context as well if a resize fails on the source host, or if a live
migration is aborted in the queue. nova-compute repairs none of this.

If the disk of a resize or cold migration is on the destination, Nova itself
must end the move: the audit calls Nova's API, which confirms or reverts it. It
does not let the user choose, because only one of the two keeps the disk.
"""

from __future__ import annotations

import functools
import typing

from nova.compute import vm_states
from nova import exception
from nova import objects
from nova import servicegroup
from oslo_utils import timeutils

from nova_prio.admin.audit import finding
from nova_prio.objects import migration_states
from nova_prio.placement import allocations

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report

    from nova_prio.admin.audit import host_view

#: Type of a migration -> its statuses while the source host works on it. The
#: instance then has a task. The source host of an evacuation does not work on
#: it, but ends it with the status "completed" if it starts meanwhile.
_SOURCE_STATUSES = {
    'evacuation': (),
    'live-migration': ('accepted', 'queued', 'preparing', 'running'),
    'migration': ('pre-migrating', 'migrating', 'post-migrating'),
    'resize': ('pre-migrating', 'migrating', 'post-migrating')}
# Status of a cold move after the arrival of its disk at the destination -> the
# status with which it must end. It stays "finished" if an administrator has
# reset the state of an instance that waits for a confirmation: only this state
# is wrong. During a revert, Nova sets the status "reverted" before the host.
_STATUSES_AFTER_ARRIVAL = {
    'confirming': 'confirmed', 'finished': 'finished',
    'post-migrating': 'reverted', 'reverted': 'reverted',
    'reverting': 'reverted'}
# States of an instance that such a move leaves, or that somebody has set.
_VM_STATES_AFTER_ARRIVAL = (vm_states.ACTIVE, vm_states.ERROR,
                            vm_states.RESIZED, vm_states.STOPPED)
# While Nova confirms a resize, and deletes a disk, the instance has no task.
_CONFIRMING_SECONDS = 3600


def check(view: host_view.HostView) -> finding.Findings:
    """Yield a finding for each unfinished migration of a host.

    Such a migration is open, but no service works on it. Or it has failed, but
    the instance still has its claim, the CPUs on the destination.
    """
    candidates = list(view.migrations)
    # These instances have no task and no open migration.
    for instance in view.instances_at_rest:
        # A failed migration is no longer open, but may still hold a claim.
        last_move = migration_states.get_last_move(instance)
        if last_move:
            candidates.append(last_move)
    for migration in candidates:
        final_status = _choose_final_status(view.name, migration)
        # None: a service may still work on the migration, or the audit of the
        # other host ends it.
        if final_status is None:
            continue
        instance = migration.instance
        notes = ['The instance %s is on %s.' % (instance.uuid, instance.host)]
        if migration_states.has_context_of(instance, migration):
            notes.append('It still has the CPUs that were claimed on %s.'
                         % migration.dest_compute)
        # Perhaps libvirt moved the guest, but Nova did not record that.
        may_have_moved = migration.is_live_migration and (
            migration.status in ('running', 'error') and
            final_status != 'completed')
        if may_have_moved:
            notes.append(
                'libvirt may have moved the guest to %s: if it runs there, '
                'destroy and undefine it before the instance is started again.'
                % migration.dest_compute)
        needed, next_step = '%s without a claim' % final_status, ''
        # The disk is on the destination, and the move waits for a confirmation
        # again. The disk of the source host is older.
        if final_status == 'finished':
            needed = 'finished, to be confirmed'
            next_step = (
                'Run "openstack server resize confirm %s". The command '
                '"resize revert" would lose what the server has written since '
                'the move.' % instance.uuid)
        placement = view.total_allocations.get(migration.uuid, {})
        yield finding.Finding(
            'unfinished_migration', migration.uuid,
            needed=needed, next_step=next_step,
            placement=finding.format_amounts(placement),
            compute=migration.status, note=' '.join(notes),
            repair=functools.partial(_end, view.name, migration))


def needs_allocations(instance: objects.Instance,
                      migration: objects.Migration) -> bool:
    """Return whether a migration that is not open still needs allocations.

    A migration is open if it is in progress or awaits its confirmation. Nova
    may leave the claim of a move that has failed, and sets the status
    "reverted" before the revert is done.

    It does if the instance still has the claim of this migration, or if Nova
    must still confirm or revert the move. The audit ends such a migration,
    which also moves or deletes its allocations.
    """
    if _keeps_claim(instance, migration):
        return True
    return _choose_status_after_arrival(instance, migration) is not None


def _keeps_claim(instance: objects.Instance,
                 migration: objects.Migration) -> bool:
    """Return whether an instance still has the claim of a failed move.

    The claim is on the destination; the instance is on the source host. A
    resize on the same host keeps no such claim.
    """
    return (not migration_states.is_open(migration) and
            instance.host == migration.source_compute and
            instance.host != migration.dest_compute and
            migration_states.has_context_of(instance, migration))


def _choose_final_status(host: str,
                         migration: objects.Migration) -> str | None:
    """Return the status with which the audit must end a migration.

    Both hosts are audited. Only the audit of one of them ends the migration,
    so that it is found once.

    :param host: name of the audited host, the source or the destination
    :returns: None if the audit of this host must not end the migration: a
        service may work on it, or the audit of the other host ends it
    """
    # The statuses in which the source host works on a migration of this type.
    source_statuses = _SOURCE_STATUSES.get(migration.migration_type)
    try:
        instance = migration.instance
    except exception.InstanceNotFound:
        return None
    # A service may still work on the migration if the instance has a task, or
    # if one of the two records changed lately.
    if (source_statuses is None or instance.task_state is not None or
            not migration_states.is_quiet(migration) or
            not migration_states.is_quiet(instance)):
        return None
    is_destination = migration.dest_compute == host
    # A live migration that has not passed its checks: the source host has no
    # part in it yet.
    if is_destination and migration_states.never_began(migration):
        return 'failed'
    is_source = migration.source_compute == host
    if migration_states.is_superseded(instance, migration):
        return 'error' if is_source else None
    status_after_arrival = _choose_status_after_arrival(instance, migration)
    if status_after_arrival is not None:
        # The instance is on the destination already, and Nova ends the move.
        can_end = (is_destination and
                   instance.vm_state in _VM_STATES_AFTER_ARRIVAL and
                   _are_hosts_up(migration))
        return status_after_arrival if can_end else None
    # In all other cases, the audit of the source host ends the migration.
    if not is_source:
        return None
    if _keeps_claim(instance, migration):
        # The migration has failed already: only the claim must end.
        return migration.status
    # The audit of the destination ends a migration that never began.
    if (migration.status not in source_statuses or
            migration_states.never_began(migration)):
        return None
    # The message to begin a live migration may wait for the source host.
    if migration.status == 'accepted' and not _are_hosts_up(migration):
        return None
    # The instance has not moved.
    if instance.host == host:
        return 'error'
    # After a live migration that has arrived, there is no more to do. Leave
    # any other state as it is.
    has_arrived = instance.host == migration.dest_compute
    return 'completed' if migration.is_live_migration and has_arrived else None


def _choose_status_after_arrival(instance: objects.Instance,
                                 migration: objects.Migration) -> str | None:
    """Return the status with which Nova must end a cold move, or None.

    A cold move is a resize or a cold migration. Nova must confirm or revert a
    move whose disk has arrived at the destination.

    :returns: 'confirmed', 'reverted', or 'finished' to wait for the
        confirmation; None if the disk has not arrived, or the audit must not
        do anything about the move
    """
    # Leave cross-cell moves alone: each of the two cells has a record of the
    # instance, and Nova ends these moves in other ways.
    # Nova sets the old flavor together with the host, when the disk is there.
    if (migration.cross_cell_move or instance.old_flavor is None or
            instance.host != migration.dest_compute or
            not migration_states.has_context_of(instance, migration)):
        return None
    is_stuck = True
    if migration.status == 'finished':
        # In the state "resized", the move waits for the user, as it should.
        is_stuck = instance.vm_state != vm_states.RESIZED
    elif migration.status == 'confirming':
        # Nova may take long to delete a disk.
        is_stuck = timeutils.is_older_than(
            migration.updated_at or migration.created_at, _CONFIRMING_SECONDS)
    elif migration.status == 'reverted':
        # Nova sets this status before the source takes the instance back.
        is_stuck = migration_states.is_unfinished_revert(instance, migration)
    if not is_stuck:
        return None
    # None for a status that no move has after the arrival of its disk.
    return _STATUSES_AFTER_ARRIVAL.get(migration.status)


def _are_hosts_up(migration: objects.Migration) -> bool:
    """Return whether source and destination can work on a migration.

    A request to a nova-compute that is down would wait for its start. The
    service of a host that was removed is deleted.
    """
    for host in {migration.source_compute, migration.dest_compute}:
        try:
            service = objects.Service.get_by_compute_host(
                migration._context, host)
        except exception.ComputeHostNotFound:
            return False
        if not servicegroup.API().service_is_up(service):
            return False
    return True


def _end(host: str, found: objects.Migration,
         context: nova_context.RequestContext,
         client: report.SchedulerReportClient) -> None:
    """End an unfinished migration, and free its claim and allocations.

    Write to Placement first: if that fails, the next audit finds the migration
    again.

    :param host: name of the audited host
    :param found: the migration, as the audit found it
    :param context: targets the cell of the host
    :param client: asks Placement
    :raises nova_prio.placement.allocations.PlacementRefused: if the migration
        was not ended
    """
    migration = objects.Migration.get_by_id(context, found.id)
    # The status with which to end it; None if somebody has ended it since the
    # audit found it, or works on it again.
    status = _choose_final_status(host, migration)
    if status is None or migration.status != found.status:
        # Callers expect this class if a repair fails, for whatever reason.
        raise allocations.PlacementRefused(
            'The migration has changed since it was read')
    instance = migration.instance
    # ``status`` does not tell who must end the move. If this is not None, the
    # disk is on the destination: only Nova can confirm or revert the move.
    if _choose_status_after_arrival(instance, migration) is not None:
        _end_after_arrival(context, instance, migration, status)
        return
    if _needs_allocations_back(context, client, instance, migration):
        allocations.move(context, client, migration.uuid, instance.uuid)
    else:
        allocations.delete(context, client, migration.uuid)
    if migration_states.has_context_of(instance, migration):
        # The context has the CPUs of the claim.
        instance.drop_migration_context()
    migration.status = status
    migration.save()


def _needs_allocations_back(
        context: nova_context.RequestContext,
        client: report.SchedulerReportClient, instance: objects.Instance,
        migration: objects.Migration) -> bool:
    """Return whether an instance gets the allocations of a migration back.

    During the move, the migration has the allocations at the source host, for
    the old flavor. An instance that is still there gets them back. One that
    has come back another way has its own there.
    """
    source = migration.source_compute
    if instance.host != source or not migration_states.has_old_flavor(
            instance, migration):
        return False
    if migration.dest_compute == source:
        return True
    own = client.get_allocs_for_consumer(context, instance.uuid)
    nodes = objects.ComputeNodeList.get_all_by_host(context, source)
    return not any(node.uuid in own['allocations'] for node in nodes)


def _end_after_arrival(
        context: nova_context.RequestContext, instance: objects.Instance,
        migration: objects.Migration, status: str) -> None:
    """Let Nova end a cold move whose disk is on the destination.

    :param status: 'confirmed' or 'reverted', which nova-compute sets when it
        has confirmed or reverted the move; or 'finished', which the migration
        has already
    :raises nova_prio.placement.allocations.PlacementRefused: if Nova refuses
    """
    # These modules take a long time to import, and are rarely needed.
    from nova.compute import api
    from nova.compute import manager
    old_status, old_vm_state = migration.status, instance.vm_state
    # Nova did not start to finish the move on the destination, which gives the
    # instance its new flavor and CPUs. A revert needs an instance with these.
    if old_status == 'post-migrating':
        if migration.old_instance_type_id != migration.new_instance_type_id:
            manager.ComputeManager._set_instance_info(
                instance, instance.new_flavor)
        instance.apply_migration_context()
    # Nova's API confirms and reverts only an instance in this state. With the
    # status "finished", the user does so later.
    instance.vm_state = vm_states.RESIZED
    try:
        instance.save(
            expected_task_state=[None], expected_vm_state=[old_vm_state])
        if status == 'confirmed':
            api.API().confirm_resize(context, instance, migration)
        elif status == 'reverted':
            # Nova's API reverts only a migration with this status.
            migration.status = 'finished'
            migration.save()
            api.API().revert_resize(context, instance)
    except Exception as error:
        # With its old status, the next audit finds the migration again, and
        # tries again. For that, the other changes above may stay: they are
        # what a confirmation or a revert needs.
        if migration.status != old_status:
            migration.status = old_status
            migration.save()
        raise allocations.PlacementRefused(
            'Nova does not end the migration: %s' % error) from error
