# SPDX-License-Identifier: Apache-2.0

"""Commands about a cloud with a host that never reached Placement."""

from nova_prio.cmd import report
from tests import commands
from tests.functional import base
from tests.functional import sdk_connection

PROBLEM = 'nova-compute has not written the resources of the host yet'


class IncompleteHost(base.FunctionalTest):
    """Two mix hosts, and the record that a new nova-compute has created."""

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self.enterContext(
            sdk_connection.connect(self, self.api_fixture.admin_api))
        for name in 'mix1', 'mix2', 'new1':
            self.start_seed_host(name)
        # Until the first update of Placement succeeds, these are NULL.
        with self.record('new1') as node:
            node.free_ram_mb = node.free_disk_gb = None
            node.stats = {}
            node.save()
        self.placement.delete(
            '/resource_providers/' + self.compute_rp_uuids['new1'])

    def run_command(self, *words, status=report.CLEAN):
        """Run a command; return its rows, and what it said."""
        found, rows, said = commands.run(*words)
        self.assertEqual(status, found, said)
        return rows, said

    def test_lists_name_its_problem(self):
        for option in (), ('--after-loss',):
            rows, said = self.run_command('capacity', 'show', *option)
            self.assertEqual(['mix1', 'mix2'], [row['Host'] for row in rows])
            self.assertIn('Host new1 is omitted: %s.' % PROBLEM, said)
        rows, _ = self.run_command(
            'capacity', 'gain', '--aggregate', 'priority_mix=true')
        self.assertEqual(PROBLEM, rows[2]['Note'])

    def test_explanation_names_its_problem(self):
        """Also if Placement knows the host from before."""
        row, = self.run_command('explain', '--flavor', self.low,
                                '--host', 'new1', status=report.FOUND)[0]
        self.assertEqual(PROBLEM, row['Reason'])
        with self.record('mix2') as node:
            node.free_ram_mb = node.free_disk_gb = None
            node.save()
        rows, _ = self.run_command('explain', '--flavor', self.low)
        self.assertEqual({'mix1': '', 'mix2': PROBLEM, 'new1': PROBLEM}, {
            row['Host']: row['Reason'] for row in rows})

    def test_other_hosts_can_be_drained(self):
        self.boot(self.low, az='nova:mix1')
        self.run_command('room', 'plan', '--flavor', self.high)
        row, = self.run_command('host', 'drain', 'mix1', '--dry-run')[0]
        self.assertEqual('mix2', row['Destination'])
        self.assertEqual([], self.run_command(
            'host', 'drain', 'new1', '--dry-run')[0])
