# SPDX-License-Identifier: Apache-2.0

"""Workarounds for bugs in what Nova's resource tracker claims for moves.

Each docstring names a bug, its effect and its test, as in
:mod:`nova_prio.compat.workarounds`. All bugs affect Nova 31 to 34 and are
open. A bug has no Launchpad number unless its docstring names one.

Stock Nova makes no claim for the live migration of an instance without a NUMA
topology. A destination with our driver does, and thereby leads more instances
into these bugs.
"""

from nova.compute import resource_tracker
from nova import exception
from nova import utils
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class ClaimWorkarounds:
    """Extend a ResourceTracker to count and claim moves correctly.

    This class stands before ResourceTracker in the bases of our tracker.
    """

    def update_usage(self, context, instance, nodename):
        """Update the usage after a change of an instance, also if it moved.

        Bug: until the next recount, Nova tracks an instance that came from
        another host only as a migration, and an instance that was resized on
        this host not at all.
        Without this workaround: if the instance is deleted or shelved before
        the recount, its CPUs stay in use until then.
        Test: ``test_accounting``, ``Histories.test_usage_without_recounts``.
        """
        if self.has_ledger:
            with self.driver.steps.contain(
                    'count an instance that has moved',
                    refuse_until_recount=True):
                self._track_as_resident(instance)
        super().update_usage(context, instance, nodename)

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _track_as_resident(self, instance):
        if (self.driver.ledger.holds(instance.uuid) and
                not resource_tracker._instance_in_resize_state(instance) and
                not resource_tracker._instance_is_live_migrating(instance)):
            self.driver.ledger.settle(instance.uuid)
            self.tracked_migrations.pop(instance.uuid, None)
            self.tracked_instances.add(instance.uuid)

    def live_migration_claim(self, context, instance, *args, **kwargs):
        """Claim for a live migration to this host.

        Bug: 2044235, whose fix covers only some errors. The conductor sets the
        instance to ERROR for each error that it does not know.
        Without this workaround: if Placement does not answer during the claim,
        a running instance ends in ERROR instead of trying the next host.
        Test: ``test_live_migration``, ``Devices.test_claims_that_fail``.

        :raises nova.exception.ComputeResourcesUnavailable: for each error
        """
        try:
            return super().live_migration_claim(
                context, instance, *args, **kwargs)
        except exception.ComputeResourcesUnavailable:
            raise
        except Exception as error:
            if not self.has_ledger:
                # The host does not run our driver.
                raise
            LOG.exception('The claim for a live migration has failed.',
                          instance=instance)
            raise exception.ComputeResourcesUnavailable(
                reason='The claim has failed: %s' % error) from error

    def _move_claim(self, context, instance, new_flavor, nodename, migration,
                    *args, **kwargs):
        """Claim for a move; prepare Nova's tracker for the claim.

        Bug: (a) Nova forgets the PCI devices that a failed move has claimed.
        (b) For a live migration, see ``keeps_pci_requests``. (c) A claim that
        fails leaves its migration context in the instance.
        Without this workaround: (a) the guest is given devices of another
        host. (c) A rebuild applies CPU numbers of the other host.
        Test: ``test_live_migration``, (a) ``Devices``, (b)
        ``Devices.test_claims_that_fail``, (c)
        ``test_rebuild_after_a_claim_that_failed``.
        """
        if self.has_ledger:
            if instance.host == self.host:
                # A resize on this host: an earlier move has ended.
                self.driver.ledger.settle(instance.uuid)
            elif self.pci_tracker and self.driver.manages(instance):
                self.pci_tracker.free_instance_claims(context, instance)
        if not self.keeps_pci_requests(instance, migration):
            return super()._move_claim(context, instance, new_flavor, nodename,
                                       migration, *args, **kwargs)
        # The alias may have changed, or may not exist on this host.
        flavor = new_flavor.obj_clone()
        flavor.extra_specs.pop('pci_passthrough:alias', None)
        has_claimed_cpus = False
        try:
            claim = super()._move_claim(context, instance, flavor, nodename,
                                        migration, *args, **kwargs)
            has_claimed_cpus = bool(claim.claimed_numa_topology)
            return claim
        finally:
            if not has_claimed_cpus:
                instance.drop_migration_context()

    def keeps_pci_requests(self, instance, migration):
        """Return whether a claim must keep the instance's PCI requests.

        Bug: for a live migration, Nova makes new requests from the flavor and
        saves them, but claims the devices for the old requests.
        Without this workaround: the guest cannot be started again after the
        live migration.
        Test: ``test_live_migration``,
        ``Devices.test_guests_start_again_on_their_host``.
        """
        return (self.has_ledger and migration is not None and
                migration.is_live_migration and self.driver.manages(instance))

    def _update_usage_from_migration(self, context, instance, migration,
                                     nodename):
        """Count a move, and keep the devices of a live migration claimed.

        Bug: a recount allocates the devices that a live migration to this
        host has claimed. If the migration then fails, nobody frees them.
        Without this workaround: the devices stay in use. Or the host that the
        migration tries next takes them for its own, and the instance ends in
        ERROR.
        Test: ``test_live_migration``,
        ``Devices.test_the_next_host_of_one_migration``.
        """
        # Nova allocates the devices in ``pci_tracker.claims``: hide them while
        # Nova counts the move.
        claimed = None
        if self.has_ledger:
            with self.driver.steps.contain(
                    'keep the PCI devices of a live migration claimed',
                    refuse_until_recount=True):
                claimed = self.keeps_pci_requests(instance, migration) and (
                    self.pci_tracker.claims.pop(instance.uuid, None))
        try:
            super()._update_usage_from_migration(
                context, instance, migration, nodename)
        finally:
            if claimed:
                self.pci_tracker.claims[instance.uuid] = claimed

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def free_devices(self, context, instance, migration):
        """Free the devices of a live migration to this host that has ended.

        For the bug and its test, see ``_update_usage_from_migration``.
        """
        tracked = self.tracked_migrations.get(instance.uuid)
        # With another id, the instance moves to this host again, and keeps
        # its devices.
        if self.pci_tracker and tracked and tracked.id == migration.id:
            self.pci_tracker.free_instance_claims(context, instance)
