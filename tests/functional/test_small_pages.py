# SPDX-License-Identifier: Apache-2.0

"""Guests without huge pages share the small pages of a mix host."""

import logging

import fixtures
from nova import objects
from nova.tests.functional.api import client
from oslo_serialization import jsonutils

from nova_prio.objects import host_report
from tests import commands
from tests.functional import huge_pages

LOW = {'hw:cpu_priority': 'low'}
HIGH = {'hw:cpu_priority': 'high'}
GIB = 1024


def refusal(free_mb, needed_mb=2 * GIB, total_mb=2 * GIB):
    """Return the text of a refusal by filter and claim."""
    return ('the host has %d of %d MB of its memory in small pages free; the '
            'instance needs %d MB in small pages' % (
                free_mb, total_mb, needed_mb))


class SmallPages(huge_pages.Hosts):
    """Hosts of 32 GiB with 30 GiB in pages of 1 GiB."""

    pages = 30

    def setUp(self):
        super().setUp()
        self.flags(reserved_host_memory_mb=0)
        self.filter_log = self.listen('nova_prio.scheduler')
        self.claim_log = self.listen('nova.compute.claims')

    def listen(self, name):
        return self.useFixture(fixtures.FakeLogger(
            name=name, level=logging.DEBUG))

    def start_hosts(self, *names, **kwargs):
        for name in names:
            self.start_seed_host(name, memory_mb=32 * GIB, **kwargs)

    def of_size(self, gib=2, page_size=None, **extra_specs):
        """Return a flavor with one vCPU."""
        if page_size:
            extra_specs['hw:mem_page_size'] = page_size
        return self._create_flavor(vcpu=1, memory_mb=int(gib * GIB), disk=1,
                                   extra_spec=extra_specs or None)

    def page_sizes(self, server):
        """Return the page size of each NUMA cell of a server."""
        with self.record('mix1') as node:
            topology = objects.Instance.get_by_uuid(
                node._context, server['id'],
                expected_attrs=['numa_topology']).numa_topology
        return [cell.pagesize for cell in topology.cells]

    def free_mb(self, host):
        """Return the free small pages in the report of a host."""
        return self.report(host).small_pages.free_mb

    def move(self, server, state='ACTIVE', **action):
        """Request an action that a claim refuses."""
        self.assertRaises(
            client.OpenStackApiException, self.api.post_server_action,
            server['id'], action)
        self._wait_for_state_change(server, state)

    def test_second_guest_is_refused_by_filter_and_claim(self):
        self.start_hosts('mix1')
        low, high, plain = (
            self.of_size(**specs) for specs in (LOW, HIGH, {}))
        self.assertEqual((4, 2 * GIB, 2 * GIB),
                         self.report('mix1').small_pages)
        self.assertEqual(1, self.count_units(low))
        first = self.boot(low)
        self.assertEqual(0, self.free_mb('mix1'))
        for flavor in low, high, plain:
            self.boot(flavor, 'ERROR')
            self.assertIn('refused: small_pages: ' + refusal(0),
                          self.filter_log.output)
            self.filter_log = self.listen('nova_prio.scheduler')
            # A forced host bypasses the filters.
            self.boot(flavor, 'ERROR', az='nova:mix1')
            self.assertIn(refusal(0), self.claim_log.output)
            self.claim_log = self.listen('nova.compute.claims')
        self.assertEqual(0, self.count_units(low))
        _, _, said = commands.run('explain', '--flavor', low)
        self.assertIn('mix1, which lacks 2048 MB in small pages', said)
        for specs in LOW, HIGH, {}:
            self.boot(self.of_size(10, '1GB', **specs))
        self.assertEqual([0], self.free_pages('mix1'))
        for restart in False, True:
            if restart:
                self.restart_compute_service('mix1')
            self.update_host('mix1')
            self.assertEqual((4, 2 * GIB, 0), self.report('mix1').small_pages)
        self._delete_server(first)
        self.assertEqual(2 * GIB, self.free_mb('mix1'))
        self.boot(high)

    def count_units(self, flavor):
        """Return how many servers fit, as the command says."""
        _, rows, said = commands.run(
            'capacity', 'show', '--flavor', flavor)
        return list(rows[0].values())[-1]

    def test_each_page_size(self):
        """Nova decides: half a GiB does not fit in pages of 1 GiB."""
        self.start_hosts('mix1')
        for gib, page_size, expected in (
                (1, '1GB', GIB * GIB), (1, 'any', GIB * GIB),
                (1, 'large', GIB * GIB), (.5, 'any', 4), (.5, 'small', 4),
                (.5, '4KB', 4)):
            server = self.boot(self.of_size(gib, page_size, **LOW))
            self.assertEqual([expected], self.page_sizes(server))
        self.assertEqual(GIB / 2, self.free_mb('mix1'))
        self.boot(self.of_size(.5, **LOW))
        self.assertEqual(0, self.free_mb('mix1'))
        for page_size in 'small', '4KB', None:
            flavor = self.of_size(.5, page_size, **LOW)
            self.boot(flavor, 'ERROR', az='nova:mix1')
            self.assertIn(refusal(0, GIB // 2), self.claim_log.output)
            self.claim_log = self.listen('nova.compute.claims')
            self.boot(flavor, 'ERROR')
            self.assertIn(refusal(0, GIB // 2), self.filter_log.output)
            self.filter_log = self.listen('nova_prio.scheduler')
        for page_size in 'any', 'large', '2MB':
            flavor = self.of_size(.5, page_size, **LOW)
            self.boot(flavor, 'ERROR')
            self.boot(flavor, 'ERROR', az='nova:mix1')
            self.assertIn('NUMA topology cannot fit', self.claim_log.output)
            self.claim_log = self.listen('nova.compute.claims')
        self._delete_server(server)
        self.boot(self.of_size(.5, 'any', **LOW), az='nova:mix1')

    def test_any_page_size_uses_huge_pages_while_small_ones_are_sold(self):
        """Nova has counted no small pages in the cells, and prefers cell 0."""
        self.pages = 15
        self.start_hosts('mix1', cells=2, dedicated='0-3,6-9',
                         shared='4-5,10-11')
        self.boot(self.of_size(2, **LOW))
        self.boot(self.of_size(15, '1GB', **LOW))
        server = self.boot(self.of_size(1, 'any', **LOW))
        self.assertEqual([GIB * GIB], self.page_sizes(server))
        forced = self.boot(self.of_size(1, 'any', **HIGH), az='nova:mix1')
        self.assertEqual([GIB * GIB], self.page_sizes(forced))
        self.assertEqual([13], [
            free for free in self.free_pages('mix1') if free])
        self.assertEqual(0, self.free_mb('mix1'))

    def test_reserved_huge_pages_are_no_small_ones(self):
        self.flags(reserved_host_memory_mb=GIB, reserved_huge_pages=[
            {'node': '0', 'size': '1GB', 'count': '10'}])
        self.start_hosts('mix1')
        self.assertEqual((4, 2 * GIB, GIB), self.report('mix1').small_pages)
        self.boot(self.of_size(21, '1GB', **LOW), 'ERROR')
        self.boot(self.of_size(20, '1GB', **LOW))
        self.boot(self.of_size(2, **LOW), 'ERROR')
        self.assertIn(refusal(GIB), self.filter_log.output)
        self.boot(self.of_size(1, **LOW))
        self.boot(self.of_size(1, **LOW), 'ERROR')
        self.assertIn(refusal(0, GIB), self.filter_log.output)

    def test_each_claim_of_a_move_counts_small_pages(self):
        self.flags(allow_resize_to_same_host=True)
        self.let_guests_migrate()
        self.start_hosts('mix1', 'mix2', 'mix3')
        flavor = self.of_size(**LOW)
        for host in 'mix1', 'mix3':
            self.boot(flavor, host=host)
        manager = self.scheduler.manager.host_manager
        manager.enabled_filters = [
            each for each in manager.enabled_filters
            if type(each).__name__ != 'PriorityFilter']
        server = self.boot(flavor, host='mix2')
        for state, action in (
                ('ACTIVE', {'os-migrateLive': {
                    'host': 'mix1', 'block_migration': 'auto'}}),
                ('ERROR', {'migrate': {'host': 'mix1'}})):
            self.claim_log = self.listen('nova.compute.claims')
            self.move(server, state, **action)
            self.assertIn(refusal(0), self.claim_log.output)
            self.assertEqual([0, 0], [
                self.free_mb(host) for host in ('mix1', 'mix2')])
        self.reset_state(server)
        # The claim counts the new size in addition to the old one.
        for host in 'mix1', 'mix3':
            self.api.put_service(self.api.get_services(
                host=host, binary='nova-compute')[0]['id'],
                {'status': 'disabled'})
        self.move(server, 'ERROR', resize={
            'flavorRef': self.of_size(1, **LOW)})
        self.assertIn(refusal(0, GIB), self.claim_log.output)
        self.reset_state(server)
        self._resize_server(server, self.of_size(3, '1GB', **LOW))
        self.assertEqual(0, self.free_mb('mix2'))
        self._confirm_resize(server)
        self.assertEqual((2 * GIB, [27]), (
            self.free_mb('mix2'), self.free_pages('mix2')))
        self._resize_server(server, flavor)
        self._revert_resize(server)
        self.assertEqual((2 * GIB, [27]), (
            self.free_mb('mix2'), self.free_pages('mix2')))
        self.assertEqual([0, 0], [
            self.free_mb(host) for host in ('mix1', 'mix3')])

    def test_evacuation(self):
        self.start_hosts('mix1', 'mix2')
        flavor = self.of_size(1, **LOW)
        servers = [self.boot(flavor, host='mix1') for _ in range(2)]
        resident = self.boot(flavor, host='mix2')
        _, rows, said = commands.run('capacity', 'show', '--after-loss')
        self.assertEqual([1, 0], [row['Low Fit'] for row in rows], said)
        self.host_down('mix1')
        self.api.post_server_action(servers[0]['id'], {'evacuate': {}})
        self._wait_for_server_parameter(
            servers[0], {'OS-EXT-SRV-ATTR:host': 'mix2'})
        self.assertEqual(0, self.free_mb('mix2'))
        with self.assertRaisesRegex(client.OpenStackApiException, '400|500'):
            self.api.post_server_action(servers[1]['id'], {'evacuate': {}})
        self.assertIn(refusal(0, GIB), self.filter_log.output)
        self.assertEqual('mix1', self.host_of(servers[1]))
        self._delete_server(resident)
        self.assertEqual(GIB, self.free_mb('mix2'))

    def test_room_plan_moves_guests_for_small_pages(self):
        """The guests in huge pages stay: they use no small pages."""
        self.start_hosts('mix1', 'mix2')
        small = []
        for host in 'mix1', 'mix2':
            small.append(self.boot(self.of_size(1, **LOW), host=host)['id'])
            self.boot(self.of_size(10, '1GB', **LOW), host=host)
            self.update_host(host)
        wanted = self.of_size(2, **LOW)
        self.boot(wanted, 'ERROR')
        status, (row,), said = commands.run(
            'room', 'plan', '--flavor', wanted)
        self.assertEqual((0, 'live'), (status, row['Way']), said)
        self.assertIn(row['Instance'], small)
        status, _, said = commands.run(
            'room', 'plan', '--flavor', self.of_size(3, **LOW))
        self.assertEqual(3, status, said)
        self.assertIn(refusal(GIB, 3 * GIB), said)

    def test_oversold_host_keeps_its_guests_and_takes_no_more(self):
        self.let_guests_migrate()
        self.pages = 0
        self.start_hosts('mix1')
        flavor = self.of_size(**LOW)
        servers = [self.boot(flavor) for _ in range(8)]
        self.assertIsNone(self.report('mix1').small_pages)
        compute_log = self.listen('nova_prio.compute')
        self.pages = 30
        info = self.computes['mix1'].driver._get_connection().host_info
        info.numa_topology = self.make_topology(info)
        self.restart_compute_service('mix1')
        self.update_host('mix1')
        self.assertEqual((4, 2 * GIB, -14 * GIB),
                         self.report('mix1').small_pages)
        self.assertEqual(1, compute_log.output.count(
            'Too much is sold of the small pages'))
        self._reboot_server(servers[0], hard=True)
        for server in servers:
            self.assertEqual(
                'ACTIVE', self.api.get_server(server['id'])['status'])
        small = self.of_size(1, **LOW)
        self.boot(small, 'ERROR')
        self.assertIn(refusal(0, GIB), self.filter_log.output)
        self.boot(small, 'ERROR', az='nova:mix1')
        self.assertIn(refusal(0, GIB), self.claim_log.output)
        self.boot(self.of_size(10, '1GB', **HIGH))
        # Starting a host sets the option [DEFAULT] host of this process.
        self.flags(host='controller')
        _, plan, _ = commands.run(
            'host', 'plan', 'mix1', '--dedicated', '0-7', '--shared', '8-11',
            '--ratio', '2')
        row, = (row for row in plan if row['Name'] == 'small pages')
        self.assertEqual(
            ({'total': 2 * GIB, 'left': -14 * GIB},
             {'total': 2 * GIB, 'left': 0}), (row['Now'], row['Then']))
        self.assertIn('until 14336 MB have moved away', row['Remedy'])
        _, findings, _ = commands.run('audit')
        self.assertEqual(
            [('oversold', 'small pages: 14336 MB too many sold')],
            [(row['Finding'], row['Compute']) for row in findings])
        self.start_hosts('mix2')
        self._live_migrate(servers[0], 'completed')
        self.soon(lambda: self.assertEqual(
            [-12 * GIB, 0], [self.free_mb('mix1'), self.free_mb('mix2')]))

    def test_older_report_has_no_limit_for_the_filter(self):
        """The claim of an upgraded compute is exact in any case."""
        self.start_hosts('mix1')
        flavor = self.of_size(**LOW)
        self.boot(flavor)
        with self.record('mix1') as node:
            stored = jsonutils.loads(node.stats[host_report.STATS_KEY])
            stored['nova_prio_object.version'] = '1.5'
            for name in 'small_pages', 'low_supply':
                del stored['nova_prio_object.data'][name]
            node.stats = {**node.stats, host_report.STATS_KEY:
                          jsonutils.dumps(stored)}
            node.save()
        self.boot(flavor, 'ERROR')
        self.assertNotIn('small_pages', self.filter_log.output)
        self.assertIn(refusal(0), self.claim_log.output)
        self.update_host('mix1')
        self.boot(flavor, 'ERROR')
        self.assertIn(refusal(0), self.filter_log.output)

    def test_host_without_mix_or_without_huge_pages_has_no_limit(self):
        self.start_hosts('mix1', mix=False)
        for _ in range(2):
            self.boot(self.of_size())
            self.boot(self.of_size(**LOW))
        self.assertIsNone(self.report('mix1').small_pages)

    def test_memory_in_files_is_no_memory_in_small_pages(self):
        """Nova reports the size of the files, and refuses page sizes."""
        self.flags(file_backed_memory=8 * GIB, group='libvirt')
        self.flags(ram_allocation_ratio=1.0)
        log = self.listen('nova_prio.virt')
        self.start_hosts('mix1')
        self.assertIn(', small pages not limited\n', log.output)
        for _ in range(4):
            self.boot(self.of_size(**LOW))
        self.assertIsNone(self.report('mix1').small_pages)
        self.boot(self.of_size(1, **LOW), 'ERROR')


class StartLine(huge_pages.Hosts):

    pages = 12

    def test_start_line_names_the_memory_in_small_pages(self):
        log = self.useFixture(fixtures.FakeLogger('nova_prio'))
        self.start_seed_host()
        # Of 16 GiB, 512 MB are reserved for the host.
        self.assertIn(', small pages limited to 3584 MB\n', log.output)
