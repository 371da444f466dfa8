# SPDX-License-Identifier: Apache-2.0

"""Disabling mix while instances are on the host, and the inventory then."""

import logging

import fixtures

from nova_prio.virt.libvirt import driver
from tests.functional import base


class Switching(base.FunctionalTest):

    def _set(self, host, **options):
        for name, value in options.items():
            self._host_options[host][None, name] = value

    def test_a_large_low_instance_can_be_moved_away_after_mix(self):
        self.start_seed_host()
        large = self.flavor(vcpus=8, **{'hw:cpu_priority': 'low'})
        server = self.boot(large)
        self._set('mix1', cpu_priority_mix_enable=False)
        self.restart_compute_service('mix1')
        self.update_host('mix1')
        self.assertEqual(
            (4, 8), tuple(self.resources('mix1')['VCPU'][key]
                          for key in ('total', 'max_unit')))
        self.assertNotIn('CUSTOM_CPU_PRIORITY_MIX', self.traits('mix1'))
        self.assertIn('CUSTOM_CPU_PRIORITY', self.traits('mix1'))
        self.assertEqual((8, 8), (self.report('mix1').sellable.low,
                                  self.report('mix1').used.low))
        self.start_seed_host('mix2')
        self._migrate_server(server)
        self._confirm_resize(server)
        self.assertEqual('mix2', self.host_of(server))

    def test_a_wide_ordinary_instance_can_be_moved_away_from_a_mix_host(self):
        """It was there before mix, when more CPUs were shared."""
        self.let_guests_migrate()
        self.start_seed_host(mix=False, shared='8-15', cpus=16)
        flavor = self.flavor(vcpus=8)
        cold, live = self.boot(flavor), self.boot(flavor)
        self._set('mix1', cpu_priority_mix_enable=True)
        self._host_options['mix1']['compute', 'cpu_shared_set'] = '8-11'
        self.restart_compute_service('mix1')
        self.update_host('mix1')
        self.boot(flavor, 'ERROR', az='nova:mix1')
        self.start_seed_host('other', mix=False, shared='8-15', cpus=16)
        self._migrate_server(cold)
        self._confirm_resize(cold)
        self._live_migrate(live)
        for server in cold, live:
            self.assertEqual('other', self.host_of(server))
        self.assertEqual((0, 0, 0), self.report('mix1').used)

    def test_without_mix_low_instances_float_on_shared_cpus(self):
        self.start_seed_host(mix=False)
        domain = self.domain(self.boot(self.low))
        self.assertEqual('8-11', domain.find('vcpu').get('cpuset'))
        self.assertEqual('/low_prio_machine',
                         domain.findtext('resource/partition'))
        self.assertEqual(4, self.resources('mix1')['VCPU']['max_unit'])

    def test_memory_is_not_oversold_and_says_so_once(self):
        self.flags(ram_allocation_ratio=1.5)
        log = self.useFixture(fixtures.FakeLogger(
            name=driver.LOG.name, level=logging.WARNING))
        self.start_seed_host()
        self.update_host('mix1')
        self.assertEqual(
            1.0, self.resources('mix1')['MEMORY_MB']['allocation_ratio'])
        self.assertEqual(1, log.output.count('Memory is not oversold'))
        self.restart_compute_service('mix1')
        self.assertEqual(2, log.output.count('Memory is not oversold'))
