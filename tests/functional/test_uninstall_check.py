# SPDX-License-Identifier: Apache-2.0


"""``nova-prio uninstall-check`` finds leftovers until they are removed."""

import contextlib
import pathlib
from unittest import mock

import fixtures
from nova import exception
from nova import objects
from nova.tests.functional.api import client
from oslo_db import exception as db_exception

from nova_prio.admin import uninstall
from nova_prio.cmd import audit
from nova_prio.cmd import report as command
from nova_prio.model import traits
from nova_prio.placement import allocations
from nova_prio_scenario import cloud
from tests import commands
from tests.functional import base

BOTH = {'resources:PCPU': '1', 'resources:VCPU': '1'}
OPTIONS = """\
[DEFAULT]
compute_driver = prio.PriorityLibvirtDriver
debug = true
[compute]
cpu_dedicated_set = 0-7
cpu_priority_mix_enable = true
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = nova_prio.scheduler.filters.all_filters
enabled_filters = ComputeFilter,PriorityFilter
[nova_prio]
enabled = false
of_another_version = 1
"""


class UninstallCheck(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True,
                   reclaim_instance_interval=3600)
        self.conf = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path) / 'nova.conf'
        self.conf.write_text('[DEFAULT]\ndebug = true\n')
        self.ordinary = self.flavor(1)
        # Do not read the configuration files of this machine.
        self.useFixture(fixtures.MockPatch(
            'nova_prio.admin.config_files.find_paths',
            return_value=[str(self.conf)]))

    def flavor(self, vcpus=4, **extra_specs):
        """Create a flavor so small that all instances fit on one host."""
        return self._create_flavor(
            vcpu=vcpus, memory_mb=256, disk=1, ephemeral=0,
            extra_spec=extra_specs or None)

    def check(self, status=command.FOUND):
        """Run the command; return the leftovers: kind -> name -> list."""
        found, rows, self.said = commands.run('uninstall-check')
        self.assertEqual(status, found, (rows, self.said))
        self.rows = rows
        left = {}
        for row in rows:
            self.assertTrue(row['Remedy'].endswith('.'), row)
            left.setdefault(row['Kind'], {}).setdefault(
                row['Name'], []).append(row['Left'])
        return left

    def act(self, server, state, **action):
        self.api.post_server_action(server['id'], action)
        return self._wait_for_state_change(server, state)

    def create_all(self):
        """Create an instance of each kind; return dict, kind -> server."""
        high, low, plain = (
            self.flavor(1, **extra_specs) for extra_specs in (
                {'hw:cpu_priority': 'high'}, {'hw:cpu_priority': 'low'}, {}))
        mixed = self.flavor(2, **{'hw:cpu_priority': 'high', **BOTH})
        self.boot(self.flavor(2, **BOTH))
        self.boot(plain)
        servers = {
            'active': self.boot(high), 'mixed': self.boot(mixed),
            'hint': self.boot_with_hint(plain, 'low'),
            'stopped': self._stop_server(self.boot(low)),
            'shelved': self.act(self.boot(low), 'SHELVED_OFFLOADED',
                                shelve=None),
            'deleted': self.boot(low), 'resized': self.boot(low),
            'resizing': self.boot(plain),
            'failed': self.boot(
                self.flavor(60, **{'hw:cpu_priority': 'low'}), 'ERROR')}
        self.api.delete_server(servers['deleted']['id'])
        self._wait_for_state_change(servers['deleted'], 'SOFT_DELETED')
        for kind, flavor in (('resized', plain), ('resizing', high)):
            self.act(servers[kind], 'VERIFY_RESIZE',
                     resize={'flavorRef': flavor})
        with mock.patch('nova.conductor.api.ComputeTaskAPI.'
                        'schedule_and_build_instances'):
            servers['new'] = self.boot(low, 'BUILD')
        for flavor in self.api.get_flavors():
            self.api.api_delete('/flavors/%s' % flavor['id'])
        return servers

    def test_instances_are_listed_until_their_remedy(self):
        self.start_seed_host()
        servers = self.create_all()
        kinds = {server['id']: kind for kind, server in servers.items()}
        with self.pages_of(2):
            left = self.check()[uninstall.INSTANCE]
        self.assertEqual({
            'active': ['hw:cpu_priority=high, on host mix1'],
            'mixed': ['hw:cpu_priority=high, on host mix1'],
            'hint': ['hw:cpu_priority=low (scheduler hint), on host mix1'],
            'stopped': ['hw:cpu_priority=low, on host mix1'],
            'shelved': ['hw:cpu_priority=low, on no host'],
            'deleted': ['hw:cpu_priority=low, on host mix1'],
            'resized': ['until its resize is confirmed: hw:cpu_priority=low, '
                        'on host mix1'],
            'resizing': ['hw:cpu_priority=high, on host mix1'],
            'failed': ['hw:cpu_priority=low, on no host'],
            'new': ['hw:cpu_priority=low, on no host']},
            {kinds[name]: holds for name, holds in left.items()})
        self.flags(enabled=False, group='nova_prio')
        self.ordinary = self.flavor(1)
        remedies = {kinds[row['Name']]: row['Remedy'] for row in self.rows
                    if row['Kind'] == uninstall.INSTANCE}
        for kind, server in servers.items():
            self.remove_leftover(kind, server, remedies[kind])
            self.soon(self.assert_gone, server)
        self.assertNotIn(uninstall.INSTANCE, self.check())

    def assert_gone(self, server):
        self.assertNotIn(
            server['id'], self.check().get(uninstall.INSTANCE, {}))

    def remove_leftover(self, kind, server, remedy):
        """Apply the remedy."""
        if 'nova-api, resize it to' in remedy and kind != 'new':
            self.act(server, 'VERIFY_RESIZE',
                     resize={'flavorRef': self.ordinary})
            self.act(server, 'SHUTOFF' if kind == 'stopped' else 'ACTIVE',
                     confirmResize=None)
        elif 'Confirm or revert' in remedy:
            self.act(server, 'ACTIVE', **{
                'confirmResize' if kind == 'resized' else 'revertResize':
                None})
        elif '--force' in remedy:
            self.api.post_server_action(server['id'], {'forceDelete': None})
        else:
            self.assertIn('elete it', remedy)
            self.api.delete_server(server['id'])
            with contextlib.suppress(client.OpenStackApiNotFoundException):
                # The instance exists until nova-compute reclaims it.
                self.api.post_server_action(
                    server['id'], {'forceDelete': None})

    @contextlib.contextmanager
    def pages_of(self, most):
        """Read at most this many instances at a time."""
        stock, sizes = objects.InstanceList.get_by_filters, []

        def get_by_filters(*args, **kwargs):
            found = stock(*args, **kwargs)
            sizes.append(len(found))
            return found

        with mock.patch.object(uninstall, 'PAGE', most), mock.patch.object(
                objects.InstanceList, 'get_by_filters', get_by_filters):
            yield
        self.assertEqual(most, max(sizes))
        self.assertIn(1, sizes)

    def test_other_leftovers_are_listed_until_they_are_removed(self):
        self.start_seed_host(aggregate={
            'priority_mix': 'true', 'priority': 'true', 'rack': '1',
            'priority_ordinary': 'false', 'priority_weight_multiplier': '2'})
        self.start_host('stock', driver=cloud.STOCK_DRIVER, aggregate={
            'priority': 'gold'})
        self.conf.write_text(OPTIONS)
        self.flavor(1, **{'hw:cpu_policy': 'dedicated'})
        named = {
            'trait': self.flavor(
                1, **{'trait:CUSTOM_CPU_PRIORITY_MIX': 'forbidden'}),
            'scope': self.flavor(1, **{
                'aggregate_instance_extra_specs:priority_mix': 'true'}),
            'both': self.flavor(2, **BOTH)}
        of_priority = {self.high: ['hw:cpu_priority=high'],
                       self.low: ['hw:cpu_priority=low']}
        aggregate, marked = next(
            (each['id'], each['name'])
            for each in self.api.api_get('/os-aggregates').body['aggregates']
            if 'rack=1' in each['name'])
        left = self.check()
        self.assertIn('Leftovers: flavor 5, option 6, host 1, aggregate key '
                      '4, trait 4. Remove them in the order', self.said)
        self.assertEqual({
            **of_priority,
            named['trait']: ['trait:CUSTOM_CPU_PRIORITY_MIX=forbidden'],
            named['scope']: [
                'aggregate_instance_extra_specs:priority_mix=true'],
            named['both']: ['resources:PCPU=1, resources:VCPU=1'],
        }, left[uninstall.FLAVOR])
        for flavor in (*of_priority, *named.values()):
            self.api.api_delete('/flavors/%s' % flavor)
        left = self.check()
        self.assertNotIn(uninstall.FLAVOR, left)
        self.assertEqual({str(self.conf): [
            '[DEFAULT] compute_driver = prio.PriorityLibvirtDriver',
            '[compute] cpu_priority_mix_enable = true',
            '[filter_scheduler] available_filters = nova.scheduler.filters.'
            'all_filters,nova_prio.scheduler.filters.all_filters',
            '[filter_scheduler] enabled_filters = ComputeFilter,'
            'PriorityFilter',
            '[nova_prio] enabled = false',
            '[nova_prio] of_another_version = 1']}, left[uninstall.OPTION])
        self.conf.write_text('[DEFAULT]\ndebug = true\n')
        left = self.check()
        self.assertNotIn(uninstall.OPTION, left)
        self.assertEqual({'mix1'}, set(left[uninstall.HOST]))
        self._host_options['mix1'][None, 'compute_driver'] = (
            cloud.STOCK_DRIVER)
        self.restart_compute_service('mix1')
        left = self.check()
        self.assertNotIn(uninstall.HOST, left)
        self.assertEqual({marked: [
            'priority=true', 'priority_mix=true', 'priority_ordinary=false',
            'priority_weight_multiplier=2']}, left[uninstall.AGGREGATE_KEY])
        self.api.post_aggregate_action(aggregate, {'set_metadata': {
            'metadata': {holds.partition('=')[0]: None for holds in
                         left[uninstall.AGGREGATE_KEY][marked]}}})
        left = self.check()
        self.assertNotIn(uninstall.AGGREGATE_KEY, left)
        ours = [traits.CPU_PRIORITY, traits.CPU_PRIORITY_MIX]
        self.assertEqual(
            {'mix1': ours, **{each: ['known to Placement'] for each in ours}},
            left[uninstall.TRAIT])
        # As if "host disable" was not repeated.
        self._create_trait(traits.CPU_PRIORITY_DISABLED)
        others = set(self.traits('mix1')).difference(ours)
        self._set_provider_traits(
            self.compute_rp_uuids['mix1'],
            [*self.traits('mix1'), traits.CPU_PRIORITY_DISABLED])
        ours.append(traits.CPU_PRIORITY_DISABLED)
        self.assertEqual(
            audit.FIXED, commands.run('audit', '--fix', '--yes')[0])
        self.assertEqual(others, set(self.traits('mix1')))
        self.update_host('mix1')
        self.assertEqual(
            {uninstall.TRAIT: {each: ['known to Placement'] for each in ours}},
            self.check())
        for each in ours:
            self.placement.delete('/traits/%s' % each, version='1.6')
        self.assertEqual({}, self.check(command.CLEAN))
        self.assertEqual('There are no leftovers: the package can be '
                         'uninstalled.\n', self.said)

    def test_unreadable_sources_are_listed(self):
        self.conf.write_text('[nova_prio]\nenabled = true\n')
        self.flags(connection=None, group='api_database')
        left = self.check(command.FAILED)
        self.assertEqual({uninstall.OPTION, uninstall.UNREAD}, set(left))
        self.assertEqual(['databases'], list(left[uninstall.UNREAD]))
        self.flags(connection='sqlite://', group='api_database')
        for name, error, words in (
                ('nova.objects.InstanceList.get_by_filters',
                 db_exception.DBConnectionError('gone'), 'gone.'),
                ('nova_prio.placement.allocations.get_json',
                 allocations.PlacementRefused('Placement answers 503'),
                 'Placement answers 503.')):
            with mock.patch(name, side_effect=error):
                left = self.check(command.FAILED)[uninstall.UNREAD]
            self.assertIn([words], left.values())
            self.assertIn('Follow the remedies of the rows of kind "unread"',
                          self.said)
        with mock.patch('nova.objects.FlavorList.get_all',
                        side_effect=exception.NovaException('never seen')):
            self.assertEqual(1, commands.run('uninstall-check')[0])
