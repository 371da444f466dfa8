# SPDX-License-Identifier: Apache-2.0

"""Resize and cold migration of priority instances to a host of another cell.

Nova takes a snapshot, and keeps a record of the instance in each cell until
the move is confirmed or reverted. Nova hides the record of the target cell.
"""

from nova.tests.functional.api import client

from tests.functional import test_audit


class CrossCell(test_audit.Audit):
    """Two mix hosts, each in a cell of its own."""

    NUMBER_OF_CELLS = 2
    hosts = 'mix1', 'mix2'

    def setUp(self):
        super().setUp()
        self.allow_moves_between_cells()

    def start(self, host):
        self.start_seed_host(
            host, cpus=24, cells=2, ratio=3.0, dedicated='0-7,12-19',
            shared='8-11,20-23',
            nova_cell={'mix1': 'cell1', 'mix2': 'cell2'}[host])

    def usage(self, host):
        """Return the used CPUs of the high and the low row of a host."""
        report = self.report(host)
        return report.used.high, report.used.low

    def guests(self, host):
        """Return the servers that have a guest on a host."""
        return set(self.computes[host].driver.list_instance_uuids())

    def start_moves(self):
        """Migrate a low instance and resize an ordinary one to low.

        Neither move is confirmed.
        """
        servers = migrated, resized = self.create('low'), self.create(
            'ordinary')
        self.start_move(migrated, 'mix2')
        self.start_move(resized, 'mix2', 'low')
        # Allocations: 3 and 5 vCPUs on the source host, 3 and 3 on the target.
        self.assertEqual([(0, 8), (0, 6)], list(map(self.usage, self.hosts)))
        return servers

    def test_usage_follows_confirm_revert_and_delete(self):
        """Each host restarts before the first moves are ended."""
        migrated, resized = servers = self.start_moves()
        for server in servers:
            domain = self.domain(server)
            self.assertEqual(
                ('/low_prio_machine', '0-23'),
                (domain.findtext('resource/partition'),
                 domain.find('vcpu').get('cpuset')))
        self.assert_stable_allocations()
        for host in self.hosts:
            self.restart_compute_service(host)
        self.assert_stable_allocations()
        self.assertEqual([(0, 8), (0, 6)], list(map(self.usage, self.hosts)))
        self.assertEqual(['in motion', 'in motion'], [
            row['State'] for row in self.audit('--all')])
        self.confirm(migrated)
        self.revert(resized)
        self.assert_settled((0, 5), {resized['id']}, (0, 3), {migrated['id']})
        low, ordinary, deleted, resized_again = map(
            self.create, ('low', 'ordinary', 'low', 'ordinary'))
        self.start_move(low, 'mix2')
        self.start_move(ordinary, 'mix2', 'low')
        self.start_move(deleted, 'mix2')
        self.start_move(resized_again, 'mix2', 'low')
        self.revert(low)
        self.confirm(ordinary)
        self.delete(deleted, resized_again)
        self.assert_settled((0, 8), {resized['id'], low['id']},
                            (0, 6), {migrated['id'], ordinary['id']})

    def assert_settled(self, *expected):
        """Assert usage and guests of mix1, then of mix2."""
        for _ in range(2):
            self.assertEqual(list(expected[::2]),
                             list(map(self.usage, self.hosts)))
            self.assert_stable_allocations()
        self.assertEqual(list(expected[1::2]),
                         list(map(self.guests, self.hosts)))
        self.audit()

    def test_instances_with_numa_topology_are_refused(self):
        """Stock Nova would start them on the shared CPUs, without pins."""
        flavors = 'high', 'low in both cells', 'pinned', 'mixed', 'numbers'
        servers = [self.create(flavor) for flavor in flavors]
        guests = [self.guest_xml(server['id']) for server in servers]
        usage = self.usage('mix1')
        for server in servers:
            error = self.assertRaises(
                client.OpenStackApiException, self.act, server, migrate=None)
            # Nova responds with the class name of the error, and status 500.
            self.assertIn('NoValidHost', str(error))
            self.assertEqual('mix1', self.host_of(server))
            self.assertEqual('ACTIVE', self._settled(server)['status'])
        self.assertEqual([usage, (0, 0)], list(map(self.usage, self.hosts)))
        self.assert_stable_allocations()
        self.assertEqual([usage, (0, 0)], list(map(self.usage, self.hosts)))
        self.assertEqual(
            guests, [self.guest_xml(server['id']) for server in servers])
        self.audit()
