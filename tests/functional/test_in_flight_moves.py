# SPDX-License-Identifier: Apache-2.0

"""Recounts during a move do not free the CPUs of the instance."""

from unittest import mock

import fixtures
from nova.compute import manager
from nova.compute import task_states
from nova import context
from nova import exception
from nova import objects
from nova.tests.functional.api import client
from oslo_db import exception as db_exc

from tests.functional import base


class InFlightMoves(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)
        self.server = self.boot(self.high, az='nova:mix1')
        self._migrate_server(self.server)

    def recount(self):
        """Recount for a user of another project, who has migrated away."""
        self.computes['mix1'].rt.update_available_resource(
            context.RequestContext('user', 'project'), 'mix1')

    def revert(self, recount):
        """Revert the move; a host recounts before the server has returned."""
        stock = manager.ComputeManager._revert_instance_flavor_host_node

        def come_home(compute, *args):
            recount()
            stock(compute, *args)

        with mock.patch.object(
                manager.ComputeManager, '_revert_instance_flavor_host_node',
                come_home):
            self._revert_resize(self.server)

    def assert_stable_allocations(self):
        """Assert that no other server gets the CPUs, also after a recount."""
        other = self.boot(self.high, az='nova:mix1')
        self.assertEqual(8, len({*self.cpus_of_vcpus(self.server),
                                 *self.cpus_of_vcpus(other)}))
        for _ in range(2):
            self.assertEqual(0, self.report('mix1').remaining.high)
            self.update_host('mix1')
        self._delete_server(self.server)
        self._delete_server(other)
        self.assertEqual(8, self.report('mix1').remaining.high)

    def test_source_counts_instance_that_a_revert_returns(self):
        self.revert(self.recount)
        self.assertEqual(4, self.report('mix1').remaining.high)
        self.assert_stable_allocations()

    def test_destination_leaves_out_reverted_instance(self):
        """Another instance has the same CPU numbers on mix2."""
        self._revert_resize(self.server)
        other = self.boot(self.high, az='nova:mix2')
        self.assertEqual(self.cpus_of_vcpus(self.server),
                         self.cpus_of_vcpus(other))
        self._migrate_server(self.server)
        log = self.useFixture(fixtures.FakeLogger(name=manager.LOG.name))
        self.revert(lambda: self.update_host('mix2'))
        self.assertNotIn('Error updating resources', log.output)
        self.assertEqual(4, self.report('mix2').remaining.high)
        self.assert_stable_allocations()

    def _recount_before_it_leaves(self, move, *args):
        """Move the server; mix2 recounts before its guest is removed."""
        log = self.useFixture(fixtures.FakeLogger(name=manager.LOG.name))
        stock = manager.ComputeManager._terminate_volume_connections

        def leave(compute, *args):
            self.update_host('mix2')
            stock(compute, *args)

        with mock.patch.object(
                manager.ComputeManager, '_terminate_volume_connections',
                leave):
            move(self.server, *args)
        self.assertNotIn('Error updating resources', log.output)
        self.assertEqual(0, self.report('mix2').remaining.high)

    def test_next_move_begins_before_live_migration_ends(self):
        """Another instance on mix2 has the CPU numbers of its source."""
        self._confirm_resize(self.server)
        _, other = (self.boot(self.high, az='nova:' + host)
                    for host in ('mix1', 'mix2'))
        self._say_it_arrives()
        self._recount_before_it_leaves(self._migrate_server)
        self.assertEqual(self.cpus_of_vcpus(other),
                         self.cpus_of_vcpus(self.server))

    def test_resize_on_same_host_counts_once(self):
        """The claim counts once, in addition to the CPUs of the instance."""
        self._confirm_resize(self.server)
        self.flags(allow_resize_to_same_host=True)
        self.host_down('mix1')
        self._recount_before_it_leaves(
            self._resize_server, self.flavor(**{'hw:cpu_priority': 'high'}))

    def forget_leases(self, host):
        """Give a host the leases that it has after a start without guests."""
        found = self.computes[host].driver.priority_host
        for uuid, each in found.leases.list_all():
            found.leases.end(uuid, each)
        found.gate.is_settled = False

    def test_first_recount_ignores_later_move(self):
        """Nova applies the context of a move that has left mix2."""
        self._confirm_resize(self.server)
        self.boot(self.high, az='nova:mix1')
        self._say_it_arrives()
        own = self.cpus_of_vcpus(self.server)
        stock = manager.ComputeManager._terminate_volume_connections

        def leave(compute, *args):
            self.forget_leases('mix2')
            self.update_host('mix2')
            leases = self.computes['mix2'].driver.priority_host.leases
            self.assertEqual(set(map(int, own)),
                             leases.get_cpus(self.server['id']))
            stock(compute, *args)

        with mock.patch.object(
                manager.ComputeManager, '_terminate_volume_connections',
                leave):
            self._migrate_server(self.server)
        # The new CPUs are others, so that the test can fail.
        self.assertNotEqual(own, self.cpus_of_vcpus(self.server))

    def test_first_recount_ignores_claim_of_failed_move(self):
        """Nova applies its context after the instance was unshelved there."""
        self._confirm_resize(self.server)

        def fail(*args, **kwargs):
            raise exception.MigrationPreCheckError(reason='it was made to')

        # mix1 makes its claim, and then the check fails.
        with fixtures.MonkeyPatch(
                'nova.virt.libvirt.driver.LibvirtDriver.'
                'check_source_migrate_data_at_dest', fail):
            # Casts are calls here: the error reaches the API.
            self.assertRaises(
                client.OpenStackApiException, self.api.post_server_action,
                self.server['id'], {'os-migrateLive': {
                    'host': None, 'block_migration': 'auto'}})
        self.flags(shelved_offload_time=0)
        self._shelve_server(self.server, expected_state='SHELVED_OFFLOADED')
        self.boot(self.high, az='nova:mix1')
        self.host_down('mix2')
        self._unshelve_server(self.server)
        own = set(map(int, self.cpus_of_vcpus(self.server)))
        leases = self.computes['mix1'].driver.priority_host.leases
        for _ in range(2):
            self.assertEqual(own, leases.get_cpus(self.server['id']))
            self.forget_leases('mix1')
            self.recount()

    def _say_it_arrives(self):
        """Let the live migration that brought the server go on."""
        admin = context.get_admin_context()
        cell = self.host_mappings['mix2'].cell_mapping
        with context.target_cell(admin, cell) as cctxt:
            migration, = objects.MigrationList.get_by_filters(
                cctxt, {'instance_uuid': self.server['id']})
            migration.migration_type = 'live-migration'
            migration.status = 'running'
            migration.save()

    def _assert_failed_recount_keeps_remaining_capacity(self):
        before = self.report('mix1').remaining
        for name in ('InstanceList.get_by_host_and_node',
                     'MigrationList.get_in_progress_and_error'):
            with mock.patch('nova.objects.' + name,
                            side_effect=db_exc.DBConnectionError()):
                self.assertRaises(db_exc.DBConnectionError, self.recount)
            tracker = self.computes['mix1'].rt
            node = tracker.compute_nodes['mix1']
            self.assertEqual(
                before, tracker.get_priority_report(node).remaining)

    def test_unreadable_moves_refuse_only_priority_instances(self):
        """The first recount of a service asks for reverts to its host."""
        self._revert_resize(self.server)
        with mock.patch('nova_prio.compat.workarounds.find_returning',
                        side_effect=db_exc.DBConnectionError()):
            self.restart_compute_service('mix1')
            self.assertIn('nova-prio cannot count the instances and moves',
                          self.report('mix1').problem)
            self.boot(self.high, 'ERROR', az='nova:mix1')
            self._delete_server(self.boot(self.plain, az='nova:mix1'))
        self.recount()
        self.assertEqual('', self.report('mix1').problem)
        self._assert_failed_recount_keeps_remaining_capacity()
        self.assert_stable_allocations()

    def test_restarted_source_counts_instance_that_a_revert_returns(self):
        def recount():
            self._restart_source()
            remaining.append(self.report('mix1').remaining.high)

        remaining = []
        self.revert(recount)
        self.assertEqual([4], remaining)
        self.assert_stable_allocations()

    def _restart_source(self):
        """Recount as if nova-compute on mix1 had just started."""
        # As Nova has powered it off before the migration.
        connection = self.computes['mix1'].driver._host.get_connection()
        connection.lookupByUUIDString(self.server['id']).destroy()
        self.forget_leases('mix1')
        self.recount()

    def test_restarted_source_counts_move_of_instance_with_reset_state(self):
        """The move awaits its confirmation, or its revert."""
        self.reset_state(self.server)
        self._restart_source()
        for _ in range(2):
            self.assertEqual(4, self.report('mix1').remaining.high)
            self.recount()

    def test_restarted_host_counts_old_flavor_of_a_revert_on_it(self):
        """It was killed before Nova saved the old CPUs in the instance."""
        self._confirm_resize(self.server)
        server = self.boot(
            self.flavor(2, **{'hw:cpu_priority': 'high'}), az='nova:mix1')
        self.flags(allow_resize_to_same_host=True)
        self.host_down('mix2')
        self._resize_server(
            server, self.flavor(**{'hw:cpu_priority': 'high'}))
        admin = context.get_admin_context()
        cell = self.host_mappings['mix1'].cell_mapping
        with context.target_cell(admin, cell) as cctxt:
            instance = objects.Instance.get_by_uuid(cctxt, server['id'])
            instance.task_state = task_states.RESIZE_REVERTING
            instance.save()
            migration = objects.Migration.get_by_instance_and_status(
                cctxt, server['id'], 'finished')
            migration.status = 'reverted'
            migration.save()
        self.forget_leases('mix1')
        self.recount()
        self.assertEqual(2, self.report('mix1').remaining.high)

    def test_instance_arrives_between_reads(self):
        self._revert_resize(self.server)
        stock = objects.InstanceList.get_by_host_and_node

        def read(*args, **kwargs):
            found = stock(*args, **kwargs)
            found.objects = [instance for instance in found
                             if instance.uuid != self.server['id']]
            return found

        with mock.patch.object(
                objects.InstanceList, 'get_by_host_and_node', read):
            self.recount()
        self.assertEqual(4, self.report('mix1').remaining.high)
        self.assert_stable_allocations()

    def _move_to(self, host):
        self._migrate_server(self.server)
        self._confirm_resize(self.server)
        self.assertEqual(host, self.host_of(self.server))

    def test_evacuation_to_source_of_failed_move(self):
        """Nova also counts the failed move if it recounts earlier."""
        self._confirm_resize(self.server)
        self._move_to('mix1')

        def fail(*args, **kwargs):
            raise exception.InstanceFaultRollback(
                exception.ResizeError(reason='it was made to fail'))

        with fixtures.MonkeyPatch(
                'nova.virt.libvirt.driver.LibvirtDriver.'
                'migrate_disk_and_power_off', fail):
            # Casts are calls here: the error reaches the API.
            self.assertRaises(
                client.OpenStackApiException, self.api.post_server_action,
                self.server['id'], {'migrate': None})
            self._wait_for_migration_status(self.server, ['error'])
        self.reset_state(self.server)
        self.update_host('mix2')
        self._move_to('mix2')
        self.assertEqual(8, self.report('mix1').remaining.high)
        self.computes['mix2'].stop()
        self._force_down('mix2', True)
        stock = manager.ComputeManager.rebuild_instance

        def rebuild(compute, *args, **kwargs):
            self.update_host('mix1')
            stock(compute, *args, **kwargs)

        with mock.patch.object(
                manager.ComputeManager, 'rebuild_instance', rebuild):
            self.api.post_server_action(self.server['id'], {'evacuate': {}})
            self._wait_for_server_parameter(
                self.server, {'OS-EXT-SRV-ATTR:host': 'mix1',
                              'OS-EXT-STS:task_state': None})
        self.assertEqual(4, self.report('mix1').remaining.high)
        with self.record('mix1') as node:
            self.assertEqual(4, node.vcpus_used)

    def test_migration_after_failed_live_migration(self):
        """Nova also counts the failed migration if it recounts earlier."""
        self._confirm_resize(self.server)

        def fail(domain, *args, **kwargs):
            domain.fail_job()
            raise exception.NovaException('it was made to fail')

        with fixtures.MonkeyPatch(base.FAKE_MIGRATE, fail):
            self.api.post_server_action(self.server['id'], {'os-migrateLive': {
                'host': 'mix1', 'block_migration': 'auto'}})
            self._wait_for_migration_status(self.server, ['error', 'failed'])
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None})
        self.reset_state(self.server)
        stock = manager.ComputeManager.prep_resize

        def prepare(compute, *args, **kwargs):
            self.update_host('mix1')
            stock(compute, *args, **kwargs)

        with mock.patch.object(
                manager.ComputeManager, 'prep_resize', prepare):
            self._migrate_server(self.server)
        self.assertEqual('mix1', self.host_of(self.server))
        self.assertEqual(4, self.report('mix1').remaining.high)
        with self.record('mix1') as node:
            self.assertEqual(4, node.vcpus_used)


class FailedResize(base.FunctionalTest):

    # Otherwise the error of the end fails the beginning of the resize as well.
    CAST_AS_CALL = False

    def test_resize_on_its_host_that_fails_leaves_old_cpus(self):
        """Nova saves the old flavor again, but keeps the new topology."""
        self.start_seed_host('mix1')
        server = self.boot(self.flavor(2, **{'hw:cpu_priority': 'high'}))
        own = set(map(int, self.cpus_of_vcpus(server)))
        self.flags(allow_resize_to_same_host=True)
        with mock.patch('nova.virt.libvirt.driver.LibvirtDriver.'
                        'finish_migration',
                        side_effect=exception.NovaException('made to fail')):
            self.api.post_server_action(
                server['id'], {'resize': {'flavorRef': self.high}})
            self._wait_for_state_change(server, 'ERROR')
            self._wait_for_migration_status(server, ['error'])
        for _ in range(2):
            # Two looks end the lease of the claim.
            self.update_host('mix1')
            self.update_host('mix1')
            leases = self.computes['mix1'].driver.priority_host.leases
            self.assertEqual(own, leases.get_cpus(server['id']))
            self.assertEqual(6, self.report('mix1').remaining.high)
            self.restart_compute_service('mix1')


class ArrivingLiveMigration(base.FunctionalTest):
    """The server arrives on mix2 between the reads of a recount there."""

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)
        self.server = self.boot(self.high, az='nova:mix1')
        self._live_migrate(self.server)
        self.assertEqual('mix2', self.host_of(self.server))

    def recount(self):
        """Recount with the migration in progress, and without its instance."""
        stock = objects.InstanceList.get_by_host_and_node
        migration, = objects.MigrationList.get_by_filters(
            context.get_admin_context(), {})
        migration.status = 'running'
        migration.save()

        def read(*args, **kwargs):
            found = stock(*args, **kwargs)
            found.objects = []
            return found

        with mock.patch.object(
                objects.InstanceList, 'get_by_host_and_node', read):
            self.update_host('mix2')
        migration.status = 'completed'
        migration.save()

    def set_host(self, name):
        """Set the host of the instance, which migrates unless on mix2."""
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(), self.server['id'])
        instance.host = name
        instance.task_state = None if name == 'mix2' else 'migrating'
        instance.save()

    def assert_counted(self):
        """Assert that no other server gets the CPUs of the server."""
        self.assertEqual(4, self.report('mix2').remaining.high)
        other = self.boot(self.high, az='nova:mix2')
        self.assertEqual(8, len({*self.cpus_of_vcpus(self.server),
                                 *self.cpus_of_vcpus(other)}))

    def test_recount_counts_instance_without_migration_context(self):
        """Nova drops the migration context just before it sets the host."""
        self.set_host('mix1')
        self.recount()
        self.assertEqual('', self.report('mix2').problem)
        self.assert_counted()
