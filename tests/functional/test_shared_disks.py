# SPDX-License-Identifier: Apache-2.0

"""Allocations of disks at a provider that shares them with the hosts."""

import logging

import fixtures
from nova.tests.functional.api import client

from nova_prio.cmd import report
from nova_prio.compute import allocation_healing
from tests import commands
from tests.functional import test_audit


class SharedDisks(test_audit.Audit):
    """Two mix hosts and a provider that shares its disks with them."""

    def setUp(self):
        super().setUp()
        self.compute_rp_uuids['shared'] = self.share_disks()

    def heal(self):
        """Run the periodic task of each host; return its warnings."""
        log = self.useFixture(fixtures.FakeLogger(
            name=allocation_healing.LOG.name, level=logging.WARNING))
        for host in sorted(set(self.computes) - self.hosts_down):
            self.update_host(host)
        return log.output

    def create_at(self, provider, flavor='high'):
        """Create a server on mix1 whose disk is at a provider."""
        server = self.create(flavor)
        needs = self.expected[server['id']]
        disk = needs['mix1'].pop('DISK_GB')
        needs.setdefault(provider, {})['DISK_GB'] = disk
        self._delete_server_allocations(server['id'])
        for host, resources in needs.items():
            self.put({**server, 'host': host}, **resources)
        self.assert_allocations()
        return server

    def resize_shared(self, provider='shared', **values):
        """Change the inventory of a sharing provider."""
        url = ('/resource_providers/%s/inventories/DISK_GB'
               % self.compute_rp_uuids[provider])
        found = self.placement.get(url).body
        answer = self.placement.put(url, {**found, **values})
        self.assertEqual(200, answer.status, answer.body)


class SmallDisks(SharedDisks):
    """Disks that fit the hosts as well."""

    def test_lost_disk_returns_to_sharing_provider(self):
        servers = [self.create_at('shared', flavor)
                   for flavor in ('high', 'low', 'ordinary')]
        self.assertEqual('', self.heal())
        for server in servers:
            self._delete_server_allocations(server['id'])
        self.assertIn('Corrected the allocation', self.heal())
        self.assert_allocations()
        self.assertEqual('', self.heal())
        for server in servers:
            self._delete_server_allocations(server['id'])
        self.assert_repaired({('mix1', 'missing_allocation', server['id'])
                              for server in servers})
        self.assert_allocations()

    def test_disk_stays_at_the_provider_that_holds_it(self):
        for provider in 'mix1', 'shared':
            server = self.create_at(provider)
            needs = dict(self.expected[server['id']]['mix1'])
            self.put(server, **{**needs, 'MEMORY_MB': 1})
            self.assertIn('Corrected the allocation', self.heal())
            self.assert_allocations()
        self.audit()

    def test_surplus_at_sharing_provider_is_found_and_repaired(self):
        """The host holds the disk, or the sharing provider holds too much."""
        local, shared = self.create_at('mix1'), self.create_at('shared')
        self.audit()
        for server, disk in (local, 1), (shared, 50):
            self.put({**server, 'host': 'shared'}, DISK_GB=disk)
        row, _ = self.audit(status=report.FOUND)
        self.assertIn(self.compute_rp_uuids['shared'], row['Remedy'])
        self.assert_repaired({('mix1', 'wrong_amount', server['id'])
                              for server in (local, shared)})
        self.assert_allocations()

    def test_audit_counts_a_sharing_provider_that_is_full(self):
        server = self.create_at('shared')
        disk = self.expected[server['id']]['shared']['DISK_GB']
        self.resize_shared(total=disk)
        self.audit()
        self.resize_shared(total=2 * disk)
        self.put({**server, 'host': 'shared'}, DISK_GB=2 * disk)
        self.assert_repaired({('mix1', 'wrong_amount', server['id'])})
        self.assert_allocations()

    def test_healing_keeps_other_disk_when_sharing_provider_is_full(self):
        """A full provider shares, too: the disk does not go to the host."""
        server = self.create_at('shared')
        needs = self.expected[server['id']]
        self._delete_server_allocations(server['id'])
        self.resize_shared(reserved=9999, total=10000)
        said = self.heal()
        self.assertIn('CPUs and memory are as expected now, but DISK_GB '
                      'is not: Placement refused the request: ', said)
        disk = needs.pop('shared')
        self.assert_allocations()
        # It is said again with the present amounts, and then no more.
        self.assertIn('but DISK_GB is not', self.heal())
        self.assertEqual('', self.heal())
        row, = self.audit('--fix', status=report.FAILED)
        self.assertEqual(('wrong_amount', 'failed'),
                         (row['Finding'], row['State']))
        self.assertIn('CPUs and memory are as expected', row['Remedy'])
        self.resize_shared(reserved=0)
        self.assertIn('Corrected the allocation', self.heal())
        needs['shared'] = disk
        self.assert_allocations()

    def test_disk_with_several_sharing_providers(self):
        """It stays at a provider that holds it; else it is not healed."""
        held = self.create_at('shared')
        first = self.compute_rp_uuids['shared']
        second = self._post_resource_provider('second')['uuid']
        self.compute_rp_uuids['second'] = second
        self._set_inventory(second, {
            'resource_class': 'DISK_GB', 'total': 100})
        self._set_provider_traits(second, ['MISC_SHARES_VIA_AGGREGATE'])
        aggregate, = self.api.api_get('/os-aggregates').body['aggregates']
        self._set_aggregate(second, aggregate['uuid'])
        self.put(held, PCPU=2, MEMORY_MB=1)
        self.heal()
        self.assert_allocations()
        lost = self.create_at('second')
        self._delete_server_allocations(lost['id'])
        said = self.heal()
        self.assertIn('CPUs and memory are as expected now', said)
        self.assertIn('The resource providers %s and %s share disks with the '
                      'host, and none of them has a DISK_GB allocation '
                      % tuple(sorted((first, second))), said)
        disk = self.expected[lost['id']].pop('second')
        self.assert_allocations()
        row, = self.audit('--fix', status=report.FAILED)
        self.assertIn('none of them has a DISK_GB allocation', row['Remedy'])
        for provider in 'shared', 'second':
            self.put({**lost, 'host': provider}, **disk)
            self.expected[lost['id']][provider] = disk
        row, = self.audit('--fix', status=report.FAILED)
        self.assertIn('each of them has a DISK_GB allocation', row['Remedy'])
        self.assert_allocations()

    def test_plan_of_a_host_counts_shared_disks(self):
        self.create_at('shared')
        _, rows, said = commands.run(
            'host', 'plan', 'mix1', '--dedicated', '0-7,12-19',
            '--shared', '8-11,20-23', '--ratio', '3.0')
        self.assertEqual([], [row for row in rows
                              if row['Part'] == 'allocation'], said)

    def test_surplus_disk_after_evacuation_is_repaired(self):
        """Nova allocates a local disk and leaves the shared one."""
        server = self.create_at('shared')
        needs = self.expected[server['id']]
        self.host_down('mix1')
        self.act(server, 'SHUTOFF', evacuate={'host': 'mix2'})
        self.host_up('mix1')
        needs['mix2'] = {**needs.pop('mix1'), **needs['shared']}
        self.assert_allocations()
        del needs['shared']
        self.assert_repaired({('mix2', 'wrong_amount', server['id'])})
        self.assert_allocations()


class LargeDisks(SharedDisks):
    """Disks that fit the sharing provider alone."""

    ROOT_GB = 200

    def expected_allocation(self, *args, **kwargs):
        (host, needed), = super().expected_allocation(*args, **kwargs).items()
        return {'shared': {'DISK_GB': needed.pop('DISK_GB')}, host: needed}

    def test_lost_allocations_are_healed_and_repaired(self):
        servers = self.create_all(host=None)
        for heal in (self.heal, lambda: self.assert_repaired({
                (server['host'], 'missing_allocation', server['id'])
                for server in servers})):
            for server in servers:
                self._delete_server_allocations(server['id'])
            heal()
            self.assert_allocations()
        self.assertEqual('', self.heal())

    def test_migration_to_a_named_host_is_refused(self):
        """Nova asks for candidates in the tree of that host alone."""
        server = self.create('low', host=None)
        target, = {'mix1', 'mix2'} - {server['host']}
        for action, values in (('migrate', {}), ('os-migrateLive', {
                'block_migration': 'auto'})):
            error = self.assertRaises(
                client.OpenStackApiException, self.api.post_server_action,
                server['id'], {action: {**values, 'host': target}})
            self.assertIn('NoValidHost', str(error))
            self.assert_allocations()
        self._live_migrate(server)
        self.assertEqual(target, self.host_of(server))
        self.expected[server['id']] = self.expected_allocation(
            server, host=target)
        self.assert_allocations()
        self.start_move(server, server['host'])
