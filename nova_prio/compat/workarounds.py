# SPDX-License-Identifier: Apache-2.0

"""Workarounds for bugs in the recount of Nova's resource tracker.

A recount reads the instances of the host first and the migrations then, and
some in-flight moves fall between the two. Each docstring names the bug, the
effect without the workaround, and its test in
``tests/functional/test_in_flight_moves.py`` or another file. All bugs affect
Nova 31 to 34 and are open. "No number" means that no Launchpad bug is known;
the numbers beside it are those of other bugs.

If all supported releases of Nova repair a bug, delete the function and its
call: the test must still pass. If Nova is right, only ``snapshot`` has any
effect. :mod:`nova_prio.compat.claim_workarounds` has those for claims. Two
workarounds are one line of an override each:

* ``obj_reset_changes`` in ``rollback_live_migration_at_destination`` of
  :mod:`nova_prio.virt.libvirt.live_migration`. Bug 1894095: the clean-up of a
  failed live migration saves the CPUs of the destination in the instance.
  Without this workaround, the source gives away the CPUs of a running guest.
  Test: ``test_live_migration``, ``test_cleaning_up_after_a_failure``.
* ``migration_context = None`` in ``rebuild`` of
  :mod:`nova_prio.virt.libvirt.driver`. No number (a side effect of the
  fix of 1499028): a rebuild on the same host applies the claim of a failed
  move. Without this workaround, the guest starts on CPU numbers of the other
  host. Test: ``test_unfinished_migrations``,
  ``test_rebuild_before_audit_drops_claim_and_keeps_allocations``.
"""

import copy
import time

from nova.compute import task_states
from nova.compute import vm_states
from nova import exception
from nova import objects
from nova.objects import fields

from nova_prio.placement import allocations

#: How long a recount waits for an instance. Nova sets its host milliseconds
#: after it has dropped the migration context.
ARRIVAL_SECONDS = 1
_INTERVAL_SECONDS = 0.1
#: Statuses of a live migration that copies the memory of the guest.
_TRANSFERRING = ('running', 'running (post-copy)')
_ATTRIBUTES = ['flavor', 'migration_context', 'numa_topology', 'resources',
               'system_metadata']


def restore_own_cpus(instance, host):
    """Give an instance back the CPUs that it has on a host, for the recount.

    Bug: no number (a side effect of the fix of 1953359). Nova applies the
    migration context of an instance if any open or failed migration leads to
    the host. The context may belong to a later move, away from the host, which
    began before the move to the host ended. Or it may belong to an unfinished
    resize on the host, whose new CPUs the claim counts already.
    Without this workaround: the host counts the CPU numbers of another host,
    or counts the new CPUs twice, and gives away the CPUs where the guest
    runs.
    Test: ``test_next_move_begins_before_live_migration_ends``,
    ``test_resize_on_same_host_counts_once``.
    """
    context = instance.migration_context
    # If Nova has applied the context, both are the same object.
    if not context or context.new_numa_topology is not instance.numa_topology:
        return
    migration = get_last_move(instance)
    # The move leaves the host, or is a resize on the host that is not
    # finished: the instance still has its old flavor.
    if migration and migration.source_compute == host and (
            migration.dest_compute != host or
            migration.old_instance_type_id == instance.instance_type_id):
        instance.revert_migration_context()


def has_left_by_revert(instance, host):
    """Return whether an instance left a host when its resize was reverted.

    Bug: no number (related to 1879878). Between the two steps of a revert,
    the instance has the destination as host and the CPUs of the source.
    Without this workaround: the destination counts CPU numbers of the source.
    If one of them is pinned already, the recount fails half-way.
    Test: ``test_destination_leaves_out_reverted_instance``.
    """
    migration = _get_reverting_move(instance)
    # The destination sets the status 'reverted' at the end of its step. After
    # a resize on the same host, the instance has not left.
    return bool(migration and migration.status == 'reverted' and
                migration.dest_compute == host != migration.source_compute)


def find_returning(context, host):
    """Yield the instances that a revert has not brought back to a host yet.

    Bug: no number (related to 1879878). Until a revert ends, the instance has
    the destination as host, and the source does not count it.
    Without this workaround: the source does not count the instance and gives
    its CPUs away, just before the guest starts on them.
    Test: ``test_source_counts_instance_that_a_revert_returns``.

    :param context: nova.context.RequestContext of the cell, of an
        administrator
    :param host: name of the source host
    :returns: iterator of (nova.objects.Instance, nova.objects.Migration)
    """
    for instance in objects.InstanceList.get_by_filters(
            context, {'task_state': task_states.RESIZE_REVERTING,
                      'deleted': False}, expected_attrs=_ATTRIBUTES):
        if instance.host == host:
            continue
        migration = _get_reverting_move(instance)
        if migration and migration.source_compute == host:
            yield instance, migration


def is_arriving(migration, host, known):
    """Return whether a live migration to a host has no migration context left.

    Bug: no number (the part that the fix of 1896463 left open). Without the
    lock of the tracker, Nova drops the migration context of a live migration,
    and then sets the host and the NUMA topology of the instance.
    Without this workaround: a recount that has read the instances of the host
    before counts the migration without dedicated CPUs, and the host gives
    these CPUs to another instance.
    Test: ``test_recount_counts_instance_without_migration_context``.

    :param known: container of the UUIDs of instances that Nova has read
    """
    if (migration.instance_uuid in known or migration.dest_compute != host or
            not migration.is_live_migration or
            migration.status not in _TRANSFERRING):
        return False
    instance = migration.instance
    return (instance.numa_topology is not None and
            instance.migration_context is None)


def find_arrived(context, host, known, arriving=frozenset()):
    """Yield the instances that came to a host during a recount.

    Nova reads the instances of the host first, and the migrations then. Call
    this after ``find_returning``, or an instance may be missing from both.

    Bug: no number (the part that the fix of 1896463 left open). Live
    migrations and reverts change the host of an instance without the lock of
    the tracker.
    Without this workaround: the CPUs of the instance are free until the next
    recount.
    Test: ``test_instance_arrives_between_reads``.

    :param context: nova.context.RequestContext of the cell
    :param known: UUIDs that Nova has read, in a set or as keys
    :param arriving: set of the UUIDs of ``is_arriving``, which are awaited for
        ARRIVAL_SECONDS
    :returns: iterator of nova.objects.Instance
    :raises RuntimeError: at the end, if an instance in ``arriving`` has not
        come
    """
    end = time.monotonic() + ARRIVAL_SECONDS
    while True:
        here = set(objects.InstanceList.get_uuids_by_host(context, host))
        missing = arriving - here
        if not missing or time.monotonic() >= end:
            break
        time.sleep(_INTERVAL_SECONDS)
    for uuid in here.difference(known):
        try:
            yield objects.Instance.get_by_uuid(
                context, uuid, expected_attrs=_ATTRIBUTES)
        except exception.InstanceNotFound:
            continue
    if missing:
        raise RuntimeError('Instances without a migration context: %s'
                           % ', '.join(sorted(missing)))


def is_over(migration):
    """Return whether a migration has failed and holds nothing any more.

    The source may still roll a failed live migration back, as long as the
    instance is migrating and has not begun another move.

    Bug: no number (a side effect of Nova's commit 255b3f2f91). Nova counts
    failed migrations as part of the next move of the instance.
    Without this workaround: a host counts the next move twice, or counts a
    move that does not concern the host, until the next recount.
    Test: ``test_evacuation_to_source_of_failed_move``,
    ``test_migration_after_failed_live_migration``.
    """
    if allocations.is_open_migration(migration):
        return False
    if not migration.is_live_migration or never_began(migration):
        return True
    instance = _get_instance(migration)
    return (instance is None or
            instance.host != migration.source_compute or
            instance.task_state != task_states.MIGRATING or
            any(other.id > migration.id
                for other in objects.MigrationList.get_by_filters(
                    migration._context,
                    {'instance_uuid': migration.instance_uuid})))


def evacuates_from_error(migration):
    """Return whether a migration evacuates an instance that is in ERROR.

    Bug: no number (the part that the fix of 1791075 left open). Nova counts
    an evacuation only if the instance was active or stopped.
    Without this workaround: a recount during the evacuation gives the claimed
    CPUs away.
    Test: ``test_accounting``,
    ``test_instance_in_error_counts_during_its_evacuation``.
    """
    if migration.migration_type != fields.MigrationType.EVACUATION:
        return False
    instance = _get_instance(migration)
    return (instance is not None and instance.vm_state == vm_states.ERROR and
            instance.task_state in task_states.rebuild_states)


def snapshot(tracker, nodename):
    """Return a function that restores the present usage of a node.

    Bug: no number (described in the commit that fixes 1953359). A recount
    begins with an empty host. If the recount fails half-way, Nova keeps the
    usage that it has counted so far.
    Without this workaround: claims get the CPUs of all instances that the
    recount did not reach.
    Test: ``test_unreadable_moves_refuse_only_priority_instances``.
    """
    node = tracker.compute_nodes[nodename].obj_clone()
    stats, ledger = copy.deepcopy(
        (tracker.stats[nodename], tracker.driver.ledger))
    instances = set(tracker.tracked_instances)
    migrations = dict(tracker.tracked_migrations)

    def restore():
        """Give the tracker the usage of the snapshot."""
        tracker.compute_nodes[nodename] = node
        tracker.stats[nodename] = stats
        tracker.tracked_instances = instances
        tracker.tracked_migrations = migrations
        tracker.driver.ledger = ledger

    return restore


def get_last_move(instance):
    """Return the nova.objects.Migration of the migration context.

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


def never_began(migration):
    """Return whether a live migration is in its checks, or failed in them.

    Nova records the source node when the checks have passed.
    """
    return (migration.is_live_migration and
            migration.status in ('accepted', 'error') and
            migration.source_node is None)


def _get_reverting_move(instance):
    """Return the nova.objects.Migration that is being reverted, or None."""
    if instance.task_state != task_states.RESIZE_REVERTING:
        return None
    return get_last_move(instance)


def _get_instance(migration):
    """Return the instance of a migration, or None if it is deleted."""
    try:
        return migration.instance
    except exception.InstanceNotFound:
        return None
