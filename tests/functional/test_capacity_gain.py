# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity gain``, compared with new servers."""

import pathlib
from unittest import mock

import fixtures

from nova_prio.admin import host_inventory
from nova_prio.objects import host_report
from tests import commands
from tests.functional import base

PRIORITY = {'priority_mix': 'true'}


class CapacityGain(base.FunctionalTest):

    def gain(self, *arguments, aggregate='priority_mix=true', status=0):
        """Run the command; return dict, host to its numbers and its note."""
        found, rows, self.said = commands.run(
            'capacity', 'gain', '--aggregate', aggregate, *arguments)
        self.assertEqual(status, found, self.said)
        return {name: numbers for name, *numbers in (
            row.values() for row in rows or ())}

    def test_command_lists_gain_of_hosts(self):
        self.start_seed_host('mix1')
        self.start_seed_host('mix2', dedicated='0-3', shared='4-9', ratio=1.5)
        self.start_seed_host('elsewhere', aggregate={'rack': '1'})
        self.assertEqual({'mix1': [True, 8, 16, 8, ''],
                          'mix2': [True, 9, 11, 2, '']}, self.gain())
        self.assertEqual(
            'Gained: 10 low-priority vCPUs on 2 hosts. Other CPU sets or '
            'another ratio may give more: see the option --what-if.\n',
            self.said)
        self.start_seed_host('off1', mix=False)
        self.start_seed_host('oneset1', shared=None, mix=False, ratio=3.0)
        off = {'off1': [False, 8, 16, 8, ''],
               'oneset1': [False, 0, 0, 0, '']}
        found = self.gain()
        self.assertEqual(off, {name: found[name] for name in off})
        self.assertIn('Gained: 10 low-priority vCPUs on 2 hosts. Set '
                      'cpu_priority_mix_enable = true on the hosts without '
                      'mix to gain another 8 low-priority vCPUs on 2 hosts.',
                      self.said)
        self.start_host('stock1', driver='libvirt.LibvirtDriver',
                        aggregate=PRIORITY)
        with self.record('mix2') as node:
            node.stats = {host_report.STATS_KEY: '?'}
            node.save()
        found = self.gain()
        self.assertEqual(
            ['', '', '', '', 'the host runs another compute driver'],
            found['stock1'])
        self.assertIn('cannot be read', found['mix2'][-1])
        self.assertIn('Check 2 hosts without a report', self.said)

    def test_gained_units_can_be_created(self):
        """Units are the additional instances that fit with mix."""
        self.start_seed_host('mix1')
        wide = self.flavor(6, **{'hw:cpu_priority': 'low'})
        for flavor, without, mixed in (
                (self.low, 2, 4), (self.plain, 2, 4), (wide, 0, 2),
                (self.flavor(3), 2, 5), (self.flavor(13), 0, 0)):
            numbers, = self.gain('--flavor', flavor).values()
            self.assertEqual([True, 8, 16, 8, mixed, without, mixed, 'CPUs',
                              ''], numbers)
            self.assertIn(
                'Gained: 8 low-priority vCPUs (%d instances of the flavor) on '
                '1 host.' % (mixed - without), self.said)
        # The judge sees this server, an empty host does not.
        server = self.boot(self.high)
        server_low = self.boot(self.low)
        numbers, = self.gain('--flavor', self.low).values()
        self.assertEqual([3, 2, 4], numbers[4:7])
        self._delete_server(server)
        self._delete_server(server_low)
        # On an empty host, the memory limits these.
        large = self._create_flavor(
            vcpu=1, memory_mb=6000, disk=1,
            extra_spec={'hw:cpu_priority': 'low'})
        numbers, = self.gain('--flavor', large).values()
        self.assertEqual([2, 2, 2, 'memory'], numbers[4:8])
        self.start_seed_host('off1', mix=False)
        for flavor, host, most in (
                (self.low, 'mix1', 4), (self.low, 'off1', 2),
                (wide, 'mix1', 2), (wide, 'off1', 0)):
            servers = [self.boot(flavor, az='nova:' + host)
                       for _ in range(most)]
            self.boot(flavor, 'ERROR', az='nova:' + host)
            for server in servers:
                self._delete_server(server)

    def test_wrong_arguments_are_refused(self):
        self.start_seed_host('mix1')
        for arguments, words in (
                ({'aggregate': 'none'}, "--aggregate is 'none'; allowed are"),
                ({'flavor': 'none'}, "--flavor is 'none'; allowed are"),
                ({'flavor': self.high}, "is '%s', whose hw:cpu_priority is "
                 "'high'; allowed are flavors with 'low' or none" % self.high),
                ({'flavor': self.flavor(4, **{'hw:cpu_policy': 'dedicated'})},
                 "hw:cpu_policy of the flavor is 'dedicated'; with low")):
            flavor = arguments.pop('flavor', None)
            self.gain(*(['--flavor', flavor] if flavor else []), **arguments,
                      status=1)
            self.assertIn(words, self.said)


class WhatIf(base.FunctionalTest):

    def what_if(self, *arguments, status=0):
        """Run the command; return its rows, lists of values."""
        with mock.patch.object(host_inventory, 'list_hosts',
                               wraps=host_inventory.list_hosts) as listing:
            found, rows, self.said = commands.run(
                'capacity', 'gain', '--what-if', *arguments)
        self.assertEqual(status, found, self.said)
        # All numbers are those of one moment.
        listing.assert_called_once()
        return [list(row.values()) for row in rows or ()]

    def test_servers_of_a_cloud(self):
        """Two pinned and four other servers are the example on one host."""
        self.start_seed_host('mix1')
        # The host needs neither mix nor our driver.
        self.start_seed_host('stock1', mix=False, aggregate={},
                             driver='libvirt.LibvirtDriver')
        pinned = self.flavor(4, **{'hw:cpu_policy': 'dedicated'})
        for flavor in self.high, pinned, *[self.plain] * 4:
            server = self.boot(flavor)
        page = self.useFixture(fixtures.TempDir()).join('page.html')
        without = [33, 2.0, False, 4, 8, 2, 2, 'CPUs', 100]
        mixed = [33, 2.0, True, 8, 4, 1, 1, 'CPUs', 50]
        for low in 'all', self.plain, server['tenant_id']:
            self.assertEqual([without, mixed], self.what_if(
                '--all', '--ratio', '2', '--low', low, '--html', page))
            self.assertIn(
                'Hosts now: 2. Assumed: 2 pinned servers have high '
                'priority, 4 servers have low priority (--low %s), and 0 '
                'others stay ordinary and gain nothing; growth 0 %%.' % low,
                self.said)
        self.assertIn('<polyline', pathlib.Path(page).read_text())
        # Nothing is known about a flavor that no server has.
        self.what_if('--all', '--low', self.low, status=1)
        self.assertIn("--low is '%s'; allowed are all, the names" % self.low,
                      self.said)
        # Ordinary servers need the shared CPUs of both hosts.
        self.boot(self.low)
        rows = self.what_if(
            'mix1', 'stock1', '--ratio', '2', '--low', self.low)
        self.assertEqual([2, 2], [row[5] for row in rows])
        service, = self.api.get_services(host='stock1', binary='nova-compute')
        self.api.put_service_force_down(service['id'], True)
        self.what_if('--all', '--ratio', '2', '--low', 'all')
        self.assertIn('Host stock1 is omitted with its servers: it is down.',
                      self.said)
        self.assertIn('Hosts now: 1.', self.said)
