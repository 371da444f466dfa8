# SPDX-License-Identifier: Apache-2.0

"""Release the claims of live migrations to this host that have ended.

Nova does not always tell the destination that a live migration failed:

* If the instance has no NUMA topology, the source does not know of the claim.
* If the migration is aborted while it is queued, or if a check fails after
  the claim, nobody drops the claim (the part that the fix of Launchpad bug
  1949808 left open).

Therefore the destination reads the migration records of its claims: before
each new claim, and every second until all of them have ended. Then it
recounts: it counts the resources of the host from zero, and the lease of the
instance on the host ends (:mod:`nova_prio.model.leases`). The destination
recounts after a success as well: until then Nova tracks the instance as a
migration.
"""

import threading

from nova import objects
from oslo_log import log as logging

from nova_prio.objects import migration_states

LOG = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1


class LiveMigrationWatcher:
    """Watch the live migrations to the host of a PriorityResourceTracker.

    Nova alone handles the migrations of instances that the driver does not
    manage.
    """

    def __init__(self, tracker):
        """Watch no migration yet."""
        self._tracker = tracker
        self._lock = threading.Lock()
        # UUID of a migration -> nova.objects.Migration, as it was claimed.
        self._watched = {}
        # The thread that reads the migration records; None if there is no
        # claim.
        self._thread = None

    def watch(self, context, migration):
        """Release the claim of a live migration when the latter has ended.

        A thread reads the migration records every second until then. There is
        one thread for all migrations.

        :param migration: nova.objects.Migration, as it was claimed
        """
        with self._lock:
            self._watched[migration.uuid] = migration
            if self._thread:
                return
            thread = threading.Thread(
                target=self._run, args=(context.elevated(),), daemon=True)
            thread.start()
            self._thread = thread

    def _run(self, context):
        """Release claims until no live migration to this host is watched.

        If a release fails, the thread ends. The next claim for a live
        migration starts another one, and so does the next recount, which is a
        run of the periodic task, if it counts one.
        """
        is_stopping = self._tracker.driver.is_stopping
        while not is_stopping.wait(_INTERVAL_SECONDS):
            is_released = self.release_ended(context)
            with self._lock:
                if not is_released or not self._watched:
                    self._thread = None
                    return

    def release_ended(self, context):
        """Recount if a live migration to this host has ended.

        A recount counts the resources of the host from zero, and thus releases
        the claim. An error is logged and not raised.

        :returns: whether no error occurred
        """
        try:
            ended = self._find_ended(context.elevated())
            if ended:
                # A libvirt host has one node. The records of the migrations
                # may name another one by now.
                nodename, = self._tracker.compute_nodes
                self._tracker.update_available_resource(context, nodename)
                with self._lock:
                    for uuid in ended:
                        self._watched.pop(uuid, None)
            return True
        except Exception:
            LOG.exception('Host %s: the claims of live migrations that have '
                          'ended are not released before the next recount.',
                          self._tracker.host)
            return False

    def _find_ended(self, context):
        """Return the UUIDs of the watched migrations that have ended.

        A migration has ended for this host, too, if its record was deleted, or
        has another destination now: if a check fails on this host, the
        conductor tries another host with the same record.
        """
        with self._lock:
            watched = dict(self._watched)
        if not watched:
            return []
        found = objects.MigrationList.get_by_filters(
            context, {'uuid': list(watched)})
        records = {migration.uuid: migration for migration in found}
        return [uuid for uuid, migration in watched.items()
                if migration_states.has_left_destination(
                    migration, records.get(uuid))]
