# SPDX-License-Identifier: Apache-2.0

"""Live migration between hosts with different CPU sets, mix or driver."""

import functools
import logging
import threading

import fixtures
from lxml import etree
from nova.compute import rpcapi
from nova import exception
from nova import objects
from nova.tests.functional.api import client
from nova.virt.libvirt import driver

from nova_prio.cmd import audit
from nova_prio.objects import host_report
from nova_prio.virt.libvirt import live_migration
from nova_prio_scenario import cloud
from tests import commands
from tests.functional import base
from tests.functional import devices

#: Name of a flavor -> (vCPUs, extra specs).
FLAVORS = {
    'high': (2, {'hw:cpu_priority': 'high'}),
    'high mixed': (2, {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'mixed',
                       'hw:cpu_dedicated_mask': '0'}),
    'low': (2, {'hw:cpu_priority': 'low'}),
    'low in both cells': (
        2, {'hw:cpu_priority': 'low', 'hw:numa_nodes': '2'}),
    'ordinary': (2, {}),
    'pinned': (1, {'hw:cpu_policy': 'dedicated'}),
    'mixed': (2, {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}),
}
LOW = {flavor for flavor in FLAVORS if flavor.startswith('low')}
PRIORITY = {flavor for flavor in FLAVORS if flavor.startswith('high')} | LOW

DRIVER = 'nova.virt.libvirt.driver.LibvirtDriver.'
#: The last check that Nova runs at the destination, after all claims.
LAST_CHECK = DRIVER + 'check_source_migrate_data_at_dest'


def fail(*args, **kwargs):
    raise exception.MigrationError(reason='it was made to fail')


def refuse(*args, **kwargs):
    raise exception.MigrationPreCheckError(reason='it was made to fail')


def fail_and_clean_up_late(test, server):
    """Fail to migrate a server: the source has ended it by the clean-up."""
    clean_up = rpcapi.ComputeAPI.rollback_live_migration_at_destination
    late = []

    def wait(api, context, instance, *args, **kwargs):
        late.append(functools.partial(
            clean_up, api, context, instance.obj_clone(), *args, **kwargs))

    with (fixtures.MonkeyPatch(DRIVER + 'pre_live_migration', fail),
          fixtures.MonkeyPatch(
              DRIVER + '_check_shared_storage_test_file',
              lambda *args: False),
          fixtures.MonkeyPatch(
              'nova.compute.rpcapi.ComputeAPI.'
              'rollback_live_migration_at_destination', wait)):
        test._live_migrate(server, 'failed')
    clean_up_late, = late
    clean_up_late()


class LiveMigration(base.FunctionalTest):
    """Guests on mix1; mix2 has other CPU sets."""

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self.start_seed_host('mix1', cells=2, dedicated='0-3,6-9',
                             shared='4-5,10-11')
        self.servers = {}

    def _boot(self, *flavors):
        """Create a server of each of these flavors on mix1."""
        for flavor in flavors:
            vcpus, extra_specs = FLAVORS[flavor]
            self.servers[flavor] = self.boot(
                self.flavor(vcpus, **extra_specs), host='mix1')

    def _start_mix2(self, **options):
        self.start_seed_host('mix2', **{**dict(
            cells=2, dedicated='1-4,7-9', shared='0,5,6,10-11'), **options})

    def _use(self, driver, host):
        """Restart a host with another driver."""
        self._host_options[host][None, 'compute_driver'] = driver
        self.restart_compute_service(host)
        self.update_host(host)

    def _migrate(self, server, host='mix2', **forced):
        self.api.post_server_action(server['id'], {'os-migrateLive': {
            'host': host, 'block_migration': 'auto', **forced}})
        self._wait_for_state_change(server, 'ACTIVE')
        self.soon(self._assert_over, server)

    def _assert_over(self, server):
        """Assert that the migration has ended, and the source recounted."""
        self.assertIn(self.migrations_of(server['id'])[-1]['status'],
                      ('completed', 'error', 'failed'))

    def _force(self, server, host='mix2'):
        """Migrate a server without the scheduler.

        If nova_prio is enabled, nova-api refuses this for such instances.
        """
        self.flags(enabled=False, group='nova_prio')
        self.api.microversion = '2.67'
        try:
            self._migrate(server, host, force=True)
        finally:
            self.api.microversion = 'latest'
            self.flags(enabled=True, group='nova_prio')

    def _assert_refused(self, words, move, server, host='mix1'):
        """Assert that a move is refused and changes nothing."""
        guest = self.guest_xml(server['id'])
        before = self._used()
        log = self.useFixture(fixtures.FakeLogger('nova', logging.DEBUG))
        self.assertRaises(client.OpenStackApiException, move, server)
        self.assertIn(words, log.output)
        self.assertEqual('ACTIVE', self.api.get_server(
            server['id'])['status'])
        self._assert_on(host, server)
        self.assertEqual(guest, self.guest_xml(server['id']))
        self.assertEqual(before, self._used())

    def _assert_on(self, host, server):
        self.assertEqual(host, self.host_of(server))
        held = self._get_allocations_by_server_uuid(server['id'])
        self.assertEqual([self.compute_rp_uuids[host]], list(held))

    def _used(self):
        """Return dict, host -> (used rows, low vCPUs by cell)."""
        reports = {host: self.report(host) for host in self.computes}
        return {host: (report.used, report.low_by_cell)
                for host, report in reports.items() if report}

    def _recount_unclaimed(self, flavor):
        """Recount mix2, without mix, if Nova claimed nothing for a flavor.

        Stock Nova counts such an instance from the next recount on.
        """
        if flavor == 'ordinary':
            self.update_host('mix2')

    def _assert_accounts(self, **used):
        """Assert that a recount does not change the reports."""
        before = self._used()
        for host in self.computes:
            self.update_host(host)
        self.assertEqual(before, self._used())
        for host, expected in used.items():
            self.assertEqual(expected, before[host])

    def _assert_guest(self, flavor, server, emulator='0,5-6,10-11',
                      low='0-11'):
        """Assert that the guest XML is that of the destination."""
        domain = etree.fromstring(self.guest_xml(server['id']))
        priority = flavor.split()[0] if flavor in PRIORITY else None
        self.assertEqual(
            priority and '/%s_prio_machine' % priority,
            domain.findtext('resource/partition'))
        pins = [pin.get('cpuset') for pin in domain.iter('vcpupin')]
        threads = {pin.get('cpuset') for pin in domain.iter('emulatorpin')}
        threads |= {pin.get('cpuset') for pin in domain.iter('iothreadpin')}
        if flavor == 'low':
            self.assertEqual(low, domain.find('vcpu').get('cpuset'))
            self.assertEqual(({emulator}, []), (threads, pins))
        elif flavor == 'low in both cells':
            self.assertEqual({emulator}, threads)
            self.assertEqual(2, len(pins))
        elif flavor == 'ordinary':
            self.assertEqual(emulator, domain.find('vcpu').get('cpuset'))
            self.assertEqual((set(), []), (threads, pins))
        else:
            self.assertIn(pins[0], {'1', '2', '3', '4', '7', '8', '9'})

    def test_to_a_host_with_other_sets(self):
        self._boot(*FLAVORS)
        self._start_mix2()
        for flavor, server in self.servers.items():
            self._migrate(server)
            self._assert_on('mix2', server)
            self._assert_guest(flavor, server)
        pins = [pin.get('cpuset') for pin in self.domain(
            self.servers['low in both cells']).iter('vcpupin')]
        self.assertEqual(['0-5', '6-11'], sorted(pins))
        self._assert_accounts(mix1=((0, 0, 0), {}),
                              mix2=((5, 8, 4), {0: 1, 1: 1}))

    def test_low_emulator_threads_follow_the_set_of_the_destination(self):
        """Migrate to a host without cpu_priority_mix_enable, and back."""
        self._boot(*sorted(LOW))
        self._start_mix2(dedicated='1-4,7-8', low_emulator_set='9')
        for flavor in sorted(LOW):
            server = self.servers[flavor]
            self._migrate(server)
            self._assert_on('mix2', server)
            self._assert_guest(flavor, server, emulator='9', low='0-8,10-11')
            self._migrate(server, 'mix1')
            self._assert_on('mix1', server)
            self._assert_guest(flavor, server, emulator='4-5,10-11')
        self._assert_earlier_release_counts(self.servers['low'])

    def _assert_earlier_release_counts(self, server):
        """A destination names its CPUs to any source with this package."""
        check = (live_migration.LiveMigration.
                 check_can_live_migrate_destination)

        def check_as_before(driver, *args, **kwargs):
            data = check(driver, *args, **kwargs)
            data.dst_numa_info.emulator_pins = driver._get_vcpu_available()
            return data

        with fixtures.MonkeyPatch(
                'nova_prio.virt.libvirt.live_migration.LiveMigration.'
                'check_can_live_migrate_destination', check_as_before):
            self._migrate(server)
        self._assert_guest('low', server, emulator='0,5-6,10-11',
                           low='0-8,10-11')

    def test_to_a_host_without_mix_and_back(self):
        """Ordinary instances migrate as in stock Nova.

        Nova claims only for instances with a NUMA topology.
        """
        self._boot(*FLAVORS)
        self._start_mix2(mix=False)
        claims, answers = self._note_claims(), self._note_answers()
        for flavor, server in self.servers.items():
            claimed = len(claims)
            self._migrate(server)
            self._assert_on('mix2', server)
            self.assertEqual(
                [server['id']] if flavor != 'ordinary' else [],
                claims[claimed:])
            self.assertEqual(
                flavor in PRIORITY, 1 < len(set(answers.values())), answers)
            self._recount_unclaimed(flavor)
            if flavor != 'low in both cells':
                self._assert_guest(flavor, server, low='0,5-6,10-11')
        pins = [pin.get('cpuset') for pin in self.domain(
            self.servers['low in both cells']).iter('vcpupin')]
        self.assertEqual(['0,5', '6,10-11'], sorted(pins))
        self._assert_accounts()
        for flavor in sorted(LOW):
            self._migrate(self.servers[flavor], 'mix1')
            self._assert_on('mix1', self.servers[flavor])
        self._assert_guest(
            'low', self.servers['low'], emulator='4-5,10-11')
        pins = [pin.get('cpuset') for pin in self.domain(
            self.servers['low in both cells']).iter('vcpupin')]
        self.assertEqual(['0-5', '6-11'], sorted(pins))
        self._assert_accounts()

    def _note_claims(self):
        """Return a list that gets the UUID of each claim of mix2."""
        claims = []
        tracker = self.computes['mix2'].rt
        stock_claim = tracker.live_migration_claim

        def claim(context, instance, *args, **kwargs):
            claims.append(instance.uuid)
            return stock_claim(context, instance, *args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(
            tracker, 'live_migration_claim', claim))
        return claims

    def _note_answers(self):
        """Return a dict that gets the last answers of a destination.

        One is that of stock Nova, the other one that of this package.
        """
        answers = {}

        def note(owner):
            stock = owner.check_can_live_migrate_destination

            def check(found, *args, **kwargs):
                data = stock(found, *args, **kwargs)
                answers[owner] = str(data.obj_to_primitive())
                return data

            return fixtures.MockPatchObject(
                owner, 'check_can_live_migrate_destination', check)

        for owner in driver.LibvirtDriver, live_migration.LiveMigration:
            self.useFixture(note(owner))
        return answers

    def test_to_a_host_with_stock_nova(self):
        """Priority instances are refused, forced or not."""
        self._boot(*FLAVORS)
        self._start_mix2()
        with self.record('mix2') as node:
            of_ours = node.stats
        self._use(cloud.STOCK_DRIVER, 'mix2')
        for flavor in PRIORITY:
            server = self.servers[flavor]
            self._assert_refused('NoValidHost', self._migrate, server)
            self._assert_refused(
                'the destination does not run the compute driver of '
                'nova-prio', self._force, server)
        # The report is that of our driver, as right after a downgrade.
        with self.record('mix2') as node:
            node.stats = of_ours
            node.save()
        self._assert_refused(
            'the destination does not run the compute driver of nova-prio',
            self._migrate, self.servers['low'])
        for flavor in set(FLAVORS) - PRIORITY:
            self._migrate(self.servers[flavor])
            self._assert_on('mix2', self.servers[flavor])
        self.update_host('mix2')
        self._assert_accounts()

    def test_from_a_host_with_stock_nova(self):
        """Low instances might come without their partition."""
        self._boot(*FLAVORS)
        self._start_mix2()
        self._use(cloud.STOCK_DRIVER, 'mix1')
        for flavor, server in self.servers.items():
            if flavor in LOW:
                self._assert_refused('NoValidHost', self._migrate, server)
                self._assert_refused(
                    'host mix1 does not run the compute driver of nova-prio',
                    self._force, server)
            else:
                self._migrate(server)
                self._assert_on('mix2', server)
        self._assert_accounts()

    def _forge(self, host, version):
        """Let a host have written its report in another version."""
        with self.record(host) as node:
            text = node.stats[host_report.STATS_KEY]
            node.stats = {host_report.STATS_KEY: text.replace(
                '"%s"' % host_report.HostReport.VERSION, '"%s"' % version)}
            node.save()

    def test_from_and_to_hosts_with_other_versions(self):
        flavors = 'high', 'low', 'low in both cells'
        self._boot(*flavors)
        self._start_mix2()
        for host, version in ('mix1', '2.0'), ('mix2', '1.99'):
            self._forge(host, version)
        for flavor in flavors:
            self._migrate(self.servers[flavor])
            self._assert_on('mix2', self.servers[flavor])
            self._assert_guest(flavor, self.servers[flavor])
        self._assert_accounts()
        for host, version in ('mix1', '1.0'), ('mix2', '1.1'):
            self._forge(host, version)
        for flavor in flavors:
            self._migrate(self.servers[flavor], 'mix1')
            self._assert_on('mix1', self.servers[flavor])
        self._assert_accounts()

    def test_failure_if_the_destination_does_not_answer(self):
        """The source does not wait if Nova makes no claim."""
        self._boot('low', 'ordinary')
        self._start_mix2()
        before = self._used()
        with self.no_guest_migrates(), fixtures.MonkeyPatch(
                'nova.compute.rpcapi.ComputeAPI.'
                'drop_move_claim_at_destination', fail):
            for flavor in 'low', 'ordinary':
                self._live_migrate(self.servers[flavor], 'failed')
                self._assert_on('mix1', self.servers[flavor])
        self.soon(lambda: self.assertEqual(before, self._used()))
        self._assert_accounts(**before)

    def test_cleaning_up_after_a_failure(self):
        """The source may have ended it before the destination has."""
        self._boot('pinned')
        self._start_mix2(dedicated='4-5,10-11', shared='0-3,6-9')
        server = self.servers['pinned']
        pinned = self._instance(server).numa_topology.cpu_pinning
        fail_and_clean_up_late(self, server)
        self._assert_on('mix1', server)
        instance = self._instance(server)
        self.assertTrue(instance.cleaned)
        self.assertEqual(pinned, instance.numa_topology.cpu_pinning)
        self.assertIsNone(instance.migration_context)

    def test_aborted_before_it_began(self):
        """A rebuild must not use the CPUs of the other host.

        The instance keeps the migration context.
        """
        self._boot('ordinary', 'pinned')
        self._start_mix2(dedicated='4-5,10-11', shared='0-3,6-9')
        first, queued = self.servers['ordinary'], self.servers['pinned']
        pinned = self._instance(queued).numa_topology.cpu_pinning
        is_over = threading.Event()

        def wait(domain, *args, **kwargs):
            is_over.wait(60)
            domain.fail_job()

        with fixtures.MonkeyPatch(base.FAKE_MIGRATE, wait):
            try:
                for server, status in (first, 'running'), (queued, 'queued'):
                    self.api.post_server_action(server['id'], {
                        'os-migrateLive': {'host': 'mix2',
                                           'block_migration': 'auto'}})
                    migration = self._wait_for_migration_status(
                        server, [status])
                # Without a topology nothing is claimed that would be left.
                self.assertIsNone(self._instance(first).migration_context)
                self.api.delete_migration(queued['id'], migration['id'])
                self._wait_for_migration_status(queued, ['cancelled'])
                self._wait_for_state_change(queued, 'ACTIVE')
                leases = self.computes['mix2'].driver.priority_host.leases
                self.soon(lambda: self.assertEqual(
                    [], leases.get(queued['id'])))
            finally:
                is_over.set()
            self._wait_for_migration_status(first, ['failed'])
        self._rebuild_server(queued, queued['image']['id'])
        self.assertEqual(
            pinned, self._instance(queued).numa_topology.cpu_pinning)
        self.assertEqual(
            pinned, set(map(int, self.cpus_of_vcpus(queued))))
        self._assert_on('mix1', queued)
        self.soon(lambda: self.assertEqual(
            (0, 0, 0), self.report('mix2').used))
        self._assert_accounts()

    def test_rebuild_after_a_claim_that_failed(self):
        """The instance keeps no data of the other host."""
        self._boot('pinned')
        self._start_mix2(dedicated='4-5,10-11', shared='0-3,6-9')
        server = self.servers['pinned']
        pinned = self._instance(server).numa_topology.cpu_pinning
        with fixtures.MonkeyPatch(
                'nova.scheduler.client.report.SchedulerReportClient.'
                'update_from_provider_tree', fail):
            self._assert_refused(
                'it was made to fail', self._migrate, server)
        self._rebuild_server(server, server['image']['id'])
        self.assertEqual(
            pinned, self._instance(server).numa_topology.cpu_pinning)

    def _instance(self, server):
        """Return the instance of a server on mix1, as Nova has saved it."""
        with self.record('mix1') as node:
            return objects.Instance.get_by_uuid(
                node._context, server['id'],
                expected_attrs=['migration_context', 'numa_topology'])


class Devices(devices.FunctionsOnHosts):
    """Guests with a virtual function of each host, which may migrate live."""

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)

    def test_guests_start_again_on_their_host(self):
        """A late clean-up keeps the requests for devices."""
        for server, here, there in self._servers():
            requested = self._requests(server)
            fail_and_clean_up_late(self, server)
            self.assertEqual(1, len(requested))
            self.assertEqual(requested, self._requests(server))
            self._assert_starts_on(here, there, server)
            with self.no_guest_migrates():
                self._live_migrate(server, 'failed')
            self.soon(self._assert_newest, 'failed', server)
            self._assert_starts_on(here, there, server)
            self._live_migrate(server, 'completed')
            self._assert_starts_on(there, here, server)
            self._delete_server(server)

    def _requests(self, server):
        """Return the ids of its requests for devices, as Nova has saved."""
        with self.record('mix1') as node:
            found = objects.InstancePCIRequests.get_by_instance_uuid(
                node._context, server['id'])
        return [request.request_id for request in found.requests]

    def _boot(self, extra_specs=None, **kwargs):
        return self.boot(self.flavor(1, **{
            'pci_passthrough:alias': 'function:1', **(extra_specs or {})}),
            **kwargs)

    def _servers(self):
        """Yield a server without and with a topology, its host and another."""
        for flavor in 'ordinary', 'pinned':
            server = self._boot(FLAVORS[flavor][1])
            here = self.host_of(server)
            there, = {'mix1', 'mix2'} - {here}
            yield server, here, there

    def test_checks_that_fail_after_the_claim(self):
        """A recount frees the claimed devices and ends no migration."""
        for server, here, there in self._servers():
            for is_counted in False, True:
                self._fail_to_migrate(server)
                if is_counted:
                    self.update_host(there)
                    self._assert_newest('error', server)
                    self.soon(self._assert_free, there, 3)
                self._live_migrate(server, 'completed')
                self._assert_starts_on(there, here, server)
                here, there = there, here
            self._delete_server(server)

    def test_another_host_after_checks_that_failed(self):
        """The first host counts no usage, and allocates no device."""
        # Only recounts free devices here.
        self.stub_out('nova_prio.compute.live_migration_watcher.'
                      '_INTERVAL_SECONDS', 3600)
        self.start_seed_host('mix3')
        server = self._boot()
        first, second = sorted(set(self.computes) - {self.host_of(server)})
        self._fail_to_migrate(server, host=first)
        used = []

        def recount(driver, *args):
            self.update_host(first)
            used.append(self.report(first).used)
            return args[2]

        with fixtures.MonkeyPatch(LAST_CHECK, recount):
            self.api.post_server_action(server['id'], {'os-migrateLive': {
                'host': second, 'block_migration': 'auto'}})
            self._wait_for_migration_status(server, ['completed'])
        self.assertEqual([(0, 0, 0)], used)
        self.update_host(first)
        self._assert_starts_on(second, first, server)

    def test_the_next_host_of_one_migration(self):
        """The first one may recount while it is tried."""
        self.stub_out('nova_prio.compute.live_migration_watcher.'
                      '_INTERVAL_SECONDS', 3600)
        self.start_seed_host('mix3')
        server = self._boot()
        here = self.host_of(server)
        for host in set(self.computes) - {here}:
            self._boot(host=host)
        tried = []

        def refuse_first(driver, context, instance, data, *args):
            tried.append(driver._host.get_hostname())
            if len(tried) == 1:
                self.update_host(tried[0])
                refuse()
            return data

        with fixtures.MonkeyPatch(LAST_CHECK, refuse_first):
            self._live_migrate(server, 'completed')
        first, second = tried
        self.assertEqual(second, self.host_of(server))
        self._reboot_server(server, hard=True)
        self._assert_has_device(server)
        self.update_host(first)
        self._assert_free(first, 2)

    def test_cold_migration_after_checks_that_failed(self):
        """If the conductor did not return the allocations, the audit does."""
        server, here, there = next(self._servers())
        held = self._held(server)
        with fixtures.MonkeyPatch(
                'nova.conductor.tasks.migrate.revert_allocation_for_migration',
                refuse):
            self._fail_to_migrate(server)
        self.update_host(there)
        self._assert_newest('error', server)
        self.assertNotEqual(held, self._held(server))
        status, rows, _ = commands.run('audit', '--fix')
        self.assertEqual(audit.FIXED, status, rows)
        self.assertEqual(held, self._held(server))
        self._fail_to_migrate(server)
        self.api.post_server_action(server['id'], {'migrate': None})
        self._wait_for_state_change(server, 'VERIFY_RESIZE')
        self._confirm_resize(server)
        self._assert_starts_on(there, here, server)

    def _held(self, server):
        held = self._get_allocations_by_server_uuid(server['id'])
        return {provider: found['resources']
                for provider, found in held.items()}

    def _fail_to_migrate(self, server, name=LAST_CHECK, how=refuse,
                         host=None):
        """Let a check fail; the server stays as it was."""
        here = self.host_of(server)
        with fixtures.MonkeyPatch(name, how):
            self.assertRaises(
                client.OpenStackApiException, self.api.post_server_action,
                server['id'], {'os-migrateLive': {
                    'host': host, 'block_migration': 'auto'}})
        self._wait_for_state_change(server, 'ACTIVE')
        self.assertEqual(here, self.host_of(server))
        self._assert_newest('error', server)

    def _assert_newest(self, status, server):
        self.assertEqual(
            status, self.migrations_of(server['id'])[-1]['status'])

    def test_claims_that_fail(self):
        """Each error counts as a failed check.

        A destination does not need to know the alias of the devices.
        """
        for server, here, there in self._servers():
            self._fail_to_migrate(
                server, 'nova.scheduler.client.report.SchedulerReportClient.'
                'update_from_provider_tree', fail)
            for host in here, there:
                self.update_host(host)
            self._rebuild_server(server, server['image']['id'])
            self._assert_has_device(server)
            self._assert_starts_on(here, there, server)
            # The instance keeps the device requests of its creation.
            self.flags(alias=[], group='pci')
            self._live_migrate(server, 'completed')
            self._assert_starts_on(there, here, server)
            self.flags(alias=self.ALIASES, group='pci')
            self._delete_server(server)

    def _assert_starts_on(self, host, other, server):
        """The server has one device on its new host and none on the other."""
        self.assertEqual(host, self.host_of(server))
        self._reboot_server(server, hard=True)
        self._assert_has_device(server)
        for name, free in (host, 2), (other, 3):
            # On shared disks, Nova leaves it there until the recount.
            self.update_host(name)
            self.soon(self._assert_free, name, free)

    def _assert_has_device(self, server):
        self.assertEqual(
            1, len(self.domain(server).findall('devices/hostdev')))

    def _assert_free(self, host, count):
        with self.record(host) as node:
            devices = objects.PciDeviceList.get_by_compute_node(
                node._context, node.id)
        self.assertEqual(
            count, len([found for found in devices if found.is_available()]))
