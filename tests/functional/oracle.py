# SPDX-License-Identifier: Apache-2.0

"""What must hold on a host: at any moment, and at rest."""

import collections
import time
import typing

from nova.compute import resource_tracker
from nova.compute import task_states
from nova.compute import vm_states
from nova import objects

from nova_prio.objects import migration_states
from nova_prio.virt import demand

#: Guests, records and leases are read one after the other. What is wrong must
#: stay wrong for this time.
_SECONDS = 1
#: Part of the line of the start gate about a guest that it refuses.
REFUSED = 'cannot start on its CPUs'
#: The start gate writes a WARNING if a lease has ended too early.
_NOT_LEASED = 'which were not leased to its instance'
_RESERVED_MEMORY_MB = 512
#: Tasks in which an instance may have lost its allocation already.
_LEAVING = task_states.SHELVING_OFFLOADING, task_states.DELETING
#: Statuses of a cold move whose guest may be on either host next.
_HELD_BY_BOTH = 'migrating', 'post-migrating', 'finished'


class Need(typing.NamedTuple):
    """What an instance, or one side of a move, needs on a host.

    ``consumer`` is the UUID that has its allocation in Placement.
    """

    uuid: str
    consumer: str
    cpus: frozenset
    shared: int
    flavor: objects.Flavor


class Oracle:
    """A part of a ``double_pins.PinnedCloud``."""

    was_killed = False  # whether a nova-compute was killed during a call

    def assert_sound(self):
        """Assert what must hold at any moment, on all hosts."""
        deadline = time.monotonic() + _SECONDS
        while True:
            found = [text for host in self.HOSTS
                     for text in self._find_unsound(host)]
            if not found or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self.assertEqual([], found)
        self.assertEqual([], self._list_wrong_starts())

    def _list_wrong_starts(self):
        """Return the lines of the gate about starts without a lease.

        If an instance is deleted while its guest is about to start, its lease
        has ended, and another one may have its CPUs. Then the line is right.
        """
        present = tuple(each.uuid for each in self.list_instances())
        return [line for line in self.gate_log.output.splitlines()
                if (REFUSED in line or _NOT_LEASED in line) and
                line.startswith(present)]

    def _find_unsound(self, host):
        """Yield what is wrong on a host, each a str."""
        running = self.running_cpus(host)
        leased = self.leased_cpus(host)
        recorded = {uuid: cpus for uuid, cpus
                    in self.recorded_cpus(host).items()
                    if not self._is_half_saved(cpus, leased.get(uuid))}
        for what, found in (('guests', running), ('leases', leased),
                            ('records', recorded)):
            owners = collections.Counter(
                cpu for cpus in found.values() for cpu in cpus)
            twice = [cpu for cpu, number in owners.items() if number > 1]
            if twice:
                yield '%s: %s have CPUs %s twice: %s' % (
                    host, what, twice, found)
        if host in self.hosts_down:
            return
        with_lease = {uuid for uuid, _ in self.leases(host).list_all()}
        for uuid in set(running) - with_lease:
            if not self._is_uncounted(uuid, host, running[uuid]):
                yield '%s: the guest %s runs without a lease' % (host, uuid)
        for what, found in (('runs on', running.items()),
                            ('moves, and holds', self._list_held(host))):
            for uuid, cpus in found:
                if not cpus <= leased.get(uuid, frozenset()):
                    yield '%s: %s %s %s, leased are %s' % (
                        host, uuid, what, sorted(cpus), leased.get(uuid))
        report = self._get_report_of_tracker(host)
        leaving = self._count_leaving(host)
        for row in report.sellable._fields:
            used = getattr(report.used, row)
            sellable = getattr(report.sellable, row)
            if used > sellable + leaving:
                yield '%s: %d of %d in the %s row are used' % (
                    host, used, sellable, row)

    def _is_half_saved(self, cpus, leased):
        """Return whether Nova may have saved new CPUs without the new host.

        It does if the source of a live migration is killed after the guest has
        left. The start gate corrects this record.

        :param cpus: CPUs in the record of the instance
        :param leased: CPUs that the host has leased to it, or None
        """
        return self.was_killed and bool(leased) and not cpus <= leased

    def _is_uncounted(self, uuid, host, cpus):
        """Return whether no claim counts a guest, which has no own CPUs.

        Nova claims nothing for a live migration of an instance without pinned
        CPUs. Without mix, this package does so only for an instance with a
        priority. If an instance is deleted while its guest is about to start,
        or if the source of a live migration is killed when the guest has left,
        nothing counts the guest.

        :param cpus: the dedicated CPUs on which the guest is pinned
        """
        instance = {each.uuid: each for each in self.list_instances()}.get(
            uuid)
        return not cpus and (
            instance is None or
            (self.was_killed and instance.host != host) or
            not self.computes[host].driver.manages(instance))

    def _count_leaving(self, host):
        """Return the counted shared vCPUs that no guest will use.

        Without mix, Placement alone decides about the vCPUs of ordinary
        instances. Nova deletes the guest and the allocation of an instance
        that is being offloaded first, which may have a claim of a killed move
        for longer, and may be deleted meanwhile. It deletes an instance
        although nova-compute still moves it. A recount counts each open move
        to the host, also one that nova-compute is about to refuse. While a
        move begins, a recount may take an earlier move that has failed for an
        open one; if it is slow, its number is still that of before when
        nova-compute has refused the move.
        """
        instances = {each.uuid: each for each in self.list_instances()}
        number = 0
        for uuid, usage in self.leases(host).list_usages():
            instance = instances.get(uuid)
            if (instance is None or _has_left(instance) or
                    instance.task_state in _LEAVING or
                    self._has_no_claim(instance, host)):
                number += usage.demand.shared
        return number

    def _has_no_claim(self, instance, host):
        """Return whether the moves of an instance have no claim on a host.

        They have failed, or the one to this host has not got the migration
        context yet, which a claim makes.
        """
        context = instance.migration_context
        claimed = None if context is None else context.migration_id
        migrations = objects.MigrationList.get_by_filters(
            instance._context, {'instance_uuid': instance.uuid})
        return instance.host != host and all(
            each.status == 'error' or (
                migration_states.is_open(each) and
                each.dest_compute == host and each.id != claimed)
            for each in migrations)

    def _list_held(self, host):
        """Yield (UUID, CPUs) of each move that may still need CPUs of a host.

        The source of a cold move holds those of before the move until it is
        confirmed, the destination the new ones until it is reverted. If the
        source returns during an evacuation, the destination goes on. An
        instance that has been offloaded since does not move any more, and one
        whose state was reset on the source does not arrive.
        """
        for instance in self.list_instances():
            migration = migration_states.get_last_move(instance)
            if migration is None or _has_left(instance):
                continue
            context = instance.migration_context
            is_cold = migration.migration_type in ('migration', 'resize')
            moves = is_cold and migration.status in _HELD_BY_BOTH
            reverts = is_cold and (
                migration.status == 'reverting' or
                migration_states.is_unfinished_revert(instance, migration))
            arrives = moves and (
                instance.host == migration.dest_compute or
                resource_tracker._instance_in_resize_state(instance))
            evacuates = migration_states.is_unfinished_evacuation(
                instance, migration)
            if migration.source_compute == host and (moves or reverts):
                yield instance.uuid, frozenset(
                    demand.get_topology_pins(context.old_numa_topology))
            if migration.dest_compute == host and (arrives or evacuates):
                yield instance.uuid, frozenset(
                    demand.get_topology_pins(context.new_numa_topology))

    def _get_report_of_tracker(self, host):
        tracker = self.computes[host].rt
        return tracker.get_priority_report(tracker.compute_nodes[host])

    # At rest

    def assert_exact(self):
        """Assert that the numbers of all hosts are those that are needed."""
        for host in self.HOSTS:
            for _ in range(2):
                self.update_host(host)
        for host in self.HOSTS:
            self._assert_exact_host(host)
        self.assertNotIn('Error updating resources', self.log.output)

    def _assert_exact_host(self, host):
        needs = self._list_needs(host)
        cpus = collections.defaultdict(frozenset)
        shared, memory_mb = collections.Counter(), collections.Counter()
        for each in needs:
            cpus[each.uuid] |= each.cpus
            shared[each.uuid] += each.shared
            memory_mb[each.uuid] += each.flavor.memory_mb
        cpus = {uuid: found for uuid, found in cpus.items() if found}
        leased_shared, leased_mb = collections.Counter(), collections.Counter()
        for uuid, usage in self.leases(host).list_usages():
            leased_shared[uuid] += usage.demand.shared
            leased_mb[uuid] += usage.ram_mb
        self.assertEqual(
            (cpus, +shared, memory_mb),
            (self.leased_cpus(host), +leased_shared, leased_mb), host)
        with self.record(host) as node:
            self.assertEqual(
                (sorted(frozenset().union(*cpus.values())),
                 sum(each.flavor.vcpus for each in needs),
                 _RESERVED_MEMORY_MB +
                 sum(each.flavor.memory_mb for each in needs)),
                (sorted(demand.get_host_pins(node.numa_topology)),
                 node.vcpus_used, node.memory_mb_used), host)
        for uuid, found in self.running_cpus(host).items():
            self.assertLessEqual(found, cpus.get(uuid, frozenset()), uuid)
        self.assertEqual('', self.report(host).problem)
        self.assertEqual(
            {each.consumer: _get_amounts(each) for each in needs},
            {consumer: found['resources'] for consumer, found
             in self.resources(host, 'allocations').items()}, host)

    def _list_needs(self, host):
        """Return the Needs of a host, a list."""
        found = []
        for instance in self.list_instances():
            # The kill of a nova-compute may leave the host in the record of an
            # offloaded instance.
            if instance.host == host and not _has_left(instance):
                found.append(_get_need(
                    instance, instance.uuid, instance.flavor,
                    instance.numa_topology))
            if instance.vm_state == 'resized':
                migration = objects.Migration.get_by_id(
                    instance._context,
                    instance.migration_context.migration_id)
                if migration.source_compute == host:
                    found.append(_get_need(
                        instance, migration.uuid, instance.old_flavor,
                        instance.migration_context.old_numa_topology))
        return found


def _has_left(instance):
    """Return whether an instance was deleted or offloaded.

    Nova removes its host later.
    """
    return instance.host is None or vm_states.allow_resource_removal(
        instance.vm_state, instance.task_state)


def _get_need(instance, consumer, flavor, topology):
    return Need(
        uuid=instance.uuid, consumer=consumer, flavor=flavor,
        cpus=frozenset(demand.get_topology_pins(topology)),
        shared=demand.get_demand(flavor, topology).shared)


def _get_amounts(need):
    """Return the allocation of a Need, a dict."""
    found = {'PCPU': len(need.cpus), 'VCPU': need.shared,
             'MEMORY_MB': need.flavor.memory_mb,
             'DISK_GB': need.flavor.root_gb + need.flavor.ephemeral_gb}
    return {name: amount for name, amount in found.items() if amount}
