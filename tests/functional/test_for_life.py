# SPDX-License-Identifier: Apache-2.0

"""Instances keep their priority through resizes and moves."""

import logging

import fixtures
from nova import context
from nova import objects
from nova.scheduler import request_filter
from nova.tests.functional.api import client

from nova_prio.scheduler import request_filter as prio_request_filter
from nova_prio_scenario import cloud
from tests.functional import base

HIGH = {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'}
LOW = {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}
BY_HINT = {'nova_prio:source': 'hint'}


class TwoHosts(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=False)
        for name in ('mix1', 'mix2'):
            self.start_seed_host(name)

    def assert_priority(self, server, extra_specs):
        """Assert the priority in API, request spec, guest and Placement."""
        self.assertEqual(extra_specs, self.extra_specs(server))
        spec = objects.RequestSpec.get_by_instance_uuid(
            context.get_admin_context(), server['id'])
        self.assertEqual(extra_specs, spec.flavor.extra_specs)
        priority = extra_specs.get('hw:cpu_priority')
        partition = priority and '/%s_prio_machine' % priority
        domain = self.domain(server)
        self.assertEqual(partition, domain.findtext('resource/partition'))
        cpuset = domain.find('vcpu').get('cpuset')
        pins = domain.findall('cputune/vcpupin')
        self.assertEqual(
            {'high': (None, 4), 'low': ('0-11', 0), None: ('8-11', 0)}[
                priority], (cpuset, len(pins)))
        uuid = self.compute_rp_uuids[self.host_of(server)]
        held = self.placement.get(
            '/allocations/%s' % server['id']).body['allocations']
        self.assertEqual(
            4, held[uuid]['resources'][
                'PCPU' if priority == 'high' else 'VCPU'])

    def _cold_migrate(self, server):
        self._migrate_server(server)
        self._confirm_resize(server)

    def _migrate_live(self, server):
        self._live_migrate(server, 'completed')

    def _shelve_and_unshelve(self, server):
        self._shelve_server(server)
        self._unshelve_server(server)


class Resize(TwoHosts):

    def _resize(self, server, flavor):
        self._resize_server(server, flavor)
        return self._confirm_resize(server)

    def test_new_flavor_decides_the_priority(self):
        """A revert restores it. Then: high, low, none, low."""
        server = self.boot(self.low)
        self._resize_server(server, self.high)
        self.assertEqual(HIGH, self.extra_specs(server))
        server = self._revert_resize(server)
        self.assert_priority(server, LOW)
        for host in ('mix1', 'mix2'):
            self.update_host(host)
        used = [self.report(host).used for host in ('mix1', 'mix2')]
        self.assertEqual([(0, 0), (0, 4)],
                         sorted((rows.high, rows.low) for rows in used))
        for flavor, specs in ((self.high, HIGH), (self.low, LOW),
                              (self.plain, {}), (self.low, LOW)):
            server = self._resize(server, flavor)
            self.assert_priority(server, specs)

    def test_hint_stays_after_resize_to_flavor_without_priority(self):
        """The fold of the instance does not change the flavor itself."""
        server = self.boot_with_hint(self.plain, 'low')
        self.assert_priority(server, {**LOW, **BY_HINT})
        flavor = self.flavor()
        server = self._resize(server, flavor)
        self.assert_priority(server, {**LOW, **BY_HINT})
        self.assertEqual({}, self.extra_specs(self.boot(flavor)))
        pinned = self.flavor(**{'hw:cpu_policy': 'dedicated'})
        self.assertIn(
            "hw:cpu_policy of the flavor is 'dedicated'; with low priority",
            self.refusal(self._resize_server, server, pinned))

    def test_flavor_with_same_priority_replaces_the_hint(self):
        """A flavor with another priority is refused."""
        server = self.boot_with_hint(self.plain, 'high')
        self.assertEqual(
            "Extra spec hw:cpu_priority of the new flavor is 'low', but the "
            "instance was created with scheduler hint 'priority' = 'high'; "
            "only 'high' or no value is allowed.",
            self.refusal(self._resize_server, server, self.low))
        self.assert_priority(server, {**HIGH, **BY_HINT})
        server = self._resize(server, self.high)
        self.assert_priority(server, {**HIGH, 'nova_prio:source': 'flavor'})
        log = self.useFixture(fixtures.FakeLogger(
            name=prio_request_filter.LOG.name, level=logging.WARNING))
        server = self._resize(server, self.flavor())
        self.assert_priority(server, {'nova_prio:source': 'flavor'})
        server = self._resize(server, self.low)
        self.assert_priority(server, {**LOW, 'nova_prio:source': 'flavor'})
        self.assertEqual('', log.output)


class Moves(TwoHosts):

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self.servers = [
            (self.boot(self.high), HIGH),
            (self.boot_with_hint(self.plain, 'low'), {**LOW, **BY_HINT})]

    def test_moves_keep_priority(self):
        self.flags(shelved_offload_time=0)
        for move in (self._cold_migrate, self._migrate_live,
                     self._shelve_and_unshelve, self._evacuate):
            for server, extra_specs in self.servers:
                source = self.host_of(server)
                move(server)
                if move != self._shelve_and_unshelve:
                    self.assertNotEqual(source, self.host_of(server))
                if move == self._migrate_live:
                    self._assert_migrated_guest(server, extra_specs)
                else:
                    self.assert_priority(server, extra_specs)

    def _assert_migrated_guest(self, server, extra_specs):
        """Assert the priority; Nova adds a CPU set to pinned guests, too."""
        self.assertEqual(extra_specs, self.extra_specs(server))
        domain = self.domain(server)
        priority = extra_specs['hw:cpu_priority']
        self.assertEqual('/%s_prio_machine' % priority,
                         domain.findtext('resource/partition'))
        if priority == 'low':
            self.assertEqual('0-11', domain.find('vcpu').get('cpuset'))
        else:
            self.assertEqual(4, len(domain.findall('cputune/vcpupin')))

    def _evacuate(self, server):
        source = self.host_of(server)
        self.host_down(source)
        self._evacuate_server(server)
        self._start_server(server)
        self.host_up(source)

    def _refuse_action(self, server, **action):
        self.assertRaises(client.OpenStackApiException,
                          self.api.post_server_action, server['id'], action)

    def test_requested_hosts_are_checked(self):
        """Old microversions would let Nova bypass the scheduler."""
        self.start_host('plain', driver=cloud.STOCK_DRIVER)
        for server, _ in self.servers:
            source = self.host_of(server)
            other, = {'mix1', 'mix2'} - {source}
            self.api.microversion = '2.67'
            for action in (
                    {'os-migrateLive': {'host': other, 'force': True,
                                        'block_migration': 'auto'}},
                    {'evacuate': {'host': other, 'force': True}}):
                self.assertIn("Parameter 'force' is true", self.refusal(
                    self.api.post_server_action, server['id'], action))
            self.api.microversion = '2.25'
            self._refuse_action(server, **{'os-migrateLive': {
                'host': 'plain', 'block_migration': 'auto'}})
            self.assertEqual(source, self.host_of(server))
            self.api.post_server_action(
                server['id'], {'os-migrateLive': {
                    'host': other, 'block_migration': 'auto'}})
            self._wait_for_server_parameter(
                server, {'OS-EXT-SRV-ATTR:host': other, 'status': 'ACTIVE'})
        self.api.microversion = 'latest'
        self.host_down(other)
        self.api.microversion = '2.14'
        self._refuse_action(server, evacuate={'host': 'plain'})
        self.assertEqual(other, self.host_of(server))


class Images(TwoHosts):

    def test_create_rebuild_and_resize_check_image(self):
        shared = self.image(hw_cpu_policy='shared')
        pinned = self.image(hw_cpu_policy='dedicated')
        self.assertEqual(
            "Image property hw_cpu_policy is 'shared'; with high priority "
            "and this flavor only 'dedicated', 'mixed' or no value is "
            "allowed.",
            self.refusal(self.boot, self.high, image_uuid=shared))
        self.assertEqual(
            "Image property hw_cpu_policy is 'dedicated'; with low priority "
            "and this flavor only 'shared' or no value is allowed.",
            self.refusal(self.boot, self.low, image_uuid=pinned))
        self.assert_priority(self.boot(self.high, image_uuid=pinned), HIGH)
        server = self.boot(self.low, image_uuid=shared)
        self.assert_priority(server, LOW)
        for image in self.image(), self.image(hw_cpu_policy='shared'):
            self._rebuild_server(server, image)
            self.assert_priority(server, LOW)
        self.assertIn(
            "Image property hw_cpu_policy is 'dedicated'",
            self.refusal(self._rebuild_server, server,
                         self.image(hw_cpu_policy='dedicated')))
        server = self.boot(self.plain, image_uuid=shared)
        self.assertIn("Image property hw_cpu_policy is 'shared'",
                      self.refusal(self._resize_server, server, self.high))


class Unfolded(TwoHosts):
    """Instances of a nova-api that does not fold."""

    def setUp(self):
        super().setUp()
        self.flags(enabled=False, group='nova_prio')

    def test_new_instances_are_refused(self):
        for server in (self.boot(self.high, 'ERROR'),
                       self.boot_with_hint(self.plain, 'low', 'ERROR'),
                       self.boot_with_hint(self.plain, 'nonsense', 'ERROR')):
            self.assertIn('set [nova_prio] enabled to true for nova-api',
                          server['fault']['message'])

    def test_old_instances_move_as_ordinary_instances(self):
        narrow = prio_request_filter.restrict_request
        # Remove the filter, as before the package was installed.
        request_filter.ALL_REQUEST_FILTERS.remove(narrow)
        servers = [self.boot(self.low),
                   self.boot_with_hint(self.plain, 'high'),
                   self.boot_with_hint(self.plain, 'nonsense')]
        # Add the filter, as after the installation.
        request_filter.ALL_REQUEST_FILTERS.append(narrow)
        self.flags(enabled=True, group='nova_prio')
        self.flags(shelved_offload_time=0)
        self.let_guests_migrate()
        for server, move in zip(servers, (
                self._cold_migrate, self._migrate_live,
                self._shelve_and_unshelve)):
            specs = self.extra_specs(server)
            log = self.useFixture(fixtures.FakeLogger(
                name=prio_request_filter.LOG.name, level=logging.WARNING))
            move(server)
            self.assertEqual(1, log.output.count(
                'it is moved as an ordinary one'), log.output)
            self.assertEqual(specs, self.extra_specs(server))
            self.assertIsNone(
                self.domain(server).findtext('resource/partition'))
            # A resize decides the priority again.
            self._resize_server(server, self.high)
            self._confirm_resize(server)
            self.assert_priority(server, HIGH)
            self._delete_server(server)
