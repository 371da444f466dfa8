# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity show``, compared with new servers."""

import os
from unittest import mock

import fixtures
from nova import exception
from nova.virt import hardware

from nova_prio.placement import allocations
from tests import commands
from tests.functional import base
from tests import html_page


class CapacityShow(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.start_seed_host('mix1')
        self.start_seed_host('off1', mix=False)
        self.start_host('plain1', cpus=4, shared='0-3', ratio=2.0,
                        aggregate={'priority_ordinary': 'false'})
        self.start_host('stock1', cpus=4, driver='libvirt.LibvirtDriver')

    def show(self, *arguments, status=0):
        """Run the command; return the rows."""
        found, rows, self.said = commands.run('capacity', 'show', *arguments)
        self.assertEqual(status, found, self.said)
        return rows

    def numbers(self, *arguments):
        """Return dict, host or aggregate -> list of its numbers."""
        return {name: numbers for name, *numbers in (
            row.values() for row in self.show(*arguments))}

    def test_command_lists_hosts_and_aggregates(self):
        self.boot(self.high, az='nova:mix1')
        self.boot(self.low, az='nova:mix1')
        self.boot(self.plain, az='nova:off1')
        # The last two numbers are the low supply and the wait.
        hosts = {'mix1': [4, 8, 4, 4, 16, 12, 0, 8, 8, None, None],
                 'off1': [0, 8, 8, 4, 8, 4, 4, 8, 4, None, None],
                 'plain1': [0, 0, 0, 0, 8, 8, 0, 8, 8, None, None]}
        self.assertEqual(hosts, self.numbers())
        self.assertEqual({'off1': hosts['off1']},
                         self.numbers('--host', 'off1'))
        _, table, _ = commands.run(
            'capacity', 'show', options=(), load=str.splitlines)
        row, = [line for line in table if 'mix1' in line]
        self.assertEqual(
            ['mix1', '4/8 (4)', '4/16 (12)', '0/8 (8)', 'unknown'],
            [cell.strip() for cell in row.split('|')[1:-1]])
        aggregates = {'priority_mix=true': [
            2, 4, 16, 12, 8, 24, 16, 4, 16, 12, None, None],
            'priority_ordinary=false': [1, *hosts['plain1']]}
        self.assertEqual(aggregates, self.numbers('--by-aggregate'))
        self.assertEqual(
            {'mix1', 'off1'},
            set(self.numbers('--aggregate', 'priority_mix=true')))

    def test_listed_units_can_be_created(self):
        self.boot(self.high, az='nova:mix1')
        for flavor, expected in (
                (self.high, {'mix1': 1, 'off1': 2, 'plain1': 0}),
                (self.low, {'mix1': 4, 'off1': 2, 'plain1': 0}),
                (self.plain, {'mix1': 2, 'off1': 2, 'plain1': 0}),
                (self.flavor(3, **{'resources:PCPU': '2',
                                   'resources:VCPU': '1'}),
                 {'mix1': 2, 'off1': 4, 'plain1': 0})):
            found = {name: numbers[-1] for name, numbers in self.numbers(
                '--flavor', flavor).items()}
            self.assertEqual(expected, found, flavor)
            name = self.api.get_flavor(flavor)['name']
            self.assertEqual(self.numbers('--flavor', flavor),
                             self.numbers('--flavor', name))
        for _ in range(3):
            self.boot(self.high)
        self.boot(self.high, 'ERROR')

    def test_sold_low_row_leaves_no_ordinary_vcpus(self):
        """The shared vCPUs of an ordinary server use the low row too."""
        for _ in range(4):
            self.boot(self.low, az='nova:mix1')
        self.boot(self.plain, 'ERROR', az='nova:mix1')
        rows, text = self.read_page('--host', 'mix1')
        self.assertEqual([0, 8, 8, 16, 16, 0, 0, 8, 0, None, None],
                         list(rows[0].values())[1:])
        self.assertEqual('0 left 0 of 8 sold', html_page.read_hosts(text)[
            'mix1'].get_rows()['ordinary'])
        _, metrics, _ = commands.run(
            'metrics', '--no-audit', options=(), load=str.splitlines)
        self.assertIn('nova_prio_cpus{host="mix1",row="ordinary",'
                      'state="remaining"} 0.0', metrics)
        _, plan, _ = commands.run(
            'host', 'plan', 'mix1', '--dedicated', '0-7', '--shared', '8-11',
            '--ratio', '2')
        self.assertEqual([(0, 0)], [
            (row['Now']['left'], row['Then']['left']) for row in plan
            if (row['Part'], row['Name']) == ('room', 'ordinary')])

    def test_units_count_what_nova_needs_beside_cpus(self):
        """Traits, resource classes and overridden amounts."""
        self.placement.put('/traits/CUSTOM_GOLD', None, version='1.6')
        memory = self.resources('mix1')['MEMORY_MB']['total']
        for specs, expected in (
                ({'trait:CUSTOM_GOLD': 'required'}, 0),
                ({'resources:CUSTOM_NONE': '1'}, 0),
                ({'resources:MEMORY_MB': str(memory // 2 - 512)}, 2)):
            flavor = self.flavor(1, **{'hw:cpu_priority': 'high', **specs})
            self.assertEqual(
                expected, self.numbers('--flavor', flavor)['mix1'][-1], specs)
        # The memory of the guest, which no host overcommits.
        large = self._create_flavor(
            vcpu=1, memory_mb=memory // 2 - 512, disk=1,
            extra_spec={'hw:cpu_priority': 'high'})
        self.assertEqual(2, self.numbers('--flavor', large)['mix1'][-1])

    def read_page(self, *arguments):
        """Run the command with --html; return the rows and the page."""
        path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'page.html')
        rows = self.show('--html', path, *arguments)
        with open(path, encoding='utf-8') as file:
            return rows, file.read()

    def get_guest_cpus(self, server):
        """Return the pinned CPUs of a guest, and those on which it floats."""
        sets = [hardware.parse_cpu_spec(cpus)
                for cpus in self.cpus_of_vcpus(server) or [
                    self.domain(server).find('vcpu').get('cpuset')]]
        return (set().union(*(cpus for cpus in sets if len(cpus) == 1)),
                set().union(*(cpus for cpus in sets if len(cpus) > 1)))

    def test_page_shows_the_listed_rows_and_the_cpus_of_each_guest(self):
        self.start_seed_host('cells1', cells=2, dedicated='0-3,6-9',
                             shared='4-5,10-11')
        mixed = self.flavor(4, **{'hw:cpu_policy': 'mixed',
                                  'hw:cpu_dedicated_mask': '0-1'})
        low_in_cells = self.flavor(4, **{'hw:cpu_priority': 'low',
                                         'hw:numa_nodes': '1'})
        servers = {name: self.boot(flavor, az='nova:' + host, name=name)
                   for name, flavor, host in (
                       ('<b>high</b>', self.high, 'mix1'),
                       ('low', self.low, 'mix1'),
                       ('ordinary', self.plain, 'mix1'),
                       ('mixed', mixed, 'off1'),
                       ('low-off', self.low, 'off1'),
                       ('low-in-cell', low_in_cells, 'cells1'))}
        rows, text = self.read_page('--flavor', self.high)
        self.assertEqual(rows, html_page.read_data(text))
        hosts = html_page.read_hosts(text)
        self.assertEqual([row['Host'] for row in rows], list(hosts))
        for row in rows:
            host = hosts[row['Host']]
            self.assertIn('no priority servers: This host is in no aggregate'
                          if row['Host'] == 'plain1' else
                          '%d more ' % row['Units'], host.text)
            self.assertEqual({
                name: '%d left %d of %d sold' % tuple(
                    row['%s %s' % (name.title(), amount)]
                    for amount in ('Left', 'Sold', 'Sellable'))
                for name in ('high', 'low', 'ordinary')}, host.get_rows())
        for name, server in servers.items():
            host = hosts[self.host_of(server)]
            row, *cpus = host.get_servers()[name]
            self.assertEqual(self.get_guest_cpus(server), tuple(cpus), name)
        self.assertEqual(dict.fromkeys(self.get_guest_cpus(
            servers['<b>high</b>'])[0], 'A'), hosts['mix1'].get_map('pinned'))
        self.assertEqual(dict.fromkeys(range(12), '~1'),
                         hosts['mix1'].get_map('low'))
        self.assertEqual(dict.fromkeys(range(8, 12), '~1'),
                         hosts['mix1'].get_map('ordinary'))

    def test_page_shows_disabled_hosts_and_held_cpus(self):
        self.start_seed_host('mix2')
        server = self.boot(self.high, az='nova:mix1')
        pins, _ = self.get_guest_cpus(server)
        self.api.post_server_action(
            server['id'], {'migrate': {'host': 'mix2'}})
        self._wait_for_state_change(server, 'VERIFY_RESIZE')
        self.update_host('mix1')
        service, = self.api.get_services(host='mix1', binary='nova-compute')
        self.api.put_service(service['id'], {
            'status': 'disabled', 'disabled_reason': 'memory'})
        _, text = self.read_page('--host', 'mix1', '--host', 'mix2')
        hosts = html_page.read_hosts(text)
        self.assertEqual(['mix1', 'mix2'], list(hosts))
        self.assertIn('nova-compute is disabled (memory)', hosts['mix1'].text)
        self.assertIn('✗ not available: nova-compute', hosts['mix1'].text)
        self.assertNotIn('1 problem', hosts['mix1'].text)
        self.assertNotIn('not available', hosts['mix2'].text)
        # The source holds the CPUs until the migration is confirmed.
        self.assertEqual(dict.fromkeys(pins, '?'),
                         hosts['mix1'].get_map('pinned'))
        self.assertEqual([server['name']], list(hosts['mix2'].get_servers()))

    def test_page_tells_why_a_host_takes_no_more_servers(self):
        self.boot(self.high, az='nova:mix1')
        for flavor, host, reason in (
                (self.flavor(8, **{'hw:cpu_priority': 'high'}), 'mix1',
                 '4 high vCPUs left, 8 needed'),
                (self.flavor(13, **{'hw:cpu_priority': 'low'}), 'mix1',
                 'the instance has more vCPUs than the host has floating '
                 'CPUs'),
                (self.plain, 'plain1',
                 'an aggregate has priority_ordinary=false')):
            _, text = self.read_page('--flavor', flavor)
            hosts = html_page.read_hosts(text)
            self.assertIn('✗ 0 more %s: %s ' % (flavor, reason),
                          hosts[host].text)

    def test_page_shows_hosts_disabled_for_priority_instances(self):
        commands.run('host', 'disable', 'mix1', '--timeout', '0')
        _, text = self.read_page()
        hosts = html_page.read_hosts(text)
        self.assertIn('no priority servers', hosts['mix1'].text)
        self.assertNotIn('no priority servers', hosts['off1'].text)
        with mock.patch.object(
                allocations, 'get_json', autospec=True,
                side_effect=allocations.PlacementRefused('It is broken.')):
            _, text = self.read_page()
        self.assertIn('Placement does not answer: It is broken.', text)

    def test_page_names_a_cell_that_does_not_list_its_servers(self):
        self.boot(self.high, az='nova:mix1')
        with mock.patch('nova.objects.InstanceList.get_by_filters',
                        side_effect=exception.CellTimeout):
            _, text = self.read_page()
        self.assertEqual(
            {}, html_page.read_hosts(text)['mix1'].get_servers())
        self.assertIn('did not answer for its servers', text)

    def test_page_that_cannot_be_written_is_an_error(self):
        self.show('--html', '/no/page.html', status=1)
        self.assertIn("--html is '/no/page.html', which cannot be written",
                      self.said)

    def test_unknown_names_are_refused(self):
        for arguments, words in (
                (['--host', 'none'], "--host is 'none'; allowed are names of"),
                (['--aggregate', 'none'], "--aggregate is 'none'; allowed"),
                (['--flavor', 'none'], "--flavor is 'none'; allowed are")):
            self.show(*arguments, status=1)
            self.assertIn(words, self.said)


class SharedDisks(base.FunctionalTest):
    """Hosts whose disks are those of one provider."""

    def test_units_of_an_aggregate_fit_together(self):
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)
        self.share_disks(total=500)
        # A host has no 200 GB.
        flavor = self._create_flavor(
            vcpu=2, memory_mb=256, disk=200,
            extra_spec={'hw:cpu_priority': 'high'})
        _, hosts, _ = commands.run('capacity', 'show', '--flavor', flavor)
        self.assertEqual([2, 2], [row['Units'] for row in hosts])
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'page')
        _, (total,), _ = commands.run(
            'capacity', 'show', '--by-aggregate', '--flavor', flavor, '--html',
            path)
        self.assertEqual(2, total['Units'])
        with open(path) as page:
            self.assertIn('</td><td class="num">2</td></tr>', page.read())
        for _ in range(2):
            self.boot(flavor)
        self.boot(flavor, 'ERROR')
