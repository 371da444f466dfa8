# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The resource tracker, counting usage by class and reporting it."""

from nova.compute import resource_tracker
from nova import exception
from nova import objects

from nova_prio import capacity
from nova_prio.compute import usage
from nova_prio import demand
from nova_prio.objects import host_report

_KEY = 'nova_prio'


class PriorityResourceTracker(resource_tracker.ResourceTracker):
    """Nova's tracker, which keeps the ledger of our driver as well.

    With a driver that has no ledger it does what Nova's tracker does.
    """

    @property
    def _ledger(self):
        return getattr(self.driver, 'ledger', None)

    def _get_usage_dict(self, object_or_dict, instance, **updates):
        found = super()._get_usage_dict(object_or_dict, instance, **updates)
        if self._ledger is not None:
            if isinstance(object_or_dict, objects.Instance):
                flavor, role = object_or_dict.flavor, usage.RESIDENT
            else:
                flavor, role = object_or_dict, usage.MOVE
            topology = found.get('numa_topology')
            found[_KEY] = (instance.uuid, role, usage.Usage(
                demand.of(flavor, topology),
                demand.shared_by_cell(topology)))
        return found

    def _update_usage(self, usage, nodename, sign=1):
        super()._update_usage(usage, nodename, sign=sign)
        if self._ledger is not None:
            count = self._ledger.add if sign == 1 else self._ledger.remove
            count(*usage[_KEY])

    def _update_usage_from_instances(self, context, instances, nodename):
        if self._ledger is not None:
            self._ledger.clear()
        return super()._update_usage_from_instances(
            context, instances, nodename)

    def _update_to_placement(self, context, compute_node, startup):
        super()._update_to_placement(context, compute_node, startup)
        if self._ledger is not None:
            self._refresh_report(compute_node)

    def _refresh_report(self, compute_node):
        """Put the report into the stats that Nova saves right after this.

        The ratio in force is known by now: it stands in the inventory.
        """
        nodename = compute_node.hypervisor_hostname
        report = self.priority_report(compute_node)
        stats = self.stats[nodename]
        stats[host_report.STATS_KEY] = report.to_stats()
        compute_node.stats = stats

    def counts_for(self, priority):
        """Return whether a claim has to test what the classes were promised.

        :param priority: 'high', 'low' or None, of the instance
        """
        return self._ledger is not None and (
            priority is not None or self.driver.mix)

    def priority_report(self, compute_node):
        """Return the HostReport of the host as it is now.

        :param compute_node: nova.objects.ComputeNode that the tracker keeps
        :raises nova.exception.ComputeResourcesUnavailable: where the ratio in
            force is not known, since Placement was not reached yet
        """
        if self.provider_tree is None:
            raise exception.ComputeResourcesUnavailable(reason=(
                'The host has not reached Placement yet, which knows its CPU '
                'allocation ratio.'))
        topology = compute_node.numa_topology
        pinned = topology and demand.pinned_cpus(
            objects.NUMATopology.obj_from_db_obj(topology))
        return host_report.HostReport.of(
            self.driver.host_cpus(self.provider_tree.data(
                compute_node.hypervisor_hostname).inventory),
            capacity.used(pinned or 0, self._ledger.low_shared,
                          self._ledger.ordinary_shared),
            compute_node.vcpus_used, self._ledger.low_by_cell)
