# SPDX-License-Identifier: Apache-2.0

"""Make and give back the claims of a host."""

from nova.compute import resource_tracker
from nova import utils

from nova_prio.compute import incoming_migrations
from nova_prio.model import flavor_specs
from nova_prio.virt import demand


class ClaimHandling(incoming_migrations.IncomingMigrations):
    """Extend a ResourceTracker to make claims and give them back.

    This class stands before ResourceTracker in the bases of our tracker.
    """

    def instance_claim(self, context, instance, *args, **kwargs):
        """Claim for an instance that is created or unshelved here."""
        self._release_ended(context)
        return super().instance_claim(context, instance, *args, **kwargs)

    def resize_claim(self, context, instance, flavor, *args, **kwargs):
        """Claim for a resize or cold migration to this host."""
        self._release_ended(context)
        self._probe_partitions(flavor)
        return super().resize_claim(
            context, instance, flavor, *args, **kwargs)

    def rebuild_claim(self, context, instance, *args, **kwargs):
        """Claim for an evacuation to this host."""
        self._release_ended(context)
        self._probe_partitions(instance.flavor)
        return super().rebuild_claim(context, instance, *args, **kwargs)

    def live_migration_claim(self, context, instance, *args, **kwargs):
        """Claim for a live migration to this host."""
        self._release_ended(context)
        return super().live_migration_claim(
            context, instance, *args, **kwargs)

    def _probe_partitions(self, flavor):
        """Probe again whether guests start here, before a guest moves."""
        if (self.has_ledger and
                flavor_specs.EXTRA_SPEC in flavor.extra_specs and
                flavor_specs.get_priority(flavor.extra_specs) is not None):
            self.driver.probe_partitions()

    def abort_instance_claim(self, context, instance, nodename):
        """Give back the claim of a new instance."""
        self._give_back(super().abort_instance_claim, instance,
                        instance.numa_topology, context, instance, nodename)

    def drop_move_claim(self, context, instance, nodename, *args, **kwargs):
        """Give back the claim of an instance that moves to this host."""
        topology = self._get_migration_context_resource(
            'numa_topology', instance)
        self._give_back(super().drop_move_claim, instance, topology,
                        context, instance, nodename, *args, **kwargs)

    def _give_back(self, stock, instance, topology, *args, **kwargs):
        """Call a method of Nova that gives a claim back.

        Nova leaves a guest behind if libvirt went away while the guest was
        started. Block the CPUs of the claim if the guest may still run. The
        next recount asks libvirt for the guest. A confirmed or reverted resize
        leaves no guest behind.

        Ask libvirt without the lock of the tracker: a call that hangs must
        not stop the recount.

        :param stock: method of Nova, which takes the lock of the tracker again
        :param topology: nova.objects.InstanceNUMATopology of the claim, or
            None
        """
        if not self.has_ledger:
            stock(*args, **kwargs)
            return
        contain = self.driver.steps.contain
        cpus = frozenset()
        with contain('ask libvirt for the guest of a claim',
                     refuse_until_recount=True):
            # If libvirt fails, all these CPUs are blocked below.
            cpus = frozenset(demand.get_topology_pins(topology))
            if cpus:
                cpus = self.driver.guests.find_cpus_in_use(
                    instance.uuid, cpus)

        @utils.synchronized(
            resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
        def give_back():
            """Block the CPUs in use, then give the claim back."""
            with contain('keep the CPUs of a guest',
                         refuse_until_recount=True):
                self.driver.guests.block(instance.uuid, cpus)
            stock(*args, **kwargs)

        give_back()
