# SPDX-License-Identifier: Apache-2.0


"""Puts right what Placement holds for the instances of a host."""

from keystoneauth1 import exceptions as ks_exceptions
from nova import exception
from nova import objects
from oslo_log import log as logging
from oslo_utils import timeutils

from nova_prio import allocation_repair
from nova_prio.compute import in_between
from nova_prio import holdings

LOG = logging.getLogger(__name__)

# Statuses of a migration that comes to nothing when the nova-compute of its
# source starts anew: that alone works on it, or clears the task that is waited
# for.
_AT_SOURCE = {
    'live-migration': frozenset(('queued', 'preparing', 'running')),
    'migration': frozenset(('pre-migrating', 'migrating')),
    'resize': frozenset(('pre-migrating', 'migrating'))}


class Healing:
    """Mends allocations that drifted, in each run of the periodic task.

    It looks at instances that are at rest on this host or on none, and at
    migrations from here. Allocations of what is neither are Nova's to remove,
    or the operator's.
    """

    def __init__(self, is_here, steps):
        """Know of no drift yet.

        :param is_here: function that says of a nova.objects.Instance whether
            this host has its guest, running or not
        :param steps: nova_prio.containment.Steps of the service
        """
        self._is_here = is_here
        self._steps = steps
        self._started = timeutils.utcnow()
        # UUID of an instance -> what it seemed to hold and to need in the
        # last run, and why that was not mended: None where it was right, for
        # some of it is held elsewhere.
        self._seen = {}
        # UUIDs of migrations that had ended in the last run and held some.
        self._left = set()

    def run(self, context, client, compute_node, classes, instances):
        """Mend what Placement takes, and say at WARNING what it does not.

        :param context: nova.context.RequestContext
        :param client: nova.scheduler.client.report.SchedulerReportClient
        :param compute_node: nova.objects.ComputeNode
        :param classes: resource classes that the host has
        :param instances: list of nova.objects.Instance, on this host
        """
        seen, self._seen = self._seen, {}
        try:
            answer = client.get_allocations_for_resource_provider(
                context, compute_node.uuid)
            held = {uuid: holdings.own(found['resources'])
                    for uuid, found in answer.allocations.items()}
            others = set(held) - {instance.uuid for instance in instances}
            # It may be what an instance here lacks.
            self._take_left(context, client, compute_node.host, others)
            for instance, needs in holdings.differing(
                    context, [*(instance for instance in instances
                                if instance.task_state is None),
                              *_nowhere(context, others)], held, classes):
                uuid = instance.uuid
                what = held.get(uuid, {}), needs
                if seen.get(uuid) == (*what, None):
                    self._seen[uuid] = seen[uuid]
                else:
                    self._mend(context, client, compute_node, uuid, what,
                               seen.get(uuid))
        except (exception.ResourceProviderAllocationRetrievalFailed,
                exception.ConsumerAllocationRetrievalFailed,
                ks_exceptions.ClientException) as error:
            LOG.warning('What the instances of this host hold in Placement is '
                        'not looked at: %s', error)
        except Exception:
            # The host reports its resources all the same.
            LOG.exception('What the instances of this host hold in Placement '
                          'is not looked at.')

    def _take_left(self, context, client, host, consumers):
        """Take away what migrations from here hold that have ended.

        Nova leaves it there where a nova-compute was killed and the migration
        fails when it is started anew. What was not so in the last run may be
        about to go by itself.

        :param consumers: UUIDs of what is no instance of this host
        """
        before, self._left = self._left, set()
        for uuid in consumers:
            if not _has_ended(context, host, uuid):
                continue
            try:
                if uuid in before:
                    holdings.empty(context, client, uuid)
                    LOG.warning('The migration %s has ended: what it held of '
                                'this host is taken away.', uuid)
                    continue
            except holdings.NotMended as error:
                LOG.warning('The migration %s has ended, but what it holds of '
                            'this host stays: %s', uuid, error)
            self._left.add(uuid)

    def end_left_open(self, context, client, host, migrations, instances):
        """End the migrations that nobody works on any more.

        Those from here, and those to here that have not begun.

        Where nova-compute is killed, Nova leaves the migration open, and what
        it holds here. An instance that has not moved keeps the CPUs that were
        claimed for it on the other host as well: a rebuild would pin it to
        these here, whosever they are. So this has to run before the host takes
        requests. Nova leaves these CPUs also where a resize fails here, where
        a live migration is aborted that has not begun, and where its checks
        fail after the claim: then the PCI devices that it claimed stay as
        well, as long as it is in error.

        :param context: nova.context.RequestContext
        :param client: nova.scheduler.client.report.SchedulerReportClient
        :param host: name of this host
        :param migrations: list of nova.objects.Migration, in progress or in
            error
        :param instances: dict, UUID -> nova.objects.Instance, on this host
        """
        for migration in [*migrations,
                          *_claimed_for(instances, migrations)]:
            with self._steps.contain('end an unfinished migration',
                                     until_recount=True):
                if self._is_left_open(migration, host, instances):
                    self._end(context, client, host, migration)

    def _is_left_open(self, migration, host, instances):
        """Return whether nobody works on a migration any more."""
        if migration.migration_type not in _AT_SOURCE:
            return False
        if (migration.dest_compute == host and
                in_between.never_began(migration)):
            return True
        if migration.source_compute != host:
            return False
        if holdings.is_open(migration):
            return self._is_of_an_earlier_run(migration)
        # Nova ended it and left the instance as it was.
        return migration.dest_compute != host and _waits_for(
            instances.get(migration.instance_uuid), migration)

    def _is_of_an_earlier_run(self, migration):
        return timeutils.normalize_time(
            migration.updated_at or migration.created_at) < self._started

    def _end(self, context, client, host, migration):
        """End a migration if its instance has arrived, or stays."""
        try:
            now = objects.Migration.get_by_id(context, migration.id)
            instance = objects.Instance.get_by_uuid(
                context, migration.instance_uuid,
                expected_attrs=['migration_context'])
            if (now.status != migration.status or
                    instance.task_state is not None):
                return
            has_ended = not holdings.is_open(migration)
            if migration.source_compute != host:
                _forget(instance, migration)
                if instance.host == migration.source_compute:
                    holdings.give_back(context, client, migration)
                status = 'failed'
            elif has_ended and not _waits_for(instance, migration):
                # Nova has done it by now.
                return
            elif instance.host == migration.source_compute and (
                    migration.status in _AT_SOURCE[migration.migration_type] or
                    has_ended):
                self._call_off(context, client, migration, instance)
                status = migration.status if has_ended else 'error'
            elif (instance.host == migration.dest_compute and
                    migration.is_live_migration):
                holdings.empty(context, client, migration.uuid)
                status = 'completed'
            else:
                return
            migration.status = status
            migration.save()
        except (exception.NovaException, holdings.NotMended,
                ks_exceptions.ClientException) as error:
            LOG.warning('The migration %s, which Nova left unfinished, is not '
                        'ended: %s', migration.uuid, error)
            return
        LOG.warning(
            'The migration %s, which Nova left unfinished, is ended: the '
            'instance is on %s.', migration.uuid, instance.host,
            instance_uuid=instance.uuid)

    def _call_off(self, context, client, migration, instance):
        """Forget a move of an instance that stays.

        libvirt may have moved the guest all the same. Then the instance goes
        on to hold what the guest has over there, and healing lets it hold
        what it has here as well: where it is, only the operator can say.
        """
        _forget(instance, migration)
        if (not migration.is_live_migration or self._is_here(instance) or
                migration.status in ('queued', 'preparing')):
            holdings.give_back(context, client, migration)
            return
        holdings.empty(context, client, migration.uuid)
        LOG.warning(
            'The guest is not here: libvirt moved it to %s, while Nova takes '
            'the migration %s for failed. Before the instance is started here '
            'again, destroy and undefine the guest there; nova-prio audit '
            '--fix then takes away what the instance holds of that host.',
            migration.dest_compute, migration.uuid,
            instance_uuid=instance.uuid)

    def _mend(self, context, client, compute_node, uuid, what, seen):
        try:
            mended = allocation_repair.mend(
                context, client, compute_node.uuid, compute_node.host, uuid)
        except holdings.NotMended as error:
            self._seen[uuid] = (*what, str(error))
            if self._seen[uuid] != seen:
                LOG.warning(
                    'Placement holds %s of this host for the instance, which '
                    'needs %s. %s.', *self._seen[uuid], instance_uuid=uuid)
            return
        if mended is None:
            return
        before, after = mended
        if before == after:
            self._seen[uuid] = (*what, None)
        else:
            LOG.warning('Placement held %s for the instance, which needs %s: '
                        'put right.', before, after, instance_uuid=uuid)


def _nowhere(context, uuids):
    """Return the instances among consumers that are on no host.

    Nova leaves what they hold where Placement is away when one is offloaded,
    and where nova-compute is killed in the middle of a claim.
    """
    return list(filter(
        holdings.is_nowhere, objects.InstanceList.get_by_filters(
            context, {'uuid': list(uuids), 'deleted': False},
            expected_attrs=['flavor', 'system_metadata']))) if uuids else []


def _claimed_for(instances, known):
    """Yield the migrations that instances have claims of.

    :param instances: dict, UUID -> nova.objects.Instance
    :param known: list of nova.objects.Migration, to be left out
    """
    ids = {migration.id for migration in known}
    for instance in instances.values():
        claimed = instance.migration_context
        if claimed and claimed.migration_id not in ids:
            migration = in_between.last_move(instance)
            if migration:
                yield migration


def _waits_for(instance, migration):
    """Return whether an instance has what a migration claimed for it.

    :param instance: nova.objects.Instance, or None
    """
    claimed = instance and instance.migration_context
    return bool(claimed) and claimed.migration_id == migration.id


def _forget(instance, migration):
    if _waits_for(instance, migration):
        instance.drop_migration_context()


def _has_ended(context, host, uuid):
    """Return whether a consumer is a migration from a host that is over."""
    try:
        migration = objects.Migration.get_by_uuid(context, uuid)
    except exception.MigrationNotFound:
        return False
    if migration.source_compute != host or holdings.is_open(migration):
        return False
    try:
        objects.Instance.get_by_uuid(context, migration.instance_uuid)
    except exception.InstanceNotFound:
        return True
    return holdings.at_rest(context, migration.instance_uuid) is not None
