# SPDX-License-Identifier: Apache-2.0

"""Report the CPUs of a host to the schedulers."""

from keystoneauth1 import exceptions as ks_exceptions
from nova import exception
from nova import objects

from nova_prio.model import capacity
from nova_prio.objects import host_report
from nova_prio.placement import allocations
from nova_prio.placement import traits
from nova_prio.virt import demand


class HostReporting:
    """Extend a ResourceTracker to report the rows of its host.

    This class stands before ResourceTracker in the bases of our tracker.
    """

    def _update_to_placement(self, context, compute_node, startup):
        super()._update_to_placement(context, compute_node, startup)
        if self.has_ledger:
            self._refresh_report(compute_node)

    def _refresh_report(self, compute_node):
        """Put the report into the stats that Nova saves right after this.

        By now the inventory has the ratio in force. If the report cannot be
        made, a report that refuses priority instances takes its place: the
        last report would still admit them.
        """
        nodename = compute_node.hypervisor_hostname
        steps = self.driver.steps
        if self._is_counted:
            steps.forget(self._failed_before)
        text = None
        with steps.contain('report its CPUs', refuses=False) as outcome:
            report = self.get_priority_report(compute_node)
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

    def is_disabled_for_priority(self, nodename):
        """Return whether a host is disabled for priority instances.

        This service learns that the host is disabled when it next refreshes
        the traits from Placement, and at once that the host is enabled again.

        :param nodename: name of the compute node
        """
        provider = self.provider_tree and self.provider_tree.data(nodename)
        if not provider or traits.TRAIT_DISABLED not in provider.traits:
            return False
        try:
            present = allocations.get_json(
                self.reportclient,
                '/resource_providers/%s/traits' % provider.uuid)['traits']
        except (allocations.PlacementRefused, ks_exceptions.ClientException):
            return True
        return traits.TRAIT_DISABLED in present

    def get_priority_report(self, compute_node):
        """Return the HostReport of the host as it is now.

        :param compute_node: nova.objects.ComputeNode that the tracker keeps
        :raises nova.exception.ComputeResourcesUnavailable: if the ratio in
            force is unknown, because nova-compute has not read it yet
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
