# SPDX-License-Identifier: Apache-2.0

"""A cloud whose dedicated CPUs are counted by guest, record and lease."""

import collections
import contextlib
import functools
import logging
import pkgutil
import threading

import fixtures
from lxml import etree
from nova.compute import manager
from nova.compute import task_states
from nova.compute import vm_states
from nova import context
from nova import objects

from nova_prio.compute import start_gate
from nova_prio.virt import demand
from tests.functional import oracle
from tests.fuzz import faults

_ATTRIBUTES = ['flavor', 'migration_context', 'numa_topology']


class PinnedCloud(oracle.Oracle, faults.FaultyCloud):
    """Two hosts with 8 dedicated CPUs each."""

    CAST_AS_CALL = False
    refuses_starts = True
    HOSTS = 'mix1', 'mix2'
    DEDICATED = frozenset(range(8))
    #: What ``assert_separate`` checks: the names of methods.
    CHECKED = 'running_cpus', 'recorded_cpus', 'leased_cpus'

    def setUp(self):
        # A long test must not take a host for one that is down.
        self.flags(service_down_time=86400, shutdown_timeout=0)
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(name=manager.LOG.name))
        self.gate_log = self.useFixture(fixtures.FakeLogger(
            name=start_gate.LOG.name, format='%(instance_uuid)s %(message)s',
            formatter=functools.partial(
                logging.Formatter, defaults={'instance_uuid': None})))
        for name in self.HOSTS:
            self.start_seed_host(name)
        self.four, self.two = (
            self.flavor(vcpus, **{'hw:cpu_priority': 'high'})
            for vcpus in (4, 2))

    # The leases

    def leases(self, host):
        """Return the ``leases.Leases`` of a host."""
        return self.computes[host].driver.priority_host.leases

    def own_cpus(self, host, server):
        """Return the CPUs that a host has leased to a server."""
        return frozenset().union(*(
            each.cpus for each in self.leases(host).get(server['id'])))

    # The CPUs of a host, each time a dict, UUID -> frozenset of CPU numbers

    def leased_cpus(self, host):
        """Return the leased CPUs."""
        found = collections.defaultdict(frozenset)
        for uuid, each in self.leases(host).list_all():
            found[uuid] |= each.cpus
        return {uuid: cpus for uuid, cpus in found.items() if cpus}

    def running_cpus(self, host):
        """Return the dedicated CPUs on which the running guests are pinned."""
        return {uuid: self.DEDICATED & _get_pinned_cpus(domain.xml)
                for uuid, domain in self.domains(host).items()
                if domain.isActive()}

    def recorded_cpus(self, host):
        """Return the CPUs in the records of the instances on the host.

        An instance that was deleted or offloaded has none, although Nova
        removes its host later. One whose disk has just moved to this host has
        still those of the source, and one that is reverted has them again
        while it is still here.
        """
        return {instance.uuid: frozenset(demand.get_instance_pins(instance))
                for instance in self.list_instances()
                if instance.host == host and
                instance.task_state not in (
                    task_states.RESIZE_MIGRATED,
                    task_states.RESIZE_REVERTING) and
                not vm_states.allow_resource_removal(
                    instance.vm_state, instance.task_state)}

    # The records

    def list_instances(self):
        """Return all instances that are not deleted, in the cells of hosts."""
        found = []
        for name, cell in self.cell_mappings.items():
            if name == 'cell0':
                continue
            with context.target_cell(
                    context.get_admin_context(), cell) as cctxt:
                found.extend(objects.InstanceList.get_by_filters(
                    cctxt, {'deleted': False}, expected_attrs=_ATTRIBUTES))
        return found

    def instance(self, server):
        """Return the nova.objects.Instance of a server."""
        found, = (instance for instance in self.list_instances()
                  if instance.uuid == server['id'])
        return found

    def pins(self, server):
        """Return the CPUs in the record of a server."""
        return frozenset(demand.get_instance_pins(self.instance(server)))

    def move_record(self, server, first):
        """Pin a server, in its record alone, to the CPUs from a number on."""
        instance = self.instance(server)
        cell, = instance.numa_topology.cells
        cell.cpu_pinning = {
            vcpu: first + vcpu for vcpu in sorted(cell.pcpuset)}
        instance.save()

    # What tests do and wait for

    @contextlib.contextmanager
    def host_context(self, host):
        """Yield a context of the cell of a host, with the options of it."""
        cell = self.host_mappings[host].cell_mapping
        with self.host_conf(host), context.target_cell(
                context.get_admin_context(), cell) as cctxt:
            yield cctxt

    def recount(self, host):
        """Recount a host; raise the error that Nova would log."""
        with self.host_context(host) as cctxt:
            self.computes[host].rt.update_available_resource(cctxt, host)

    def return_hosts(self):
        """Start the hosts that are down; end the guests that Nova forgot."""
        for host in sorted(self.hosts_down):
            self.host_up(host)
        self.end_orphans()

    def end_orphans(self):
        """Let Nova end the guests of deleted instances."""
        self.flags(running_deleted_instance_timeout=0)
        for host in self.HOSTS:
            if host not in self.hosts_down:
                with self.host_context(host) as cctxt:
                    self.computes[host].manager. \
                        _cleanup_running_deleted_instances(cctxt)

    @contextlib.contextmanager
    def calling_once(self, name, function, is_after=False):
        """Return a context where a function runs in a call of Nova.

        The function runs in the thread of the first call of a method, before
        it or after it. The context waits until that call has ended, and raises
        the error of the function.

        :param name: full name of the method. The RPC server of Nova 34 keeps a
            method that it has called once, so give one that Nova calls itself
        """
        stock = pkgutil.resolve_name(name)
        calls, errors = [], []
        has_ended = threading.Event()

        def run():
            try:
                function()
            except Exception as error:
                errors.append(error)

        def call(*args, **kwargs):
            calls.append(name)
            is_first = len(calls) == 1
            try:
                if is_first and not is_after:
                    run()
                result = stock(*args, **kwargs)
                if is_first and is_after:
                    run()
                return result
            finally:
                if is_first:
                    has_ended.set()

        with fixtures.MonkeyPatch(name, call):
            yield
            self.assertTrue(has_ended.wait(60), name)
        for error in errors:
            raise error

    def _wait_for_server_parameter(self, server, expected_params, *args,
                                   **kwargs):
        """Wait as Nova's tests do, but look ten times a second."""
        def check():
            found = self.api.get_server(server['id'])
            self.assertEqual(expected_params, {
                name: found[name] for name in expected_params})
            # Nova writes the fault after the status.
            self.assertTrue(expected_params.get('status') != 'ERROR' or
                            'fault' in found)
            return found

        return self.soon(check)

    def wait_until_idle(self, server):
        """Wait until a server has no task; return its details."""
        def check():
            found = self.api.get_server(server['id'])
            self.assertIsNone(found['OS-EXT-STS:task_state'])
            return found

        return self.soon(check)

    # What must hold

    def assert_separate(self, host):
        """Assert that no dedicated CPU of a host is used twice."""
        for name in self.CHECKED:
            found = getattr(self, name)(host)
            owners = collections.Counter(
                cpu for cpus in found.values() for cpu in cpus)
            self.assertEqual(
                [], [cpu for cpu, number in owners.items() if number > 1],
                (host, name, found))


def let_go(host_leases, uuid):
    """Forget the calls of Nova that work with the lease of an instance."""
    host_leases.end_call(uuid)
    while host_leases.is_in_hand(uuid):
        host_leases.end_start(uuid)


def _get_pinned_cpus(xml):
    """Return the CPUs of the vCPUs that are pinned to one CPU, a set."""
    pins = etree.fromstring(xml).findall('cputune/vcpupin')
    return {int(pin.get('cpuset')) for pin in pins
            if pin.get('cpuset').isdigit()}
