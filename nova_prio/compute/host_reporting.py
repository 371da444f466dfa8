# SPDX-License-Identifier: Apache-2.0

"""Report the CPUs of a host to Placement and to the schedulers."""

from keystoneauth1 import exceptions as ks_exceptions
from nova import exception
from nova import objects
import os_resource_classes as orc
from oslo_log import log as logging

from nova_prio.model import capacity
from nova_prio.objects import host_report
from nova_prio.placement import allocations as prio_allocations
from nova_prio.placement import traits
from nova_prio.virt import demand

LOG = logging.getLogger(__name__)


class HostReporting:
    """Extend a ResourceTracker to report the rows of its host.

    This class stands before ResourceTracker in the bases of our tracker.
    """

    def _update_to_placement(self, context, compute_node, startup):
        """Update, and go on if Placement refuses to remove CPUs in use.

        Nova raises PlacementPciException for each inventory in use, also for
        one of CPUs, and then stops nova-compute.
        """
        try:
            super()._update_to_placement(context, compute_node, startup)
        except exception.PlacementPciException as error:
            if self._ledger is None or not isinstance(
                    error.__context__, exception.InventoryInUse):
                raise
            are_kept = False
            with self.driver.steps.contain(
                    'keep the inventory of CPUs in use'):
                are_kept = self._keep_cpus(context, compute_node)
            if not are_kept:
                raise
        if self._ledger is not None:
            self._refresh_report(compute_node)

    def _keep_cpus(self, context, compute_node):
        """Report again, with the inventories of CPUs that are in use.

        :returns: whether there were any that were to be removed
        """
        nodename = compute_node.hypervisor_hostname
        reported = self.provider_tree.data(nodename).inventory
        there = self.reportclient.get_provider_tree_and_ensure_root(
            context, compute_node.uuid).data(nodename).inventory
        kept = {name: there[name] for name in (orc.VCPU, orc.PCPU)
                if name in there and name not in reported}
        if not kept:
            return False
        self.driver.is_overfull = True
        self.provider_tree.update_inventory(nodename, {**reported, **kept})
        self.reportclient.update_from_provider_tree(
            context, self.provider_tree)
        allocations = self.reportclient.get_allocations_for_resource_provider(
            context, compute_node.uuid).allocations
        for name in kept:
            LOG.error(
                'This host has no CPUs for %s any more, but Placement keeps '
                'the inventory of them, for these instances or migrations '
                'hold some: %s. Move the instances away, and confirm or '
                'revert the migrations; "nova-prio audit" finds what is '
                'nobody\'s.', name, ', '.join(sorted(
                    uuid for uuid, held in allocations.items()
                    if name in held['resources'])))
        return True

    def _refresh_report(self, compute_node):
        """Put the report into the stats that Nova saves right after this.

        By now the inventory holds the ratio in force. If the report cannot be
        made, one that refuses priority instances takes its place: the last one
        would go on to admit them.
        """
        nodename = compute_node.hypervisor_hostname
        steps = self.driver.steps
        if self._is_counted:
            steps.forget(self._failed_before)
        text = None
        with steps.contain('report its CPUs', refuses=False) as outcome:
            report = self.priority_report(compute_node)
            text = report.to_stats()
        if outcome.problem:
            with steps.contain('report its problem', refuses=False):
                text = host_report.HostReport.from_problem(
                    outcome.problem, compute_node.vcpus_used).to_stats()
        else:
            with steps.contain('warn of oversold rows', refuses=False):
                self.driver.oversold.warn(report, self._ledger)
        stats = self.stats[nodename]
        stats.pop(host_report.STATS_KEY, None)
        if text is not None:
            stats[host_report.STATS_KEY] = text
        compute_node.stats = stats

    def is_closed(self, nodename):
        """Return whether a host is disabled for priority instances.

        This service learns that the host is disabled when it next refreshes
        the traits from Placement, and at once that the host is enabled again.

        :param nodename: name of the compute node
        """
        there = self.provider_tree and self.provider_tree.data(nodename)
        if not there or traits.TRAIT_DISABLED not in there.traits:
            return False
        try:
            traits = prio_allocations.get_json(
                self.reportclient, '/resource_providers/%s/traits'
                % there.uuid)['traits']
        except (prio_allocations.PlacementRefused, ks_exceptions.ClientException):
            return True
        return traits.TRAIT_DISABLED in traits

    def counts_for(self, priority):
        """Return whether a claim must test the rows of the host.

        :param priority: 'high', 'low' or None, of the instance
        """
        return self._ledger is not None and (
            priority is not None or self.driver.mix)

    def priority_report(self, compute_node):
        """Return the HostReport of the host as it is now.

        :param compute_node: nova.objects.ComputeNode that the tracker keeps
        :raises nova.exception.ComputeResourcesUnavailable: if the ratio in
            force is not known, because Placement was not reached yet
        """
        if self.provider_tree is None:
            raise exception.ComputeResourcesUnavailable(reason=(
                'The host has not reached Placement yet, which knows its CPU '
                'allocation ratio.'))
        topology = compute_node.numa_topology
        pinned = demand.get_host_pins(
            objects.NUMATopology.obj_from_db_obj(topology)
        ) if topology else set()
        return host_report.HostReport.from_usage(
            self.driver.get_host_cpus(self.provider_tree.data(
                compute_node.hypervisor_hostname).inventory),
            capacity.calculate_used(len(pinned), self._ledger.low_shared,
                                    self._ledger.ordinary_shared),
            compute_node.vcpus_used, self._ledger.low_by_cell,
            self.driver.partitions.problem,
            self.driver.guests.blocked - pinned,
            self.driver.guests.blocked_by, self.driver.steps.problem)
