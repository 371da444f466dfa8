# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-status upgrade check`` with a database."""

from unittest import mock

import nova.conf
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.api import client

from nova_prio.admin import upgrade_checks
from nova_prio.cmd import status
from tests.functional import base

CONF = nova.conf.CONF


class Status(base.FunctionalTest):

    def found(self, name):
        """Return the code and the details of one check."""
        checks = status.Checks(CONF)
        # The in-process test environment has connected the databases.
        with mock.patch('nova_prio.admin.host_inventory.connect_databases'):
            result = dict(checks._upgrade_checks)[name](checks)
        return result.code, result.details

    def aggregate(self, name):
        return next(each['id'] for each in self.admin_api.api_get(
            'os-aggregates').body['aggregates'] if name == each['name'])

    def test_host_aggregates_are_checked(self):
        def found():
            return self.found('Host aggregates')

        self.start_seed_host('mix1')
        self.start_seed_host('lone1', aggregate=None)
        self.start_host('stock1', cpus=4, driver='libvirt.LibvirtDriver',
                        aggregate={'priority_mix': 'true'})
        code, details = found()
        self.assertEqual(upgrade_checks.WARNING, code)
        self.assertIn("Host stock1 of the host aggregate 'priority_mix=true' ",
                      details)
        self.assertIn('Host lone1 runs prio.PriorityLibvirtDriver', details)
        self.assertNotIn('mix1', details)
        # Apply the remedies of the findings.
        aggregate = self.aggregate('priority_mix=true')
        self.admin_api.post_aggregate_action(
            aggregate, {'remove_host': {'host': 'stock1'}})
        self.admin_api.add_host_to_aggregate(aggregate, 'lone1')
        self.assertEqual((upgrade_checks.SUCCESS, None), found())
        for value, is_found in (('no', True), ('false', False)):
            self.admin_api.post_aggregate_action(aggregate, {'set_metadata': {
                'metadata': {'priority_ordinary': value}}})
            self.assertEqual(
                is_found, 'priority_ordinary=no' in str(found()[1]))
        self.admin_api.post_aggregate_action(aggregate, {'set_metadata': {
            'metadata': {'cpu_weight_multiplier': '1.0'}}})
        self.assertIn('are weighed by CPU twice', found()[1])
        with self.record('mix1') as node:
            node.stats = {'nova_prio': 'nonsense'}
            node.save()
        self.assertIn('Host mix1 gets no priority instance, for ', found()[1])

    def test_large_cloud_is_told_of_fewer_candidates(self):
        def found():
            return self.found('Candidates of a request')

        self.start_seed_host()
        self.assertEqual((upgrade_checks.SUCCESS, None), found())
        with mock.patch.object(upgrade_checks, '_MANY_HOSTS', 1):
            code, details = found()
            self.assertEqual(upgrade_checks.SUCCESS, code)
            self.assertIn('This cloud has 1 compute hosts', details)
            for candidates, advice in (
                    (1000, 'Requests take less time with 100, but'),
                    (100, 'Make sure that [placement]'),
                    (99, 'Set it to 100 or more, and make sure that [pla')):
                self.flags(
                    max_placement_results=candidates, group='scheduler')
                self.assertIn('max_placement_results is %d. %s' % (
                    candidates, advice), found()[1])

    def test_missing_registered_limits_are_found(self):
        """Nova limits or refuses instances as the findings predict."""
        def found():
            code, details = self.found('Configuration of nova-api')
            return code, details and details.split("'")[1::2]

        limits = self.useFixture(nova_fixtures.UnifiedLimitsFixture())
        self.flags(driver='nova.quota.UnifiedLimitsDriver', group='quota')
        self.flags(endpoint_id='endpoint', group='oslo_limit')
        limits.create_registered_limit(
            resource_name='servers', default_limit=4)
        self.start_seed_host()
        self.assertEqual((upgrade_checks.SUCCESS, None), found())
        limits.create_registered_limit(
            resource_name='class:VCPU', default_limit=4)
        self.assertEqual((upgrade_checks.WARNING, ['class:PCPU']), found())
        self.assertIn('does not limit high-priority instances; register it.',
                      self.found('Configuration of nova-api')[1])
        self.boot(self.high)
        self.flags(unified_limits_resource_list=[
            'servers', 'class:PCPU', 'class:MEMORY_MB'], group='quota')
        self.assertEqual(
            (upgrade_checks.WARNING, ['class:PCPU', 'class:MEMORY_MB']),
            found())
        self.assertIn('Nova refuses high-priority instances; register it.',
                      self.found('Configuration of nova-api')[1])
        error = self.assertRaises(
            client.OpenStackApiException, self.boot, self.high)
        self.assertEqual(403, error.response.status_code)
        self.flags(unified_limits_resource_strategy='ignore', group='quota')
        self.assertEqual((upgrade_checks.WARNING, ['class:PCPU']), found())
        limits.create_registered_limit(
            resource_name='class:PCPU', default_limit=8)
        self.assertEqual((upgrade_checks.SUCCESS, None), found())
        self.flags(unified_limits_resource_strategy='require', group='quota')
        limits.create_registered_limit(
            resource_name='class:MEMORY_MB', default_limit=512)
        self.assertEqual((upgrade_checks.SUCCESS, None), found())
        self.boot(self.high)
