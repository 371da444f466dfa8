# SPDX-License-Identifier: Apache-2.0


"""Two instances with one dedicated CPU in Nova's records are found."""

import threading
from unittest import mock

import nova.conf
from nova import objects
from oslo_db import exception as db_exception
import sqlalchemy

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import pin_conflicts
from nova_prio.admin import upgrade_checks
from nova_prio.cmd import report
from nova_prio.cmd import status
from nova_prio.virt import demand
from tests.functional import test_audit as audit

CONF = nova.conf.CONF
CHECK = 'Dedicated CPUs of instances'
CLEAN = (upgrade_checks.SUCCESS, None)


class PinConflicts(audit.Audit):

    def check(self):
        """Return the code and the details of the upgrade check."""
        checks = status.Checks(CONF)
        # The in-process test environment has connected the databases.
        with mock.patch('nova_prio.admin.host_inventory.connect_databases'):
            result = dict(checks._upgrade_checks)[CHECK](checks)
        return result.code, result.details

    def count_queries(self):
        """Return how many queries the upgrade check sends."""
        own_thread = threading.get_ident()
        statements = []

        def note(connection, cursor, statement, *args):
            if threading.get_ident() == own_thread:
                statements.append(statement)

        arguments = (sqlalchemy.Engine, 'before_cursor_execute', note)
        sqlalchemy.event.listen(*arguments)
        self.addCleanup(sqlalchemy.event.remove, *arguments)
        self.assertEqual(CLEAN, self.check())
        return len(statements)

    def pins(self, server):
        """Return the CPUs to which the record of a server is pinned."""
        with self.instance(server) as instance:
            return sorted(demand.get_instance_pins(instance))

    def pin(self, server, cpu):
        """Pin the only vCPU of a server to a CPU, in its record alone."""
        with self.instance(server) as instance:
            cell, = instance.numa_topology.cells
            cell.cpu_pinning = {0: cpu}
            instance.save()

    def assert_found(self, host, server, other, cpu):
        """Assert that audit and upgrade check name a pair of servers."""
        first, second = sorted((server['id'], other['id']))
        row, = [row for row in self.audit('--fix', status=report.FOUND)
                if row['Finding'] == 'pin_conflict']
        self.assertEqual(
            (host, first, 'CPUs %d, with %s' % (cpu, second), 'found',
             finding.REMEDIES['pin_conflict']),
            tuple(row[name] for name in (
                'Host', 'Consumer', 'Compute', 'State', 'Remedy')))
        code, details = self.check()
        self.assertEqual(upgrade_checks.WARNING, code)
        self.assertEqual(
            'In the database, the instances %s and %s on host %s have the '
            'same dedicated CPUs %d, so nova-compute may refuse to start one '
            'of them. %s' % (first, second, host, cpu,
                             finding.REMEDIES['pin_conflict']), details)

    def assert_clean(self):
        self.audit()
        self.assertEqual(CLEAN, self.check())

    def test_cpu_of_two_residents_is_found(self):
        high, pinned = self.create('high'), self.create('pinned')
        self.create_all()
        self.assert_clean()
        before = self.pins(pinned)
        taken = self.pins(high)[0]
        self.pin(pinned, taken)
        self.assert_found('mix1', high, pinned, taken)
        # No repair has changed the records.
        self.assertEqual([taken], self.pins(pinned))
        self.change(pinned, task_state='rebooting')
        self.assertEqual(CLEAN, self.check())
        self.change(pinned, task_state=None)
        self.pin(pinned, before[0])
        self.assert_clean()

    def test_old_cpu_of_resized_instance_is_found(self):
        resized = self.create('high')
        old = self.pins(resized)[0]
        self.start_move(resized, 'mix2')
        self.assert_clean()
        pinned = self.create('pinned')
        self.assert_clean()
        before = self.pins(pinned)
        self.pin(pinned, old)
        self.assert_found('mix1', resized, pinned, old)
        self.pin(pinned, before[0])
        self.assert_clean()
        self.confirm(resized)
        self.assert_clean()

    def test_conflict_that_ends_between_two_reads_is_no_finding(self):
        high, pinned = self.create('high'), self.create('pinned')
        before = self.pins(pinned)
        self.pin(pinned, self.pins(high)[0])
        stock = pin_conflicts._read_conflicts_once

        def move_afterwards(cctxt, node):
            found = stock(cctxt, node)
            self.pin(pinned, before[0])
            return found

        with mock.patch.object(
                pin_conflicts, '_read_conflicts_once', move_afterwards):
            self.assertEqual(CLEAN, self.check())

    def test_number_of_queries_does_not_grow_with_instances(self):
        numbers = []
        for _ in range(2):
            self.start_move(self.create('pinned'), 'mix2')
            self.create('low')
            numbers.append(self.count_queries())
        self.assertEqual(numbers[0], numbers[1])

    def test_unreadable_cell_is_named(self):
        with mock.patch.object(
                host_view, 'list_hosts',
                side_effect=db_exception.DBConnectionError('failed')):
            code, details = self.check()
        self.assertEqual(upgrade_checks.WARNING, code)
        self.assertIn('does not answer, so its instances are not checked',
                      details)
        with mock.patch.object(
                objects.CellMappingList, 'get_all',
                side_effect=db_exception.DBConnectionError('failed')):
            code, details = self.check()
        self.assertEqual(upgrade_checks.FAILURE, code)
        self.assertIn('[api_database] connection cannot be read', details)
