# SPDX-License-Identifier: Apache-2.0

"""Many creates at once: the claims of nova-compute decide."""

import collections
import contextlib
import random
import threading
import time
import typing

import fixtures
from nova.scheduler import host_manager
from nova.tests import fixtures as nova_fixtures

from nova_prio.model import cpu_capacity
from tests.functional import base


class Flavor(typing.NamedTuple):
    """A flavor, and the CPUs that an instance of it uses on its host."""

    extra_specs: dict
    vcpus: int
    dedicated: int = 0
    low: int = 0
    ordinary: int = 0


FLAVORS = {
    'high': Flavor({'hw:cpu_priority': 'high'}, 2, dedicated=2),
    'low': Flavor({'hw:cpu_priority': 'low'}, 2, low=2),
    'low in both cells': Flavor(
        {'hw:cpu_priority': 'low', 'hw:numa_nodes': '2'}, 2, low=2),
    'ordinary': Flavor({}, 1, ordinary=1),
    'pinned': Flavor({'hw:cpu_policy': 'dedicated'}, 1, dedicated=1),
    'mixed': Flavor(
        {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}, 2,
        dedicated=1, ordinary=1),
}
DEDICATED = {0, 1, 2, 3, 6, 7, 8, 9}
#: 8 dedicated and 4 shared CPUs at 1.5: 4 * 1.5 = 6, and 6 + 8 * 0.5 = 10.
SELLABLE = cpu_capacity.Rows(high=8, low=10, ordinary=6)


def flavor_of(server):
    """Return the Flavor of a server, by the name of the server."""
    return FLAVORS[server['name'].split('-')[0]]


class StaleHosts(fixtures.Fixture):
    """Let requests choose hosts before any of them has claimed.

    A request that has read the host states waits for other requests to read
    them. The wait has a time limit, because the last requests find no others.
    """

    def __init__(self, requests):
        self.requests = requests

    def _setUp(self):
        stock = host_manager.HostManager.get_host_states_by_uuids
        barrier = threading.Barrier(self.requests)

        def get_host_states_by_uuids(*args, **kwargs):
            host_states = stock(*args, **kwargs)
            try:
                barrier.wait(timeout=1)
            except threading.BrokenBarrierError:
                barrier.reset()
            return host_states

        self.useFixture(fixtures.MonkeyPatch(
            'nova.scheduler.host_manager.HostManager.'
            'get_host_states_by_uuids', get_host_states_by_uuids))


class Races(base.FunctionalTest):
    """72 creates in a burst, on hosts for a third of them."""

    CAST_AS_CALL = False
    TIMEOUT_SCALING_FACTOR = 2
    #: Servers per request -> requests of each flavor; 6 * 12 servers in total.
    REQUESTS = {1: 4, 2: 2, 4: 1}
    HOSTS = ('mix0', 'mix1')
    WORKERS = 4

    def setUp(self):
        super().setUp()
        # nova-compute builds in the thread that received the message, so a
        # stopped service has finished its builds.
        self.useFixture(nova_fixtures.SpawnIsSynchronousFixture())
        self.flags(disk_allocation_ratio=8.0, rpc_response_timeout=300,
                   long_rpc_timeout=300,
                   executor_thread_pool_size=self.WORKERS)
        # Nova disables a compute service after ten failed builds.
        self.flags(consecutive_build_service_disable_threshold=0,
                   group='compute')
        for host in self.HOSTS:
            self.start_seed_host(host, cells=2, dedicated='0-3,6-9',
                                 shared='4-5,10-11', ratio=1.5)
        self.claims = self.useFixture(fixtures.FakeLogger(
            name='nova.compute.claims'))

    def let_placement_oversell(self):
        """Double the capacity in Placement, to imitate its races.

        With many workers and default options, Placement admitted more than its
        inventory under load. In one process, Placement does not.
        """
        for uuid in self.compute_rp_uuids.values():
            url = '/resource_providers/%s/inventories' % uuid
            body = self.placement.get(url).body
            for resource_class in ('VCPU', 'PCPU'):
                body['inventories'][resource_class].update(
                    reserved=0, allocation_ratio=2.0 * max(
                        1.0, body['inventories'][resource_class][
                            'allocation_ratio']))
            self.placement.put(url, body)

    def create_at_once(self, while_half):
        """Create all servers; return them when no build is in progress.

        A request asks for one, two or four servers of a flavor.

        :param while_half: called when half of the requests were accepted
        """
        bodies = []
        for name, flavor in FLAVORS.items():
            server = self._build_server(
                name=name, networks='none',
                flavor_id=self.flavor(flavor.vcpus, **flavor.extra_specs))
            bodies += [{'server': {**server, 'min_count': 1, 'max_count': n}}
                       for n, times in self.REQUESTS.items()
                       for _ in range(times)]
        random.Random(5).shuffle(bodies)
        half_of_them = len(bodies) // 2
        half = threading.Event()
        first_servers = []

        def create():
            with contextlib.suppress(IndexError):
                while True:
                    first_servers.append(self.api.post_server(bodies.pop()))
                    if len(bodies) <= half_of_them:
                        half.set()

        threads = [threading.Thread(target=create)
                   for _ in range(self.WORKERS)]
        for thread in threads:
            thread.start()
        half.wait()
        while_half()
        for thread in threads:
            thread.join()
        for server in first_servers:
            self._wait_until_built(server)
        servers = self.api.get_servers()
        for server in servers:
            server.update(self._wait_until_built(server))
        self.assertEqual(72, len(servers))
        return servers

    def _wait_until_built(self, server):
        """Return the details of a server that was built or refused."""
        deadline = time.monotonic() + 300
        while True:
            server = self.api.get_server(server['id'])
            # Nova writes the fault after the status.
            if server['status'] == 'ACTIVE' or 'fault' in server:
                return server
            self.assertLess(time.monotonic(), deadline)
            # Each request of the API takes time that the services need.
            time.sleep(3)

    def assert_each_is_built_or_refused(self, servers):
        """Assert that each server has its full allocation, or none."""
        for server in servers:
            held = self._get_allocations_by_server_uuid(server['id'])
            if server['status'] == 'ACTIVE':
                flavor = flavor_of(server)
                needed = {'VCPU': flavor.low + flavor.ordinary,
                          'PCPU': flavor.dedicated,
                          'MEMORY_MB': 256, 'DISK_GB': 11}
                host = self.compute_rp_uuids[server['OS-EXT-SRV-ATTR:host']]
                self.assertEqual([host], list(held), server)
                self.assertEqual(
                    {name: amount for name, amount in needed.items()
                     if amount}, held[host]['resources'], server)
            else:
                self.assertEqual('ERROR', server['status'])
                self.assertTrue(server['fault']['message'])
                self.assertEqual({}, held, server)

    def pins(self, server):
        """Return the CPUs that a server is pinned to, a list."""
        dedicated = flavor_of(server).dedicated
        pins = self.domain(server).findall('cputune/vcpupin')
        return [int(pin.get('cpuset')) for pin in pins
                if int(pin.get('vcpu')) < dedicated]

    def assert_nothing_is_sold_twice(self, servers):
        """Assert that no CPU and no row is oversold by any count."""
        for host in self.HOSTS:
            on_host = [server for server in servers
                       if server['OS-EXT-SRV-ATTR:host'] == host]
            pins = [cpu for server in on_host for cpu in self.pins(server)]
            flavors = [flavor_of(server) for server in on_host]
            ordinary = sum(flavor.ordinary for flavor in flavors)
            used = cpu_capacity.Rows(
                sum(flavor.dedicated for flavor in flavors),
                sum(flavor.low for flavor in flavors) + ordinary, ordinary)
            self.assertEqual(used.high, len(pins), host)
            self.assertEqual(
                [], [cpu for cpu, times in collections.Counter(pins).items()
                     if times > 1], host)
            self.assertLessEqual(set(pins), DEDICATED, host)
            for row, sold, sellable in zip(used._fields, used, SELLABLE):
                self.assertLessEqual(sold, sellable, (host, row))
            report = self.report(host)
            self.assertEqual((SELLABLE, used),
                             (report.sellable, report.used), host)
            self.update_host(host)
            self.assertEqual(report, self.report(host),
                             host)

    def test_claims_prevent_overselling_in_a_burst(self):
        """A nova-compute restarts when half of the requests were accepted."""
        self.useFixture(StaleHosts(self.WORKERS))
        self.let_placement_oversell()
        servers = self.create_at_once(
            lambda: self.restart_compute_service('mix1'))
        self.assert_each_is_built_or_refused(servers)
        self.assert_nothing_is_sold_twice(servers)
        self.assertIn('row has', self.claims.output)
