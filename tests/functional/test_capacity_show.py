# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity show``, compared with new servers."""

from tests import commands
from tests.functional import base


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
        hosts = {'mix1': [4, 8, 4, 4, 16, 12, 0, 8, 8],
                 'off1': [0, 8, 8, 4, 8, 4, 4, 8, 4],
                 'plain1': [0, 0, 0, 0, 8, 8, 0, 8, 8]}
        self.assertEqual(hosts, self.numbers())
        self.assertEqual({'off1': hosts['off1']},
                         self.numbers('--host', 'off1'))
        aggregates = {'priority_mix=true': [
            2, 4, 16, 12, 8, 24, 16, 4, 16, 12],
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

    def test_unknown_names_are_refused(self):
        for arguments, words in (
                (['--host', 'none'], "--host is 'none'; allowed are names of"),
                (['--aggregate', 'none'], "--aggregate is 'none'; allowed"),
                (['--flavor', 'none'], "--flavor is 'none'; allowed are")):
            self.show(*arguments, status=1)
            self.assertIn(words, self.said)
