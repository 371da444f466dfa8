# SPDX-License-Identifier: Apache-2.0

"""nova-compute refuses claims that the scheduler did not refuse."""

import fixtures
from nova import exception
from nova.tests.functional.api import client

from tests.functional import base


class Claims(base.FunctionalTest):
    """Two hosts, one full of ordinary instances, and no PriorityFilter.

    Placement has room for 16 vCPUs on each host. Only the claim knows that the
    ordinary row has 8.
    """

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.log = self.useFixture(fixtures.FakeLogger(
            name='nova.compute.claims'))
        for name in ('mix1', 'mix2'):
            self.start_seed_host(name, aggregate={
                'priority_mix': 'true', 'priority_weight_multiplier': '-9'})
        manager = self.scheduler.manager.host_manager
        manager.enabled_filters = [
            each for each in manager.enabled_filters
            if type(each).__name__ != 'PriorityFilter']
        numa = self.flavor(**{'hw:numa_nodes': '1'})
        self.residents = [self.boot(numa, az='nova:mix1') for _ in range(2)]
        self.full = self.report('mix1')

    def _fail(self, server, **action):
        """Request an action that every claim refuses.

        In one process, the API waits for nova-compute and returns its error.
        """
        self.assertRaises(client.OpenStackApiException,
                          self.api.post_server_action, server['id'], action)

    def _assert_refused(self, server, host, state='ACTIVE'):
        """Assert that the server is on its old host and nothing changed."""
        self._wait_for_state_change(server, state)
        self.assertEqual(host, self.host_of(server))
        self.assertIn('the ordinary row has 0 of 8 vCPUs free, 4 are needed',
                      self.log.output)
        self._assert_accounts()

    def _assert_accounts(self):
        self.assertEqual(self.full, self.report('mix1'))
        self.assertEqual(8, self.resources('mix1', 'usages')['VCPU'])
        counted = self.report('mix2')
        self.update_host('mix2')
        self.assertEqual(counted, self.report('mix2'))

    def test_refused_claim_is_rescheduled_to_the_next_host(self):
        """The weigher stacks, so the full host comes first."""
        server = self.boot(self.plain)
        self.assertIn('Failed to claim', self.log.output)
        self._assert_refused(server, 'mix2')
        self.assertEqual(0, self._count_failed_builds('mix1'))

    def _count_failed_builds(self, host):
        stats = self.computes[host].manager.rt.stats[host]
        return int(stats.get('failed_builds', 0))

    def test_guest_that_does_not_start_is_a_failed_build(self):
        """The build before it was refused, which must not matter."""
        self.boot(self.plain, 'ERROR', az='nova:mix1')
        self.assertEqual(0, self._count_failed_builds('mix1'))
        self._delete_server(self.residents.pop())
        with fixtures.MockPatch(
                'nova.virt.libvirt.driver.LibvirtDriver.spawn',
                side_effect=exception.NovaException('no guest starts')):
            self.boot(self.plain, 'ERROR', az='nova:mix1')
        self.assertEqual(1, self._count_failed_builds('mix1'))

    def test_claim_refuses_instance_on_forced_host(self):
        server = self.boot(self.plain, 'ERROR', az='nova:mix1')
        self._assert_refused(server, None, 'ERROR')
        self.assertEqual({}, self._get_allocations_by_server_uuid(
            server['id']))
        self.boot(self.flavor(**{'hw:numa_nodes': '1'}), 'ERROR',
                  az='nova:mix1')
        self.assertIn(
            'the ordinary row has 0 of 8 vCPUs free, 4 are needed; Requested '
            'instance NUMA topology cannot fit', self.log.output)

    def test_claim_refuses_each_move(self):
        """Live migration is that of an instance without NUMA topology.

        Nova shows the reason for a refused cold migration as a fault, as for
        any failed claim.
        """
        self.let_guests_migrate()
        server = self.boot(self.plain, az='nova:mix2')
        self._forget_and_fail(server, **{'os-migrateLive': {
            'host': 'mix1', 'block_migration': 'auto'}})
        self._assert_refused(server, 'mix2')
        self._forget_and_fail(server, migrate={'host': 'mix1'})
        self._assert_refused(server, 'mix2', 'ERROR')
        self.assertIn('the ordinary row', self.api.get_server(
            server['id'])['fault']['message'])
        self.reset_state(server)
        self.api.post_server_action(server['id'], {'shelve': None})
        self._wait_for_state_change(server, 'SHELVED_OFFLOADED')
        self._forget_and_fail(server, unshelve={'host': 'mix1'})
        self._assert_refused(server, None, 'SHELVED_OFFLOADED')
        server = self.boot(self.plain, az='nova:mix2')
        self.host_down('mix2')
        self._forget_and_fail(server, evacuate={'host': 'mix1'})
        self.assertEqual('mix2', self.host_of(server))
        self.assertIn('the ordinary row has 0 of 8', self.log.output)
        self.assertEqual(self.full, self.report('mix1'))

    def _forget_and_fail(self, server, **action):
        """Request an action that the claim refuses, with an empty log."""
        self.log = self.useFixture(fixtures.FakeLogger(
            name='nova.compute.claims'))
        self._fail(server, **action)

    def test_claim_refuses_resize_on_the_same_host(self):
        """The claim counts the new size in addition to the old one."""
        self.api.put_service(self.api.get_services(
            host='mix2', binary='nova-compute')[0]['id'],
            {'status': 'disabled'})
        server, _ = self.residents
        self._fail(server, resize={'flavorRef': self.flavor(vcpus=3)})
        self.assertIn('the ordinary row has 0 of 8 vCPUs free, 3 are needed',
                      self.log.output)
        self._assert_accounts()
