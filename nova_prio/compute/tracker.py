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

import inspect
import types

from keystoneauth1 import exceptions as ks_exceptions
from nova.compute import resource_tracker
from nova.compute import task_states
from nova.compute import vm_states
import nova.conf
from nova import exception
from nova import objects
from nova.objects import fields
from nova import utils
import os_resource_classes as orc
from oslo_log import log as logging

from nova_prio import capacity
from nova_prio.compute import books
from nova_prio.compute import claim_releases
from nova_prio.compute import in_between
from nova_prio.compute import move_claims
from nova_prio.compute import usage
from nova_prio import contract
from nova_prio import demand
from nova_prio import holdings
from nova_prio.objects import host_report
from nova_prio import policy
from nova_prio import priority_hosts

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

_KEY = 'nova_prio'

# Steps of a recount that more than one method takes part in.
_COUNT = 'count the usage of an instance'
_MOVES = 'count the in-flight moves'


class PriorityResourceTracker(
        move_claims.MoveClaims, claim_releases.ClaimReleases,
        resource_tracker.ResourceTracker):
    """Nova's tracker, which keeps the ledger of our driver as well.

    With a driver that has no ledger it does what Nova's tracker does.
    """

    # Failures that the recount which runs now makes up for.
    _failed_before = types.MappingProxyType({})
    _is_counted = False

    @property
    def _ledger(self):
        return getattr(self.driver, 'ledger', None)

    @property
    def is_of_our_driver(self):
        """Whether the driver of this service has a ledger."""
        return self._ledger is not None

    def update_available_resource(self, context, nodename, startup=False):
        """Recount the resources of the host, of all projects.

        Nova does so in the name of a user, too, who has migrated one of his
        instances.

        :raises SystemExit: with one line, where the service is starting and
            an instance is pinned outside of the dedicated CPUs: Nova's recount
            fails then, now and ever after, and leaves the old numbers
        """
        try:
            super().update_available_resource(
                context.elevated(), nodename, startup=startup)
        except exception.CPUPinningUnknown as error:
            if startup and self._ledger is not None:
                contract.refuse(
                    "[compute] cpu_dedicated_set is '%s', but an instance is "
                    "pinned outside of it: %s; set it as it was, move the "
                    "instance away and change it then."
                    % (CONF.compute.cpu_dedicated_set,
                       str(error).rstrip('.')))
            raise

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _update_available_resource(self, context, resources, startup=False):
        """Recount, and keep the old numbers where that fails half-way."""
        nodename = resources['hypervisor_hostname']
        kept = None
        if self._ledger is not None:
            self._failed_before = self.driver.steps.until_recount()
            if nodename in self.compute_nodes:
                with self.driver.steps.contain(
                        'keep the numbers of the last recount', refuses=False):
                    kept = books.Books(self, nodename)
        self._is_counted = False
        try:
            # Without the lock, which is held here.
            inspect.unwrap(super()._update_available_resource.__func__)(
                self, context, resources, startup=startup)
        except Exception:
            if kept and not self._is_counted:
                with self.driver.steps.contain(
                        'restore the numbers of the last recount',
                        until_recount=True):
                    kept.restore(self)
            raise
        finally:
            self._failed_before = {}
            self._is_counted = False

    def _get_usage_dict(self, object_or_dict, instance, **updates):
        found = super()._get_usage_dict(object_or_dict, instance, **updates)
        if self._ledger is not None:
            with self.driver.steps.contain(_COUNT, until_recount=True):
                found[_KEY] = self._usage_of(
                    object_or_dict, instance, found.get('numa_topology'))
        return found

    def _usage_of(self, object_or_dict, instance, topology):
        """Return the UUID, role and Usage to enter into the ledger."""
        if isinstance(object_or_dict, objects.Instance):
            flavor, role = object_or_dict.flavor, usage.RESIDENT
        else:
            flavor, role = object_or_dict, usage.MOVE
        wanted = demand.of(flavor, topology)
        return instance.uuid, role, usage.Usage(
            wanted, demand.shared_by_cell(topology),
            policy.in_placement(flavor.extra_specs, orc.VCPU, wanted.shared),
            policy.in_placement(
                flavor.extra_specs, orc.MEMORY_MB, flavor.memory_mb))

    def _update_usage(self, usage, nodename, sign=1):
        super()._update_usage(usage, nodename, sign=sign)
        if _KEY in usage:
            with self.driver.steps.contain(_COUNT, until_recount=True):
                count = self._ledger.add if sign == 1 else self._ledger.remove
                count(*usage[_KEY])

    def _update_usage_from_instances(self, context, instances, nodename):
        left = {}
        if self._ledger is not None:
            with self.driver.steps.contain(_COUNT, until_recount=True):
                self._ledger.clear()
            for instance in instances:
                with self.driver.steps.contain(_MOVES, until_recount=True):
                    in_between.moving_on([instance], self.host)
            for instance in instances:
                with self.driver.steps.contain(_MOVES, until_recount=True):
                    left.update(in_between.leaving([instance], self.host))
        # Nova goes on with this dict.
        self._counted = super()._update_usage_from_instances(
            context, [instance for instance in instances
                      if instance.uuid not in left], nodename)
        self._counted.update(left)
        return self._counted

    def _update_usage_from_migrations(self, context, migrations, nodename):
        """Count also those that Nova leaves out.

        Nova forgets in a recount what it claimed for the evacuation of an
        instance that was in error before, and misses what moves here while it
        reads. A live migration whose checks failed it takes for the next one
        of the instance, wherever that goes.
        """
        if self._ledger is None:
            super()._update_usage_from_migrations(
                context, migrations, nodename)
            return
        contain = self.driver.steps.contain
        began = []
        for migration in migrations:
            with contain(_MOVES, until_recount=True) as outcome:
                is_over = (not holdings.is_open(migration) and
                           in_between.never_began(migration))
            if outcome.problem or not is_over:
                began.append(migration)
        super()._update_usage_from_migrations(context, began, nodename)
        for migration in migrations:
            with contain(_MOVES, until_recount=True):
                if (migration.dest_compute == self.host and
                        not self._ledger.holds(migration.instance_uuid) and
                        _evacuates_from_error(migration)):
                    self._update_usage_from_migration(
                        context, migration.instance, migration, nodename)
        with contain(_MOVES, until_recount=True):
            for instance, migration in in_between.returning(
                    context, self.host):
                with contain(_MOVES, until_recount=True):
                    if not self._ledger.holds(instance.uuid):
                        self._update_usage_from_migration(
                            context, instance, migration, nodename)
        with contain(_MOVES, until_recount=True):
            for instance in in_between.arrived(
                    context, self.host, set(self._counted)):
                self._counted[instance.uuid] = instance
                with contain(_MOVES, until_recount=True):
                    if not self._ledger.holds(instance.uuid):
                        self._update_usage_from_instance(
                            context, instance, nodename)
        with contain('find the guests on stale CPU sets'):
            self.driver.find_floated(list(self._counted.values()), {
                migration.instance_uuid for migration in migrations
                if holdings.is_open(migration)})
        self._is_counted = True

    def _remove_deleted_instances_allocations(
            self, context, cn, migrations, instance_by_uuid):
        super()._remove_deleted_instances_allocations(
            context, cn, migrations, instance_by_uuid)
        if self._ledger is None:
            return
        with self.driver.steps.contain('end unfinished migrations'):
            self.driver.healing.end_left_open(
                context, self.reportclient, self.host, migrations,
                instance_by_uuid)
        if self.provider_tree is not None:
            with self.driver.steps.contain(
                    'heal the allocations', refuses=False):
                self.driver.healing.run(
                    context, self.reportclient, cn,
                    self.provider_tree.data(
                        cn.hypervisor_hostname).inventory,
                    list(instance_by_uuid.values()))

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

        :returns: whether there are such that were to be removed
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
                'This host has no CPUs for %(name)s any more, but Placement '
                'keeps the inventory of them, for these instances or '
                'migrations hold some: %(consumers)s. Move the instances '
                'away, and confirm or revert the migrations; "nova-prio '
                'audit" finds what is nobody\'s.',
                {'name': name, 'consumers': ', '.join(sorted(
                    uuid for uuid, held in allocations.items()
                    if name in held['resources']))})
        return True

    def _refresh_report(self, compute_node):
        """Put the report into the stats that Nova saves right after this.

        The ratio in force is known by now: it stands in the inventory. If the
        report cannot be made, one that refuses priority instances takes its
        place: the last one would go on to admit them.
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
                text = host_report.HostReport.of_problem(
                    outcome.problem, compute_node.vcpus_used).to_stats()
        else:
            with steps.contain('warn of oversold rows', refuses=False):
                self.driver.excess.warn(report, self._ledger)
        stats = self.stats[nodename]
        stats.pop(host_report.STATS_KEY, None)
        if text is not None:
            stats[host_report.STATS_KEY] = text
        compute_node.stats = stats

    @property
    def is_overfull(self):
        """Whether Placement has more VCPU here than the host may sell."""
        return self._ledger is not None and self.driver.is_overfull

    def is_closed(self, nodename):
        """Return whether priority instances are kept off this host.

        That it is closed is known as late as this service looks at Placement
        anew; that it is open again, at once.

        :param nodename: name of the compute node
        """
        there = self.provider_tree and self.provider_tree.data(nodename)
        if not there or priority_hosts.TRAIT_DISABLED not in there.traits:
            return False
        try:
            traits = holdings.answer(
                self.reportclient, '/resource_providers/%s/traits'
                % there.uuid)['traits']
        except (holdings.NotMended, ks_exceptions.ClientException):
            return True
        return priority_hosts.TRAIT_DISABLED in traits

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
        pinned = demand.pinned_cpus(
            objects.NUMATopology.obj_from_db_obj(topology)
        ) if topology else set()
        return host_report.HostReport.of(
            self.driver.host_cpus(self.provider_tree.data(
                compute_node.hypervisor_hostname).inventory),
            capacity.used(len(pinned), self._ledger.low_shared,
                          self._ledger.ordinary_shared),
            compute_node.vcpus_used, self._ledger.low_by_cell,
            self.driver.partitions.problem, self.driver.floated - pinned,
            self.driver.strangers.blocking, self.driver.steps.problem)


def _evacuates_from_error(migration):
    if migration.migration_type != fields.MigrationType.EVACUATION:
        return False
    try:
        instance = migration.instance
    except exception.InstanceNotFound:
        return False
    return (instance.vm_state == vm_states.ERROR and
            instance.task_state in task_states.rebuild_states)
