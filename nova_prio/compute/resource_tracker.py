# SPDX-License-Identifier: Apache-2.0

"""The resource tracker, which counts usage by class and reports the rows."""

import types

from keystoneauth1 import exceptions as ks_exceptions
from nova.compute import resource_tracker
import nova.conf
from nova import exception
from nova import objects
from nova import utils

from nova_prio.compat import claim_workarounds
from nova_prio.compat import contract
from nova_prio.compat import workarounds
from nova_prio.compute import claim_handling
from nova_prio.compute import usage
from nova_prio.model import capacity
from nova_prio.model import traits
from nova_prio.objects import host_report
from nova_prio.placement import allocations
from nova_prio.virt import demand

CONF = nova.conf.CONF

_KEY = 'nova_prio'

# A step of a recount that more than one method takes part in.
_COUNT = 'count the usage of an instance'


class PriorityResourceTracker(
        claim_handling.ClaimHandling, claim_workarounds.ClaimWorkarounds,
        resource_tracker.ResourceTracker):
    """Nova's tracker, which also fills the UsageLedger of our driver.

    With another driver, which has no ledger, it works as Nova's tracker.
    """

    # Failures of the last recount, which a successful recount makes up for.
    _failed_before = types.MappingProxyType({})
    _is_counted = False

    @property
    def _ledger(self):
        return getattr(self.driver, 'ledger', None)

    @property
    def has_ledger(self):
        """Whether the driver of this service is ours, with a UsageLedger."""
        return self._ledger is not None

    def _contain_moves(self):
        """Return a context for a step that counts in-flight moves."""
        return self.driver.steps.contain(
            'count the in-flight moves', refuse_until_recount=True)

    @contract.exit_if_refused()
    def update_available_resource(self, context, nodename, startup=False):
        """Recount the resources of the host, of the instances of all projects.

        Nova also recounts in the name of a user who has migrated an instance.

        :raises SystemExit: with one line, if the service is starting and an
            instance is pinned outside of the dedicated CPUs: each recount of
            Nova would fail and keep the old numbers
        """
        try:
            super().update_available_resource(
                context.elevated(), nodename, startup=startup)
        except exception.CPUPinningUnknown as error:
            if startup and self.has_ledger:
                raise contract.StartRefused(
                    "[compute] cpu_dedicated_set is '%s', but an instance is "
                    "pinned outside of it: %s; set it as it was, move the "
                    "instance away and change it then."
                    % (CONF.compute.cpu_dedicated_set,
                       str(error).rstrip('.'))) from error
            raise

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _update_available_resource(self, context, resources, startup=False):
        """Recount, and restore the old numbers if that fails half-way."""
        nodename = resources['hypervisor_hostname']
        restore = None
        if self.has_ledger:
            # If the recount succeeds, ``_refresh_report`` forgets these.
            self._failed_before = (
                self.driver.steps.get_failures_until_recount())
            if nodename in self.compute_nodes:
                # An error here is logged, and has no other effect.
                with self.driver.steps.contain(
                        'keep the numbers of the last recount',
                        refuse_on_error=False):
                    restore = workarounds.snapshot(self, nodename)
        # ``_update_usage_from_migrations``, the last count of Nova, sets it.
        self._is_counted = False
        try:
            super()._update_available_resource(
                context, resources, startup=startup)
        except Exception:
            if restore and not self._is_counted:
                with self.driver.steps.contain(
                        'restore the numbers of the last recount',
                        refuse_until_recount=True):
                    restore()
            raise
        finally:
            self._failed_before = {}
            self._is_counted = False

    def _get_usage_dict(self, object_or_dict, instance, **updates):
        usage_dict = super()._get_usage_dict(
            object_or_dict, instance, **updates)
        if self.has_ledger:
            with self.driver.steps.contain(_COUNT, refuse_until_recount=True):
                usage_dict[_KEY] = self._usage_of(
                    object_or_dict, instance, usage_dict.get('numa_topology'))
        return usage_dict

    def _usage_of(self, object_or_dict, instance, topology):
        """Return the UUID, role and Usage to enter into the ledger."""
        if isinstance(object_or_dict, objects.Instance):
            flavor, role = object_or_dict.flavor, usage.RESIDENT
        else:
            flavor, role = object_or_dict, usage.MOVE
        return instance.uuid, role, usage.Usage.from_flavor(flavor, topology)

    def _update_usage(self, usage, nodename, sign=1):
        super()._update_usage(usage, nodename, sign=sign)
        if _KEY in usage:
            with self.driver.steps.contain(_COUNT, refuse_until_recount=True):
                count = self._ledger.add if sign == 1 else self._ledger.remove
                count(*usage[_KEY])

    def _update_usage_from_instances(self, context, instances, nodename):
        has_left = {}
        if self.has_ledger:
            with self.driver.steps.contain(_COUNT, refuse_until_recount=True):
                self._ledger.clear()
            for instance in instances:
                with self._contain_moves():
                    workarounds.restore_own_cpus(instance, self.host)
                with self._contain_moves():
                    if workarounds.has_left_by_revert(instance, self.host):
                        has_left[instance.uuid] = instance
        # Nova looks up the instances of migrations in this dict.
        self._counted = super()._update_usage_from_instances(
            context, [instance for instance in instances
                      if instance.uuid not in has_left], nodename)
        self._counted.update(has_left)
        return self._counted

    def _update_usage_from_migrations(self, context, migrations, nodename):
        """Count the in-flight moves, also those that Nova leaves out.

        The ledger records the CPUs of each instance and of each move. An error
        in one move must not keep the others from being counted.
        """
        if not self.has_ledger:
            super()._update_usage_from_migrations(
                context, migrations, nodename)
            return
        unfinished, arriving = [], set()
        for migration in migrations:
            with self._contain_moves() as outcome:
                is_over = workarounds.is_over(migration)
                if workarounds.is_arriving(
                        migration, self.host, self._counted):
                    arriving.add(migration.instance_uuid)
                    continue
            if outcome.problem or not is_over:
                unfinished.append(migration)
        super()._update_usage_from_migrations(context, unfinished, nodename)
        for migration in unfinished:
            with self._contain_moves():
                if (migration.dest_compute == self.host and
                        not self._ledger.holds(migration.instance_uuid) and
                        workarounds.evacuates_from_error(migration)):
                    self._update_usage_from_migration(
                        context, migration.instance, migration, nodename)
        # A revert has not brought these instances back to this host yet.
        with self._contain_moves():
            for instance, migration in workarounds.find_returning(
                    context, self.host):
                with self._contain_moves():
                    if not self._ledger.holds(instance.uuid):
                        self._update_usage_from_migration(
                            context, instance, migration, nodename)
        # These instances came to this host between the reads of Nova.
        with self._contain_moves():
            for instance in workarounds.find_arrived(
                    context, self.host, self._counted, arriving):
                self._counted[instance.uuid] = instance
                with self._contain_moves():
                    if not self._ledger.holds(instance.uuid):
                        self._update_usage_from_instance(
                            context, instance, nodename)
        with self.driver.steps.contain('find the guests on stale CPU sets'):
            self.driver.guests.update_blocked(
                list(self._counted.values()), self._ledger.holds, {
                    migration.instance_uuid for migration in migrations
                    if allocations.is_open_migration(migration)})
        self._is_counted = True

    def _remove_deleted_instances_allocations(
            self, context, cn, migrations, instance_by_uuid):
        super()._remove_deleted_instances_allocations(
            context, cn, migrations, instance_by_uuid)
        if not self.has_ledger or self.provider_tree is None:
            return
        with self.driver.steps.contain('heal the allocations',
                                       refuse_on_error=False):
            self.driver.healing.run(
                context, self.reportclient, cn,
                self.provider_tree.data(cn.hypervisor_hostname).inventory,
                list(filter(self.driver.manages, instance_by_uuid.values())))

    def _update_to_placement(self, context, compute_node, startup):
        super()._update_to_placement(context, compute_node, startup)
        if self.has_ledger:
            self._refresh_report(compute_node)

    def _refresh_report(self, compute_node):
        """Put the report into the stats that Nova saves right after this.

        If the report cannot be made, a report that refuses priority instances
        takes its place: the last report would still admit them.
        """
        nodename = compute_node.hypervisor_hostname
        steps = self.driver.steps
        if self._is_counted:
            steps.forget(self._failed_before)
        text = None
        with steps.contain('report its CPUs',
                           refuse_on_error=False) as outcome:
            report = self.get_priority_report(compute_node)
            text = report.to_stats()
        if outcome.problem:
            with steps.contain('report its problem', refuse_on_error=False):
                text = host_report.HostReport.from_problem(
                    outcome.problem, compute_node.vcpus_used).to_stats()
        else:
            with steps.contain('warn of oversold rows',
                               refuse_on_error=False):
                self.driver.oversold.warn(report, self._ledger)
        stats = self.stats[nodename]
        stats.pop(host_report.STATS_KEY, None)
        if text is not None:
            stats[host_report.STATS_KEY] = text
        compute_node.stats = stats

    def is_disabled_for_priority(self, nodename):
        """Return whether a host is disabled for priority instances.

        If an operator disables the host, this takes effect when the service
        next refreshes the traits from Placement. If an operator enables the
        host again, this takes effect at once.

        :param nodename: name of the compute node
        """
        if self.provider_tree is None:
            return False
        provider = self.provider_tree.data(nodename)
        if traits.CPU_PRIORITY_DISABLED not in provider.traits:
            return False
        try:
            present = allocations.get_json(
                self.reportclient,
                '/resource_providers/%s/traits' % provider.uuid)['traits']
        except (allocations.PlacementRefused, ks_exceptions.ClientException):
            return True
        return traits.CPU_PRIORITY_DISABLED in present

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
        pinned = demand.get_host_pins(compute_node.numa_topology)
        return host_report.HostReport.from_usage(
            cpus=self.driver.get_host_cpus(self.provider_tree.data(
                compute_node.hypervisor_hostname).inventory),
            used=capacity.calculate_used(
                len(pinned), self._ledger.low_shared,
                self._ledger.ordinary_shared),
            vcpus_used=compute_node.vcpus_used,
            low_by_cell=self._ledger.low_by_cell,
            partition_problem=self.driver.partitions.problem,
            # The pinned CPUs count as used.
            blocked=self.driver.guests.blocked - pinned,
            blocked_by=self.driver.guests.blocked_by,
            problem=self.driver.steps.problem)
