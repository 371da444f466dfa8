# SPDX-License-Identifier: Apache-2.0

"""The package is installed but not enabled."""

from nova_prio_scenario import cloud
from tests.functional import base
from tests.functional import test_plain_nova


class NotEnabled(test_plain_nova.PlainCloud, base.FunctionalTest):
    """Stock services with the package installed."""

    def setUp(self):
        super(base.FunctionalTest, self).setUp()
        self.plain = self.flavor()
        self.start_host('plain', driver=cloud.STOCK_DRIVER)

    def test_api_responds_as_stock_nova(self):
        self.assertIn(
            "extra spec 'hw:cpu_priority' does not appear to be a valid",
            self.refusal(self.flavor, **{'hw:cpu_priority': 'high'}))
        self.flavor(**{'aggregate_instance_extra_specs:priority': 'gold'})
        for hint in ('high', 'nonsense'):
            server = self.boot_with_hint(self.plain, hint)
            self.assertEqual({}, self.extra_specs(server))
        server = self._wait_for_state_change(self.api.post_server({
            'server': self._build_server(
                flavor_id=self.plain, networks='none'),
            'os:scheduler_hints': {},
            'OS-SCH-HNT:scheduler_hints': {'priority': 'high'}}), 'ACTIVE')
        self.assertEqual({}, self.extra_specs(server))
        self.api.microversion = '2.85'
        flavor = self.flavor(**{'hw:cpu_priority': 'urgent'})
        self.boot(flavor)
