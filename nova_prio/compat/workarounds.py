# SPDX-License-Identifier: Apache-2.0

"""Workarounds for bugs in the counts and claims of Nova's resource tracker.

Each docstring names a bug, its effect and its test in ``tests/functional``.
All bugs affect Nova 31 to 34 and are open. "No number" means that no Launchpad
bug is known; the numbers beside it are those of other bugs.

If all supported releases of Nova repair a bug, delete the code: the test must
still pass. Four workarounds are one line of an override each:

* ``obj_reset_changes`` in ``rollback_live_migration_at_destination`` of
  :mod:`nova_prio.virt.libvirt.live_migration`. Bug 1894095: the clean-up of a
  failed live migration saves the CPUs of the destination in the instance.
  Without this workaround, the record of the instance is wrong.
  Test: ``test_live_migration``, ``test_cleaning_up_after_a_failure``.
* ``migration_context = None`` in ``rebuild`` of
  :mod:`nova_prio.virt.libvirt.driver`. No number (a side effect of the
  fix of 1499028): a rebuild on the same host applies and saves the claim of a
  failed move. Without this workaround, the record of the instance is wrong.
  Test: ``test_unfinished_migrations``,
  ``test_rebuild_before_audit_drops_claim_and_keeps_allocations``.
* ``drop_migration_context`` in ``instance_claim`` of
  :mod:`nova_prio.compute.resource_tracker`. No number (a side effect of the
  fix of 1953359): if the migration of a failed move led to a host on which the
  instance is unshelved later, each recount there applies the claim of this
  move. Without this workaround, a host that has restarted keeps the CPUs of
  the claim, which may be those of another instance.
  Test: ``test_in_flight_moves``,
  ``test_first_recount_ignores_claim_of_failed_move``.
* ``correct_cpus`` in ``_move_claim`` of the same module, and in ``use_lease``
  of :mod:`nova_prio.compute.start_gate`. No number: a resize on its host that
  fails leaves the new CPUs in the record of the instance, which keeps its old
  ones. If nova-compute dies before the guest starts on the destination, the
  record has the CPUs of the source. Without this workaround, the next claim
  replaces the migration context, which has the right CPUs, and the record of
  the instance stays wrong. Or the guest starts on CPUs of another instance
  when the host boots.
  Test: ``test_failed_resizes``, ``test_old_cpus_survive_next_move`` and
  ``test_guest_starts_on_cpus_of_destination``.
"""

from nova.compute import task_states
from nova import exception
from nova import objects
from oslo_log import log as logging

from nova_prio.objects import migration_states

LOG = logging.getLogger(__name__)


class MoveWorkarounds:
    """Extend a ResourceTracker to claim for moves correctly.

    This class stands before ResourceTracker in the bases of our tracker. It
    uses only attributes of Nova's tracker, and the driver.
    """

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
            LOG.exception('The claim for a live migration has failed.',
                          instance=instance)
            raise exception.ComputeResourcesUnavailable(
                reason='The claim has failed: %s' % error) from error

    def _move_claim(self, context, instance, new_flavor, nodename, migration,
                    *args, **kwargs):
        """Claim for a move; prepare Nova's tracker for the claim.

        Bug: (a) Nova forgets the PCI devices that a failed move has claimed.
        (b) For a live migration, Nova saves new PCI requests, but claims the
        devices for the old ones. (c) Nova saves a migration context with each
        claim. For a live migration of an instance without a NUMA topology,
        only this package makes a claim.
        Without this workaround: (a) a later recount, which is a run of the
        periodic task, may allocate these devices to the instance. Nova gives a
        guest all devices that are allocated to its instance, also those of
        another host. (b) The guest cannot be started again after the live
        migration. (c) The context stays. The next live migration may lead to a
        host without this package, which makes no new context. Then the context
        names an older migration, and a recount takes the present one for
        stale, and sets it to "error".
        Test: ``test_live_migration``, (a)
        ``Devices.test_checks_that_fail_after_the_claim``, (b)
        ``Devices.test_claims_that_fail``, (c)
        ``test_aborted_before_it_began``.
        """
        # (a) Free the claims that are left of a failed move to this host. But
        # if the instance is on this host, the claims may be its own. The
        # driver manages the instances with a priority and, with
        # ``cpu_priority_mix_enable``, all: leave the others to stock Nova.
        if (self.pci_tracker and instance.host != self.host and
                self.driver.manages(instance)):
            self.pci_tracker.free_instance_claims(context, instance)
        if not self.keeps_pci_requests(instance, migration):
            return super()._move_claim(context, instance, new_flavor, nodename,
                                       migration, *args, **kwargs)
        # (b) The PCI alias in the flavor may have changed, or may not exist on
        # this host: claim for the requests of the instance alone.
        flavor = new_flavor.obj_clone()
        flavor.extra_specs.pop('pci_passthrough:alias', None)
        claim = None
        try:
            claim = super()._move_claim(context, instance, flavor, nodename,
                                        migration, *args, **kwargs)
            return claim
        finally:
            # (c) Nova itself claims nothing for an instance without a NUMA
            # topology, and saves no migration context. Drop the context of
            # such a claim, and that of a claim that has failed.
            if claim is None or not claim.claimed_numa_topology:
                instance.drop_migration_context()

    def keeps_pci_requests(self, instance, migration):
        """Return whether a claim must keep the instance's PCI requests.

        Bug: for a live migration, Nova makes new requests from the flavor and
        saves them, but claims the devices for the old requests.
        Without this workaround: no device belongs to the new requests, and the
        guest cannot be started again after the live migration.
        Test: ``test_live_migration``,
        ``Devices.test_guests_start_again_on_their_host``.

        :returns: True for a live migration of an instance that the driver
            manages: one with a priority or, with ``cpu_priority_mix_enable``,
            any. Stock Nova handles all others.
        """
        return (migration is not None and migration.is_live_migration and
                self.driver.manages(instance))

    def _update_usage_from_migration(self, context, instance, migration,
                                     nodename):
        """Count a move, and keep the devices of a live migration claimed.

        A claimed device is only kept for the instance, and an allocated one is
        part of its guest.

        Bug: a recount, which counts the resources of the host from zero,
        allocates the devices that a live migration to this host has claimed.
        Without this workaround: if the migration then fails, the host that it
        tries next gives the guest the devices of both hosts.
        Test: ``test_live_migration``,
        ``Devices.test_the_next_host_of_one_migration``.
        """
        # Nova allocates the devices that are in ``pci_tracker.claims``: take
        # them out while Nova counts the move, and put them back afterwards.
        claimed = None
        # An error in this block is logged, and does not fail Nova's recount.
        # The host then refuses priority instances until the next recount.
        # keeps_pci_requests selects the live migrations of instances that the
        # driver manages. For one that leaves the host, pop() finds no claim.
        with self.driver.priority_host.steps.contain(
                'keep the PCI devices of a live migration claimed',
                refuse_until_recount=True):
            if self.keeps_pci_requests(instance, migration):
                claimed = self.pci_tracker.claims.pop(instance.uuid, None)
        try:
            super()._update_usage_from_migration(
                context, instance, migration, nodename)
        finally:
            if claimed:
                self.pci_tracker.claims[instance.uuid] = claimed

    def delete_allocation_for_evacuated_instance(
            self, context, instance, node, node_type='source'):
        """Delete the allocation of an evacuation, but of nothing else.

        Bug: no number. If a rebuild fails on the host of the instance, Nova
        takes the rebuild for an evacuation to this host.
        Without this workaround: this package may refuse to start the rebuilt
        guest, because another instance has its CPUs. Then the old guest keeps
        running, but its instance loses the allocation.
        Test: ``test_start_gate``,
        ``test_refused_rebuild_keeps_guest_and_allocation``.
        """
        # No instance is evacuated to its own host: this was a rebuild.
        if node_type == 'destination' and instance.host == self.host:
            return
        super().delete_allocation_for_evacuated_instance(
            context, instance, node, node_type=node_type)


def may_count(migration, is_first):
    """Return whether a recount of the host's resources may count a migration.

    Bug: no number (a side effect of Nova's commit 255b3f2f91). Nova also lists
    the migrations with the status "error". While the instance is in its next
    move, Nova counts such a failed migration as if it were this move, and
    keeps the PCI devices that it has claimed.
    Without this workaround: a host counts the next move twice, for the failed
    migration and again when it claims. Or it counts a move that does not
    concern the host. Both last until the next recount. The devices stay
    claimed as long as there is a record of the failed migration.
    Test: ``test_in_flight_moves``,
    ``test_evacuation_to_source_of_failed_move``,
    ``test_migration_after_failed_live_migration``; for the devices
    ``test_live_migration``, ``Devices.test_checks_that_fail_after_the_claim``.

    :param migration: nova.objects.Migration from or to the host
    :param is_first: whether this is the first recount since nova-compute has
        started. Only then a failed migration that is still cleaning up must be
        counted: later, nova-compute itself remembers the CPUs of each move.
    """
    if migration_states.is_open(migration):
        return True
    if not is_first:
        return False
    # A migration that has failed may still be cleaning up: the instance then
    # has a task, and the migration context of this migration.
    instance = migration_states.get_instance(migration._context, migration)
    return (instance is not None and instance.task_state is not None and
            migration_states.has_context_of(instance, migration))


def restore_own_cpus(instance, host):
    """Give an instance back the CPUs of its record, before they are counted.

    Bug: no number (a side effect of the fix of 1953359). Nova applies the
    migration context of an instance if any open or failed migration leads to
    the host. The context may belong to a later move, away from the host. Or it
    may belong to an unfinished resize on the host: Nova counts the new CPUs
    for this resize anyway, and would not count the old ones.
    Without this workaround: nova-compute keeps the CPU numbers of another host
    for the instance. It does not if it remembers CPUs of this host for the
    instance. But it remembers none after a restart, nor for an instance that
    has no pinned CPUs here.
    Test: ``test_in_flight_moves``, ``test_first_recount_ignores_later_move``.
    """
    if migration_states.keeps_old_cpus(instance, host):
        instance.revert_migration_context()


def find_returning(context, host, migrations):
    """Yield the instances that may come back to a host.

    Bug: no number (related to 1879878). Until a revert ends, the instance has
    the destination as host, or the new flavor if it was resized on its host.
    The source does not count what it had there before. Neither does it if the
    state of the instance does not say that it moves: it could not start on the
    destination, or an administrator has reset the state.
    Without this workaround: if nova-compute was restarted meanwhile, the
    source gives the CPUs of the instance away, just before the guest starts on
    them.
    Test: ``test_in_flight_moves``,
    ``test_restarted_source_counts_instance_that_a_revert_returns``,
    ``test_restarted_source_counts_move_of_instance_with_reset_state``.

    :param context: nova.context.RequestContext of the cell, of an
        administrator
    :param host: name of the source host
    :param migrations: nova.objects.MigrationList of the open moves from and to
        the host
    :returns: iterator of (nova.objects.Instance, nova.objects.Migration); Nova
        may have counted some of them
    """
    for filters in (
            {'task_state': task_states.RESIZE_REVERTING},
            {'uuid': [migration.instance_uuid for migration in migrations]}):
        for instance in objects.InstanceList.get_by_filters(context, filters):
            migration = migration_states.get_last_move(instance)
            if (migration and migration.source_compute == host and
                    migration_states.may_come_back(instance, migration)):
                yield instance, migration
