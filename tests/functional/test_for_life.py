# SPDX-License-Identifier: Apache-2.0

"""Instances keep their priority through resizes and moves."""

import logging

import fixtures
from lxml import etree
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


class Resize(TwoHosts):

    def _resize(self, server, flavor):
        self._resize_server(server, flavor)
        return self._confirm_resize(server)

    def test_new_flavor_decides_the_priority(self):
        """The new flavor decides: low, then high, then none, then low."""
        server = self.boot(self.flavor(**{'hw:cpu_priority': 'high'}))
        for flavor, specs in ((self.low, LOW), (self.high, HIGH),
                              (self.plain, {}), (self.low, LOW)):
            server = self._resize(server, flavor)
            self.assert_priority(server, specs)

    def test_hint_stays_after_resize_to_flavor_without_priority(self):
        server = self.boot_with_hint(self.plain, 'low')
        self.assert_priority(server, {**LOW, **BY_HINT})
        server = self._resize(server, self.flavor())
        self.assert_priority(server, {**LOW, **BY_HINT})

    def test_flavor_with_same_priority_replaces_the_hint(self):
        server = self.boot_with_hint(self.plain, 'high')
        server = self._resize(server, self.high)
        self.assert_priority(server, {**HIGH, 'nova_prio:source': 'flavor'})
        log = self.useFixture(fixtures.FakeLogger(
            name=prio_request_filter.LOG.name, level=logging.WARNING))
        server = self._resize(server, self.flavor())
        self.assert_priority(server, {'nova_prio:source': 'flavor'})
        server = self._resize(server, self.low)
        self.assert_priority(server, {**LOW, 'nova_prio:source': 'flavor'})
        self.assertEqual('', log.output)

    def test_resize_refuses_flavor_that_contradicts_the_hint(self):
        server = self.boot_with_hint(self.plain, 'high')
        self.assertEqual(
            "Extra spec hw:cpu_priority of the new flavor is 'low', but the "
            "instance was created with scheduler hint 'priority' = 'high'; "
            "only 'high' or no value is allowed.",
            self.refusal(self._resize_server, server, self.low))
        self.assert_priority(server, {**HIGH, **BY_HINT})

    def test_resize_refuses_hint_that_contradicts_the_new_flavor(self):
        server = self.boot_with_hint(self.plain, 'low')
        pinned = self.flavor(**{'hw:cpu_policy': 'dedicated'})
        self.assertIn(
            "hw:cpu_policy of the flavor is 'dedicated'; with low priority",
            self.refusal(self._resize_server, server, pinned))

    def test_revert_restores_the_priority(self):
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

    def test_resize_does_not_change_the_flavor_itself(self):
        server = self.boot_with_hint(self.plain, 'low')
        flavor = self.flavor()
        self._resize(server, flavor)
        self.assertEqual({}, self.extra_specs(self.boot(flavor)))


class Moves(TwoHosts):

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self.servers = [
            (self.boot(self.high), HIGH),
            (self.boot_with_hint(self.plain, 'low'), {**LOW, **BY_HINT})]

    def _assert_moved(self, move):
        for server, extra_specs in self.servers:
            source = self.host_of(server)
            move(server)
            self.assertNotEqual(source, self.host_of(server))
            self.assert_priority(server, extra_specs)

    def test_cold_migration_keeps_priority(self):
        def move(server):
            self._migrate_server(server)
            self._confirm_resize(server)
        self._assert_moved(move)

    def test_live_migration_keeps_priority(self):
        for server, extra_specs in self.servers:
            source = self.host_of(server)
            self._live_migrate(server, 'completed')
            self.assertNotEqual(source, self.host_of(server))
            self.assertEqual(extra_specs, self.extra_specs(server))
            domain = etree.fromstring(self.migrated_xml)
            priority = extra_specs['hw:cpu_priority']
            self.assertEqual('/%s_prio_machine' % priority,
                             domain.findtext('resource/partition'))
            if extra_specs['hw:cpu_priority'] == 'low':
                self.assertEqual('0-11', domain.find('vcpu').get('cpuset'))
            else:
                self.assertEqual(4, len(domain.findall('cputune/vcpupin')))

    def test_evacuation_keeps_priority(self):
        for server, extra_specs in self.servers:
            source = self.host_of(server)
            service, = self.api.get_services(
                host=source, binary='nova-compute')
            self.computes[source].stop()
            self.api.put_service_force_down(service['id'], True)
            self._evacuate_server(server)
            self._start_server(server)
            self.assertNotEqual(source, self.host_of(server))
            self.assert_priority(server, extra_specs)
            self.restart_compute_service(source)
            self.api.put_service_force_down(service['id'], False)

    def test_shelve_and_unshelve_keep_priority(self):
        self.flags(shelved_offload_time=0)
        for server, extra_specs in self.servers:
            self._shelve_server(server)
            self._unshelve_server(server)
            self.assert_priority(server, extra_specs)

    def test_forced_live_migration_keeps_priority(self):
        self.api.microversion = '2.67'
        for server, _ in self.servers:
            other, = {'mix1', 'mix2'} - {self.host_of(server)}
            self.assertIn(
                "Parameter 'force' is true",
                self.refusal(self.api.post_server_action, server['id'], {
                    'os-migrateLive': {'host': other, 'force': True,
                                       'block_migration': 'auto'}}))

    def test_old_microversions_check_requested_host_of_live_migration(self):
        """These versions would let Nova bypass the scheduler."""
        self.start_host('plain', driver=cloud.STOCK_DRIVER)
        self.api.microversion = '2.25'
        for server, _ in self.servers:
            source = self.host_of(server)
            self.assertRaises(
                client.OpenStackApiException, self.api.post_server_action,
                server['id'], {'os-migrateLive': {
                    'host': 'plain', 'block_migration': 'auto'}})
            self.assertEqual(source, self.host_of(server))
            other, = {'mix1', 'mix2'} - {source}
            self.api.post_server_action(
                server['id'], {'os-migrateLive': {
                    'host': other, 'block_migration': 'auto'}})
            self._wait_for_server_parameter(
                server, {'OS-EXT-SRV-ATTR:host': other, 'status': 'ACTIVE'})

    def test_old_microversions_check_requested_host_of_evacuation(self):
        self.start_host('plain', driver=cloud.STOCK_DRIVER)
        server, _ = self.servers[0]
        source = self.host_of(server)
        service, = self.api.get_services(host=source, binary='nova-compute')
        self.computes[source].stop()
        self.api.put_service_force_down(service['id'], True)
        self.api.microversion = '2.14'
        self.assertRaises(
            client.OpenStackApiException, self.api.post_server_action,
            server['id'], {'evacuate': {'host': 'plain'}})
        self.assertEqual(source, self.host_of(server))

    def test_forced_evacuation_keeps_priority(self):
        self.api.microversion = '2.67'
        for server, _ in self.servers:
            other, = {'mix1', 'mix2'} - {self.host_of(server)}
            self.assertIn(
                "Parameter 'force' is true",
                self.refusal(self.api.post_server_action, server['id'], {
                    'evacuate': {'host': other, 'force': True}}))


class Images(TwoHosts):

    def test_create_checks_image(self):
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
        self.assert_priority(self.boot(self.low, image_uuid=shared), LOW)

    def test_rebuild_checks_image(self):
        server = self.boot(self.low)
        self._rebuild_server(server, self.image())
        self.assert_priority(server, LOW)
        self._rebuild_server(server, self.image(hw_cpu_policy='shared'))
        self.assert_priority(server, LOW)
        self.assertIn(
            "Image property hw_cpu_policy is 'dedicated'",
            self.refusal(self._rebuild_server, server,
                         self.image(hw_cpu_policy='dedicated')))

    def test_resize_checks_image(self):
        server = self.boot(self.plain,
                           image_uuid=self.image(hw_cpu_policy='shared'))
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
        for server in servers:
            specs = self.extra_specs(server)
            for move in (self._live_migrate_server, self._cold_migrate,
                         self._shelve_and_unshelve):
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

    def _cold_migrate(self, server):
        self._migrate_server(server)
        self._confirm_resize(server)

    def _live_migrate_server(self, server):
        self._live_migrate(server, 'completed')

    def _shelve_and_unshelve(self, server):
        self._shelve_server(server)
        self._unshelve_server(server)
