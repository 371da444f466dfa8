# SPDX-License-Identifier: Apache-2.0

"""Moves of servers through Nova's API."""

import time
from unittest import mock

import fixtures
from nova.compute import rpcapi
from nova import exception
from nova.tests import fixtures as nova_fixtures

from nova_prio.admin.moves import execution
from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import servers
from nova_prio.admin import nova_client
from nova_prio.model.planner import fleet
from tests.functional import base
from tests.functional import sdk_connection

PRE_LIVE_MIGRATION = (
    'nova.virt.libvirt.driver.LibvirtDriver.pre_live_migration')


class Moves(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self.useFixture(fixtures.MockPatchObject(
            execution, 'INTERVAL_SECONDS', 0.05))
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)
        self.client = nova_client.NovaClient(sdk_connection.make_connection(
            self, self.api_fixture.admin_api).compute)

    def run_moves(self, *moves, end=60, **kwargs):
        """Run moves of servers; return their states."""
        self.seen = []
        self.execution = execution.Execution(
            servers.Servers(self.client),
            [fleet.Move(server['id'], *rest) for server, *rest in moves],
            {}, str, lambda text, _: self.seen.append(text), **kwargs)
        self.execution.run(time.monotonic() + end)
        return [each.state for each in self.execution.moves]

    def reasons(self):
        return [each.reason for each in self.execution.moves]

    def test_each_way_leaves_the_source(self):
        self.flags(shelved_offload_time=-1)
        high, low, plain = (self.boot(flavor, az='nova:mix1')
                            for flavor in (self.high, self.low, self.plain))
        plain = self._stop_server(plain)
        self.assertEqual([one_move.DONE] * 3, self.run_moves(
            (high, fleet.LIVE, 'mix1', 'mix2'),
            (low, fleet.SHELVE, 'mix1', None),
            (plain, fleet.COLD, 'mix1', 'mix2'), concurrency=2))
        self.assertEqual(
            [('mix2', 'ACTIVE'), (None, 'SHELVED_OFFLOADED'),
             ('mix2', 'SHUTOFF')],
            [(found['OS-EXT-SRV-ATTR:host'], found['status']) for found in (
                self.api.get_server(each['id'])
                for each in (high, low, plain))])
        self.assertEqual(6, len(self.seen), self.seen)
        self.assertEqual(
            'Instance %s: live migration from mix1 to mix2: running.'
            % high['id'], self.seen[0])

    def test_source_has_room_when_a_live_migration_is_done(self):
        """The instance is on its destination before the source recounts."""
        server = self.boot(self.high, az='nova:mix1')
        stock = rpcapi.ComputeAPI.post_live_migration_at_destination

        def arrive(*args, **kwargs):
            stock(*args, **kwargs)
            time.sleep(0.5)

        self.useFixture(fixtures.MockPatchObject(
            rpcapi.ComputeAPI, 'post_live_migration_at_destination', arrive))
        self.assertEqual([one_move.DONE], self.run_moves(
            (server, fleet.LIVE, 'mix1', 'mix2')))
        self.assertEqual((0, 4), tuple(
            self.report(host).used.high for host in ('mix1', 'mix2')))
        with mock.patch.object(servers.Servers, 'is_migrating',
                               return_value=True):
            self.assertEqual([one_move.DONE], self.run_moves(
                (server, fleet.LIVE, 'mix2', 'mix1')))

    def test_failures_are_refusals_with_the_reason_of_nova(self):
        server = self.boot(self.high, az='nova:mix1')
        live = server, fleet.LIVE, 'mix1', 'mix2'
        with mock.patch(PRE_LIVE_MIGRATION,
                        side_effect=exception.MigrationPreCheckError(
                            reason='no storage')):
            self.assertEqual([one_move.REFUSED], self.run_moves(live))
        self.assertIn('no storage', self.reasons()[0])
        with self.no_guest_migrates():
            self.assertEqual([one_move.REFUSED], self.run_moves(live))
        self.assertIn('status of its migration is "', self.reasons()[0])
        self.host_disable('mix2')
        for way, host, words in (
                (fleet.LIVE, 'mix2', 'No valid host was found'),
                (fleet.COLD, 'mix2', 'No valid host was found'),
                (fleet.LIVE, 'mix9', 'mix9')):
            self.assertEqual([one_move.REFUSED], self.run_moves(
                (server, way, 'mix1', host)))
            self.assertIn(words, self.reasons()[0])

    def test_move_that_needs_the_room_of_a_failed_one_does_not_start(self):
        first, second = (self.boot(self.high, az='nova:' + host)
                         for host in ('mix2', 'mix1'))
        self.assertEqual(
            [one_move.REFUSED, one_move.WAITING], self.run_moves(
                (first, fleet.LIVE, 'mix2', 'mix9'),
                (second, fleet.LIVE, 'mix1', 'mix2')))

    def test_server_that_its_owner_changes_is_skipped(self):
        gone, busy, paused = (self.boot(self.low, az='nova:mix1')
                              for _ in range(3))
        self._delete_server(gone)
        self.api.post_server_action(paused['id'], {'pause': None})
        self._wait_for_state_change(paused, 'PAUSED')
        with mock.patch('nova.compute.rpcapi.ComputeAPI.reboot_instance'):
            self.api.post_server_action(
                busy['id'], {'reboot': {'type': 'HARD'}})
        self.assertEqual(
            [one_move.DONE, one_move.SKIPPED, one_move.SKIPPED],
            self.run_moves((gone, fleet.LIVE, 'mix1', 'mix2'),
                           (busy, fleet.LIVE, 'mix1', 'mix2'),
                           (paused, fleet.COLD, 'mix1', 'mix2')))
        self.assertEqual(
            ['its owner deleted it', 'its owner is changing it: the task is '
             '"rebooting_hard"', 'its status is PAUSED'], self.reasons())

    def test_server_on_another_host_stops_all_moves(self):
        self.start_seed_host('mix3')
        elsewhere, second = (self.boot(self.low, az='nova:' + host)
                             for host in ('mix3', 'mix1'))
        self.assertEqual(
            [one_move.SURPRISE, one_move.WAITING], self.run_moves(
                (elsewhere, fleet.LIVE, 'mix1', 'mix2'),
                (second, fleet.LIVE, 'mix1', 'mix2')))
        self.assertEqual(
            'Instance %s: live migration from mix1 to mix2: surprise, '
            'because it is on host mix3.' % elsewhere['id'],
            self.execution.surprise)

    def test_lost_requests_and_answers_do_not_move_twice(self):
        server = self.boot(self.low, az='nova:mix1')
        stock, calls = self.client.request, []

        def request(method, path, **kwargs):
            calls.append(method)
            posts = method == 'POST' and calls.count('POST')
            if posts == 1 or len(calls) in (2, 9, 14):
                raise nova_client.APIUnavailable("Nova's API is restarted")
            answer = stock(method, path, **kwargs)
            if posts == 2:
                raise nova_client.APIUnavailable("Nova's API is restarted")
            return answer

        with mock.patch.object(self.client, 'request', request):
            self.assertEqual([one_move.DONE], self.run_moves(
                (server, fleet.COLD, 'mix1', 'mix2')))
        self.assertEqual(
            ['confirmed'],
            [each['status'] for each in self.migrations_of(server['id'])])
        self.assertIn("Nova's API is restarted. Waiting for it.", self.seen)

    def test_request_that_always_fails_does_not_stop_the_others(self):
        failing, other = (self.boot(self.low, az='nova:mix1')
                          for _ in range(2))
        stock = self.client.act

        def act(uuid, *args):
            if uuid == failing['id']:
                raise nova_client.APIUnavailable("Nova's API fails")
            return stock(uuid, *args)

        with mock.patch.object(self.client, 'act', act):
            self.assertEqual(
                [one_move.REFUSED, one_move.DONE], self.run_moves(
                    (failing, fleet.LIVE, 'mix1', 'mix2'),
                    (other, fleet.LIVE, 'mix1', 'mix2')))
        self.assertEqual("Nova's API failed 3 times", self.reasons()[0])

    def test_failure_after_a_lost_answer_is_a_refusal(self):
        server = self.boot(self.low, az='nova:mix1')
        stock = self.client.act

        def act(*args):
            stock(*args)
            self._wait_for_server_parameter(
                server, {'OS-EXT-STS:task_state': None})
            raise nova_client.APIUnavailable("Nova's API is restarted")

        self.host_disable('mix2')
        with mock.patch.object(self.client, 'act', act):
            self.assertEqual([one_move.REFUSED], self.run_moves(
                (server, fleet.LIVE, 'mix1', 'mix2')))
        self.assertIn('No valid host was found', self.reasons()[0])

    def test_host_that_dies_ends_its_moves(self):
        self.start_seed_host('mix3')
        servers = [self.boot(self.low, az='nova:mix1') for _ in range(3)]

        def die(*args, **kwargs):
            self._force_down('mix1', True)

        self.stub_out(
            'nova.compute.rpcapi.ComputeAPI.live_migration', die)
        self.assertEqual([one_move.STUCK] * 3, self.run_moves(
            *((server, fleet.LIVE, 'mix1', host) for server, host in zip(
                servers, ('mix2', 'mix2', 'mix3')))))
        self.assertEqual(
            ['the nova-compute of mix1 is down'] * 3, self.reasons())
        self._force_down('mix1', False)
        self._force_down('mix2', True)
        self.assertEqual([one_move.REFUSED], self.run_moves(
            (servers[1], fleet.LIVE, 'mix1', 'mix2')))

    def test_user_without_rights_gets_the_refusal_of_the_api(self):
        self.flags(enforce_new_defaults=True, group='oslo_policy')
        self.useFixture(nova_fixtures.RealPolicyFixture())
        server = self.boot(self.low, az='nova:mix1')
        self.client = nova_client.NovaClient(sdk_connection.make_connection(
            self, self.api_fixture.api).compute)
        error = self.assertRaises(
            nova_client.APIRefused, self.run_moves,
            (server, fleet.LIVE, 'mix1', 'mix2'))
        self.assertEqual(403, error.status)
        self.assertIn("Policy doesn't allow os_compute_api:os-services",
                      str(error))

    def test_timeout_leaves_running_moves_to_nova(self):
        first, second = (self.boot(self.low, az='nova:mix1')
                         for _ in range(2))
        moves = [(first, fleet.LIVE, 'mix1', 'mix2'),
                 (second, fleet.LIVE, 'mix1', 'mix2')]
        self.assertEqual(
            [one_move.WAITING] * 2, self.run_moves(*moves, end=0))
        with mock.patch('nova.compute.rpcapi.ComputeAPI.live_migration'):
            self.assertEqual([one_move.RUNNING, one_move.WAITING],
                             self.run_moves(*moves, end=1))
