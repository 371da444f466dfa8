# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Switching mix off while instances are there, and what is reported."""

import logging

import fixtures

from nova_prio.compute import driver
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
        self.assertEqual((8, 8), (self.report('mix1').low_sellable,
                                  self.report('mix1').low_used))
        self.start_seed_host('mix2')
        self._migrate_server(server)
        self._confirm_resize(server)
        self.assertEqual('mix2', self.host_of(server))

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
