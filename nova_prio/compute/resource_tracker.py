# SPDX-License-Identifier: Apache-2.0

"""The resource tracker, counting usage by class and reporting it."""

import copy
import types

from nova.compute import resource_tracker
from nova.compute import task_states
from nova.compute import vm_states
import nova.conf
from nova import exception
from nova import objects
from nova.objects import fields
from nova import utils

from nova_prio.compat import contract
from nova_prio.compat import workarounds
from nova_prio.compute import claim_releases
from nova_prio.compute import host_reporting
from nova_prio.compute import move_claims
from nova_prio.compute import usage
from nova_prio.placement import allocations

CONF = nova.conf.CONF

_KEY = 'nova_prio'

# Steps of a recount that more than one method takes part in.
_COUNT = 'count the usage of an instance'
_MOVES = 'count the in-flight moves'


class PriorityResourceTracker(
        move_claims.MoveClaims, claim_releases.ClaimReleases,
        host_reporting.HostReporting, resource_tracker.ResourceTracker):
    """Nova's tracker, which keeps the ledger of our driver as well.

    With a driver that has no ledger it does what Nova's tracker does.
    """

    # Failures that the recount which runs now makes up for.
    _failed_before = types.MappingProxyType({})
    _is_counted = False

    @property
    def _ledger(self):
        return getattr(self.driver, 'ledger', None)

    @property
    def is_of_our_driver(self):
        """Whether the driver of this service has a ledger."""
        return self._ledger is not None

    @contract.exit_if_refused()
    def update_available_resource(self, context, nodename, startup=False):
        """Recount the resources of the host, of all projects.

        Nova does so in the name of a user, too, who has migrated one of his
        instances.

        :raises SystemExit: with one line, where the service is starting and
            an instance is pinned outside of the dedicated CPUs: Nova's recount
            fails then, now and ever after, and leaves the old numbers
        """
        try:
            super().update_available_resource(
                context.elevated(), nodename, startup=startup)
        except exception.CPUPinningUnknown as error:
            if startup and self._ledger is not None:
                raise contract.StartRefused(
                    "[compute] cpu_dedicated_set is '%s', but an instance is "
                    "pinned outside of it: %s; set it as it was, move the "
                    "instance away and change it then."
                    % (CONF.compute.cpu_dedicated_set,
                       str(error).rstrip('.'))) from error
            raise

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _update_available_resource(self, context, resources, startup=False):
        """Recount, and keep the old numbers where that fails half-way."""
        nodename = resources['hypervisor_hostname']
        restore = None
        if self._ledger is not None:
            self._failed_before = self.driver.steps.until_recount()
            if nodename in self.compute_nodes:
                with self.driver.steps.contain(
                        'keep the numbers of the last recount', refuses=False):
                    restore = self._snapshot(nodename)
        self._is_counted = False
        try:
            super()._update_available_resource(
                context, resources, startup=startup)
        except Exception:
            if restore and not self._is_counted:
                with self.driver.steps.contain(
                        'restore the numbers of the last recount',
                        until_recount=True):
                    restore()
            raise
        finally:
            self._failed_before = {}
            self._is_counted = False

    def _snapshot(self, nodename):
        """Return a function that restores what is counted of a node now.

        Nova begins a recount with an empty host. If a read of the database
        fails then, or if two instances seem to have one CPU, Nova keeps what
        it has counted so far, and gives the CPUs of all others away.
        """
        node = self.compute_nodes[nodename].obj_clone()
        stats, ledger = copy.deepcopy((self.stats[nodename], self._ledger))
        instances = set(self.tracked_instances)
        migrations = dict(self.tracked_migrations)

        def restore():
            self.compute_nodes[nodename] = node
            self.stats[nodename] = stats
            self.tracked_instances = instances
            self.tracked_migrations = migrations
            self.driver.ledger = ledger

        return restore

    def _get_usage_dict(self, object_or_dict, instance, **updates):
        found = super()._get_usage_dict(object_or_dict, instance, **updates)
        if self._ledger is not None:
            with self.driver.steps.contain(_COUNT, until_recount=True):
                found[_KEY] = self._usage_of(
                    object_or_dict, instance, found.get('numa_topology'))
        return found

    def _usage_of(self, object_or_dict, instance, topology):
        """Return the UUID, role and Usage to enter into the ledger."""
        if isinstance(object_or_dict, objects.Instance):
            flavor, role = object_or_dict.flavor, usage.RESIDENT
        else:
            flavor, role = object_or_dict, usage.MOVE
        return instance.uuid, role, usage.Usage.from_flavor(flavor, topology)

    def _update_usage(self, usage, nodename, sign=1):
        super()._update_usage(usage, nodename, sign=sign)
        if _KEY in usage:
            with self.driver.steps.contain(_COUNT, until_recount=True):
                count = self._ledger.add if sign == 1 else self._ledger.remove
                count(*usage[_KEY])

    def _update_usage_from_instances(self, context, instances, nodename):
        left = {}
        if self._ledger is not None:
            with self.driver.steps.contain(_COUNT, until_recount=True):
                self._ledger.clear()
            for instance in instances:
                with self.driver.steps.contain(_MOVES, until_recount=True):
                    workarounds.moving_on([instance], self.host)
                with self.driver.steps.contain(_MOVES, until_recount=True):
                    left.update(workarounds.leaving([instance], self.host))
        # Nova goes on with this dict.
        self._counted = super()._update_usage_from_instances(
            context, [instance for instance in instances
                      if instance.uuid not in left], nodename)
        self._counted.update(left)
        return self._counted

    def _update_usage_from_migrations(self, context, migrations, nodename):
        """Count also those that Nova leaves out.

        Nova forgets in a recount what it claimed for the evacuation of an
        instance that was in error before, and misses what moves here while it
        reads. Nova also counts a failed move as part of the next move of the
        instance, on hosts that the next move does not concern. Leave out the
        failed move.
        """
        if self._ledger is None:
            super()._update_usage_from_migrations(
                context, migrations, nodename)
            return
        contain = self.driver.steps.contain
        began = []
        for migration in migrations:
            with contain(_MOVES, until_recount=True) as outcome:
                is_over = _is_over(migration)
            if outcome.problem or not is_over:
                began.append(migration)
        super()._update_usage_from_migrations(context, began, nodename)
        for migration in began:
            with contain(_MOVES, until_recount=True):
                if (migration.dest_compute == self.host and
                        not self._ledger.holds(migration.instance_uuid) and
                        _evacuates_from_error(migration)):
                    self._update_usage_from_migration(
                        context, migration.instance, migration, nodename)
        with contain(_MOVES, until_recount=True):
            for instance, migration in workarounds.returning(
                    context, self.host):
                with contain(_MOVES, until_recount=True):
                    if not self._ledger.holds(instance.uuid):
                        self._update_usage_from_migration(
                            context, instance, migration, nodename)
        with contain(_MOVES, until_recount=True):
            for instance in workarounds.arrived(
                    context, self.host, set(self._counted)):
                self._counted[instance.uuid] = instance
                with contain(_MOVES, until_recount=True):
                    if not self._ledger.holds(instance.uuid):
                        self._update_usage_from_instance(
                            context, instance, nodename)
        with contain('find the guests on stale CPU sets'):
            self.driver.guests.update_blocked(
                list(self._counted.values()), self._ledger.holds, {
                    migration.instance_uuid for migration in migrations
                    if allocations.is_open_migration(migration)})
        self._is_counted = True

    def _remove_deleted_instances_allocations(
            self, context, cn, migrations, instance_by_uuid):
        super()._remove_deleted_instances_allocations(
            context, cn, migrations, instance_by_uuid)
        if self._ledger is None or self.provider_tree is None:
            return
        with self.driver.steps.contain('heal the allocations', refuses=False):
            self.driver.healing.run(
                context, self.reportclient, cn,
                self.provider_tree.data(cn.hypervisor_hostname).inventory,
                list(filter(self.driver.manages, instance_by_uuid.values())))


def _is_over(migration):
    """Return whether a migration has failed and holds nothing any more.

    The source may still roll back a failed live migration, as long as its
    instance is migrating and has not begun another move.
    """
    if allocations.is_open_migration(migration):
        return False
    if not migration.is_live_migration or workarounds.never_began(migration):
        return True
    instance = _instance_of(migration)
    return (instance is None or
            instance.host != migration.source_compute or
            instance.task_state != task_states.MIGRATING or
            _has_moved_on(migration))


def _has_moved_on(migration):
    """Return whether the instance of a migration has begun another move."""
    return any(other.id > migration.id
               for other in objects.MigrationList.get_by_filters(
                   migration._context,
                   {'instance_uuid': migration.instance_uuid}))


def _evacuates_from_error(migration):
    if migration.migration_type != fields.MigrationType.EVACUATION:
        return False
    instance = _instance_of(migration)
    return (instance is not None and instance.vm_state == vm_states.ERROR and
            instance.task_state in task_states.rebuild_states)


def _instance_of(migration):
    """Return the instance of a migration, or None if it is deleted."""
    try:
        return migration.instance
    except exception.InstanceNotFound:
        return None
