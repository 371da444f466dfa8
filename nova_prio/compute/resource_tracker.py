# SPDX-License-Identifier: Apache-2.0

"""The resource tracker of nova-compute, an adapter to PriorityHost.

Each override calls Nova's method, and tells PriorityHost of each instance that
Nova counts, claims and gives back. :mod:`nova_prio.compute.priority_host`
explains leases and recounts.
"""

import functools
import threading

from nova.compute import resource_tracker
from nova.compute import task_states
from nova.compute import vm_states
import nova.conf
from nova import exception
from nova import objects
from nova import utils

from nova_prio.compat import contract
from nova_prio.compat import workarounds
from nova_prio.compute import live_migration_watcher
from nova_prio.compute import priority_host
from nova_prio.model import capacity_report
from nova_prio.objects import host_report
from nova_prio.objects import migration_states
from nova_prio.objects import own_cpus
from nova_prio.placement import disabling
from nova_prio.virt import demand

CONF = nova.conf.CONF

#: Key of the ``priority_host.Counted`` in Nova's dict of a usage.
_KEY = 'nova_prio'
#: The tasks of a resize in which Nova saves the other host, and later the
#: other flavor.
_RESIZING = frozenset((
    task_states.RESIZE_MIGRATED, task_states.RESIZE_FINISH,
    task_states.RESIZE_REVERTING))


class PriorityResourceTracker(workarounds.MoveWorkarounds,
                              resource_tracker.ResourceTracker):
    """Nova's tracker for a host with our driver."""

    def __init__(self, host, driver, *args, **kwargs):
        """Share the PriorityHost of the driver."""
        super().__init__(host, driver, *args, **kwargs)
        self.priority_host = driver.priority_host
        self._watcher = live_migration_watcher.LiveMigrationWatcher(self)
        self._contain = self.priority_host.steps.contain
        # A context in which our own count may fail: the error is logged, and
        # the host refuses priority instances until the next recount, which is
        # a run of the periodic task.
        self._counting = functools.partial(
            self._contain, 'count the instances and moves',
            refuse_until_recount=True)
        # UUIDs of the instances that Nova counted by their record, because
        # our own count failed.
        self._miscounted = set()
        # The instance that fails the first recount, because its CPUs are not
        # in cpu_dedicated_set, as a priority_host.Counted: its UUID and CPUs.
        # None without such an instance.
        self._pinned_outside = None
        # Of each thread: whether the claim of its build was refused.
        self._build = threading.local()

    # The recount

    @contract.exit_if_refused()
    def update_available_resource(self, context, nodename, startup=False):
        """Recount the resources of the host, of the instances of all projects.

        Nova also recounts with the context of a user who has migrated an
        instance: elevate it. After the recount, end the leases that Nova no
        longer needs. A lease is the CPUs and vCPUs that this host keeps for an
        instance.

        :raises SystemExit: with one line, if the service is starting and an
            instance is pinned outside of the dedicated CPUs: each recount of
            Nova would fail and keep the old numbers
        """
        context = context.elevated()
        try:
            super().update_available_resource(
                context, nodename, startup=startup)
        except exception.CPUPinningUnknown as error:
            # The instance of the error, as a priority_host.Counted. It is None
            # if _update_usage does not know the instance.
            counted = self._pinned_outside
            if startup and counted:
                # If only one side of a move counts here, the instance itself
                # is on another host.
                remedy = 'confirm or revert its migration'
                if counted.is_resident:
                    remedy = 'move the instance away'
                raise contract.StartRefused(
                    "[compute] cpu_dedicated_set is '%s', but instance %s is "
                    "pinned outside of it: %s; set it as it was, %s, and "
                    "change it then." % (
                        CONF.compute.cpu_dedicated_set, counted.uuid, error,
                        remedy)) from error
            raise
        # An error is only logged: the leases stay until the next recount.
        with self._contain('end the leases that nothing needs',
                           refuse_on_error=False):
            # This ends leases, and returns whether there was one to end.
            if self.priority_host.ends.find_ended(context, self.host):
                self._save_node(context, nodename)

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _save_node(self, context, nodename):
        """Save the compute node with a new report, without a recount."""
        self._update(context, self.compute_nodes[nodename])

    def _update_usage_from_instances(self, context, instances, nodename):
        """Begin a recount: count the instances on this host.

        A recount counts the resources of the host from zero. During a move,
        Nova may have put the CPU numbers of the other host into an instance
        that it has read. Count those of this host. If a ``with`` block fails,
        its error is logged, and the host refuses priority instances until the
        next recount.

        :returns: dict, UUID -> nova.objects.Instance
        """
        # UUIDs of the instances whose own count fails in this recount:
        # _update_usage fills it, and then leaves the CPUs to Nova.
        self._miscounted = set()
        # If one of these fails, the other must be done all the same.
        with self._counting():
            self.priority_host.begin_recount()
        for instance in instances:
            with self._counting():
                workarounds.restore_own_cpus(instance, self.host)
        # Nova looks up the instances of migrations in this dict.
        self._instances = super()._update_usage_from_instances(
            context, instances, nodename)
        return self._instances

    def _update_usage_from_migrations(self, context, migrations, nodename):
        """Count the in-flight moves, but not those that are over.

        Then end the recount, which counts the resources of the host from zero.
        If a ``with`` block fails, its error is logged, and the host refuses
        priority instances: until the next recount or, if the last block fails,
        until it succeeds.

        :param migrations: nova.objects.MigrationList, from and to this host
        """
        # Whether nova-compute has just started: then it does not remember the
        # CPUs of any move, and must read more of them from the records.
        is_first = not self.priority_host.gate.is_settled
        with self._counting():
            # Nova counts the moves in this list, and later keeps the PCI
            # devices that they have claimed: take out the moves that are over.
            migrations.objects = [
                migration for migration in migrations
                if workarounds.may_count(migration, is_first)]
        super()._update_usage_from_migrations(context, migrations, nodename)
        with self._counting():
            # An instance may come back from the destination of a move. Nova
            # does not count it on its source host in each state. Only the
            # first recount must count it here: later, the source still keeps
            # the CPUs that it has leased to the instance.
            if is_first:
                for instance, migration in workarounds.find_returning(
                        context, self.host, migrations):
                    if instance.uuid not in self.tracked_migrations:
                        self._update_usage_from_migration(
                            context, instance, migration, nodename)
        # A guest is on a stale CPU set if an older configuration gave it CPUs
        # that are dedicated now. The end of the recount finds the dedicated
        # CPUs of these guests, and of guests without an instance here. Such a
        # guest may belong to a move: tell it the instances that are moving.
        with self._contain('find the guests on stale CPU sets'):
            moving = {migration.instance_uuid for migration in migrations
                      if migration_states.is_open(migration)}
            self.priority_host.end_recount(
                list(self._instances.values()), moving)

    def _update_usage_from_migration(self, context, instance, migration,
                                     nodename):
        """Count a move, and watch a live migration to this host.

        The watcher releases the claim when the live migration has ended. It
        only watches instances that the driver manages: those with a priority
        and, with ``cpu_priority_mix_enable``, all. An error of this is logged,
        and the host then refuses priority instances until its resources are
        counted again.
        """
        super()._update_usage_from_migration(
            context, instance, migration, nodename)
        if migration.dest_compute == self.host and (
                instance.host != self.host):
            with self._counting():
                self.priority_host.note_arriving(instance.uuid)
                if (migration.is_live_migration and
                        self.driver.manages(instance)):
                    self._watcher.watch(context, migration)

    def _get_usage_dict(self, object_or_dict, instance, **updates):
        """Return Nova's dict of a usage, with a ``priority_host.Counted``.

        The Counted describes the instance, or one side of its move. It is at
        the key ``_KEY``, where ``_update_usage`` reads it. After an error of
        this package, which is logged, the key is missing.

        :param object_or_dict: nova.objects.Instance, or nova.objects.Flavor
            for one side of a move
        """
        usage = super()._get_usage_dict(object_or_dict, instance, **updates)
        with self._counting():
            usage[_KEY] = _describe(
                object_or_dict, instance, usage.get('numa_topology'))
        return usage

    def _update_usage(self, usage, nodename, sign=1):
        """Count or free an instance with the CPUs that are leased to it.

        The lease is the CPUs and vCPUs that this host keeps for the instance.
        Nova's record may have other CPUs, for example in the middle of a move.
        If our own count fails, let Nova count and later free the CPUs of the
        record: ``_miscounted`` has the UUIDs of such instances.

        :param usage: dict of ``_get_usage_dict``. Its ``_KEY`` is a
            ``priority_host.Counted``: the UUID of the instance, and whether it
            is at rest, which means that nothing moves or changes it. The key
            is missing if that method failed.
        :param sign: 1 to count, -1 to free
        """
        counted = usage.get(_KEY)
        if counted:
            was_counted = True
            # An error is logged, and sets outcome.problem.
            with self._counting() as outcome:
                if sign == 1:
                    topology = self.priority_host.count(counted)
                else:
                    was_counted, topology = self.priority_host.give_back(
                        counted)
            if outcome.problem:
                self._miscounted.add(counted.uuid)
            elif counted.uuid not in self._miscounted:
                # give_back found that Nova has not counted these CPUs.
                if not was_counted:
                    # Nova would subtract vCPUs that it has not added.
                    return
                usage = dict(usage, numa_topology=topology)
        try:
            super()._update_usage(usage, nodename, sign=sign)
        except (exception.CPUPinningInvalid, exception.CPUUnpinningInvalid,
                exception.CPUPinningUnknown,
                exception.CPUUnpinningUnknown) as error:
            # If an instance at rest has CPUs outside of cpu_dedicated_set in
            # the first recount, the option is wrong, and
            # update_available_resource stops the service. The recount is the
            # periodic count of all resources. Without a Counted, the instance
            # is not known: the error goes on as in stock Nova.
            is_outside = isinstance(error, exception.CPUPinningUnknown)
            is_first_recount = not self.priority_host.gate.is_settled
            if counted is None or (
                    is_outside and is_first_recount and counted.is_at_rest):
                self._pinned_outside = counted
                raise
            # In all other cases, report the instance and go on: Nova has
            # already changed its other numbers, such as memory and vCPUs.
            with self._counting():
                self.priority_host.note_wrong_pins(
                    counted, 'cannot be counted: %s' % error)

    # Claims

    def instance_claim(self, context, instance, *args, **kwargs):
        """Claim for an instance that is created or unshelved here.

        First release the claims of live migrations to this host that have
        ended: this claim may need their CPUs. Drop the claim of a failed move
        from the record of an unshelved instance, so that no recount takes it
        for the CPUs of the instance here
        (:mod:`nova_prio.compat.workarounds`). Note for ``build_failed``
        whether this claim is refused.
        """
        self._watcher.release_ended(context)
        with self._counting():
            if instance.vm_state == vm_states.SHELVED_OFFLOADED:
                instance.drop_migration_context()
        self._build.is_refused = False
        try:
            # After an error, this ends the lease that the claim has begun: the
            # CPUs that this host keeps for the instance.
            with self.priority_host.claiming(instance.uuid):
                return super().instance_claim(
                    context, instance, *args, **kwargs)
        except exception.ComputeResourcesUnavailable:
            self._build.is_refused = True
            raise

    def build_failed(self, nodename):
        """Count a failed build, unless its claim was refused.

        The scheduler avoids a host with failed builds. If creates at the same
        time race for the last CPUs, nothing is wrong with the host.

        ``_build`` belongs to this thread, which has built the instance. It is
        empty if the build failed before its claim.
        """
        if not getattr(self._build, 'is_refused', False):
            super().build_failed(nodename)
        self._build.is_refused = False

    def resize_claim(self, context, instance, flavor, *args, **kwargs):
        """Claim for a resize or cold migration to this host.

        First release the claims of live migrations to this host that have
        ended: this claim may need their CPUs. If the flavor has a priority,
        let libvirt start a test guest of each priority: if one fails, the
        claim is refused.
        """
        self._watcher.release_ended(context)
        self.driver.probe_before_move(flavor)
        return super().resize_claim(
            context, instance, flavor, *args, **kwargs)

    def rebuild_claim(self, context, instance, *args, **kwargs):
        """Claim for an evacuation to this host.

        First release the claims of live migrations to this host that have
        ended: this claim may need their CPUs. If the flavor has a priority,
        let libvirt start a test guest of each priority: if one fails, the
        claim is refused.
        """
        self._watcher.release_ended(context)
        self.driver.probe_before_move(instance.flavor)
        return super().rebuild_claim(context, instance, *args, **kwargs)

    def live_migration_claim(self, context, instance, *args, **kwargs):
        """Claim for a live migration to this host.

        First release the claims of earlier live migrations to this host that
        have ended: this claim may need their CPUs.
        """
        self._watcher.release_ended(context)
        return super().live_migration_claim(
            context, instance, *args, **kwargs)

    def _move_claim(self, context, instance, *args, **kwargs):
        # Nova saves the record together with the new migration context.
        with self._counting():
            own_cpus.correct_cpus(instance)
        # After an error of Nova, this ends the lease that the claim has begun.
        with self.priority_host.claiming(instance.uuid):
            return super()._move_claim(context, instance, *args, **kwargs)

    def finish_evacuation(self, instance, *args, **kwargs):
        """Give an evacuated instance this host; from now on, a lease may end.

        The lease is the CPUs that this host keeps for the instance. Until now,
        the call of Nova that made the claim has kept the lease.
        """
        try:
            super().finish_evacuation(instance, *args, **kwargs)
        finally:
            self.priority_host.leases.end_call(instance.uuid)

    # The ends of claims and instances. ``giving_back`` asks libvirt which CPUs
    # of the lease the guest still uses. If it uses any, the lease stays when
    # Nova frees the instance in this context.

    def abort_instance_claim(self, context, instance, nodename):
        """Give back the claim of a new instance."""
        with self.priority_host.ends.giving_back(instance.uuid):
            super().abort_instance_claim(context, instance, nodename)

    def drop_move_claim(self, context, instance, *args, **kwargs):
        """Give back the claim of an instance that was to move here."""
        with self.priority_host.ends.giving_back(instance.uuid):
            super().drop_move_claim(context, instance, *args, **kwargs)

    def drop_move_claim_at_source(self, context, instance, migration):
        """Give back the CPUs of an instance whose move was confirmed."""
        with self.priority_host.ends.giving_back(instance.uuid):
            super().drop_move_claim_at_source(context, instance, migration)

    def drop_move_claim_at_dest(self, context, instance, migration):
        """Give back the claim of an instance whose move was reverted."""
        with self.priority_host.ends.giving_back(instance.uuid):
            super().drop_move_claim_at_dest(context, instance, migration)

    def update_usage(self, context, instance, nodename):
        """Update the usage, and end the lease of an instance that leaves.

        An instance leaves the host if it is deleted or shelved offloaded. Nova
        frees its usage only if the tracker knows the instance, which it may
        not if the instance has moved here. The lease, which is the CPUs and
        vCPUs that the instance has here, must end in any case.
        """
        if not vm_states.allow_resource_removal(
                instance.vm_state, instance.task_state):
            super().update_usage(context, instance, nodename)
            return
        # giving_back asks libvirt which CPUs of the lease the guest still
        # uses, before Nova takes the lock of the tracker: libvirt may hang.
        with self.priority_host.ends.giving_back(instance.uuid):
            super().update_usage(context, instance, nodename)
            # end_lease ends the lease unless a guest still uses its CPUs, and
            # returns whether the lease has ended: then save the new report. An
            # error is logged, and the host refuses priority instances until
            # the periodic task has counted its resources.
            with self._counting():
                if self.priority_host.end_lease(instance.uuid):
                    self._save_node(context.elevated(), nodename)

    # The report

    def _remove_deleted_instances_allocations(
            self, context, cn, migrations, instance_by_uuid):
        """Remove allocations as Nova does, and correct those that drifted.

        An allocation has drifted if its amounts are not those that the flavor
        of the instance requests. An error of this correction is only logged.
        It is made for the instances that the driver manages: those with a
        priority and, with ``cpu_priority_mix_enable``, all.

        :param instance_by_uuid: dict, UUID -> nova.objects.Instance, of the
            instances on this host
        """
        super()._remove_deleted_instances_allocations(
            context, cn, migrations, instance_by_uuid)
        # Before nova-compute has reached Placement, the inventories are not
        # known.
        if self.provider_tree is None:
            return
        with self._contain('heal the allocations', refuse_on_error=False):
            self.driver.healing.run(
                context, self.reportclient, cn, self.read_inventories(cn),
                filter(self.driver.manages, instance_by_uuid.values()))

    def _update_to_placement(self, context, compute_node, startup):
        """Update Placement; then renew the report, which Nova saves next."""
        super()._update_to_placement(context, compute_node, startup)
        self._refresh_report(compute_node)

    def _refresh_report(self, compute_node):
        """Put the report of the host into the stats that Nova saves next.

        The stats are the dict of the compute node that nova-scheduler reads.
        The report tells nova-scheduler the CPUs of the host, and how many
        vCPUs it has sold. If the report cannot be made, a report with the
        problem takes its place, so that the scheduler refuses priority
        instances: the last report would still admit them.
        """
        # An error is logged. It leaves the text at None, and is the problem of
        # the outcome, a sentence.
        text = None
        with self._contain('report its CPUs',
                           refuse_on_error=False) as outcome:
            report = self.get_priority_report(compute_node)
            text = host_report.HostReport.to_stats(report)
            self.priority_host.oversold_warnings.warn(
                report, self.priority_host.leases.list_usages())
        if text is None:
            # If nova-scheduler knows more used vCPUs than the report, these
            # are of instances that it has placed since.
            with self._contain('report its problem', refuse_on_error=False):
                report = capacity_report.CapacityReport.from_problem(
                    outcome.problem, compute_node.vcpus_used)
                text = host_report.HostReport.to_stats(report)
        stats = self.stats[compute_node.hypervisor_hostname]
        stats.pop(host_report.STATS_KEY, None)
        if text is not None:
            stats[host_report.STATS_KEY] = text
        compute_node.stats = stats

    def get_priority_report(self, compute_node):
        """Return the CapacityReport of a compute node as it is now.

        :param compute_node: nova.objects.ComputeNode
        :raises: as ``read_inventories``
        """
        return self.priority_host.report(
            compute_node, self.read_inventories(compute_node))

    def read_inventories(self, compute_node):
        """Return the inventories of a node as Placement has them.

        The callers need the CPU allocation ratio in the VCPU inventory: an
        operator may have changed it in Placement.

        :returns: dict, resource class -> inventory
        :raises nova.exception.ComputeResourcesUnavailable: if nova-compute has
            not read the inventories yet
        """
        if self.provider_tree is None:
            raise exception.ComputeResourcesUnavailable(reason=(
                'The host has not reached Placement yet, which knows its CPU '
                'allocation ratio.'))
        return self.provider_tree.data(
            compute_node.hypervisor_hostname).inventory

    def is_disabled_for_priority(self, nodename):
        """Return whether a host is disabled for priority instances.

        :param nodename: name of the compute node
        """
        return self.provider_tree is not None and disabling.is_disabled(
            self.reportclient, self.provider_tree.data(nodename))


def _describe(object_or_dict, instance, topology):
    """Return the ``priority_host.Counted`` for a call of Nova.

    It describes the instance itself, which then is resident, or one side of
    its move. An instance is at rest if nothing moves or changes it, so that
    its record has the CPUs on which its guest is. For its periodic count, Nova
    may replace them in memory by those of its migration context. ``wanted`` is
    a LeaseSet: the CPUs and vCPUs that the host must keep for the instance.

    :param object_or_dict: nova.objects.Instance on the host, or
        nova.objects.Flavor for one side of a move
    :param topology: nova.objects.InstanceNUMATopology, or None
    """
    is_resident = isinstance(object_or_dict, objects.Instance)
    flavor = object_or_dict.flavor if is_resident else object_or_dict
    return priority_host.Counted(
        uuid=instance.uuid, wanted=demand.get_lease_set(flavor, topology),
        is_resident=is_resident,
        is_at_rest=(instance.task_state is None and
                    not migration_states.has_applied_context(instance)),
        is_resizing=is_resident and instance.task_state in _RESIZING)
