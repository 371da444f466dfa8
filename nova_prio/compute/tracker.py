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
from nova.compute import task_states
from nova import exception
from nova import objects
from nova.objects import fields
from nova import utils

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

    def update_usage(self, context, instance, nodename):
        """Take note of an instance that has changed, or that is gone."""
        self._settle_alone(instance, nodename)
        super().update_usage(context, instance, nodename)

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _settle_alone(self, instance, nodename):
        self._settle(instance, nodename)

    def _update_usage_from_migration(self, context, instance, migration,
                                     nodename):
        self._settle(instance, nodename)
        super()._update_usage_from_migration(
            context, instance, migration, nodename)

    def _settle(self, instance, nodename):
        """Track an instance as one that lives here, if it does.

        Until its next recount, Nova tracks an instance that has moved here as
        the move, and one that was resized here not at all: what they use is
        counted, and stays so when they are deleted or leave.
        """
        uuid = instance.uuid
        if ((instance.host, instance.node) == (self.host, nodename) and
                uuid not in self.tracked_instances and
                self._ledger is not None and self._ledger.holds(uuid)):
            self.tracked_migrations.pop(uuid, None)
            self.tracked_instances.add(uuid)
            self._ledger.settle(uuid)

    def _update_usage_from_migrations(self, context, migrations, nodename):
        """Count the moves, unfinished evacuations to here among them.

        Nova leaves them out while the instance is in the state ERROR, and,
        in whatever state, once its guest has started.
        """
        claimed = {migration.id
                   for migration in self.tracked_migrations.values()}
        super()._update_usage_from_migrations(context, migrations, nodename)
        if self._ledger is None:
            return
        for migration in migrations:
            if (migration.migration_type == fields.MigrationType.EVACUATION and
                    migration.status == 'pre-migrating' and
                    migration.dest_compute == self.host and
                    migration.instance_uuid not in self.tracked_instances and
                    migration.instance_uuid not in self.tracked_migrations):
                self._count_evacuation(context, migration, nodename,
                                       migration.id in claimed)

    def _count_evacuation(self, context, migration, nodename, is_claimed):
        """Count an evacuation to this host.

        :param is_claimed: whether this process made the claim, and did not
            drop it; of another one's, the instance has to be rebuilding still
        """
        try:
            instance = migration.instance
        except exception.InstanceNotFound:
            return
        moved = instance.migration_context
        if (moved is not None and moved.migration_id == migration.id and
                (is_claimed or
                 instance.task_state in task_states.rebuild_states)):
            self._update_usage_from_migration(
                context, instance, migration, nodename)

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
