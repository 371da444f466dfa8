# SPDX-License-Identifier: Apache-2.0

"""Release the claims of live migrations to this host that have ended.

Nova does not always tell the destination that a live migration failed. If the
instance has no NUMA topology, the source does not know of the claim. If the
migration is aborted while it is queued, or if a check fails after the claim,
nobody drops any claim. Therefore the destination reads the migration records
of its claims: before each new claim, and every second until all of them have
ended. It recounts after a success as well: until then Nova tracks the instance
as a migration.
"""

import threading

from nova.compute import resource_tracker
from nova import exception
from nova import objects
from nova import utils
from oslo_log import log as logging

from nova_prio.compat import workarounds
from nova_prio.placement import allocations

LOG = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1


class IncomingMigrations:
    """Extend a ResourceTracker for live migrations to its host.

    This class stands before ResourceTracker in the bases of our tracker.
    """

    # The thread that reads the migration records; None if there is no claim.
    _watcher = None

    def instance_claim(self, context, instance, *args, **kwargs):
        """Claim for an instance that is created or unshelved here."""
        self._release_ended(context)
        return super().instance_claim(context, instance, *args, **kwargs)

    def _update_usage_from_migration(self, context, instance, migration,
                                     nodename):
        super()._update_usage_from_migration(
            context, instance, migration, nodename)
        if self._ledger is not None and (
                migration.dest_compute == self.host != instance.host):
            self._ledger.expect(instance.uuid)
            if migration.is_live_migration and self.driver.manages(instance):
                self._start_watcher(context)

    def _start_watcher(self, context):
        """Start the watcher; the caller holds the lock of the tracker."""
        if self._watcher is not None:
            return
        self._watcher = threading.Thread(
            target=self._watch, args=(context.elevated(),), daemon=True)
        try:
            self._watcher.start()
        except RuntimeError:
            self._watcher = None
            LOG.exception('Host %s: the claims of live migrations that end '
                          'are not released before the next recount.',
                          self.host)

    def _watch(self, context):
        """Release claims until there are no more live migrations to here.

        If a release fails, the watcher ends: the next claim or recount starts
        another one.
        """
        while not self.driver.is_stopping.wait(_INTERVAL_SECONDS):
            if not self._keeps_watching(self._release_ended(context)):
                break

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _keeps_watching(self, is_released):
        if not is_released or not self._incoming():
            self._watcher = None
        return self._watcher is not None

    def _incoming(self):
        """Return the tracked live migrations that have not arrived here."""
        return [migration
                for uuid, migration in list(self.tracked_migrations.items())
                if migration.is_live_migration and
                migration.dest_compute == self.host and
                uuid not in self.tracked_instances]

    def _release_ended(self, context):
        """Recount if a live migration to this host has ended.

        :param context: nova.context.RequestContext
        :returns: whether no claim of a migration that has ended is left
        """
        if self._ledger is None:
            return True
        try:
            incoming = self._incoming()
            ended = _ended(context.elevated(), incoming)
            for migration in ended:
                self._forget(context.elevated(), migration)
            if ended:
                self.update_available_resource(context, incoming[0].dest_node)
            tracked = {migration.uuid for migration in self._incoming()}
            return tracked.isdisjoint(migration.uuid for migration in ended)
        except Exception:
            LOG.exception('Host %s: the claims of live migrations that have '
                          'ended are not released before the next recount.',
                          self.host)
            return False

    def _forget(self, context, migration):
        """Free what the next recount would leave claimed.

        These are the PCI devices on this host. If the migration was aborted,
        these are also, in the database, the CPUs of this host with which a
        rebuild would start the guest at its source. After an error the audit
        finds the migration by them.
        """
        try:
            instance = objects.Instance.get_by_uuid(
                context, migration.instance_uuid,
                expected_attrs=['migration_context', 'pci_devices'])
        except exception.InstanceNotFound:
            return
        if (not self.driver.manages(instance) or instance.host == self.host or
                self.driver.guests.is_running(instance.uuid)):
            # Stock Nova forgets nothing, and a guest may run here whatever
            # became of the migration.
            return
        LOG.info('Releasing the claim of the live migration %s, which has '
                 'ended.', migration.uuid, instance=instance)
        self._free_devices(context, instance, migration)
        claimed = instance.migration_context
        if (migration.status == 'cancelled' and
                instance.task_state is None and claimed and
                claimed.migration_id == migration.id):
            instance.drop_migration_context()

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _free_devices(self, context, instance, migration):
        tracked = self.tracked_migrations.get(instance.uuid)
        # Otherwise the instance is on its way to here again.
        if self.pci_tracker and tracked and tracked.id == migration.id:
            self.pci_tracker.free_instance_claims(context, instance)


def _ended(context, migrations):
    """Return the live migrations that no longer go to their destination.

    :param migrations: list of nova.objects.Migration, as they were claimed for
    :returns: list of nova.objects.Migration, as they are now
    """
    found = objects.MigrationList.get_by_filters(
        context, {'uuid': [migration.uuid for migration in migrations]}
    ) if migrations else []
    now = {migration.uuid: migration for migration in found}
    return [now.get(migration.uuid, migration) for migration in migrations
            if _has_ended(migration, now.get(migration.uuid))]


def _has_ended(migration, now):
    """Return whether a live migration no longer goes to its destination.

    :param now: its record as it is now; None if it was deleted
    """
    if now is None:
        return True
    if allocations.is_open_migration(now):
        # The conductor tries other hosts if a check failed on this one.
        return now.dest_compute != migration.dest_compute
    if now.status != 'error' or workarounds.never_began(now):
        return True
    # The source may still roll it back, and drop the claim itself.
    try:
        return not resource_tracker._instance_is_live_migrating(now.instance)
    except exception.InstanceNotFound:
        return True
