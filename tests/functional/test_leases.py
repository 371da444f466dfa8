# SPDX-License-Identifier: Apache-2.0

"""No dedicated CPU is used twice, whatever happens during a move.

Each scenario is a fault that once let two instances have one CPU. There are
two lines of defence: the leases, which end only by evidence, and the start
gate. The tests let each scenario run with both lines, and with either alone.
"""

from unittest import mock

import fixtures
from lxml import etree
from nova import objects
from oslo_utils.fixture import uuidsentinel as uuids

from nova_prio.cmd import report
from nova_prio.compute import priority_host
from nova_prio.compute import start_gate
from nova_prio.objects import migration_states
from nova_prio.virt.libvirt import partitions
from nova_prio_scenario import migrations
from tests import commands
from tests.functional import double_pins
from tests.functional import maintenance
from tests.functional import oracle
from tests.fuzz import faults

MANAGER = 'nova.compute.manager.ComputeManager.'
TRACKER = 'nova_prio.compute.resource_tracker.PriorityResourceTracker.'


class _Scenarios(double_pins.PinnedCloud):
    """The faults, each a method that ends when Nova has nothing to do."""

    def boot_any(self, flavor, host):
        """Create a server; return it when it is active or has failed."""
        server = self.api.post_server({'server': self._build_server(
            flavor_id=flavor, networks='none', az='nova:' + host)})

        def check():
            found = self.api.get_server(server['id'])
            self.assertIn(found['status'], ('ACTIVE', 'ERROR'))
            return found

        return self.soon(check)

    def power_on(self, server):
        """Start a server that is off, if the start gate lets it."""
        self.api.post_server_action(server['id'], {'os-start': None})
        self.wait_until_idle(server)

    def delete_during_cold_migration(self):
        """The source has set the host, the destination not yet the CPUs."""
        server = self.boot(self.four, host='mix1')
        neighbour = self.boot(self.two, host='mix2')
        # Both hosts know these CPU numbers.
        self.assertTrue(self.pins(server) & self.pins(neighbour))

        def delete():
            self._delete_server(server)
            self.boot(self.two, host='mix2')

        with self.calling_once(MANAGER + '_finish_resize_helper', delete):
            self.api.post_server_action(server['id'], {'migrate': None})

    def _evacuate(self, server, name, meanwhile, **kwargs):
        """Evacuate a server to mix2; call a function meanwhile."""
        with self.calling_once(MANAGER + name, meanwhile, **kwargs):
            self.api.post_server_action(
                server['id'], {'evacuate': {'host': 'mix2'}})
        self.wait_for_newest(server, 'done', 'failed')

    def source_returns_during_evacuation(self):
        """Starting, it sets the evacuation to completed too early."""
        server = self.boot(self.four, host='mix1')
        self.host_down('mix1')

        def meanwhile():
            self.host_up('mix1')
            self.recount('mix2')
            self.boot_any(self.four, 'mix2')

        self._evacuate(server, '_rebuild_default_impl', meanwhile)
        return server

    def recount_at_end_of_evacuation(self):
        """Nova saves the task state before the host."""
        server = self.boot(self.four, host='mix1')
        self.host_down('mix1')

        def meanwhile():
            self.recount('mix2')
            self.boot_any(self.four, 'mix2')

        self._evacuate(server, 'stop_instance', meanwhile, is_after=True)
        return server

    def cold_migration_after_failed_move(self):
        """A recount of the source marks the cold migration as failed."""
        server = self.boot(self.four, host='mix1')
        # The live migration fails after its claim: its context stays.
        with self.failing(*faults.FAILURES['last-check']):
            self.api.post_server_action(server['id'], {'os-migrateLive': {
                'host': 'mix2', 'block_migration': 'auto'}})
            self.wait_for_newest(server, 'error')
        self.wait_until_idle(server)
        self.update_host('mix2')

        def resize():
            self.recount('mix2')
            self.boot_any(self.four, 'mix2')

        with (self.calling_once(TRACKER + '_claim_existing_migration',
                                lambda: self.recount('mix1'), is_after=True),
              self.calling_once(MANAGER + '_resize_instance', resize)):
            self.api.post_server_action(server['id'], {'migrate': None})
        self.wait_until_idle(server)
        return server

    def _delete_and_take(self, server, host):
        """Delete a server, recount, and create another one."""
        self._delete_server(server)
        self.recount(host)
        self.boot_any(self.four, host)

    def delete_during_spawn_of_evacuation(self):
        """The guest starts after the API has deleted the instance."""
        server = self.boot(self.four, host='mix1')
        self.host_down('mix1')
        with self.calling_once(
                faults.DRIVER + 'spawn',
                lambda: self._delete_and_take(server, 'mix2')):
            self.api.post_server_action(
                server['id'], {'evacuate': {'host': 'mix2'}})

    def delete_during_finish_resize(self):
        """The guest starts after mix2 has freed its claim."""
        server = self.boot(self.four, host='mix1')
        with self.calling_once(
                faults.DRIVER + 'finish_migration',
                lambda: self._delete_and_take(server, 'mix2')):
            self.api.post_server_action(server['id'], {'migrate': None})

    def delete_during_finish_revert_resize(self):
        """The guest starts after mix1 has freed its CPUs."""
        server = self.boot(self.four, host='mix1')
        self._migrate_server(server)
        with self.calling_once(
                faults.DRIVER + 'finish_revert_migration',
                lambda: self._delete_and_take(server, 'mix1')):
            self.api.post_server_action(server['id'], {'revertResize': None})

    #: Deletes while a guest is being started.
    DELETES = (delete_during_spawn_of_evacuation, delete_during_finish_resize,
               delete_during_finish_revert_resize)

    def wait_for_newest(self, server, *statuses):
        """Wait until the newest migration of a server has a status."""
        def check():
            found = migrations.get_newest(self.api, server['id'])
            self.assertIn(found.get('status'), statuses)
            return found

        return self.soon(check)

    def count_refusals(self):
        """Return how many starts the gate has refused in this test."""
        return self.gate_log.output.count(oracle.REFUSED)

    def assert_separate_everywhere(self):
        for host in self.HOSTS:
            self.assert_separate(host)

    def assert_consistent(self):
        """Assert that no CPU is used twice, now and after two recounts."""
        self.assert_separate_everywhere()
        self.return_hosts()
        self.assert_exact()
        self.assert_separate_everywhere()

    def clean_up(self):
        """Delete all servers, and start the hosts that are down."""
        self.return_hosts()
        for server in self.api.get_servers():
            self._delete_server(server)
        self.end_orphans()
        for host in self.HOSTS:
            for _ in range(2):
                self.update_host(host)
            self.assertEqual([], self.leases(host).list_all())


class Leases(_Scenarios):
    """Both lines of defence."""

    def assert_active(self, server, host):
        """Assert that a server runs on a host, on CPUs of its own."""
        found = self.api.get_server(server['id'])
        self.assertEqual(('ACTIVE', host), (
            found['status'], found['OS-EXT-SRV-ATTR:host']))
        self.assertEqual(self.pins(server),
                         self.running_cpus(host)[server['id']])
        self.assertEqual(0, self.count_refusals())

    def test_delete_during_cold_migration_frees_only_own_cpus(self):
        self.delete_during_cold_migration()
        self.assertEqual(0, self.count_refusals())
        self.assert_consistent()

    def test_source_that_returns_ends_no_evacuation_claim(self):
        server = self.source_returns_during_evacuation()
        self.assert_separate_everywhere()
        self.power_on(server)
        self.assert_active(server, 'mix2')
        self.assert_consistent()

    def test_recount_at_end_of_evacuation_keeps_claim(self):
        server = self.recount_at_end_of_evacuation()
        self.assert_separate_everywhere()
        self.power_on(server)
        self.assert_active(server, 'mix2')
        self.assert_consistent()

    def test_recount_of_source_ends_no_claim_of_cold_migration(self):
        server = self.cold_migration_after_failed_move()
        self.assert_separate_everywhere()
        self._confirm_resize(server)
        self.assert_active(server, 'mix2')
        self.assert_consistent()

    def test_delete_while_guest_starts(self):
        for scenario in self.DELETES:
            scenario(self)
            self.assert_consistent()
            self.clean_up()

    def test_double_pin_is_reported_and_refuses_pinned_instances(self):
        first, second = (self.boot(self.two, host='mix1') for _ in range(2))
        start = min(self.pins(first))
        for server in first, second:
            self.pin_twice(server, start)
        self.restart_compute_service('mix1')
        for _ in range(2):
            self.update_host('mix1')
        self.assertNotIn('Error updating resources', self.log.output)
        problem = self.report('mix1').problem
        self.assertIn(first['id'], problem)
        self.assertIn(second['id'], problem)
        pinned = self.flavor(2, **{'hw:cpu_policy': 'dedicated'})
        for flavor in self.two, self.low, pinned:
            self.boot(flavor, 'ERROR', az='nova:mix1')
        self.boot(self.flavor(2), host='mix1')
        self._drain_dry()
        # The remedy that the problem names.
        blamed = second if problem.startswith(
            'Instance ' + second['id']) else first
        self._migrate_server(blamed)
        self._confirm_resize(blamed)
        self.assert_consistent()
        self.boot(self.two, az='nova:mix1')
        self.boot(pinned, az='nova:mix1')
        self.assert_consistent()

    def _drain_dry(self):
        """Let the judge move all instances away, on copies."""
        maintenance.let_commands_move(self)
        self.flags(connection='sqlite://', group='api_database')
        status, rows, said = commands.run(
            'host', 'drain', 'mix1', '--dry-run')
        self.assertEqual(report.CLEAN, status, said)
        self.assertEqual({'mix2'}, {row['Destination'] for row in rows})

    def pin_twice(self, server, start):
        """Pin a server to two CPUs from a number on: record and guest."""
        self.move_record(server, start)
        domain = self.domains('mix1')[server['id']]
        xml = etree.fromstring(domain.xml)
        for pin in xml.iter('emulatorpin', 'iothreadpin'):
            pin.set('cpuset', str(start))
        for number, pin in enumerate(xml.iter('vcpupin')):
            pin.set('cpuset', str(start + number))
        domain.xml = etree.tostring(xml, encoding='unicode')

    def test_recount_during_rollback_of_live_migration(self):
        """mix2 admits instances at once."""
        server = self.boot(self.four, host='mix1')
        self.fail_next_migration(server['id'], raises=False)
        stock = objects.Instance.drop_migration_context
        dropped = []

        def drop(instance):
            stock(instance)
            if instance.uuid == server['id']:
                dropped.append(instance)
                self.recount('mix2')

        with fixtures.MonkeyPatch(
                'nova.objects.Instance.drop_migration_context', drop):
            self.api.post_server_action(server['id'], {'os-migrateLive': {
                'host': 'mix2', 'block_migration': 'auto'}})
            self.wait_for_newest(server, 'failed')
        self.assertTrue(dropped)
        self.assertEqual('', self.report('mix2').problem)
        self.assert_separate_everywhere()
        self.boot(self.four, az='nova:mix2')
        self.assert_active(server, 'mix1')
        self.assert_consistent()

    def test_reset_state_before_live_migration_starts_guest(self):
        """The task is gone that kept the CPUs of the guest on mix2."""
        server = self.boot(self.four, host='mix1')
        stock = self.computes['mix1'].driver.live_migration

        def wait(*args, **kwargs):
            self.reset_state(server)
            with mock.patch.object(migration_states, 'QUIET_SECONDS', 60):
                for _ in range(3):
                    self.recount('mix2')
            self.boot(self.four, host='mix2')
            return stock(*args, **kwargs)

        with mock.patch.object(self.computes['mix1'].driver, 'live_migration',
                               wait):
            self.api.post_server_action(server['id'], {'os-migrateLive': {
                'host': 'mix2', 'block_migration': 'auto'}})
            # The guest arrives, but Nova expects its task.
            self.wait_for_newest(server, 'error')
        self.assertIn(server['id'], self.running_cpus('mix2'))
        self.assert_separate_everywhere()


class AbortedLiveMigration(_Scenarios):
    """A live migration waits for another one, is aborted, and tried again."""

    HOSTS = 'mix1', 'mix2', 'mix3'

    def setUp(self):
        self.flags(max_concurrent_live_migrations=1)
        super().setUp()

    def begin(self, server, host, status):
        """Begin a live migration; return it when it has a status."""
        before = migrations.get_newest(self.api, server['id'])
        self.api.post_server_action(server['id'], {'os-migrateLive': {
            'host': host, 'block_migration': 'auto'}})

        def check():
            found = self.wait_for_newest(server, status)
            self.assertNotEqual(before.get('id'), found['id'])
            return found

        return self.soon(check)

    def test_abort_keeps_claim_of_next_live_migration(self):
        """The next one begins while mix2 releases the claim of the first."""
        first = self.boot(self.two, host='mix1')
        second = self.boot(self.four, host='mix1')

        def try_again():
            self.begin(second, 'mix3', 'queued')

        with self.hold_migration(first['id']):
            self.begin(first, 'mix2', 'running')
            aborted = self.begin(second, 'mix2', 'queued')
            with self.calling_once(
                    'nova_prio.compute.resource_tracker.'
                    'PriorityResourceTracker.update_available_resource',
                    try_again):
                self.api.delete_migration(second['id'], aborted['id'])
            self.update_host('mix3')
            self.assertEqual('', self.report('mix3').problem)
            self.assertIsNotNone(self.instance(second).migration_context)
            self.boot(self.four, host='mix3')
            self.assert_separate_everywhere()
        for server in first, second:
            self.wait_for_newest(server, 'completed')
            self.wait_until_idle(server)
        self.assertEqual('mix3', self.host_of(second))
        self.assertEqual(0, self.count_refusals())
        self.assert_consistent()


class BlockedCPUs(_Scenarios):
    """A domain that Nova did not create uses dedicated CPUs."""

    HOSTS = 'mix1',

    def start_seed_host(self, name):
        super().start_seed_host(name, mix=False, ratio=1.0, aggregate=None)

    def test_host_without_mix_pins_no_ordinary_instance_there(self):
        foreign = self.connection('mix1').defineXML(
            partitions._PROBE_XML % ('kvm', 'vm-of-operator', uuids.foreign,
                                     '0-5'))
        foreign.create()
        self.update_host('mix1')
        self.assertEqual(set(range(6)), self.report('mix1').blocked)
        pinned = self.flavor(2, **{'hw:cpu_policy': 'dedicated'})
        server = self.boot(pinned, az='nova:mix1')
        self.assertEqual({6, 7}, self.pins(server))
        self.boot(pinned, 'ERROR', az='nova:mix1')
        foreign.destroy()
        self.update_host('mix1')
        self.boot(pinned, az='nova:mix1')
        self.assert_consistent()


class LeasesAlone(_Scenarios):
    """The start gate lets every guest start."""

    # The gate is the defence of guests that run.
    CHECKED = ('recorded_cpus', 'leased_cpus')

    def setUp(self):
        super().setUp()
        for name in 'check', 'check_arrival':
            self.useFixture(fixtures.MockPatchObject(
                start_gate.StartGate, name))

    def test_records_and_leases_do_not_overlap(self):
        for scenario in (_Scenarios.delete_during_cold_migration,
                         _Scenarios.source_returns_during_evacuation,
                         _Scenarios.recount_at_end_of_evacuation,
                         _Scenarios.cold_migration_after_failed_move,
                         *self.DELETES):
            scenario(self)
            self.assert_consistent()
            self.clean_up()


class GateAlone(_Scenarios):
    """A lease ends in a recount that does not count it.

    Some faults let no second guest start, so there is nothing to refuse:
    another instance is pinned on a blocked CPU (``BlockedCPUs``), two guests
    run already, a host refuses instances, the context of the next live
    migration is dropped, or a delete frees the CPUs of a neighbour.
    """

    CHECKED = ('running_cpus',)

    def setUp(self):
        super().setUp()
        stock = priority_host.PriorityHost.end_recount

        def end_recount(host, *args):
            stock(host, *args)
            for uuid, each in host.leases.list_all():
                if not each.is_counted:
                    double_pins.let_go(host.leases, uuid)
                    host.leases.end(uuid, each)

        self.useFixture(fixtures.MonkeyPatch(
            'nova_prio.compute.priority_host.PriorityHost.end_recount',
            end_recount))

    def test_second_start_is_refused(self):
        for scenario in (_Scenarios.source_returns_during_evacuation,
                         _Scenarios.recount_at_end_of_evacuation,
                         _Scenarios.cold_migration_after_failed_move,
                         *self.DELETES):
            before = self.count_refusals()
            server = scenario(self)
            self.assert_separate_everywhere()
            if scenario == _Scenarios.recount_at_end_of_evacuation:
                # Nova has stopped the guest again after its start.
                self.power_on(server)
                self.assert_separate_everywhere()
            self.assertEqual(before + 1, self.count_refusals(), scenario)
            self.clean_up()
