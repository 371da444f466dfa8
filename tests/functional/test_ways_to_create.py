# SPDX-License-Identifier: Apache-2.0

"""Each way to create a server in Nova works with a priority."""

from nova.tests import fixtures as nova_fixtures

from tests.functional import base


class WaysToCreate(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.useFixture(nova_fixtures.CinderFixture(self))
        for name in ('mix1', 'mix2'):
            self.start_seed_host(name)

    def _assert_high(self, server):
        self.assertEqual('/high_prio_machine',
                         self.domain(server).findtext('resource/partition'))
        held = self.placement.get(
            '/allocations/%s' % server['id']).body['allocations']
        resources, = (each['resources'] for each in held.values())
        self.assertEqual(4, resources['PCPU'])
        self.assertNotIn('VCPU', resources)
        return resources

    def test_boot_from_volume_keeps_priority(self):
        server = self.boot_with_hint(
            self.plain, 'high', imageRef='', block_device_mapping_v2=[{
                'boot_index': 0, 'source_type': 'volume',
                'destination_type': 'volume',
                'uuid': nova_fixtures.CinderFixture.IMAGE_BACKED_VOL}])
        # Only the ephemeral disk of the flavor is local. The root disk is not.
        self.assertEqual(10, self._assert_high(server)['DISK_GB'])

    def test_multi_create_keeps_priority(self):
        self.boot_with_hint(self.plain, 'high', count=4)
        servers = self.api.get_servers()
        self.assertEqual(4, len(servers))
        for server in servers:
            self._assert_high(server)

    def test_availability_zone_and_forced_host_keep_priority(self):
        self.assertEqual('mix2', self.host_of(self.boot_with_hint(
            self.plain, 'high', availability_zone='nova:mix2')))
        self.assertEqual('mix1', self.host_of(self.boot_with_hint(
            self.plain, 'low', host='mix1')))
        self.boot_with_hint(self.plain, 'low', availability_zone='nova')

    def test_server_group_keeps_priority(self):
        group = self.api.post_server_groups(
            {'name': 'g', 'policy': 'anti-affinity'})
        body = {'server': self._build_server(
            flavor_id=self.plain, networks='none'),
            'os:scheduler_hints': {'group': group['id'], 'priority': 'high'}}
        hosts = set()
        for _ in range(2):
            server = self._wait_for_state_change(
                self.api.post_server(body), 'ACTIVE')
            self._assert_high(server)
            hosts.add(self.host_of(server))
        self.assertEqual({'mix1', 'mix2'}, hosts)
