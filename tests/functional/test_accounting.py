# SPDX-License-Identifier: Apache-2.0

"""The usage that computes count step by step equals that of a recount."""

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


class Kind(typing.NamedTuple):
    """A flavor, and the usage of its instances on a host."""

    extra_specs: dict
    vcpus: int
    pinned: int = 0
    low: int = 0
    ordinary: int = 0
    low_by_cell: dict = {}


KINDS = {
    'high': Kind({'hw:cpu_priority': 'high'}, 2, pinned=2),
    'low': Kind({'hw:cpu_priority': 'low'}, 3, low=3),
    'low in both cells': Kind(
        {'hw:cpu_priority': 'low', 'hw:numa_nodes': '2'}, 4, low=4,
        low_by_cell={'0': 2, '1': 2}),
    'ordinary': Kind({}, 2, ordinary=2),
    'pinned': Kind({'hw:cpu_policy': 'dedicated'}, 1, pinned=1),
    'mixed': Kind({'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}, 3,
                  pinned=1, ordinary=2),
}


def counted(kinds):
    """Return the expected usage in the report of a host."""
    pinned, low, ordinary = (
        sum(getattr(KINDS[kind], name) for kind in kinds)
        for name in ('pinned', 'low', 'ordinary'))
    by_cell = collections.Counter()
    for kind in kinds:
        by_cell.update(KINDS[kind].low_by_cell)
    return ((pinned, low + ordinary, ordinary),
            sum(KINDS[kind].vcpus for kind in kinds), dict(by_cell))


@dataclasses.dataclass
class Server:
    """A server in the model.

    ``holds`` are pairs (host, kind): where it counts, and as what. While a
    resize waits to be confirmed there are two, the old one first.
    """

    id: str
    state: str
    holds: list

    @property
    def host(self):
        return self.holds[-1][0]

    @property
    def kind(self):
        return self.holds[-1][1]


class Accounting(base.FunctionalTest):
    """Three hosts of two NUMA cells, and a model of their usage."""

    HOSTS = ('mix1', 'mix2', 'mix3')

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        # A compute goes out of service after ten builds that failed.
        self.flags(consecutive_build_service_disable_threshold=0,
                   group='compute')
        self.flags(shelved_offload_time=0)
        for host in self.HOSTS:
            self.start_seed_host(
                host, cells=2, dedicated='0-3,6-9', shared='4-5,10-11')
        self.flavors = {name: self.flavor(kind.vcpus, **kind.extra_specs)
                        for name, kind in KINDS.items()}
        self.servers = []
        self.down = set()

    @property
    def up(self):
        return [host for host in self.HOSTS if host not in self.down]

    def assert_counted(self, recount=True, story=''):
        """Assert that the reports match the model, also recounted."""
        for host in self.up:
            report = self.report(host)
            self.assertEqual(
                counted([kind for server in self.servers
                         for holder, kind in server.holds if holder == host]),
                (report.used, report.vcpus_used, report.low_by_cell),
                '%s\n%s' % (host, story))
            if recount:
                self.update_host(host)
                self.assertEqual(
                    report.to_stats(), self.report(host).to_stats(),
                    '%s recounted\n%s' % (host, story))

    def act(self, server, state, **action):
        """Ask for an action and wait for the state that it ends in."""
        self.api.post_server_action(server.id, action)
        shown = self._wait_for_state_change({'id': server.id}, state)
        server.state = state
        return shown['OS-EXT-SRV-ATTR:host']

    def newest_migration_is(self, server, status):
        """Wait until the last migration of a server has a status."""
        self._wait_for_assert(
            lambda: self.assertEqual(
                status, self.migrations_of(server.id)[-1]['status']),
            max_retries=40)

    def create(self, kind, host=None):
        """Create a server; return it, or None if it was refused."""
        shown = self.api.post_server({'server': self._build_server(
            flavor_id=self.flavors[kind], networks='none',
            az=host and 'nova:' + host)})
        shown = self.api.get_server(shown['id'])
        while shown['status'] == 'BUILD':
            time.sleep(0.1)
            shown = self.api.get_server(shown['id'])
        if shown['status'] == 'ERROR':
            self._delete_server(shown)
            return None
        server = Server(shown['id'], 'ACTIVE',
                        [(shown['OS-EXT-SRV-ATTR:host'], kind)])
        self.servers.append(server)
        return server

    def create_in_vain(self, kind):
        """Let each host in turn claim for a guest that does not start."""
        with mock.patch(SPAWN, side_effect=RuntimeError('no such luck')):
            self.assertIsNone(self.create(kind))

    def delete(self, server):
        self._delete_server({'id': server.id})
        self.servers.remove(server)

    def resize(self, server, kind, same_host=False):
        self.flags(allow_resize_to_same_host=same_host)
        host = self.act(server, 'VERIFY_RESIZE',
                        resize={'flavorRef': self.flavors[kind]})
        server.holds.append((host, kind))

    @contextlib.contextmanager
    def only(self, host):
        """Let no other host take instances."""
        others = [
            service['id'] for service in self.api.get_services(
                binary='nova-compute')
            if service['host'] != host and service['host'] in self.up]
        for each in others:
            self.api.put_service(each, {'status': 'disabled'})
        yield
        for each in others:
            self.api.put_service(each, {'status': 'enabled'})

    def resize_here(self, server, kind):
        with self.only(server.host):
            self.resize(server, kind, same_host=True)

    def migrate(self, server, host=None):
        self.flags(allow_resize_to_same_host=False)
        host = self.act(server, 'VERIFY_RESIZE',
                        migrate={'host': host} if host else None)
        server.holds.append((host, server.kind))

    def confirm(self, server):
        self.act(server, 'ACTIVE', confirmResize=None)
        self.newest_migration_is(server, 'confirmed')
        del server.holds[0]

    def revert(self, server):
        self.act(server, 'ACTIVE', revertResize=None)
        self._wait_for_server_parameter(
            {'id': server.id}, {'OS-EXT-SRV-ATTR:host': server.holds[0][0]})
        del server.holds[1]

    def migrate_live(self, server, host=None):
        self.api.post_server_action(server.id, {'os-migrateLive': {
            'host': host, 'block_migration': 'auto'}})
        self.newest_migration_is(server, 'completed')
        shown = self.api.get_server(server.id)
        self.assertEqual('ACTIVE', shown['status'])
        server.holds = [(shown['OS-EXT-SRV-ATTR:host'], server.kind)]

    def migrate_live_in_vain(self, server):
        with self.no_guest_migrates():
            self.api.post_server_action(server.id, {'os-migrateLive': {
                'host': None, 'block_migration': 'auto'}})
            self.newest_migration_is(server, 'failed')

    def shelve(self, server):
        self.act(server, 'SHELVED_OFFLOADED', shelve=None)
        server.holds = [(None, server.kind)]

    def unshelve(self, server):
        host = self.act(server, 'ACTIVE', unshelve=None)
        server.holds = [(host, server.kind)]

    def unshelve_in_vain(self, server):
        with mock.patch(SPAWN, side_effect=RuntimeError('no such luck')):
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
        del server.holds[:-1]

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
        """Let a host fail, and the operator notice."""
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
        self.newest_migration_is(server, 'done')
        self._wait_for_server_parameter(
            {'id': server.id}, {'OS-EXT-STS:task_state': None})
        if self.api.get_server(server.id)['status'] == 'SHUTOFF':
            self.act(server, 'ACTIVE', **{'os-start': None})
        host = self.host_of({'id': server.id})
        self.assertNotEqual(source, host)
        server.holds = [(host, server.kind)]


class Evacuation(Accounting):

    def test_instance_in_error_counts_during_its_evacuation(self):
        """The recount of Nova leaves it out, and would sell its pins again."""
        server = self.create('high')
        self.api.post_server_action(
            server.id, {'os-resetState': {'state': 'error'}})
        self.fail_host(server.host)
        stock = driver.LibvirtDriver.spawn
        seen = []

        def recount_and_spawn(compute, *args, **kwargs):
            for host in self.up:
                self.update_host(host)
            seen.extend(self.report(host).high_used for host in self.up)
            return stock(compute, *args, **kwargs)

        self.useFixture(fixtures.MonkeyPatch(SPAWN, recount_and_spawn))
        self.evacuate(server)
        self.assertEqual([0, 2], sorted(seen))
        self.assert_counted()


class Histories(Accounting):
    """Random histories in which each operation occurs at least once.

    A history deals a shuffled deck; an operation that is not possible yet
    waits, and one that is possible and drawn at random fills the gap.
    """

    DECK = 3 * ['create'] + [
        'create', 'create_in_vain', 'delete', 'resize', 'resize',
        'resize_here', 'resize_here', 'migrate', 'confirm', 'confirm',
        'revert', 'revert', 'migrate_live', 'migrate_live_in_vain', 'shelve',
        'unshelve', 'unshelve_in_vain', 'delete_softly', 'delete_softly',
        'restore', 'delete_for_good', 'rebuild', 'restart', 'lose_host']
    #: Operations that enable others, run if none of the deck is possible.
    ENABLING = ('create', 'restore', 'unshelve', 'shelve', 'migrate',
                'delete_softly')

    def possible(self):
        """Return a dict, operation -> list of arguments it can have now."""
        def in_state(*states):
            return [(server,) for server in self.servers
                    if server.state in states]

        active = in_state('ACTIVE')
        other_kinds = [(server, kind) for server, in active for kind in KINDS
                       if kind != server.kind]
        kinds = [(kind,) for kind in KINDS]
        return {
            'create': kinds if len(self.servers) < 6 else [],
            'create_in_vain': kinds,
            'delete': in_state('ACTIVE', 'VERIFY_RESIZE', 'SHELVED_OFFLOADED'),
            'resize': other_kinds,
            'resize_here': other_kinds,
            'migrate': active,
            'confirm': in_state('VERIFY_RESIZE'),
            'revert': in_state('VERIFY_RESIZE'),
            'migrate_live': active,
            'migrate_live_in_vain': active,
            'shelve': active,
            'unshelve': in_state('SHELVED_OFFLOADED'),
            'unshelve_in_vain': in_state('SHELVED_OFFLOADED'),
            'delete_softly': in_state('ACTIVE', 'VERIFY_RESIZE'),
            'restore': in_state('SOFT_DELETED'),
            'delete_for_good': in_state('SOFT_DELETED'),
            'rebuild': active,
            'restart': [(host,) for host in self.HOSTS],
            'lose_host': [(server.host,) for server, in active],
        }

    def lose_host(self, host):
        """Let a host fail: one of its servers is deleted, one evacuated."""
        self.fail_host(host)
        stranded = [server for server in self.servers
                    if server.state == 'ACTIVE' and server.host == host]
        if stranded[1:]:
            self.delete(stranded[1])
        self.evacuate(stranded[0])
        self.assert_counted(story='lost ' + host)
        self.recover(host)

    def play(self, seed, recount):
        """Play a history; recount after so many of a hundred operations."""
        luck = random.Random(seed)
        deck = luck.sample(self.DECK, len(self.DECK))
        story = []
        while deck and len(story) < 3 * len(self.DECK):
            possible = {name: arguments for name, arguments
                        in self.possible().items() if arguments}
            name = next((name for name in deck if name in possible), None)
            if name:
                deck.remove(name)
            else:
                name = luck.choice([name for name in self.ENABLING
                                    if name in possible])
            arguments = luck.choice(possible[name])
            story.append('%s %s' % (name, arguments))
            try:
                getattr(self, name)(*arguments)
            except client.OpenStackApiException as refusal:
                story[-1] += ' was refused: %s' % refusal
            self.assert_counted(luck.randrange(100) < recount,
                                '\n'.join(story))
        self.assertEqual([], deck, '\n'.join(story))

    def test_recounted_after_each_operation(self):
        self.play(seed=1, recount=100)

    def test_seldom_recounted(self):
        self.play(seed=2, recount=20)

    def test_never_recounted(self):
        self.play(seed=3, recount=0)
