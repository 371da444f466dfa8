# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio room plan``."""

import pkgutil
from unittest import mock

import fixtures
from nova import exception

from nova_prio.admin.moves import one_move
from nova_prio.cmd import report
from nova_prio.cmd import room
from tests import commands
from tests.functional import base
from tests.functional import maintenance


class RoomPlan(base.FunctionalTest):
    """Two mix hosts with 8 dedicated and 4 shared CPUs."""

    def setUp(self):
        super().setUp()
        maintenance.let_commands_move(self)
        self.high_6 = self.flavor(6, **{'hw:cpu_priority': 'high'})

    def plan(self, flavor, *arguments, status=report.CLEAN):
        """Run the command; return the rows without the name."""
        for name in sorted(set(self.computes) - self.hosts_down):
            self.update_host(name)
        found, rows, self.said = commands.run(
            'room', 'plan', '--flavor', flavor, *arguments)
        self.assertEqual(status, found, self.said)
        return [tuple(value for key, value in row.items() if key != 'Name')
                for row in rows or ()]

    def records(self):
        """Return the servers as the API shows them."""
        return self.api.get_servers(detail=True)

    def start_hosts(self, **options):
        for name in 'mix1', 'mix2':
            self.start_seed_host(name, **options)

    def test_refused_high_server_fits_after_the_moves(self):
        """Each host has 4 dedicated CPUs free; the server needs 6."""
        self.start_hosts()
        servers = [self.boot(self.high, az='nova:' + host)
                   for host in ('mix1', 'mix2')]
        self.boot(self.low, az='nova:mix1')
        self._delete_server(self.boot(self.high_6, 'ERROR'))
        before = self.records()
        for arguments in (), ('--apply', '--dry-run'):
            (uuid, *rest), = self.plan(self.high_6, *arguments)
            self.assertIn('that fit after these moves: 1, on %s (1). Nothing '
                          'was changed' % rest[2], self.said)
            self.assertIn(room.PREEMPTION, self.said)
        self.assertEqual(before, self.records())
        self.assertIn(uuid, [server['id'] for server in servers])
        self.assertEqual(['high', 'live'], rest[:2])
        self.plan(self.high_6, '--apply')
        self.assertIn('live migration from %s to %s: done.' % tuple(rest[2:]),
                      self.said)
        self.assertIn('that fit now: 1, on %s (1).' % rest[2], self.said)
        self.assertEqual([], self.plan(self.high_6, '--apply'))
        self.assertIn('fit without a move: 1, on %s' % rest[2], self.said)
        self.assertEqual(rest[2], self.host_of(self.boot(self.high_6)))

    def test_plan_with_nova_conf_of_another_service(self):
        """It has the defaults of Nova for nova-scheduler."""
        self.start_hosts()
        for host in 'mix1', 'mix2':
            self.boot(self.high, az='nova:' + host)
        self.flags(disable_fallback_pcpu_query=False, group='workarounds')
        self.flags(enabled_filters=['NUMATopologyFilter'],
                   group='filter_scheduler')
        self.assertEqual(1, len(self.plan(self.high_6)))
        self.assertIn('may not fit: this nova.conf is not that of '
                      'nova-scheduler', self.said)

    def test_low_servers_are_shelved_if_memory_is_short(self):
        """Ordinary servers are not shelved, and dedicated CPUs are free."""
        self.start_hosts(memory_mb=2048)
        large = dict(vcpu=2, memory_mb=512, disk=1)
        low = [self.boot(self._create_flavor(
            **large, extra_spec={'hw:cpu_priority': 'low'}),
            az='nova:' + host) for host in ('mix1', 'mix2')]
        for host in 'mix1', 'mix2':
            self.boot(self._create_flavor(**large), az='nova:' + host)
        whole, wanted = (self._create_flavor(
            vcpu=2, memory_mb=memory_mb, disk=1,
            extra_spec={'hw:cpu_priority': 'high'})
            for memory_mb in (1536, 1024))
        self.plan(whole, '--count', '2', status=report.FOUND)
        self.assertIn('made: 1 of 2;', self.said)
        rows = self.plan(wanted, '--count', '2', '--apply')
        self.assertEqual(
            sorted((server['id'], 'low', 'shelve', host, '')
                   for server, host in zip(low, ('mix1', 'mix2'))),
            sorted(rows))
        for server in low:
            self.assertEqual('SHELVED_OFFLOADED', self.api.get_server(
                server['id'])['status'])
        for _ in range(2):
            self.boot(wanted)

    def test_miss_names_the_closest_host_and_the_addition(self):
        self.start_hosts()
        self.start_seed_host('other1', aggregate={'priority': 'true'})
        for host in 'mix1', 'mix2':
            for _ in range(2):
                self.boot(self.high, az='nova:' + host)
            self.boot(self.low, az='nova:' + host)
        arguments = self.high, '--count', '3', '--aggregate', (
            'priority_mix=true')
        # The hosts of the aggregate can send two servers to the other one.
        self.assertEqual([], self.plan(*arguments, status=report.FOUND))
        self.assertIn('all allowed moves are made: 2 of 3; the next one lacks '
                      'the least on host mix', self.said)
        self.assertIn('would need 4 high vCPUs, 256 MB of memory, 11 GB of '
                      'disk for the others', self.said)
        self.assertIn(room.PREEMPTION, self.said)
        self.assertEqual(2, len(self.plan(
            self.high, '--count', '2', '--aggregate', 'priority_mix=true')))
        self.assertEqual([], self.plan(self.high, '--count', '2'))

    def test_no_move_is_made_for_a_host_that_cannot_take_the_server(self):
        """Only mix1 has the trait, and its large server fits nowhere else."""
        self.start_hosts()
        self.placement.put('/traits/CUSTOM_GOLD', None, version='1.6')
        url = '/resource_providers/%s/traits' % self.compute_rp_uuids['mix1']
        body = self.placement.get(url, version='1.6').body
        self.placement.put(url, {
            **body, 'traits': [*body['traits'], 'CUSTOM_GOLD']},
            version='1.6')
        self.boot(self.flavor(8, **{'hw:cpu_priority': 'high'}),
                  az='nova:mix1')
        self.boot(self.high, az='nova:mix2')
        gold = self.flavor(4, **{'hw:cpu_priority': 'high',
                                 'trait:CUSTOM_GOLD': 'required'})
        self.assertEqual([], self.plan(gold, '--apply', status=report.FOUND))
        self.assertIn('all allowed moves are made: 0 of 1; the next one lacks '
                      'the least on host mix', self.said)
        self.boot(gold, 'ERROR')

    def test_memory_that_a_flavor_overrides_counts(self):
        self.start_hosts(memory_mb=2048)
        large = self.flavor(2, **{'hw:cpu_priority': 'high',
                                  'resources:MEMORY_MB': '1200'})
        self.assertEqual([], self.plan(large, '--count', '2'))
        self.plan(large, '--count', '3', status=report.FOUND)
        self.assertIn('made: 2 of 3;', self.said)

    def test_refused_destinations_are_planned_no_more(self):
        """The server is then moved to the other host with room."""
        for name in 'mix1', 'mix2', 'mix3':
            self.start_seed_host(name)
            self.boot(self.high, az='nova:' + name)
        (uuid, _, _, source, destination), = self.plan(self.high_6)
        self.assertNotEqual(source, destination)
        check = 'nova.virt.libvirt.driver.LibvirtDriver.pre_live_migration'
        stock = pkgutil.resolve_name(check)

        def refuse(driver, *args, **kwargs):
            if driver._host is self.computes[destination].driver._host:
                raise exception.MigrationPreCheckError(reason='no storage')
            return stock(driver, *args, **kwargs)

        with fixtures.MonkeyPatch(check, refuse):
            self.plan(self.high_6, '--apply')
        self.assertIn('to %s: refused, because' % destination, self.said)
        self.assertIn('that fit now: 1, on', self.said)
        self.boot(self.high_6)

    def test_moves_that_are_not_made_are_named(self):
        self.start_hosts()
        for host in 'mix1', 'mix2':
            self.boot(self.high, az='nova:' + host)
        with self.no_guest_migrates():
            self.plan(self.high_6, '--apply', status=report.FOUND)
        self.assertIn('Nova refused a move, and no other moves make room. '
                      'Nova goes on', self.said)
        with mock.patch.object(one_move.OneMove, 'start',
                               side_effect=KeyboardInterrupt):
            self.plan(self.high_6, '--apply', status=report.FOUND)
        self.assertIn('Interrupted. Nova goes on', self.said)
        self.plan(self.high_6, '--apply', '--timeout', '0',
                  status=report.FOUND)
        self.assertIn('The timeout is over. Nova goes on', self.said)

    def test_wrong_arguments_are_refused(self):
        self.start_seed_host()
        for arguments, expected in (
                ((self.high, '--aggregate', 'x'), "--aggregate is 'x'; all"),
                (('x',), "--flavor is 'x'; allowed are names")):
            self.plan(*arguments, status=1)
            self.assertIn(expected, self.said)
        self.plan(self.high, '--count', '0', status=2)
        self.assertIn("'0' is given; allowed are whole numbers", self.said)
