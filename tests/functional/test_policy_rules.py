# SPDX-License-Identifier: Apache-2.0

"""Policy rules: users who may set a priority with the hint."""

import os
import pathlib
import time

import fixtures
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.api import client

from tests.functional import base

HIGH = 'nova_prio:create:hint:high'
LOW = 'nova_prio:create:hint:low'


class PolicyRules(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        # Nova's default policy; Nova's test environment disables it.
        self.flags(enforce_new_defaults=True, group='oslo_policy')
        self.useFixture(nova_fixtures.RealPolicyFixture())
        self.start_seed_host()
        self.member = self.api_fixture.api
        self.reader = self.api_fixture.reader_api
        for api in (self.member, self.reader):
            api.microversion = self.api.microversion

    def _forbidden(self, call, *args, **kwargs):
        error = self.assertRaises(
            client.OpenStackApiException, call, *args, **kwargs)
        self.assertEqual(403, error.response.status_code)
        return error.response.json()['forbidden']['message']

    def test_admin_may_use_both_hints(self):
        for hint in ('high', 'low'):
            self.boot_with_hint(self.plain, hint)

    def test_member_may_use_low_hint_and_flavors(self):
        self.assertIn(HIGH, self._forbidden(
            self.boot_with_hint, self.plain, 'high', api=self.member))
        self.boot_with_hint(self.plain, 'low', api=self.member)
        # Users who can see a flavor may use its priority.
        server = self.member.post_server({'server': self._build_server(
            flavor_id=self.high, networks='none')})
        self._wait_for_state_change(server, 'ACTIVE')

    def test_reader_may_not_create(self):
        for hint in ('high', 'low'):
            self._forbidden(self.boot_with_hint, self.plain, hint,
                            api=self.reader)

    def test_policy_file_changes_the_rules(self):
        """nova-api reads its policy file after each change."""
        path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'policy.yaml')
        path.write_text('{"%s": "rule:ours", "ours": "role:member"}' % HIGH)
        self.flags(policy_file=str(path), group='oslo_policy')
        self.boot_with_hint(self.plain, 'high', api=self.member)
        self.boot_with_hint(self.plain, 'low', api=self.member)
        path.write_text('{"%s": "role:member", "%s": "role:admin"}'
                        % (HIGH, LOW))
        os.utime(path, (time.time() + 9, time.time() + 9))
        self.boot_with_hint(self.plain, 'high', api=self.member)
        self.assertIn(LOW, self._forbidden(
            self.boot_with_hint, self.plain, 'low', api=self.member))
