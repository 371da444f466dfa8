# SPDX-License-Identifier: Apache-2.0

"""The hosts that nova-scheduler chooses, and its query to Placement."""

import logging
from unittest import mock

import fixtures
from nova import exception

from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler import request_filter
from tests.functional import base


class ManyHosts(base.FunctionalTest):
    """Five computes, of which one is a priority host."""

    def setUp(self):
        super().setUp()
        # Placement answers with any one candidate.
        self.flags(max_placement_results=1, group='scheduler')
        for number in range(2):
            self.start_host('plain%d' % number)
        # This host reports priority CPUs, but no aggregate marks it.
        self.start_seed_host('unmarked', aggregate={'rack': '1'})
        # An aggregate marks this host, but it runs another driver.
        self.start_host('stock', driver='libvirt.LibvirtDriver',
                        aggregate={'priority_mix': 'true'})
        self.start_seed_host()

    def test_priority_requests_find_the_priority_host(self):
        """A forced host must be a priority host, too."""
        for flavor in (self.low, self.high, self.low, self.high):
            server = self.boot(flavor)
            self.assertEqual('mix1', server['OS-EXT-SRV-ATTR:host'])
        self.boot(self.high, 'ERROR')
        for host in ('plain0', 'unmarked', 'stock'):
            self.boot(self.low, 'ERROR', az='nova:%s' % host)
        self.boot(self.low, az='nova:mix1')


class NoAggregate(base.FunctionalTest):

    def test_fault_names_the_missing_aggregate(self):
        self.start_seed_host(aggregate=None)
        server = self.boot(self.high, 'ERROR')
        self.assertIn('No host aggregate has the metadata priority_mix=true',
                      server['fault']['message'])


class OrdinaryOnMixHosts(base.FunctionalTest):

    def test_ordinary_instances_get_the_shared_cpus_only(self):
        """Placement admits four of the instances, the ordinary row two."""
        log = self.useFixture(fixtures.FakeLogger(
            name=priority_filter.LOG.name, level=logging.DEBUG))
        self.start_seed_host()
        for _ in range(2):
            server = self.boot(self.plain)
            self.assertEqual(
                '8-11', self.domain(server).find('vcpu').get('cpuset'))
        self.boot(self.plain, 'ERROR')
        self.assertIn(
            'Host mix1, node mix1 refused: ordinary_capacity: the ordinary '
            'row has 0 of 8 vCPUs free, 4 are needed (needed 4, available 0).',
            log.output)


class Aggregates(base.FunctionalTest):
    """Changes of aggregate metadata between requests."""

    def setUp(self):
        super().setUp()
        self.start_seed_host()
        aggregate, = self.api.api_get('/os-aggregates').body['aggregates']
        self.aggregate_id = aggregate['id']
        # Data read for the first request must not be used later.
        for flavor in (self.low, self.plain):
            self._delete_server(self.boot(flavor))

    def _lose_notifications(self):
        self.useFixture(fixtures.MockPatch(
            'nova.scheduler.rpcapi.SchedulerAPI.update_aggregates'))

    def _assert_states(self, low, ordinary, **metadata):
        """Change the metadata, and check the states of new instances."""
        self.api.post_aggregate_action(
            self.aggregate_id, {'set_metadata': {'metadata': metadata}})
        for flavor, state in ((self.low, low), (self.plain, ordinary)):
            # Filters do not run for a forced host.
            for zone in (None, 'nova:mix1'):
                self._delete_server(self.boot(flavor, state, az=zone))

    def test_each_change_is_in_force_at_once(self):
        """A lost notification of removed metadata misplaces no instance."""
        self._assert_states('ERROR', 'ACTIVE', priority_mix='false')
        self._assert_states('ACTIVE', 'ACTIVE', priority='true')
        self._assert_states('ACTIVE', 'ERROR', priority_ordinary='false')
        self._assert_states('ACTIVE', 'ACTIVE', priority_ordinary=None)
        self._lose_notifications()
        self._assert_states('ERROR', 'ERROR', priority='false',
                            priority_ordinary='false')

    def test_filter_refuses_while_request_filter_keeps_old_aggregates(self):
        self.useFixture(fixtures.MockPatchObject(
            request_filter, 'KEEP_SECONDS', 1e9))
        self._delete_server(self.boot(self.plain))
        with mock.patch('nova_prio.scheduler.request_filter._read_metadata'
                        ) as read:
            self._delete_server(self.boot(self.plain))
            self.api.post_aggregate_action(self.aggregate_id, {
                'set_metadata': {'metadata': {'priority_ordinary': 'false'}}})
            self.boot(self.plain, 'ERROR')
        read.assert_not_called()

    def test_lost_notification_of_added_metadata_refuses_instance(self):
        self.api.post_aggregate_action(self.aggregate_id, {
            'set_metadata': {'metadata': {'priority_mix': 'false'}}})
        self._lose_notifications()
        self.api.post_aggregate_action(self.aggregate_id, {
            'set_metadata': {'metadata': {'priority_mix': 'true'}}})
        self.boot(self.low, 'ERROR')

    def test_hosts_of_the_aggregates_are_not_read(self):
        """Reading them would take longer with each host."""
        with mock.patch('nova.objects.aggregate._get_by_metadata_from_db',
                        side_effect=AssertionError()):
            for flavor in (self.low, self.plain):
                self.boot(flavor)


class WideOrdinary(base.FunctionalTest):
    """Instances with more shared vCPUs than the host has shared CPUs."""

    def setUp(self):
        super().setUp()
        self.scheduler_log = self.useFixture(fixtures.FakeLogger(
            name=priority_filter.LOG.name, level=logging.DEBUG))
        self.claim_log = self.useFixture(fixtures.FakeLogger(
            name='nova.compute.claims', level=logging.INFO))

    def _wide_flavors(self):
        """Return the wide flavors: eight shared vCPUs, and five of six."""
        return (self.flavor(8), self.flavor(6, **{
            'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}))

    def test_mix_host_refuses_wide_ordinary_instance(self):
        """The ordinary row has 8 vCPUs free, on 4 shared CPUs."""
        self.start_seed_host()
        for flavor, vcpus in zip(self._wide_flavors(), (8, 5)):
            self.boot(flavor, 'ERROR')
            self.assertIn(
                'refused: too_many_shared_vcpus: the instance has more shared '
                'vCPUs than the host has shared CPUs (needed %d, available '
                '4).' % vcpus, self.scheduler_log.output)
        self.assertEqual('', self.claim_log.output)
        self.boot(self.flavor(4))
        self.boot(self.flavor(12, **{'hw:cpu_priority': 'low'}))

    def test_claim_refuses_wide_ordinary_instance_on_forced_host(self):
        """A forced host skips the filters."""
        self.start_seed_host()
        for flavor in self._wide_flavors():
            server = self.boot(flavor, 'ERROR', az='nova:mix1')
            self.assertEqual({}, self._get_allocations_by_server_uuid(
                server['id']))
        self.assertEqual('', self.scheduler_log.output)
        self.assertEqual(2, self.claim_log.output.count(
            'the instance has more shared vCPUs than the host has shared '
            'CPUs'), self.claim_log.output)
        self.assertEqual((0, 0, 0), self.report('mix1').used)

    def test_host_without_mix_decides_as_stock(self):
        """Without mix, max_unit of VCPU is the number of shared CPUs."""
        self.start_seed_host(mix=False)
        for flavor in self._wide_flavors():
            self.boot(flavor, 'ERROR')
        self.assertEqual('', self.scheduler_log.output)
        self.assertEqual(4, self.resources('mix1')['VCPU']['max_unit'])
        self.boot(self.flavor(4))


class OrdinaryExcluded(base.FunctionalTest):
    """Aggregates with priority_ordinary=false."""

    def test_new_instances_are_refused_if_placement_mirror_is_stale(self):
        """Nova only logs a warning if it cannot tell Placement."""
        log = self.useFixture(fixtures.FakeLogger(
            name=priority_filter.LOG.name, level=logging.DEBUG))
        self.start_host('plain0')
        with mock.patch('nova.scheduler.client.report.SchedulerReportClient.'
                        'aggregate_add_host',
                        side_effect=exception.ResourceProviderNotFound(
                            name_or_uuid='gone')):
            self.start_seed_host(aggregate={'priority_mix': 'true',
                                            'priority_ordinary': 'false'})
            self.start_host('plain1', aggregate={
                'priority_ordinary': 'false'})
        for host in ('mix1', 'plain1'):
            server = self.boot(self.plain, 'ERROR', host=host)
            self.assertIn(
                'Host %s, node %s refused: not_for_ordinary: an aggregate of '
                'the host has priority_ordinary=false, which keeps new '
                'ordinary instances off.' % (host, host), log.output)
        # Instances may move there, as with a correct mirror.
        server = self.boot(self.plain)
        self.assertEqual('plain0', server['OS-EXT-SRV-ATTR:host'])
        self.api.post_server_action(server['id'], {
            'migrate': {'host': 'mix1'}})
        self._wait_for_state_change(server, 'VERIFY_RESIZE')
        self._confirm_resize(server)
        self._rebuild_server(server, self.image())
        self.host_down('mix1')
        self.api.post_server_action(server['id'], {
            'evacuate': {'host': 'plain1'}})
        self.soon(lambda: self.assertEqual('plain1', self.host_of(server)))

    def test_only_new_instances_are_refused(self):
        self.start_seed_host(aggregate={'priority_mix': 'true',
                                        'priority_ordinary': 'False'})
        self.start_host('plain0')
        self.boot(self.plain, 'ERROR', az='nova:mix1')
        server = self.boot(self.plain)
        self.assertEqual('plain0', server['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(
            'mix1', self.boot(self.low)['OS-EXT-SRV-ATTR:host'])
        self._migrate_server(server)
        self.assertEqual('mix1', self.host_of(server))
