# SPDX-License-Identifier: Apache-2.0

"""Keep the CPUs of claims that the resource tracker gives back."""

from nova.compute import resource_tracker
from nova import utils

from nova_prio.virt import demand


class ClaimReleases:
    """Keep the CPUs of a claim that is given back while its guest may run.

    Nova leaves a guest behind if libvirt went away while the guest was
    started. The next recount asks libvirt for it. Before Nova confirms or
    reverts a resize, it ends the guest that has the CPUs, or fails.

    Stands before a ResourceTracker in the order of the bases of our tracker.
    """

    def abort_instance_claim(self, context, instance, nodename):
        """Give back the claim of a new instance."""
        self._give_back(super().abort_instance_claim, instance,
                        instance.numa_topology, context, instance, nodename)

    def drop_move_claim(self, context, instance, nodename, *args, **kwargs):
        """Give back the claim of an instance that moves to here."""
        topology = self._get_migration_context_resource(
            'numa_topology', instance)
        self._give_back(super().drop_move_claim, instance, topology,
                        context, instance, nodename, *args, **kwargs)

    def _give_back(self, stock, instance, topology, *args, **kwargs):
        """Call a method of Nova that gives a claim back.

        Ask libvirt without the lock of the tracker: a call that hangs must
        not stop the recount.

        :param stock: method of Nova, which takes this lock once more
        :param instance: nova.objects.Instance
        :param topology: nova.objects.InstanceNUMATopology of the claim, or
            None
        """
        if self._ledger is None:
            stock(*args, **kwargs)
            return
        contain = self.driver.steps.contain
        cpus = frozenset()
        with contain('ask libvirt for the guest of a claim',
                     until_recount=True):
            cpus = frozenset(demand.get_topology_pins(topology))
            if cpus:
                cpus = self.driver.guests.find_cpus_in_use(
                    instance.uuid, cpus)

        @utils.synchronized(
            resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
        def give_back():
            with contain('keep the CPUs of a guest', until_recount=True):
                self.driver.guests.block(instance.uuid, cpus)
            stock(*args, **kwargs)

        give_back()
