# SPDX-License-Identifier: Apache-2.0

"""Release the claims of live migrations to this host that have ended.

Nova does not always tell the destination that a live migration failed:

* If the instance has no NUMA topology, the source does not know of the claim.
* If the migration is aborted while it is queued, or if a check fails after
  the claim, nobody drops the claim (the part that the fix of Launchpad bug
  1949808 left open).

Therefore the destination reads the migration records of its claims: before
each new claim, and every second until all of them have ended. The destination
recounts after a success as well: until then Nova tracks the instance as a
migration.
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
    # UUIDs of the live migrations to this host whose claims the thread
    # releases. Nova handles the migrations of instances that the driver does
    # not manage.
    _watched = frozenset()

    def update_available_resource(self, context, nodename, startup=False):
        """Recount without the live migrations to this host that have ended."""
        if self.has_ledger:
            with self.driver.steps.contain(
                    'forget the live migrations that have ended',
                    refuse_on_error=False):
                for migration in _find_ended(context, self._get_incoming()):
                    self._forget(context, migration)
        super().update_available_resource(context, nodename, startup=startup)

    def _update_usage_from_migration(self, context, instance, migration,
                                     nodename):
        """Count a move, and watch a live migration to this host.

        The watcher releases the claim when the live migration has ended.
        """
        super()._update_usage_from_migration(
            context, instance, migration, nodename)
        if self.has_ledger and (
                migration.dest_compute == self.host != instance.host):
            self._ledger.mark_incoming(instance.uuid)
            if migration.is_live_migration and self.driver.manages(instance):
                self._watched |= {migration.uuid}
                self._start_watcher(context)

    def _start_watcher(self, context):
        """Start the watcher of live migrations if it does not run.

        The caller holds the lock of the tracker.
        """
        if self._watcher is not None:
            return
        self._watcher = threading.Thread(
            target=self._watch, args=(context.elevated(),), daemon=True)
        try:
            self._watcher.start()
        except RuntimeError:
            self._watcher = None
            self._log_unreleased_claims()

    def _watch(self, context):
        """Release claims until no live migration to this host is open.

        If a release fails, the watcher ends. The next claim or recount starts
        another one.
        """
        while not self.driver.is_stopping.wait(_INTERVAL_SECONDS):
            if not self._keeps_watching(self._release_ended(context)):
                break

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _keeps_watching(self, is_released):
        """Return whether the watcher goes on; forget the arrived migrations.

        :param is_released: whether the claims of all ended migrations are
            released
        """
        self._watched = frozenset(
            migration.uuid for migration in self._get_incoming())
        # After an error, the next recount starts a new watcher.
        if not is_released or not self._watched:
            self._watcher = None
        return self._watcher is not None

    def _get_incoming(self):
        """Return the watched live migrations that have not arrived here."""
        return [migration
                for uuid, migration in list(self.tracked_migrations.items())
                if migration.uuid in self._watched and
                uuid not in self.tracked_instances]

    def _release_ended(self, context):
        """Recount if a live migration to this host has ended.

        :returns: whether no claim of an ended migration is left
        """
        # With another driver, the tracker does not watch migrations.
        if not self.has_ledger:
            return True
        try:
            claimed = self._get_incoming()
            ended = _find_ended(context.elevated(), claimed)
            if ended:
                # The host has one node. The migrations in ``ended`` may name
                # another node by now.
                self.update_available_resource(context, claimed[0].dest_node)
            still_claimed = {
                migration.uuid for migration in self._get_incoming()}
            return still_claimed.isdisjoint(
                migration.uuid for migration in ended)
        except Exception:
            self._log_unreleased_claims()
            return False

    def _log_unreleased_claims(self):
        LOG.exception('Host %s: the claims of live migrations that have ended '
                      'are not released before the next recount.', self.host)

    def _forget(self, context, migration):
        """Free the resources that the next recount would leave claimed.

        These are the PCI devices on this host. If the migration was aborted,
        the instance also keeps the CPUs of this host in the database, and a
        rebuild would start the guest on them: drop them. After an error keep
        them, because the audit finds the migration by them.
        """
        try:
            instance = objects.Instance.get_by_uuid(
                context, migration.instance_uuid,
                expected_attrs=['migration_context', 'pci_devices'])
        except exception.InstanceNotFound:
            return
        if instance.host == self.host or (
                self.driver.guests.is_running(instance.uuid)):
            # A guest may run here whatever became of the migration.
            return
        LOG.info('Releasing the claim of the live migration %s, which has '
                 'ended.', migration.uuid, instance=instance)
        self.free_devices(context, instance, migration)
        claimed = instance.migration_context
        if (migration.status == 'cancelled' and
                instance.task_state is None and claimed and
                claimed.migration_id == migration.id):
            instance.drop_migration_context()


def _find_ended(context, migrations):
    """Return the present records of the migrations that have ended, a list."""
    found = objects.MigrationList.get_by_filters(
        context, {'uuid': [migration.uuid for migration in migrations]}
    ) if migrations else []
    now = {migration.uuid: migration for migration in found}
    return [now.get(migration.uuid, migration) for migration in migrations
            if _has_ended(migration, now.get(migration.uuid))]


def _has_ended(migration, record):
    """Return whether a live migration no longer goes to its destination.

    :param record: present record of ``migration``; None if it was deleted
    """
    if record is None:
        return True
    if allocations.is_open_migration(record):
        # The conductor tries other hosts if a check failed on this host.
        return record.dest_compute != migration.dest_compute
    # After an error the source may still roll back and drop the claim itself.
    return record.status != 'error' or workarounds.is_over(record)
