# SPDX-License-Identifier: Apache-2.0

"""The usage that nova-compute counts in steps equals the recounted usage."""

import collections
import contextlib
import dataclasses
import random
import time
import typing
from unittest import mock

import fixtures
from nova.tests.functional.api import client
from nova.virt.libvirt import driver

from tests.functional import base

SPAWN = 'nova.virt.libvirt.driver.LibvirtDriver.spawn'


class Flavor(typing.NamedTuple):
    """A flavor, and the usage of its instances on a host."""

    extra_specs: dict
    vcpus: int
    pinned: int = 0
    low: int = 0
    ordinary: int = 0
    low_by_cell: dict = {}


FLAVORS = {
    'high': Flavor({'hw:cpu_priority': 'high'}, 2, pinned=2),
    'low': Flavor({'hw:cpu_priority': 'low'}, 3, low=3),
    'low in both cells': Flavor(
        {'hw:cpu_priority': 'low', 'hw:numa_nodes': '2'}, 4, low=4,
        low_by_cell={0: 2, 1: 2}),
    'ordinary': Flavor({}, 2, ordinary=2),
    'pinned': Flavor({'hw:cpu_policy': 'dedicated'}, 1, pinned=1),
    'mixed': Flavor(
        {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}, 3,
        pinned=1, ordinary=2),
}


def expected_usage(flavors):
    """Return the expected usage in the report of a host."""
    pinned, low, ordinary = (
        sum(getattr(FLAVORS[flavor], name) for flavor in flavors)
        for name in ('pinned', 'low', 'ordinary'))
    by_cell = collections.Counter()
    for flavor in flavors:
        by_cell.update(FLAVORS[flavor].low_by_cell)
    return ((pinned, low + ordinary, ordinary),
            sum(FLAVORS[flavor].vcpus for flavor in flavors), dict(by_cell))


@dataclasses.dataclass
class Server:
    """A server in the model.

    ``usages`` are pairs (host, name of a flavor), one for each host where
    the server counts. Until a resize is confirmed, there are two pairs, and
    the source is the first.
    """

    id: str
    state: str
    usages: list

    @property
    def host(self):
        return self.usages[-1][0]

    @property
    def flavor(self):
        return self.usages[-1][1]


class Accounting(base.FunctionalTest):
    """Three hosts of two NUMA cells, and a model of their usage."""

    HOSTS = ('mix1', 'mix2', 'mix3')

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        # Nova disables a compute service after ten failed builds.
        self.flags(consecutive_build_service_disable_threshold=0,
                   group='compute')
        self.flags(shelved_offload_time=0)
        for host in self.HOSTS:
            self.start_seed_host(
                host, cells=2, dedicated='0-3,6-9', shared='4-5,10-11')
        self.flavors = {name: self.flavor(flavor.vcpus, **flavor.extra_specs)
                        for name, flavor in FLAVORS.items()}
        self.servers = []
        self.down = set()

    @property
    def up(self):
        return [host for host in self.HOSTS if host not in self.down]

    def assert_usage(self, recount=True, history=''):
        """Assert that the reports equal the model, also after a recount."""
        for host in self.up:
            report = self.report(host)
            self.assertEqual(
                expected_usage([
                    flavor for server in self.servers
                    for used_host, flavor in server.usages
                    if used_host == host]),
                (report.used, report.vcpus_used, report.low_by_cell),
                '%s\n%s' % (host, history))
            if recount:
                self.update_host(host)
                self.assertEqual(
                    report, self.report(host),
                    '%s recounted\n%s' % (host, history))

    def act(self, server, state, **action):
        """Request an action, wait for a state, and return the host."""
        self.api.post_server_action(server.id, action)
        shown = self._wait_for_state_change({'id': server.id}, state)
        server.state = state
        return shown['OS-EXT-SRV-ATTR:host']

    def wait_for_migration(self, server, status):
        """Wait until the last migration of a server has a status."""
        self._wait_for_assert(
            lambda: self.assertEqual(
                status, self.migrations_of(server.id)[-1]['status']),
            max_retries=40)

    def create(self, flavor, host=None):
        """Create a server; return it, or None if it was refused."""
        shown = self.api.post_server({'server': self._build_server(
            flavor_id=self.flavors[flavor], networks='none',
            az=host and 'nova:' + host)})
        shown = self.api.get_server(shown['id'])
        while shown['status'] == 'BUILD':
            time.sleep(0.1)
            shown = self.api.get_server(shown['id'])
        if shown['status'] == 'ERROR':
            self._delete_server(shown)
            return None
        server = Server(shown['id'], 'ACTIVE',
                        [(shown['OS-EXT-SRV-ATTR:host'], flavor)])
        self.servers.append(server)
        return server

    def fail_create(self, flavor):
        """Create a server that fails to start on each host in turn."""
        with mock.patch(SPAWN, side_effect=RuntimeError('no such generator')):
            self.assertIsNone(self.create(flavor))

    def delete(self, server):
        self._delete_server({'id': server.id})
        self.servers.remove(server)

    def resize(self, server, flavor, same_host=False):
        self.flags(allow_resize_to_same_host=same_host)
        host = self.act(server, 'VERIFY_RESIZE',
                        resize={'flavorRef': self.flavors[flavor]})
        server.usages.append((host, flavor))

    @contextlib.contextmanager
    def only_host(self, host):
        """Return a context where all other hosts are disabled."""
        others = [
            service['id'] for service in self.api.get_services(
                binary='nova-compute')
            if service['host'] != host and service['host'] in self.up]
        for each in others:
            self.api.put_service(each, {'status': 'disabled'})
        yield
        for each in others:
            self.api.put_service(each, {'status': 'enabled'})

    def resize_on_same_host(self, server, flavor):
        with self.only_host(server.host):
            self.resize(server, flavor, same_host=True)

    def migrate(self, server, host=None):
        self.flags(allow_resize_to_same_host=False)
        host = self.act(server, 'VERIFY_RESIZE',
                        migrate={'host': host} if host else None)
        server.usages.append((host, server.flavor))

    def confirm(self, server):
        self.act(server, 'ACTIVE', confirmResize=None)
        self.wait_for_migration(server, 'confirmed')
        del server.usages[0]

    def revert(self, server):
        self.act(server, 'ACTIVE', revertResize=None)
        self._wait_for_server_parameter(
            {'id': server.id}, {'OS-EXT-SRV-ATTR:host': server.usages[0][0]})
        del server.usages[1]

    def migrate_live(self, server, host=None):
        self.api.post_server_action(server.id, {'os-migrateLive': {
            'host': host, 'block_migration': 'auto'}})
        self.wait_for_migration(server, 'completed')
        shown = self.api.get_server(server.id)
        self.assertEqual('ACTIVE', shown['status'])
        server.usages = [(shown['OS-EXT-SRV-ATTR:host'], server.flavor)]

    def fail_live_migration(self, server):
        with self.no_guest_migrates():
            self.api.post_server_action(server.id, {'os-migrateLive': {
                'host': None, 'block_migration': 'auto'}})
            self.wait_for_migration(server, 'failed')

    def shelve(self, server):
        self.act(server, 'SHELVED_OFFLOADED', shelve=None)
        server.usages = [(None, server.flavor)]

    def unshelve(self, server):
        host = self.act(server, 'ACTIVE', unshelve=None)
        server.usages = [(host, server.flavor)]

    def fail_unshelve(self, server):
        with mock.patch(SPAWN, side_effect=RuntimeError('no such generator')):
            self.assertRaises(
                client.OpenStackApiException, self.api.post_server_action,
                server.id, {'unshelve': None})
        self._wait_for_server_parameter({'id': server.id}, {
            'status': 'SHELVED_OFFLOADED', 'OS-EXT-STS:task_state': None})

    def delete_softly(self, server):
        self.flags(reclaim_instance_interval=3600)
        self.api.delete_server(server.id)
        self._wait_for_state_change({'id': server.id}, 'SOFT_DELETED')
        self.flags(reclaim_instance_interval=0)
        server.state = 'SOFT_DELETED'
        # Nova confirms a resize before it deletes.
        del server.usages[:-1]

    def restore(self, server):
        self.act(server, 'ACTIVE', restore=None)

    def delete_for_good(self, server):
        self.api.post_server_action(server.id, {'forceDelete': None})
        self._wait_until_deleted({'id': server.id})
        self.servers.remove(server)

    def rebuild(self, server):
        self.act(server, 'ACTIVE', rebuild={'imageRef': self.image()})

    def restart(self, host):
        self.restart_compute_service(host)

    def _force_down(self, host, is_down):
        service, = self.api.get_services(host=host, binary='nova-compute')
        self.api.put_service_force_down(service['id'], is_down)

    def fail_host(self, host):
        """Stop a nova-compute and force its service down."""
        self.computes[host].stop()
        self._force_down(host, True)
        self.down.add(host)

    def recover(self, host):
        self.restart_compute_service(host)
        self._force_down(host, False)
        self.down.remove(host)

    def evacuate(self, server):
        source = server.host
        self.api.post_server_action(server.id, {'evacuate': {}})
        self.wait_for_migration(server, 'done')
        self._wait_for_server_parameter(
            {'id': server.id}, {'OS-EXT-STS:task_state': None})
        if self.api.get_server(server.id)['status'] == 'SHUTOFF':
            self.act(server, 'ACTIVE', **{'os-start': None})
        host = self.host_of({'id': server.id})
        self.assertNotEqual(source, host)
        server.usages = [(host, server.flavor)]


class Evacuation(Accounting):

    def test_instance_in_error_counts_during_its_evacuation(self):
        """The recount of Nova ignores it and would sell its CPUs again."""
        server = self.create('high')
        self.api.post_server_action(
            server.id, {'os-resetState': {'state': 'error'}})
        self.fail_host(server.host)
        stock = driver.LibvirtDriver.spawn
        seen = []

        def recount_and_spawn(compute, *args, **kwargs):
            for host in self.up:
                self.update_host(host)
            seen.extend(self.report(host).used.high for host in self.up)
            return stock(compute, *args, **kwargs)

        self.useFixture(fixtures.MonkeyPatch(SPAWN, recount_and_spawn))
        self.evacuate(server)
        self.assertEqual([0, 2], sorted(seen))
        for host in self.up:
            self.update_host(host)
        self.assert_usage()


class Histories(Accounting):
    """Random histories where each operation occurs at least once.

    A history plays all operations of DECK in random order. An operation that
    is not possible yet is played later. If no operation of the deck is
    possible, a random operation of ENABLING is played.
    """

    DECK = 3 * ['create'] + [
        'create', 'fail_create', 'delete', 'resize', 'resize',
        'resize_on_same_host', 'resize_on_same_host', 'migrate', 'confirm',
        'confirm',
        'revert', 'revert', 'migrate_live', 'fail_live_migration', 'shelve',
        'unshelve', 'fail_unshelve', 'delete_softly', 'delete_softly',
        'restore', 'delete_for_good', 'rebuild', 'restart', 'lose_host']
    #: Operations after which more operations of the deck are possible.
    ENABLING = ('create', 'restore', 'unshelve', 'shelve', 'migrate',
                'delete_softly')

    LEAVING = ('delete', 'delete_softly', 'delete_for_good', 'shelve')

    def possible(self):
        """Return dict, operation -> list of possible arguments."""
        def in_state(*states):
            return [(server,) for server in self.servers
                    if server.state in states]

        active = in_state('ACTIVE')
        other_flavors = [
            (server, flavor) for server, in active for flavor in FLAVORS
            if flavor != server.flavor]
        flavors = [(flavor,) for flavor in FLAVORS]
        return {
            'create': flavors if len(self.servers) < 6 else [],
            'fail_create': flavors,
            'delete': in_state('ACTIVE', 'VERIFY_RESIZE', 'SHELVED_OFFLOADED'),
            'resize': other_flavors,
            'resize_on_same_host': other_flavors,
            'migrate': active,
            'confirm': in_state('VERIFY_RESIZE'),
            'revert': in_state('VERIFY_RESIZE'),
            'migrate_live': active,
            'fail_live_migration': active,
            'shelve': active,
            'unshelve': in_state('SHELVED_OFFLOADED'),
            'fail_unshelve': in_state('SHELVED_OFFLOADED'),
            'delete_softly': in_state('ACTIVE', 'VERIFY_RESIZE'),
            'restore': in_state('SOFT_DELETED'),
            'delete_for_good': in_state('SOFT_DELETED'),
            'rebuild': active,
            'restart': [(host,) for host in self.HOSTS],
            'lose_host': [(server.host,) for server, in active],
        }

    def lose_host(self, host):
        """Let a host fail, delete one of its servers and evacuate another."""
        self.fail_host(host)
        on_host = [server for server in self.servers
                   if server.state == 'ACTIVE' and server.host == host]
        if on_host[1:]:
            self.delete(on_host[1])
        self.evacuate(on_host[0])
        self.assert_usage(history='lost ' + host)
        self.recover(host)

    def play(self, seed, recount):
        """Play a history.

        :param seed: seed of the random generator
        :param recount: recounts after a hundred operations, on average
        """
        generator = random.Random(seed)
        deck = generator.sample(self.DECK, len(self.DECK))
        history = []
        while deck and len(history) < 3 * len(self.DECK):
            possible = {name: arguments for name, arguments
                        in self.possible().items() if arguments}
            name = next((name for name in deck if name in possible), None)
            if name:
                deck.remove(name)
            else:
                name = generator.choice([name for name in self.ENABLING
                                         if name in possible])
            arguments = generator.choice(possible[name])
            history.append('%s %s' % (name, arguments))
            try:
                getattr(self, name)(*arguments)
            except client.OpenStackApiException as refusal:
                history[-1] += ' was refused: %s' % refusal
            if name in self.LEAVING:
                # As in stock Nova, an instance counts until the next recount
                # if it leaves before a recount has seen it arrive.
                for host in self.up:
                    self.update_host(host)
            self.assert_usage(generator.randrange(100) < recount,
                              '\n'.join(history))
        self.assertEqual([], deck, '\n'.join(history))

    def test_usage_with_recount_after_each_operation(self):
        self.play(seed=1, recount=100)

    def test_usage_without_recounts(self):
        self.play(seed=3, recount=0)
