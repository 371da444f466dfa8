# SPDX-License-Identifier: Apache-2.0

"""Requests for a priority, and the responses of nova-api."""

from tests.functional import base


class PriorityRequests(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.start_seed_host()

    def test_flavor_with_priority_is_folded(self):
        self.assertEqual(
            {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'},
            self.extra_specs(self.boot(self.high)))
        self.assertEqual(
            {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'},
            self.extra_specs(self.boot(self.low)))

    def test_hint_under_either_key_is_folded(self):
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

    def test_hint_as_list_applies_to_all_instances_of_a_request(self):
        self.boot_with_hint(self.plain, ['low'], count=2)
        for server in self.api.get_servers():
            self.assertEqual('low', self.extra_specs(server)[
                'hw:cpu_priority'])

    def test_create_refuses_unvalidated_extra_spec(self):
        self.api.microversion = self.admin_api.microversion = '2.85'
        flavor = self.flavor(**{'hw:cpu_priority': 'urgent'})
        self.assertEqual(
            "Extra spec hw:cpu_priority of the flavor is 'urgent'; allowed "
            "values are 'high' and 'low'.", self.refusal(self.boot, flavor))

    def test_hint_does_not_change_the_flavor_itself(self):
        self.boot_with_hint(self.plain, 'high')
        self.assertEqual({}, self.extra_specs(self.boot(self.plain)))

    def test_contradictory_requests_are_refused(self):
        self.assertEqual(
            "Scheduler hint 'priority' is 'urgent'; allowed values are 'high' "
            "and 'low'.",
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

    def _boot_with_both(self, first, second):
        """Create a server with hints under both keys."""
        return self.api.post_server({
            'server': self._build_server(
                flavor_id=self.plain, networks='none'),
            'os:scheduler_hints': first,
            'OS-SCH-HNT:scheduler_hints': second})

    def test_second_dict_of_hints_is_ignored_as_in_stock(self):
        for first, priority in (({}, None), ({'priority': 'low'}, 'low')):
            server = self._boot_with_both(first, {'priority': 'high'})
            server = self._wait_for_state_change(server, 'ACTIVE')
            self.assertEqual(
                priority, self.extra_specs(server).get('hw:cpu_priority'))
        # Nova's schema refuses a value that is not a dict.
        self.assertIn('Invalid input for field/attribute os:scheduler_hints',
                      self.refusal(self._boot_with_both, ['priority'], {}))

    def test_named_resource_groups_are_refused(self):
        for extra_specs in ({'hw:cpu_priority': 'high'},
                            {'hw:cpu_priority': 'low'}):
            for key in 'resources_A:PCPU', 'resourcesA:VCPU':
                flavor = self.flavor(**extra_specs, **{key: '4'})
                self.assertIn("Extra spec %s of the flavor is '4'" % key,
                              self.refusal(self.boot, flavor))

    def test_one_response_lists_faults_of_hint_and_flavor(self):
        self.assertEqual(
            "Scheduler hint 'priority' is 'urgent'; allowed values are 'high' "
            "and 'low'. Scheduler hint 'priority' is 'urgent', but extra spec "
            "hw:cpu_priority of the flavor is 'high'; only one of the two is "
            "allowed.",
            self.refusal(self.boot_with_hint, self.high, 'urgent'))

    def test_flavor_creation_refuses_wrong_value(self):
        self.assertIn(
            "'urgent' is not one of: high, low",
            self.refusal(self.flavor, **{'hw:cpu_priority': 'urgent'}))
