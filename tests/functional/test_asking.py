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

"""How a priority is asked for, and what the API answers."""

from tests.functional import base


class Asking(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.start_seed_host()

    def test_flavor(self):
        self.assertEqual(
            {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'},
            self.extra_specs(self.boot(self.high)))
        self.assertEqual(
            {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'},
            self.extra_specs(self.boot(self.low)))

    def test_hint_under_both_names(self):
        high = self.boot_with_hint(self.plain, 'high')
        low = self.boot_with_hint(self.plain, 'low',
                                  key='OS-SCH-HNT:scheduler_hints')
        self.assertEqual(
            {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated',
             'nova_prio:source': 'hint'},
            self.extra_specs(high))
        self.assertEqual('/low_prio_machine',
                         self.domain(low).findtext('resource/partition'))
        used = self.resources('mix1', 'usages')
        self.assertEqual((4, 4), (used['PCPU'], used['VCPU']))

    def test_hint_as_a_list_and_for_several_at_once(self):
        self.boot_with_hint(self.plain, ['low'], count=2)
        for server in self.api.get_servers():
            self.assertEqual('low', self.extra_specs(server)[
                'hw:cpu_priority'])

    def test_wrong_flavor_of_a_microversion_that_does_not_validate(self):
        self.api.microversion = self.admin_api.microversion = '2.85'
        flavor = self.flavor(**{'hw:cpu_priority': 'urgent'})
        self.assertEqual(
            "Extra spec hw:cpu_priority of the flavor is 'urgent'; allowed "
            "are 'high' and 'low'.", self.refusal(self.boot, flavor))

    def test_the_flavor_itself_is_not_changed(self):
        self.boot_with_hint(self.plain, 'high')
        self.assertEqual({}, self.extra_specs(self.boot(self.plain)))

    def test_refused(self):
        self.assertEqual(
            "Scheduler hint 'priority' is 'urgent'; allowed are 'high' and "
            "'low'.",
            self.refusal(self.boot_with_hint, self.plain, 'urgent'))
        self.assertEqual(
            "Scheduler hint 'priority' is 'high', and the flavor already "
            "gives high; drop the hint.",
            self.refusal(self.boot_with_hint, self.high, 'high'))
        self.assertIn(
            'only one of the two is allowed',
            self.refusal(self.boot_with_hint, self.high, 'low'))
        shared = self.flavor(**{'hw:cpu_policy': 'shared'})
        self.assertIn(
            "Extra spec hw:cpu_policy of the flavor is 'shared'",
            self.refusal(self.boot_with_hint, shared, 'high'))

    def test_wrong_value_in_a_flavor(self):
        self.assertIn(
            "'urgent' is not one of: high, low",
            self.refusal(self.flavor, **{'hw:cpu_priority': 'urgent'}))
