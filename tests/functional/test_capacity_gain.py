# SPDX-License-Identifier: Apache-2.0


"""The command ``nova-prio capacity gain``, compared with new servers."""

from nova_prio.objects import host_report
from tests import commands
from tests.functional import base

PRIORITY = {'priority_mix': 'true'}


class CapacityGain(base.FunctionalTest):

    def gain(self, *arguments, aggregate='priority_mix=true', status=0):
        """Run the command; return dict, host to its numbers and its note."""
        found, rows, self.said = commands.run(
            'capacity', 'gain', aggregate, *arguments)
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
            'another ratio may give more: see "nova-prio capacity solve".\n',
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
        for flavor, units in ((self.low, 2), (self.plain, 2), (wide, 2),
                              (self.flavor(3), 3),
                              (self.flavor(13), 0)):
            numbers, = self.gain('--flavor', flavor).values()
            self.assertEqual([True, 8, 16, 8, units, ''], numbers)
            self.assertIn('Gained: 8 low-priority vCPUs (%d instances of the '
                          'flavor) on 1 host.' % units, self.said)
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
                ({'aggregate': 'none'}, "AGGREGATE is 'none'; allowed are"),
                ({'flavor': 'none'}, "--flavor is 'none'; allowed are"),
                ({'flavor': self.high}, "is '%s', whose hw:cpu_priority is "
                 "'high'; allowed are flavors with 'low' or none" % self.high),
                ({'flavor': self.flavor(4, **{'hw:cpu_policy': 'dedicated'})},
                 "hw:cpu_policy of the flavor is 'dedicated'; with low")):
            flavor = arguments.pop('flavor', None)
            self.gain(*(['--flavor', flavor] if flavor else []), **arguments,
                      status=1)
            self.assertIn(words, self.said)
