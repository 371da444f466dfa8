# SPDX-License-Identifier: Apache-2.0

"""The priority of an instance from a user's view, as in the guide."""

from nova.api.metadata import base as metadata
from nova.tests import fixtures as nova_fixtures
from oslo_serialization import jsonutils

from tests.functional import base


class Customer(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        # Nova's default policy; Nova's test environment disables it.
        self.flags(enforce_new_defaults=True, group='oslo_policy')
        self.useFixture(nova_fixtures.RealPolicyFixture())
        self.start_seed_host()
        self.customer = self.api_fixture.api
        self.customer.microversion = self.api.microversion

    def _dedicated_cpus(self, server):
        """Return the mask of dedicated vCPUs that a guest can read."""
        told = metadata.get_metadata_by_instance_id(server['id'], None)
        return jsonutils.loads(told.lookup(
            '/openstack/latest/meta_data.json'))['dedicated_cpus']

    def test_user_sees_priority_of_the_hint(self):
        server = self.boot_with_hint(self.plain, 'low', api=self.customer)
        self.assertEqual([], self._dedicated_cpus(server))
        self.customer.microversion = '2.47'
        self.assertEqual(
            {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared',
             'nova_prio:source': 'hint'},
            self.customer.get_server(server['id'])['flavor']['extra_specs'])
        self.customer.microversion = '2.46'
        self.assertNotIn(
            'extra_specs',
            self.customer.get_server(server['id'])['flavor'])

    def test_user_sees_priority_of_the_flavor(self):
        server = self.customer.post_server({'server': self._build_server(
            flavor_id=self.high, networks='none')})
        self._wait_for_state_change(server, 'ACTIVE')
        self.assertEqual([0, 1, 2, 3], self._dedicated_cpus(server))
        self.assertEqual(
            {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'},
            self.customer.get_server(server['id'])['flavor']['extra_specs'])
