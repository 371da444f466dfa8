# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity show --after-loss``."""

from nova.tests.functional.api import client

from nova_prio.cmd import report
from tests import commands
from tests.functional import base


class CapacityLoss(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)

    def show(self, *arguments, status=report.CLEAN):
        """Run the command; return dict, (aggregate, host) -> row."""
        for name in sorted(set(self.computes) - self.hosts_down):
            self.update_host(name)
        found, rows, self.said = commands.run(
            'capacity', 'show', '--after-loss', *arguments)
        self.assertEqual(status, found, self.said)
        return {(row['Aggregate'], row['Host']): row for row in rows or ()}

    def test_lost_guests_can_be_evacuated(self):
        """All guests that are listed as fitting can be evacuated."""
        servers = [self.boot(flavor, az='nova:mix1')
                   for flavor in (self.high, self.low, self.plain)]
        row = self.show()['priority_mix=true', 'mix1']
        self.assertEqual([True, 1, 1, 1, 1, 1, 1, *7 * [0]],
                         list(row.values())[2:])
        self.assertIn('If any one of these hosts is lost', self.said)
        self.host_down('mix1')
        for server in servers:
            self.api.post_server_action(server['id'], {'evacuate': {}})
            self._wait_for_server_parameter(
                server, {'OS-EXT-SRV-ATTR:host': 'mix2'})

    def test_missing_resources_make_the_guests_fit(self):
        """Each of 8 high vCPUs is sold: 4 on mix1, and 8 on mix2."""
        self.boot(self.high, az='nova:mix1')
        for _ in range(2):
            self.boot(self.high, az='nova:mix2')
        self.boot(self.low, az='nova:mix2')
        self.start_host('stock1', driver='libvirt.LibvirtDriver')
        rows = self.show(status=report.FOUND)
        self.assertEqual(['mix2', 'mix1'], [host for _, host in rows])
        self.assertEqual(
            [True, 1, 2, 1, 1, 0, 0, 4, 0, 0, 256, 11, 0, 0],
            list(rows['priority_mix=true', 'mix2'].values())[2:])
        self.assertEqual(
            [False, 0, 1, 0, 0, 0, 0, 4, 0, 0, 256, 11, 0, 0],
            list(rows['priority_mix=true', 'mix1'].values())[2:])
        self.assertIn('Add a host with the missing resources', self.said)
        _, table, _ = commands.run('capacity', 'show', '--after-loss',
                                   options=(), load=str)
        self.assertIn('mix2 (largest)', table)
        self.assertIn('4 high vCPUs', table)
        self.assertLessEqual(max(map(len, table.splitlines())), 100)
        self.assertEqual(
            {('priority_mix=true', 'mix1')},
            set(self.show('--host', 'mix1', status=report.FOUND)))
        # The smallest host with these resources.
        self.start_seed_host('mix3', cpus=4, dedicated='0-3', shared=None,
                             mix=False)
        self.show()

    def test_paused_guest_is_not_evacuated(self):
        server = self.boot(self.high, az='nova:mix1')
        self.api.post_server_action(server['id'], {'pause': None})
        self._wait_for_state_change(server, 'PAUSED')
        row = self.show('--host', 'mix1', status=report.FOUND)[
            'priority_mix=true', 'mix1']
        self.assertEqual((0, 1, 0, 1), tuple(row[name] for name in (
            'High Fit', 'High All', 'Missing High', 'Not Evacuable')))
        _, table, _ = commands.run('capacity', 'show', '--after-loss',
                                   options=(), load=str)
        self.assertIn('another state', table)
        self.host_down('mix1')
        self.assertRaises(
            client.OpenStackApiException, self.api.post_server_action,
            server['id'], {'evacuate': {}})

    def test_other_aggregates_are_no_destinations(self):
        self.start_seed_host('other1', aggregate={'priority': 'true'})
        self.boot(self.low, az='nova:other1')
        row, = self.show('--aggregate', 'priority=true',
                         status=report.FOUND).values()
        self.assertEqual((0, 1, 4), tuple(row[name] for name in (
            'Low Fit', 'Low All', 'Missing Low')))
        self.show('--aggregate', 'priority_mix=true')
        self.api.add_host_to_aggregate(
            self._aggregates['priority=true'], 'mix1')
        self.show()

    def test_host_with_a_forbidden_trait_takes_no_guest(self):
        self.placement.put('/traits/CUSTOM_SLOW', None, version='1.6')
        self.boot(self.flavor(**{'hw:cpu_priority': 'high',
                                 'trait:CUSTOM_SLOW': 'forbidden'}),
                  az='nova:mix1')
        self.show()
        url = '/resource_providers/%s/traits' % self.compute_rp_uuids['mix2']
        body = self.placement.get(url, version='1.6').body
        self.placement.put(url, {
            **body, 'traits': [*body['traits'], 'CUSTOM_SLOW']},
            version='1.6')
        row = self.show(status=report.FOUND)['priority_mix=true', 'mix1']
        self.assertEqual((0, 1), (row['High Fit'], row['High All']))

    def test_guests_together_take_what_another_host_has_once(self):
        """Each guest alone fits there; the planner knows no own classes."""
        self.placement.put('/resource_classes/CUSTOM_LICENSE', None,
                           version='1.7')
        for host, total in ('mix1', 2), ('mix2', 1):
            uuid = self.placement.post('/resource_providers', {
                'name': 'licenses of ' + host,
                'parent_provider_uuid': self.compute_rp_uuids[host]},
                version='1.20').body['uuid']
            self.placement.put('/resource_providers/%s/inventories' % uuid, {
                'resource_provider_generation': 0,
                'inventories': {'CUSTOM_LICENSE': {'total': total}}},
                version='1.20')
        licensed = self.flavor(**{'hw:cpu_priority': 'low',
                                  'resources:CUSTOM_LICENSE': '1'})
        servers = [self.boot(licensed, az='nova:mix1') for _ in range(2)]
        row = self.show(status=report.FOUND)['priority_mix=true', 'mix1']
        self.assertEqual((1, 2), (row['Low Fit'], row['Low All']))
        self._delete_server(servers[0])
        self.show()

    def test_members_of_an_affinity_group_are_bound(self):
        group = self.api.post_server_groups(
            {'name': 'g', 'policy': 'affinity'})['id']
        servers = [self._wait_for_state_change(self.api.post_server({
            'server': self._build_server(flavor_id=self.low, networks='none'),
            'os:scheduler_hints': {'group': group}}), 'ACTIVE')
            for _ in range(2)]
        host, = set(map(self.host_of, servers))
        row = self.show(status=report.FOUND)['priority_mix=true', host]
        self.assertEqual([0, 2, 2], [row[name] for name in (
            'Missing Low', 'Low All', 'Bound By Affinity')])
        self.host_down(host)
        error = self.assertRaises(
            client.OpenStackApiException, self.api.post_server_action,
            servers[0]['id'], {'evacuate': {}})
        self.assertIn('NoValidHost', str(error))

    def test_other_options_are_refused(self):
        self.show('--by-aggregate', status=1)
        self.assertIn('--by-aggregate is given with --after-loss', self.said)
