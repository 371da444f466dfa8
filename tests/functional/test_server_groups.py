# SPDX-License-Identifier: Apache-2.0

"""Server groups with a soft policy, over hosts and over failure domains."""

from concurrent import futures
import itertools
from unittest import mock

import fixtures
import nova.conf
from nova import context
from nova.scheduler import utils as scheduler_utils
from nova.tests.functional.api import client
from nova import utils as nova_utils

from tests.functional import base

CONF = nova.conf.CONF

AFFINITY = 'soft-affinity'
ANTI_AFFINITY = 'soft-anti-affinity'


class ServerGroups(base.FunctionalTest):
    """Hosts that the memory weigher prefers in the order of their names."""

    def setUp(self):
        super().setUp()
        self.small = self.flavor(1)
        self.half = self.flavor(6)

    def start_hosts(self, domains=('host',), same_priority=False, **hosts):
        """Start hosts of 12 shared CPUs, with the metadata of each."""
        self.flags(disk_weight_multiplier=0.0, group='filter_scheduler')
        self.flags(affinity_domains=list(domains),
                   affinity_same_priority=same_priority,
                   priority_weight_multiplier=0.0, group='nova_prio')
        manager = self.scheduler.manager.host_manager
        manager.weighers = [
            weigher() for weigher in manager.weight_handler.
            get_matching_classes(CONF.filter_scheduler.weight_classes)]
        for number, (name, metadata) in enumerate(sorted(hosts.items())):
            self.start_host(name, ratio=1.0,
                            memory_mb=(16 - number) * 1024)
            for key, value in metadata.items():
                self._join_aggregate(name, {key: value})

    def group(self, policy):
        """Create a group; returns its id."""
        return self.api.post_server_groups(
            {'name': 'g', 'policy': policy})['id']

    def create(self, group, flavor=None, count=1, host=None):
        """Create members of a group; returns the servers."""
        servers = self.wait_for_request(self.api.post_server(self._request(
            group, flavor or self.small, host=host, min_count=count,
            max_count=count, return_reservation_id=True)))
        # Until the update, Nova counts the builds against the hosts.
        for name in set(map(self.host_of, servers)):
            self.update_host(name)
        return servers

    def _request(self, group, flavor, host=None, **more):
        server = self._build_server(
            flavor_id=flavor, networks='none', host=host)
        return {'server': {**server, **more},
                'os:scheduler_hints': {'group': group}}

    def place(self, group, **kwargs):
        """Create one member of a group; returns its host."""
        server, = self.create(group, **kwargs)
        return self.host_of(server)

    def members(self, policy, hosts):
        """Create a member on each host; returns the servers."""
        group = self.group(policy)
        return [self.create(group, host=host)[0] for host in hosts]

    def assert_last_moves(self, policy, hosts, to):
        """Check that each kind of move takes the last member to a host.

        :param hosts: host of each member, a str of names of one letter
        :param to: expected host
        """
        servers = self.members(policy, hosts)
        *_, last = servers
        self._rebuild(last)
        self.assertEqual(hosts[-1], self.host_of(last))
        for move in (self._cold, self._live, self._evacuate):
            move(last)
            self.assertEqual(to, self.host_of(last),
                             (policy, hosts, move.__name__))
            if move != self._evacuate:
                self._live(last, hosts[-1])
        self.host_up(hosts[-1])
        for server in servers:
            self._delete_server(server)

    def _rebuild(self, server):
        """Rebuild with another image: for the same, Nova schedules nothing."""
        # Nova 31 refuses its own answer if the answer shows the hint.
        with nova_utils.temporary_mutation(self.api, microversion='2.99'):
            self.api.post_server_action(server['id'], {
                'rebuild': {'imageRef': self.image()}})
        self._wait_for_state_change(server, 'ACTIVE')

    def _cold(self, server):
        self._migrate_server(server)
        self._confirm_resize(server)

    def _live(self, server, host=None):
        self.api.post_server_action(server['id'], {'os-migrateLive': {
            'host': host, 'block_migration': 'auto'}})
        self.soon(self._assert_moved, server)

    def _assert_moved(self, server):
        self.assertLessEqual(
            {migration['status']
             for migration in self.migrations_of(server['id'])},
            {'completed', 'confirmed', 'done'})

    def _evacuate(self, server):
        self.host_down(self.host_of(server))
        self._evacuate_server(server, expected_state='SHUTOFF')

    def set_disabled(self, host, closed=True):
        """Disable or enable the compute service of a host."""
        service, = self.api.get_services(binary='nova-compute', host=host)
        self.api.put_service(service['id'], {
            'status': 'disabled' if closed else 'enabled'})


class Hosts(ServerGroups):
    """Decisions of the weighers if the host is the only domain."""

    def test_soft_affinity_stacks(self):
        self.start_hosts(a={}, b={}, c={})
        group = self.group(AFFINITY)
        self.assertEqual('b', self.place(group, host='b'))
        self.assertEqual('b', self.place(group, flavor=self.half))
        # Host b is full. Only the next, smaller member fits on b again.
        other = self.place(group, flavor=self.half)
        self.assertEqual('a', other)
        self.assertEqual('b', self.place(group))
        # Another group has no members yet.
        self.assertEqual('a', self.place(self.group(AFFINITY)))

    def test_soft_anti_affinity_spreads(self):
        self.start_hosts(a={}, b={})
        group = self.group(ANTI_AFFINITY)
        self.assertEqual('ab', self.place(group) + self.place(group))
        self.set_disabled('b')
        self.assertEqual('a', self.place(group))
        self.set_disabled('b', False)
        self.assertEqual('bab', self.place(group) + self.place(group) +
                         self.place(group))

    def test_multi_create_follows_the_policy(self):
        self.start_hosts(a={}, b={}, c={})
        servers = self.create(self.group(ANTI_AFFINITY), count=6)
        self.assertEqual('aabbcc', ''.join(sorted(
            map(self.host_of, servers))))
        servers = self.create(self.group(AFFINITY), count=3)
        self.assertEqual(1, len(set(map(self.host_of, servers))))

    def test_policies_are_exclusive(self):
        for policies in itertools.combinations(
                ('affinity', 'anti-affinity', AFFINITY, ANTI_AFFINITY), 2):
            error = self.assertRaises(
                client.OpenStackApiException, self._post_policies, policies)
            self.assertEqual(400, error.response.status_code)
            self.assertIn('policies', str(error))

    def _post_policies(self, policies):
        # Newer microversions accept only one.
        with nova_utils.temporary_mutation(self.api, microversion='2.63'):
            self.api.post_server_groups(
                {'name': 'g', 'policies': list(policies)})

    def test_soft_policy_needs_a_weigher_of_nova(self):
        self.start_hosts(a={})
        self.flags(weight_classes=['nova_prio.scheduler.weights.all_weighers'],
                   group='filter_scheduler')
        scheduler_utils.reset_globals()
        self.addCleanup(scheduler_utils.reset_globals)
        for policy in AFFINITY, ANTI_AFFINITY:
            server = self.api.post_server(
                self._request(self.group(policy), self.small))
            server = self._wait_for_state_change(server, 'ERROR')
            self.assertIn('Weigher not configured',
                          server['fault']['message'])

    def test_unknown_key_and_silent_cell_are_logged(self):
        log = self.useFixture(fixtures.FakeLogger('nova_prio'))
        self.start_hosts(['zon', 'host'], a={'zone': 'x'}, b={'zone': 'x'})
        group = self.group(ANTI_AFFINITY)
        self.assertEqual('a', self.place(group))
        cell = self.host_mappings['a'].cell_mapping.uuid
        with mock.patch(
                'nova.context.scatter_gather_skip_cell0',
                return_value={cell: context.did_not_respond_sentinel}):
            server = self.api.post_server(self._request(group, self.small))
            server = self._wait_for_state_change(server, 'ACTIVE')
        self.assertEqual('a', self.host_of(server))
        self.assertIn('Cell %s does not answer; members of' % cell,
                      log.output)
        self.assertEqual(1, log.output.count(
            'None of 2 hosts that a member of a server group may go to is in '
            'an aggregate with the metadata zon,'))

    def test_requests_at_the_same_time(self):
        """Members created at the same time count for the next one."""
        self.start_hosts(a={}, b={}, c={}, d={})
        group = self.group(ANTI_AFFINITY)
        request = self._request(group, self.small)
        with futures.ThreadPoolExecutor() as pool:
            servers = list(pool.map(self.api.post_server, [request] * 7))
        places = [self.host_of(self._wait_for_state_change(each, 'ACTIVE'))
                  for each in servers]
        count = {host: places.count(host) for host in 'abcd'}
        fewest = min(count.values())
        self.assertEqual(fewest, count[self.place(group)], places)

    def test_resized_instance_does_not_count_on_its_host(self):
        self.flags(allow_resize_to_same_host=True)
        self.start_hosts(a={}, b={})
        server, = self.create(self.group(ANTI_AFFINITY))
        self.assertEqual('a', self.host_of(server))
        self._resize_server(server, self.flavor(2))
        self.assertEqual('a', self.host_of(server))


class DefaultMultipliers(ServerGroups):
    """Priority instances, with the multipliers that README recommends.

    The weighers for memory, disks and CPUs prefer empty hosts. The
    specification of the soft policies lists these tests.
    """

    def start_hosts(self, **hosts):
        """Start mix hosts, the first one with the most memory."""
        self.assertEqual(
            (1.0, 10.0, 10.0),
            (CONF.nova_prio.priority_weight_multiplier,
             CONF.nova_prio.soft_affinity_weight_multiplier,
             CONF.nova_prio.soft_anti_affinity_weight_multiplier))
        for number, name in enumerate(sorted(hosts)):
            self.start_seed_host(name, memory_mb=(16 - number) * 1024)

    def test_create_low(self):
        # The low row of each host has 16 vCPUs, the high row 8 CPUs.
        self._test_create('low', 9)

    def test_create_high(self):
        self._test_create('high', 4)

    def _test_create(self, priority, too_large_for_two):
        small, large = [
            self.flavor(vcpus, **{'hw:cpu_priority': priority})
            for vcpus in (1, too_large_for_two)]
        self.start_hosts(a={}, b={})
        group = self.group(AFFINITY)
        self.assertEqual('b', self.place(group, flavor=small, host='b'))
        # Host b has room, so the group stacks even if host a is empty.
        self.assertEqual('b', self.place(group, flavor=large))
        self.assertEqual('b', self.place(group, flavor=small))
        # Host b is full.
        self.assertEqual('a', self.place(group, flavor=large))
        group = self.group(ANTI_AFFINITY)
        self.assertEqual({'a', 'b'}, {
            self.place(group, flavor=small) for _ in range(2)})
        self.set_disabled('a')
        # Only host b is enabled.
        self.assertEqual('b', self.place(group, flavor=small))

    def test_moves(self):
        self.let_guests_migrate()
        self.start_hosts(a={}, b={}, c={})
        for priority, policy, hosts in (
                ('low', AFFINITY, 'ccb'), ('high', ANTI_AFFINITY, 'aab')):
            self.small = self.flavor(1, **{'hw:cpu_priority': priority})
            self.assert_last_moves(policy, hosts, 'c')


class Domains(ServerGroups):
    """Two zones with racks of one and two hosts."""

    ZONES = dict(a={'zone': 'x', 'rack': '1'}, b={'zone': 'x', 'rack': '1'},
                 c={'zone': 'x', 'rack': '2'}, d={'zone': 'y', 'rack': '1'})

    def setUp(self):
        super().setUp()
        self.start_hosts(['zone', 'rack', 'host'], **self.ZONES)

    def _places(self, group, count):
        return ''.join(self.place(group) for _ in range(count))

    def test_soft_anti_affinity_spreads(self):
        """Zones first, then racks, then hosts."""
        self.assertEqual('adcdbdcd', self._places(
            self.group(ANTI_AFFINITY), 8))

    def test_moves_follow_the_policy(self):
        self.let_guests_migrate()
        for policy, hosts, to in (
                (AFFINITY, 'ccb', 'c'), (ANTI_AFFINITY, 'ad', 'c')):
            self.assert_last_moves(policy, hosts, to)

    def test_full_domain_is_filled_again_after_a_delete(self):
        filling = self.boot(self.flavor(12), az='nova:d')
        group = self.group(ANTI_AFFINITY)
        self.assertEqual('acbc', self._places(group, 4))
        self._delete_server(filling)
        self.update_host('d')
        self.assertEqual('dddda', self._places(group, 5))

    def test_multi_create_follows_the_policy(self):
        servers = self.create(self.group(ANTI_AFFINITY), count=8)
        self.assertEqual('abccdddd', ''.join(sorted(
            map(self.host_of, servers))))

    def test_soft_affinity_stacks(self):
        group = self.group(AFFINITY)
        self.assertEqual('d', self.place(group, host='d'))
        self.place(group, flavor=self.flavor(11))
        # Zone y is full. Prefer the rack, then the zone, with most members.
        self.assertEqual('b', self.place(group, host='b'))
        self.assertEqual('bb', self._places(group, 2))
        self.set_disabled('b')
        self.assertEqual('a', self.place(group))
        self.set_disabled('a')
        self.assertEqual('c', self.place(group))

    def test_members_on_disabled_hosts_count(self):
        group = self.group(ANTI_AFFINITY)
        self.assertEqual('a', self.place(group, host='a'))
        self.set_disabled('a')
        self.set_disabled('d')
        # If the member on a did not count for the rack, b would win.
        self.assertEqual('c', self.place(group))

    def test_hosts_join_and_leave_domains(self):
        group = self.group(ANTI_AFFINITY)
        self.assertEqual('ad', self._places(group, 2))
        # A host without a zone is a zone of its own.
        aggregate = self._aggregates['zone=x']
        self.admin_api.post_aggregate_action(
            aggregate, {'remove_host': {'host': 'b'}})
        self.assertEqual('b', self.place(group))
        self.admin_api.post_aggregate_action(
            aggregate, {'add_host': {'host': 'b'}})
        self.assertEqual('d', self.place(group))


class SamePriority(ServerGroups):

    def test_only_members_of_the_same_priority_count(self):
        self.start_hosts(same_priority=True,
                         a={'priority_mix': 'true'},
                         b={'priority_mix': 'true'})
        group = self.group(ANTI_AFFINITY)
        low = self.flavor(1, **{'hw:cpu_priority': 'low'})
        self.assertEqual('a', self.place(group))
        self.assertEqual('a', self.place(group, flavor=low))
        self.assertEqual('b', self.place(group, flavor=low))
        self.assertEqual('b', self.place(group))
