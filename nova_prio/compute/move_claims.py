# SPDX-License-Identifier: Apache-2.0

"""What the resource tracker claims for instances that move to its host."""

from nova.compute import resource_tracker
from nova import exception
from nova import utils
from oslo_log import log as logging

from nova_prio.compute import incoming_migrations
from nova_prio.model import flavor_specs

LOG = logging.getLogger(__name__)


class MoveClaims(incoming_migrations.IncomingMigrations):
    """What a ResourceTracker does otherwise when instances move.

    Stands before it in the order of the bases of our tracker.
    """

    def resize_claim(self, context, instance, flavor, *args, **kwargs):
        """Claim for a resize or cold migration to here."""
        self._release_ended(context)
        self._probe_partitions(flavor)
        return super().resize_claim(
            context, instance, flavor, *args, **kwargs)

    def rebuild_claim(self, context, instance, *args, **kwargs):
        """Claim for an evacuation to here."""
        self._release_ended(context)
        self._probe_partitions(instance.flavor)
        return super().rebuild_claim(context, instance, *args, **kwargs)

    def live_migration_claim(self, context, instance, *args, **kwargs):
        """Claim for a live migration to here.

        :raises nova.exception.ComputeResourcesUnavailable: whatever it was
            that failed; Nova takes all else for the end of an instance which
            runs on, and may fit elsewhere
        """
        self._release_ended(context)
        try:
            return super().live_migration_claim(
                context, instance, *args, **kwargs)
        except exception.ComputeResourcesUnavailable:
            raise
        except Exception as error:
            if self._ledger is None:
                raise
            LOG.exception('The claim for a live migration has failed.',
                          instance=instance)
            raise exception.ComputeResourcesUnavailable(
                reason='The claim has failed: %s' % error) from error

    def _probe_partitions(self, flavor):
        """Look anew whether guests start here, before they have moved."""
        if (self._ledger is not None and
                flavor_specs.EXTRA_SPEC in flavor.extra_specs and
                flavor_specs.get_priority(flavor.extra_specs) is not None):
            self.driver.probe_partitions()

    def update_usage(self, context, instance, nodename):
        """Update the usage after a change of an instance, also if it moved.

        Nova tracks an instance that moved here and stays as a migration until
        the next recount, and one that was resized here not at all. Both count
        on, whatever becomes of them in the meantime.
        """
        if self._ledger is not None:
            with self.driver.steps.contain(
                    'count an instance that has moved', until_recount=True):
                self._track_as_resident(instance)
        super().update_usage(context, instance, nodename)

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _track_as_resident(self, instance):
        if (self._ledger.holds(instance.uuid) and
                not resource_tracker._instance_in_resize_state(instance) and
                not resource_tracker._instance_is_live_migrating(instance)):
            self._ledger.settle(instance.uuid)
            self.tracked_migrations.pop(instance.uuid, None)
            self.tracked_instances.add(instance.uuid)

    def _move_claim(self, context, instance, new_flavor, nodename, migration,
                    *args, **kwargs):
        if self._ledger is not None:
            if instance.host == self.host:
                # A resize on this host: what moved here before lives here now.
                self._ledger.settle(instance.uuid)
            elif self.pci_tracker:
                # Nova forgets what a move has claimed that failed.
                self.pci_tracker.free_instance_claims(context, instance)
        if not self.keeps_requests(migration):
            return super()._move_claim(context, instance, new_flavor, nodename,
                                       migration, *args, **kwargs)
        # The aliases may have changed, or not be known here.
        flavor = new_flavor.obj_clone()
        flavor.extra_specs.pop('pci_passthrough:alias', None)
        has_claimed = False
        try:
            claim = super()._move_claim(context, instance, flavor, nodename,
                                        migration, *args, **kwargs)
            has_claimed = bool(claim.claimed_numa_topology)
            return claim
        finally:
            if not has_claimed:
                # Stock Nova has none without a topology, and may leave it.
                instance.drop_migration_context()

    def _update_usage_from_migration(self, context, instance, migration,
                                     nodename):
        """Count what moves, and leave devices claimed until it has moved.

        In a recount, Nova allocates those that a live migration to here has
        claimed. If it fails, they are not freed any more, and if it is tried
        on another host by then, the devices there are taken for these.
        """
        claimed = None
        if self._ledger is not None:
            with self.driver.steps.contain(
                    'keep the PCI devices of a live migration claimed',
                    until_recount=True):
                claimed = self.keeps_requests(migration) and (
                    self.pci_tracker.claims.pop(instance.uuid, None))
        try:
            super()._update_usage_from_migration(
                context, instance, migration, nodename)
        finally:
            if claimed:
                self.pci_tracker.claims[instance.uuid] = claimed

    def keeps_requests(self, migration):
        """Return whether an instance keeps its requests for PCI devices.

        Nova claims the devices of a live migration by the requests that the
        instance has. With new ones, which it reads from the flavor for the
        claim, it does not find what the devices are for, and the guest does
        not start again.

        :param migration: nova.objects.Migration, or None
        """
        return (self._ledger is not None and migration is not None and
                migration.is_live_migration)
