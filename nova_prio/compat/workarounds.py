# SPDX-License-Identifier: Apache-2.0

"""Instances that Nova's recount of a host misses, for they move meanwhile.

It reads the instances first, the migrations then. A resize that is reverted
counts as over before its instance is at home again; what else arrives between
the two reads is in neither. Nova counts both in its next recount, and would
give their CPUs away until then. Where the former leaves, it counts the CPUs
that the instance has at home. And one that moves on, while the source of its
live migration still cleans up, counts with the CPUs that it is to have next,
as does one that is resized on its host.
"""

from nova.compute import task_states
from nova import exception
from nova import objects

_NEEDED = ['flavor', 'migration_context', 'numa_topology', 'resources',
           'system_metadata']


def moving_on(instances, host):
    """Give instances back what they have on a host, for its recount.

    Nova takes their move to elsewhere for the one to there, which is not over,
    and counts what is claimed for a resize on the host as theirs already: it
    counts that as claimed as well.

    :param instances: iterable of nova.objects.Instance, on that host
    :param host: name of the host
    """
    for instance in instances:
        claimed = instance.migration_context
        if claimed and claimed.new_numa_topology is instance.numa_topology:
            migration = last_move(instance)
            # Nova tells by the flavor as well that a resize is not finished.
            if migration and migration.source_compute == host and (
                    migration.dest_compute != host or
                    migration.old_instance_type_id ==
                    instance.instance_type_id):
                instance.revert_migration_context()


def leaving(instances, host):
    """Return the instances of a host whose resize to there is reverted.

    They have given back all that they had there.

    :param instances: iterable of nova.objects.Instance, on that host
    :param host: name of the host
    :returns: dict, UUID -> nova.objects.Instance
    """
    found = {}
    for instance in instances:
        migration = _of_revert(instance)
        if migration and migration.status == 'reverted' and (
                migration.dest_compute == host != migration.source_compute):
            found[instance.uuid] = instance
    return found


def _of_revert(instance):
    """Return the nova.objects.Migration that is reverted, or None."""
    if instance.task_state != task_states.RESIZE_REVERTING:
        return None
    return last_move(instance)


def last_move(instance):
    """Return the nova.objects.Migration that was claimed for, or None.

    :param instance: nova.objects.Instance
    """
    if not instance.migration_context:
        return None
    try:
        return objects.Migration.get_by_id(
            instance._context, instance.migration_context.migration_id)
    except exception.MigrationNotFound:
        return None


def never_began(migration):
    """Return whether a live migration is in its checks, or failed there.

    Nova notes where it starts from once they have passed.

    :param migration: nova.objects.Migration
    """
    return (migration.is_live_migration and
            migration.status in ('accepted', 'error') and
            migration.source_node is None)


def returning(context, host):
    """Yield the instances whose resize is reverted, that are not back yet.

    :param context: nova.context.RequestContext of the cell
    :param host: name of the host that they come back to
    :returns: iterator of (nova.objects.Instance, nova.objects.Migration)
    """
    for instance in objects.InstanceList.get_by_filters(
            context, {'task_state': task_states.RESIZE_REVERTING,
                      'deleted': False}, expected_attrs=_NEEDED):
        migration = instance.host != host and _of_revert(instance)
        if migration and migration.source_compute == host:
            yield instance, migration


def arrived(context, host, known):
    """Yield the instances of a host that were not read with the others.

    To be read after those that are returning, or one may be in neither.

    :param context: nova.context.RequestContext of the cell
    :param known: set of UUIDs, of those that were
    :returns: iterator of nova.objects.Instance
    """
    for uuid in set(objects.InstanceList.get_uuids_by_host(
            context, host)) - known:
        try:
            yield objects.Instance.get_by_uuid(
                context, uuid, expected_attrs=_NEEDED)
        except exception.InstanceNotFound:
            continue
