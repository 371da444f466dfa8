# SPDX-License-Identifier: Apache-2.0

"""The operator changes the configuration of a host full of instances."""

import logging

import fixtures

from nova_prio.compute import oversold_warnings
from nova_prio.model import cpu_capacity
from tests.functional import base

FLAVORS = {
    'high': (2, {'hw:cpu_priority': 'high'}),
    'low': (8, {'hw:cpu_priority': 'low'}),
    'low in both cells': (
        4, {'hw:cpu_priority': 'low', 'hw:numa_nodes': '2'}),
    'ordinary': (2, {}),
    'pinned': (1, {'hw:cpu_policy': 'dedicated'}),
    'mixed': (3, {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}),
}
FLOATING = set(FLAVORS) - {'high', 'pinned'}


class FullHost(base.FunctionalTest):
    """Host mix1 has no free vCPU in its low row; mix2 has room for all.

    On mix1, 4 shared CPUs * 2 + 8 dedicated CPUs * 1 = 16 vCPUs are sold:
    8 + 4 to low-priority instances, 2 + 2 to others.
    """

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self._start('mix1')
        self.servers = {name: self.boot(self.flavor(vcpus, **extra_specs))
                        for name, (vcpus, extra_specs) in FLAVORS.items()}
        self._start('mix2')
        self.small = self.flavor(1, **{'hw:cpu_priority': 'low'})

    def _start(self, host):
        self.start_seed_host(
            host, cells=2, dedicated='0-3,6-9', shared='4-5,10-11')

    def _change(self, **options):
        """Restart the full host with other options; return its log."""
        guests = self._guests()
        for name, value in options.items():
            group = 'compute' if name.endswith('_set') else None
            self._host_options['mix1'][group, name] = value
        log = self.useFixture(fixtures.FakeLogger(
            name=oversold_warnings.LOG.name, level=logging.WARNING,
            format='%(instance_uuid)s %(message)s'))
        self.restart_compute_service('mix1')
        self.update_host('mix1')
        self.assertEqual(guests, self._guests())
        return log.output

    def _guests(self):
        """Return the guests of the host from libvirt."""
        connection = self.computes['mix1'].driver._host.get_connection()
        return {server['id']: connection.lookupByUUIDString(
            server['id']).XMLDesc(0) for server in self.servers.values()}

    def _pinned(self):
        report = self.report('mix1')
        self.assertEqual(4, report.used.high)
        return ','.join(cpus for server in self.servers.values()
                        for cpus in self.cpus_of_vcpus(server)
                        if cpus.isdigit())

    def _assert_oversold(self, said, sellable):
        """Assert a warning for each floating guest, and no admission."""
        report = self.report('mix1')
        remaining = cpu_capacity.calculate_remaining(
            report.sellable, report.used)
        self.assertEqual(
            (sellable, 16, 0),
            (report.sellable.low, report.used.low, remaining.low))
        for name, server in self.servers.items():
            self.assertEqual(
                name in FLOATING,
                '%s Too much is sold of the low row of this '
                'host: 16 of %d CPUs' % (server['id'], sellable) in said,
                name)
        self.boot(self.small, 'ERROR', az='nova:mix1')

    def _leave_and_return(self, name):
        """Assert that an instance can leave, and return if reverted."""
        server = self.servers[name]
        self._migrate_server(server)
        self.assertEqual('mix2', self.host_of(server), name)
        self._revert_resize(server)
        self.assertEqual('mix1', self.host_of(server), name)

    def test_host_is_oversold_after_each_change(self):
        """Make one change after the other, and undo it."""
        for sellable, options in (
                (12, {'cpu_shared_set': '4,10'}),
                (12, {'cpu_dedicated_set': self._pinned()}),
                (4, {'cpu_allocation_ratio': 1.0}),
                (8, {'cpu_priority_mix_enable': False})):
            before = dict(self._host_options['mix1'])
            said = self._change(**options)
            self._assert_oversold(said, sellable)
            # These three have CPUs that the second change takes away.
            for name in ('low', 'high', 'mixed'):
                self._leave_and_return(name)
            changed = self._host_options['mix1']
            self._host_options['mix1'] = before
            self.assertNotIn('Too much is sold', self._change())
        self._host_options['mix1'] = changed
        self._change()
        for name, server in self.servers.items():
            if name not in ('low', 'high', 'mixed'):
                self._leave_and_return(name)
            self._live_migrate(server)
            self.assertEqual('mix2', self.host_of(server), name)
        self.update_host('mix1')
        self.boot(self.small, az='nova:mix1')


class GrowingHost(base.FunctionalTest):

    def _cpus_of_floating(self, server):
        return self.domain(server).find('vcpu').get('cpuset')

    def test_added_cpus_are_sold_and_used(self):
        self.start_seed_host(dedicated='0-6', shared='8-9')
        # 2 * 2 + 7 * 1 = 11
        first, _ = [
            self.boot(self.flavor(vcpus, **{'hw:cpu_priority': 'low'}))
            for vcpus in (8, 3)]
        self.boot(self.low, 'ERROR')
        self._host_options['mix1'].update({
            ('compute', 'cpu_dedicated_set'): '0-7',
            ('compute', 'cpu_shared_set'): '8-11'})
        self.restart_compute_service('mix1')
        self.update_host('mix1')
        # 4 * 2 + 8 * 1 = 16
        self.assertEqual('0-11', self._cpus_of_floating(self.boot(self.low)))
        self.assertEqual(15, self.report('mix1').used.low)
        self.assertEqual('0-6,8-9', self._cpus_of_floating(first))
        self._reboot_server(first, hard=True)
        self.assertEqual('0-11', self._cpus_of_floating(first))
