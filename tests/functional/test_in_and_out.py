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

"""The package installed but not enabled, and the package gone again."""

from nova.scheduler import host_manager
from nova.scheduler import request_filter

from nova_prio.scenario import cloud
from nova_prio.scheduler import narrowing
from tests.functional import base
from tests.functional import test_plain_nova


class NotEnabled(test_plain_nova.PlainCloud, base.FunctionalTest):
    """Stock services on a machine where the package is installed."""

    def setUp(self):
        super(base.FunctionalTest, self).setUp()
        self.plain = self.flavor()
        self.start_host('plain', driver=cloud.STOCK_DRIVER)

    def test_the_api_answers_as_if_it_were_not_there(self):
        self.assertIn(
            "extra spec 'hw:cpu_priority' does not appear to be a valid",
            self.refusal(self.flavor, **{'hw:cpu_priority': 'high'}))
        self.flavor(**{'aggregate_instance_extra_specs:priority': 'gold'})
        for hint in ('high', 'nonsense'):
            server = self.boot_with_hint(self.plain, hint)
            self.assertEqual({}, self.extra_specs(server))
        self.api.microversion = '2.85'
        flavor = self.flavor(**{'hw:cpu_priority': 'urgent'})
        self.boot(flavor)


class Gone(base.FunctionalTest):
    """Folded instances on a Nova without the package."""

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.start_seed_host()
        self.servers = [
            self.boot(self.high), self.boot(self.low),
            self.boot_with_hint(self.plain, 'high'),
            self.boot_with_hint(self.plain, 'low')]
        self._remove_the_package()

    def _remove_the_package(self):
        """Start compute, scheduler and API again without it."""
        self.flags(enabled=False, group='nova_prio')
        request_filter.ALL_REQUEST_FILTERS.remove(
            narrowing.narrow)
        self.flags(
            available_filters=['nova.scheduler.filters.all_filters'],
            enabled_filters=['ComputeFilter', 'NUMATopologyFilter'],
            weight_classes=['nova.scheduler.weights.all_weighers'],
            group='filter_scheduler')
        self.scheduler.manager.host_manager = host_manager.HostManager()
        self._host_options['mix1'][(None, 'compute_driver')] = (
            cloud.STOCK_DRIVER)
        self.restart_compute_service('mix1')

    def test_instances_live_on(self):
        for server in self.servers:
            self._stop_server(server)
            self._start_server(server)
            self.api.post_server_action(
                server['id'], {'reboot': {'type': 'HARD'}})
            self._wait_for_state_change(server, 'ACTIVE')
            domain = self.domain(server)
            self.assertIsNone(domain.find('resource'))
            specs = self.extra_specs(server)
            if specs['hw:cpu_priority'] == 'high':
                self.assertEqual(4, len(domain.findall('cputune/vcpupin')))
            else:
                self.assertEqual('8-11', domain.find('vcpu').get('cpuset'))
        for server in self.servers:
            self._delete_server(server)
        self.assertEqual(0, self.resources('mix1', 'usages')['PCPU'])

    def test_resize(self):
        """One after the other: the shared CPUs alone hold two instances."""
        for server in self.servers[2:]:
            self._delete_server(server)
        for server in self.servers[:2]:
            self._resize_server(server, self.plain)
            self._confirm_resize(server)
            self.assertEqual({}, self.extra_specs(server))
            self._delete_server(server)
