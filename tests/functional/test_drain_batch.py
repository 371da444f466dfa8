# SPDX-License-Identifier: Apache-2.0

"""``nova-prio host drain`` of one batch of an aggregate after the other."""

import pathlib

import fixtures

from nova_prio.admin.moves import services
from nova_prio.cmd import report
from tests.functional import maintenance


class DrainBatch(maintenance.Maintenance):
    """Three hosts with 8 high-priority vCPUs each."""

    def setUp(self):
        super().setUp()
        self.start_seed_host('mix3')
        self.aggregate, = (
            each['name'] for each in
            self.api.api_get('/os-aggregates').body['aggregates'])
        self.done = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path) / 'done'

    def next_batch(self, *arguments, status=report.CLEAN, number=1):
        """Drain the next hosts; return dict, UUID -> row."""
        return self.drain(
            '--aggregate', self.aggregate, '--batch', str(number), '--done',
            str(self.done), *arguments, status=status)

    def listed(self):
        return self.done.read_text().split()

    def test_aggregate_is_maintained_host_by_host(self):
        servers = [self.boot(self.high, az='nova:' + host)
                   for host in ('mix1', 'mix2')]
        self.next_batch('--dry-run')
        self.assertFalse(self.done.exists())
        self.next_batch()
        self.assertEqual(['mix3'], self.listed())
        self.assert_service('mix3', 'disabled', services.REASON)
        self.assertIn('"nova-prio host return mix3", and run this command '
                      'again for the next hosts.', self.said)
        # A second host can leave only when the first one has returned.
        self.next_batch(status=report.FOUND)
        self.assertEqual(['mix3'], self.listed())
        self.assertIn('Nothing was changed: no host of aggregate %s can be '
                      'drained now. Drained hosts that are not returned: '
                      'mix3. First run "nova-prio host return mix3". If host '
                      'mix2 failed meanwhile, ' % self.aggregate, self.said)
        self.assert_service('mix1', 'enabled')
        for host in 'mix1', 'mix2':
            self.host_enable(self.listed()[-1])
            self.next_batch(number=2)
            self.assertEqual(host, self.listed()[-1])
            self.assertEqual(
                host == 'mix1',
                'Hosts that are drained now: 1. More are not drained, for '
                'this reason: If host' in self.said)
        self.assertNotIn('mix2', map(self.host_of, servers))
        self.next_batch(status=report.FOUND)
        self.assertIn('All hosts of aggregate %s (3) are in %s. Drained hosts '
                      'that are not returned: mix2. First run' % (
                          self.aggregate, self.done), self.said)
        self.host_enable('mix2')
        self.next_batch()
        self.assertIn('All hosts of aggregate %s (3) are in %s: there is' % (
            self.aggregate, self.done), self.said)

    def test_interrupted_batch_goes_on_with_its_hosts(self):
        self.boot(self.low, az='nova:mix1')
        self.admin_api.put_service(self.get_service('mix1')['id'], {
            'status': 'disabled', 'disabled_reason': services.REASON})
        self.next_batch()
        self.assertEqual(['mix1'], self.listed())

    def test_host_that_is_not_empty_is_not_listed(self):
        servers = [self.boot(self.low, az='nova:' + host)
                   for host in ('mix1', 'mix2', 'mix3')]
        self.api.post_server_action(servers[0]['id'], {'lock': None})
        # An editor may leave out the last line end.
        self.done.write_text('old1')
        self.next_batch(number=2, status=report.FOUND)
        self.assertEqual(['old1', 'mix2'], self.listed())

    def test_fewer_hosts_are_drained_if_their_instances_do_not_fit(self):
        # Each host has 16 low-priority vCPUs.
        low = self.flavor(8, **{'hw:cpu_priority': 'low'})
        servers = [self.boot(low, az='nova:' + host)
                   for host in ('mix1', 'mix2', 'mix3')]
        self.next_batch(number=2)
        self.assertEqual(['mix1'], self.listed())
        self.assertRegex(
            self.said, 'Hosts that are drained now: 1. More are not drained, '
            'for this reason: Instance .* would fit on no host.')
        self.assertEqual({'mix2', 'mix3'}, set(map(self.host_of, servers)))

    def test_some_hosts_stay_enabled(self):
        """A batch of all hosts would leave none."""
        servers = [self.boot(self.low, az='nova:' + host)
                   for host in ('mix1', 'mix2', 'mix3')]
        self.next_batch(number=3)
        self.assertEqual(2, len(self.listed()))
        self.assertIn('Hosts that are drained now: 2. More are not drained, '
                      'for this reason: No other host of the aggregate would '
                      'stay enabled.', self.said)
        self.assertEqual(1, len(set(map(self.host_of, servers))))
        self.drain('mix1', 'mix2', 'mix3', status=report.FOUND)
        self.assertIn('No other host of the aggregate would stay enabled.',
                      self.said)

    def test_named_hosts_are_only_warned_of(self):
        for host in 'mix1', 'mix3':
            self.boot(self.high, az='nova:' + host)
        self.drain('mix1', 'mix2')
        self.assertIn('Aggregate %s: If host mix3 failed meanwhile, 2 of the '
                      'high-priority guests that it would have then would '
                      'not fit' % self.aggregate, self.said)

    def test_wrong_arguments_are_refused(self):
        for arguments, words in (
                (['mix1', '--aggregate', 'a'], 'both HOST and --aggregate'),
                ([], 'neither HOST nor --aggregate'),
                (['--aggregate', 'a'], '--done must be given together'),
                (['mix1', '--done', 'f'], '--done must be given together'),
                (['--aggregate', 'none', '--done', str(self.done)],
                 "--aggregate is 'none'; allowed are names of host"),
                (['--aggregate', self.aggregate, '--done', '/'],
                 "--done is '/', which cannot be read")):
            self.drain(*arguments, status=report.FAILED)
            self.assertIn(words, self.said)
