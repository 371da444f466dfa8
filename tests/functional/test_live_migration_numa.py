# SPDX-License-Identifier: Apache-2.0

"""Live migration of guests that Nova fits to the NUMA cells of the host."""

import itertools
import threading

import fixtures
from lxml import etree
from nova.scheduler import host_manager
from nova.tests.functional.api import client
from nova.virt import hardware

from tests.functional import accounts
from tests.functional import base
from tests.functional import huge_pages

CELLS = dict(cells=2, dedicated='0-3,6-9', shared='4-5,10-11')


class HugePages(huge_pages.Hosts):
    """Two hosts with two NUMA cells, and eight pages of 1 GiB in each."""

    pages = 8

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        for name in 'mix1', 'mix2':
            self.start_seed_host(name, memory_mb=20480, **CELLS)

    def _boot(self, host, **extra_specs):
        flavor = self._create_flavor(
            vcpu=2, memory_mb=self.pages * 1024, disk=1,
            extra_spec={'hw:mem_page_size': '1GB', **extra_specs})
        return self.boot(flavor, host=host)

    def _assert_guest_is_in_cell(self, server, cell, cpus):
        domain = etree.fromstring(self.guest_xml(server['id']))
        self.assertEqual(
            [str(cell)], [node.get('nodeset') for node in domain.iterfind(
                'numatune/memnode')])
        for pin in domain.iter('vcpupin'):
            self.assertLessEqual(
                hardware.parse_cpu_spec(pin.get('cpuset')), cpus)

    def _test(self, **extra_specs):
        server = self._boot('mix1', **extra_specs)
        self._boot('mix2', **extra_specs)
        for host in 'mix1', 'mix2':
            self.assertEqual([0, self.pages], self.free_pages(host))
        before = accounts.of_all(self)
        with self.no_guest_migrates():
            self._live_migrate(server, 'failed')
        self._wait_for_assert(
            lambda: self.assertEqual(before, accounts.of_all(self)))
        # The guest starts with the CPUs and pages from before the migration.
        self._reboot_server(server, hard=True)
        self._assert_guest_is_in_cell(server, 0, set(range(6)))

        self._live_migrate(server, 'completed')
        self.assertEqual('mix2', self.host_of(server))
        self._assert_guest_is_in_cell(server, 1, set(range(6, 12)))
        self.assertEqual([0, 0], self.free_pages('mix2'))
        self.soon(lambda: self.assertEqual(
            [self.pages] * 2, self.free_pages('mix1')))

        late = self._boot('mix1', **extra_specs)
        before = accounts.of_host(self, 'mix1')
        error = self.assertRaises(
            client.OpenStackApiException, self._live_migrate, late)
        self.assertIn('NoValidHost', str(error))
        self.assertEqual('mix1', self.host_of(late))
        self.soon(lambda: self.assertEqual(
            before, accounts.of_host(self, 'mix1')))

    def test_high(self):
        self._test(**{'hw:cpu_priority': 'high'})

    def test_low(self):
        self._test(**{'hw:cpu_priority': 'low'})


class EmulatorThreads(base.FunctionalTest):

    def test_shared_emulator_threads_run_on_the_shared_cpus_of_the_host(self):
        self.let_guests_migrate()
        self.start_seed_host('mix1', **CELLS)
        servers = [self.boot(self.flavor(2, **{
            'hw:emulator_threads_policy': 'share', **extra_specs}))
            for extra_specs in ({'hw:cpu_priority': 'high'},
                                {'hw:cpu_policy': 'dedicated'})]
        for server in servers:
            self.assertEqual('4-5,10-11', self._emulator_pin(server))
        self.start_seed_host('mix2', cells=2, dedicated='1-4,7-9',
                             shared='0,5,6,10-11')
        for server in servers:
            self._live_migrate(server, 'completed')
            self.assertEqual('mix2', self.host_of(server))
            self.assertEqual('0,5-6,10-11', self._emulator_pin(server))

    def _emulator_pin(self, server):
        return etree.fromstring(self.guest_xml(server['id'])).find(
            'cputune/emulatorpin').get('cpuset')


class LastCPUs(base.FunctionalTest):
    """Two guests migrate at once to a host with capacity for one."""

    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self.start_seed_host('mix1', **CELLS)
        self.start_seed_host('mix2', **CELLS)

    def _race(self, resident, flavor):
        """Boot one guest on mix2 and two on mix1, and migrate the two.

        Each request reads the reports of the hosts before the other claims.

        :returns: the guest on mix2, the migrated guest, the refused guest
        """
        resident = self.boot(resident, host='mix2')
        servers = [self.boot(flavor, host='mix1') for _ in range(2)]
        stock = host_manager.HostManager.get_host_states_by_uuids
        barrier = threading.Barrier(2)
        requests = itertools.count()

        def read(*args, **kwargs):
            found = stock(*args, **kwargs)
            # The refused request schedules again, alone.
            if next(requests) < barrier.parties:
                barrier.wait(timeout=60)
            return found

        with fixtures.MonkeyPatch(
                'nova.scheduler.host_manager.HostManager.'
                'get_host_states_by_uuids', read):
            for server in servers:
                self.api.post_server_action(server['id'], {
                    'os-migrateLive': {'host': 'mix2',
                                       'block_migration': 'auto'}})
            for server in servers:
                self._wait_for_migration_status(
                    server, ['completed', 'error', 'failed'])
        for server in servers:
            self._wait_for_state_change(server, 'ACTIVE')
        servers.sort(key=self.host_of, reverse=True)
        self.assertEqual(['mix2', 'mix1'], list(map(self.host_of, servers)))
        self.assertEqual('completed', self.migrations_of(
            servers[0]['id'])[-1]['status'])
        return resident, *servers

    def _assert_counted(self, rows, usages):
        """Assert reports and usages, which a recount must not change."""
        def assert_counts():
            for host, expected in rows.items():
                self.assertEqual(expected, self.report(host).used)
                held = self.resources(host, 'usages')
                for resource_class, used in usages[host].items():
                    self.assertEqual(used, held[resource_class])
        self.soon(assert_counts)
        for host in rows:
            self.update_host(host)
        assert_counts()

    def test_high(self):
        """Each cell has four CPUs; two of the first cell are taken."""
        flavor = self.flavor(3, **{'hw:cpu_priority': 'high'})
        guests = self._race(
            self.flavor(2, **{'hw:cpu_priority': 'high'}), flavor)
        pins = [cpu for server in guests[:2]
                for cpu in self.cpus_of_vcpus(server)]
        self.assertEqual(5, len(set(pins)))
        self._assert_counted(
            {'mix1': (3, 0, 0), 'mix2': (5, 0, 0)},
            {'mix1': {'PCPU': 3}, 'mix2': {'PCPU': 5}})

    def test_ordinary(self):
        """An ordinary guest may have eight vCPUs. Placement sells 16."""
        self._race(self.plain, self.plain)
        self._assert_counted(
            {'mix1': (0, 4, 4), 'mix2': (0, 8, 8)},
            {'mix1': {'VCPU': 4}, 'mix2': {'VCPU': 8}})
