# SPDX-License-Identifier: Apache-2.0

"""Only ``nova-prio audit`` ends migrations that Nova leaves unfinished.

Until then the instance must use its own CPUs.
"""

from unittest import mock

from nova import context
from nova import exception
from nova import objects
from nova.tests.functional.api import client

from nova_prio.admin.audit import unfinished_migrations
from nova_prio.cmd import audit as command
from nova_prio.cmd import report
from nova_prio.objects import migration_states
from tests import commands
from tests.functional import base
from tests.functional import test_audit

LIVE = {'os-migrateLive': {'host': 'mix2', 'block_migration': 'auto'}}
COLD = {'migrate': {'host': 'mix2'}}


class KilledMoves(test_audit.Audit):
    """Moves from mix1 to mix2 in which nova-compute is killed."""

    def migration_of(self, server):
        """Return the newest migration of a server."""
        return objects.MigrationList.get_by_filters(
            context.get_admin_context(), {'instance_uuid': server['id']})[0]

    def claimed(self, server):
        """Return the migration context of a server, or None."""
        with self.instance(server) as instance:
            return instance.migration_context

    def kill(self, server, move, name, step, status):
        """Kill nova-compute during a move, and start it again."""
        with mock.patch('nova.compute.manager.ComputeManager.' + name,
                        side_effect=step):
            self.api.post_server_action(server['id'], move)
            self.soon(lambda: self.assertEqual(
                status, self.migration_of(server).status))
        self.audit()
        self.restart_compute_service('mix1')
        self.update_host('mix1')


class UnfinishedMigrations(KilledMoves):

    def assert_own_cpus(self, server, cpus):
        """A rebuild uses the CPUs of the instance on this host."""
        self.act(server, rebuild={'imageRef': self.image()})
        self.assertEqual(cpus, self.cpus_of_vcpus(server))

    def assert_ended(self, server, status, held, after):
        """Assert that the audit, not nova-compute, ends a migration.

        :param status: the status that Nova left
        :param held: if the migration has an allocation until then
        :param after: the status after the repair
        """
        migration = self.migration_of(server)

        def state():
            return (self.migration_of(server).status, bool(
                self._get_allocations_by_server_uuid(migration.uuid)))

        for _ in range(2):
            for host in 'mix1', 'mix2':
                self.update_host(host)
            self.assertEqual((status, held), state())
        found = 'mix1', 'unfinished_migration', migration.uuid
        with mock.patch.object(migration_states, 'QUIET_SECONDS', 60):
            _, rows, _ = commands.run('audit')
        self.assertNotIn('unfinished_migration',
                         [row['Finding'] for row in rows])
        self.assertIn(found, self.found())
        self.assertIn(found, self.found('--fix', '--dry-run'))
        self.assertEqual((status, held), state())
        # The other host still counts the claim in its report.
        _, rows, _ = commands.run('audit', '--fix')
        self.assertIn(('fixed', migration.uuid),
                      [(row['State'], row['Consumer']) for row in rows])
        for host in 'mix1', 'mix2':
            self.update_host(host)
        self.audit()
        self.assertEqual((after, False), state())
        self.assertIsNone(self.claimed(server))

    def test_audit_ends_migration_killed_after_guest_moved(self):
        """The instance is on the other host before its migration ends."""
        server = self.create('high')
        self.api.post_server_action(server['id'], LIVE)
        self._wait_for_migration_status(server, ['completed'])
        self.assertEqual('mix2', self.host_of(server))
        migration = self.migration_of(server)
        # Nova deletes the allocations after it has set the status.
        self.soon(lambda: self.assertEqual(
            {}, self._get_allocations_by_server_uuid(migration.uuid)))
        migration.status = 'running'
        migration.save()
        self.put({'id': migration.uuid, 'host': 'mix1'}, PCPU=2)
        self.restart_compute_service('mix1')
        self.assert_ended(server, 'running', True, 'completed')
        needs = self.expected[server['id']]
        needs['mix2'] = needs.pop('mix1')
        self.assert_stable_allocations()

    def test_audit_ends_migration_killed_before_guest_moved(self):
        """The audit restores the state from before the move."""
        others = [self.create('high', host='mix1') for _ in range(2)]
        for name, move, task_state, status in (
                ('live_migration', LIVE, 'migrating', 'accepted'),
                ('_do_live_migration', LIVE, 'migrating', 'queued'),
                ('_do_live_migration', LIVE, 'migrating', 'preparing'),
                ('_do_live_migration', LIVE, 'migrating', 'running'),
                ('resize_instance', COLD, 'resize_prep', 'pre-migrating'),
                ('_resize_instance', COLD, 'resize_migrating', 'migrating')):
            server = self.create('high', host='mix1')
            before = self.cpus_of_vcpus(server)
            step = base.leave_unfinished(task_state, status)
            self.kill(server, move, name, step, status)
            if status == 'running':
                # Nova ends the migration when nova-compute starts. A rebuild
                # would drop the claim.
                status = 'error'
            # A rebuild would take an accepted migration for its own.
            elif status != 'accepted':
                self.assert_own_cpus(server, before)
            self.assert_ended(server, status, True, 'error')
            self.assert_own_cpus(server, before)
            self.assert_stable_allocations()
            self.delete(server)
        self.delete(*others)

    def test_audit_drops_claim_of_evacuation_that_died(self):
        """The source had started again, and the destination was killed."""
        server = self.create('high', host='mix1')
        with self.instance(server) as instance:
            migration = objects.Migration(
                instance._context, instance_uuid=server['id'],
                status='completed', migration_type='evacuation',
                source_compute='mix1', dest_compute='mix2')
            migration.create()
            instance.migration_context = objects.MigrationContext(
                instance_uuid=server['id'], migration_id=migration.id,
                old_numa_topology=instance.numa_topology,
                new_numa_topology=instance.numa_topology)
            instance.save()
        self.assertIn(('mix1', 'unfinished_migration', migration.uuid),
                      self.found('--fix', status=command.FIXED))
        self.assertIsNone(self.claimed(server))
        self.audit()

    def test_audit_reports_migration_killed_while_libvirt_moves_guest(self):
        """The finding names the host where the guest may run."""
        self.create('high', host='mix1')
        server = self.create('high', host='mix1')
        before = self.cpus_of_vcpus(server)
        die = base.leave_unfinished('migrating', 'running')

        def move(*args, **kwargs):
            self.computes['mix1'].driver.destroy(args[0], args[2], [])
            die(*args, **kwargs)

        self.kill(server, LIVE, '_do_live_migration', move, 'running')
        self.assertIn('libvirt may have moved the guest to mix2', ' '.join(
            row['Remedy'] for row in self.audit(status=report.FOUND)))
        self.assert_ended(server, 'error', True, 'error')
        self.assert_own_cpus(server, before)
        self.assert_stable_allocations()

    def test_rebuild_before_audit_drops_claim_and_keeps_allocations(self):
        """The rebuild drops the claim; only allocations remain."""
        self.create('high', host='mix1')
        server = self.create('high', host='mix1')
        before = self.cpus_of_vcpus(server)
        self.kill(server, LIVE, '_do_live_migration',
                  base.leave_unfinished('migrating', 'running'), 'running')
        self.assertIsNotNone(self.claimed(server))
        self.assert_own_cpus(server, before)
        self.assertIsNone(self.claimed(server))
        # Nothing needs the lease of the claim any longer.
        for _ in range(2):
            self.update_host('mix2')
        # As long as the migration has allocations, Nova may return them.
        found = {('mix1', 'left_allocation', self.migration_of(server).uuid),
                 ('mix1', 'missing_allocation', server['id'])}
        # The audit moves them back.
        self.assert_repaired(found)
        self.assert_own_cpus(server, before)
        self.assert_stable_allocations()

    def fail_to_migrate(self):
        """Return a server that stays on mix1, and its CPUs."""
        self.create('high', host='mix1')
        server = self.create('high', host='mix1')
        before = self.cpus_of_vcpus(server)

        def fail(*args, **kwargs):
            raise exception.InstanceFaultRollback(
                exception.ResizeError(reason='no room'))

        with mock.patch('nova.virt.libvirt.driver.LibvirtDriver.'
                        'migrate_disk_and_power_off', fail):
            self.assertRaises(
                client.OpenStackApiException, self.api.post_server_action,
                server['id'], COLD)
        return server, before

    def test_audit_ends_resize_that_failed_at_its_source(self):
        """Nova leaves the claim of the other host in the instance record."""
        server, before = self.fail_to_migrate()
        self.assertIsNotNone(self.claimed(server))
        self.assert_ended(server, 'error', False, 'error')
        self.assert_own_cpus(server, before)
        self.assert_stable_allocations()

    def test_rebuild_after_failed_resize_uses_cpus_of_instance(self):
        server, before = self.fail_to_migrate()
        self.assert_own_cpus(server, before)
        self.audit()
        self.assert_stable_allocations()

    def test_allocation_of_failed_resize_returns_to_its_instance(self):
        server, _ = self.fail_to_migrate()
        needs = self.expected[server['id']]
        self.put({'id': self.migration_of(server).uuid, 'host': 'mix1'},
                 **needs['mix1'])
        self._delete_server_allocations(server['id'])
        self.assertEqual(
            {'unfinished_migration', 'missing_allocation'},
            {kind for _, kind, _ in self.found()})
        self.audit('--fix', status=command.FIXED)
        self.assert_stable_allocations()
        self.audit()

    def test_allocation_of_resize_on_one_host_returns_to_its_instance(self):
        server, _ = self.fail_to_migrate()
        migration = self.migration_of(server)
        # This resize did not leave the host, and Nova dropped its context.
        migration.dest_compute = 'mix1'
        migration.save()
        with self.instance(server) as instance:
            instance.drop_migration_context()
        self.put({'id': migration.uuid, 'host': 'mix1'},
                 **self.expected[server['id']]['mix1'])
        self._delete_server_allocations(server['id'])
        with mock.patch('nova.scheduler.client.report.SchedulerReportClient.'
                        'move_allocations', return_value=False):
            self.audit('--fix', status=report.FAILED)
        self.audit('--fix', status=command.FIXED)
        self.assert_stable_allocations()

    def test_audit_does_not_end_move_that_begins_during_audit(self):
        server, _ = self.fail_to_migrate()
        migration = self.migration_of(server)
        stock = unfinished_migrations._end

        def change_first(*args):
            self.change(server, task_state='rebooting')
            return stock(*args)

        with mock.patch.object(unfinished_migrations, '_end', change_first):
            row, = self.audit('--fix', status=report.FAILED)
        self.assertIn('has changed since it was read', row['Remedy'])
        self.assertIsNotNone(self.claimed(server))
        self.change(server, task_state=None)
        self.assert_repaired({
            ('mix1', 'unfinished_migration', migration.uuid)})

    def test_migration_is_kept_if_placement_does_not_answer(self):
        """The next audit finds it again."""
        server = self.create('high', host='mix1')
        self.kill(server, COLD, 'resize_instance', base.leave_unfinished(
            'resize_prep', 'pre-migrating'), 'pre-migrating')
        with mock.patch('nova.scheduler.client.report.SchedulerReportClient.'
                        'move_allocations', return_value=False):
            row, = self.audit('--fix', status=report.FAILED)
        self.assertEqual('failed', row['State'])
        self.assert_ended(server, 'pre-migrating', True, 'error')
        self.assert_stable_allocations()

    def kill_in(self, name, task_state, status, server, **request):
        """Request a move; nova-compute is killed in it and starts again.

        :param name: method of nova-compute that does no more than to save
            these values
        """
        step = base.leave_unfinished(task_state, status)
        with mock.patch('nova.compute.manager.ComputeManager.' + name, step):
            self.api.post_server_action(server['id'], request)
        for host in 'mix1', 'mix2':
            self.restart_compute_service(host)
            self.update_host(host)
        self.assertEqual({}, self.remedies())

    def remedies(self, *arguments):
        """Return the remedies of unfinished migrations, state -> text."""
        _, rows, _ = commands.run('audit', *arguments)
        return {row['State']: row['Remedy'] for row in rows
                if row['Finding'] == 'unfinished_migration'}

    def reset_and_fix(self, server):
        """An administrator resets the state; return what the audit says."""
        self.reset_state(server)
        self.assertEqual(['found'], list(self.remedies()))
        return self.remedies('--fix')['fixed']

    def resized(self):
        """Return a server with another flavor, to be confirmed."""
        server = self.create('high', host='mix1')
        self.act(server, 'VERIFY_RESIZE',
                 resize={'flavorRef': self.flavors['low']})
        # The fake libvirt of this test does not shut it off.
        self.end_guest(server)
        return server

    def assert_moved_back(self, server):
        found = self._wait_for_state_change(server, 'ACTIVE')
        self.assertEqual('mix1', found['OS-EXT-SRV-ATTR:host'])
        self.assertEqual('reverted', self.migration_of(server).status)
        self.assert_stable_allocations()
        self.audit()

    def test_audit_reverts_resize_killed_at_destination(self):
        server = self.create('high', host='mix1')
        self.kill_in('_finish_resize', 'resize_migrated', 'post-migrating',
                     server, resize={'flavorRef': self.flavors['low']})
        self.reset_and_fix(server)
        self.assert_moved_back(server)

    def test_audit_reverts_again_after_kill_at_destination(self):
        server = self.resized()
        self.kill_in('revert_resize', 'resize_reverting', 'reverting', server,
                     revertResize=None)
        self.reset_and_fix(server)
        self.assert_moved_back(server)

    def test_audit_reverts_again_after_kill_at_source(self):
        """The lease and the allocations at the source stay meanwhile."""
        server = self.resized()
        self.kill_in('finish_revert_resize', 'resize_reverting', 'reverted',
                     server, revertResize=None)
        self.reset_state(server)
        for _ in range(2):
            self.update_host('mix1')
        self.assertEqual(2, self.report('mix1').used.high)
        self.reset_and_fix(server)
        self.assert_moved_back(server)

    def test_audit_confirms_again_after_kill_at_source(self):
        """Nova may still delete the disk: the audit waits for an hour."""
        server = self.resized()
        self.kill_in('confirm_resize', None, 'confirming', server,
                     confirmResize=None)
        with mock.patch.object(
                unfinished_migrations, '_CONFIRMING_SECONDS', -1):
            self.reset_and_fix(server)
        self.soon(lambda: self.assertEqual(
            'confirmed', self.migration_of(server).status))
        self.assertEqual('mix2', self.host_of(server))
        self.audit()

    def test_resize_with_reset_state_can_be_confirmed(self):
        """An administrator has reset the state before the confirmation."""
        server = self.resized()
        self.assertIn('server resize confirm %s' % server['id'],
                      self.reset_and_fix(server))
        self.act(server, confirmResize=None)
        self.assertEqual('mix2', self.host_of(server))
        self.audit()

    def test_audit_does_not_end_move_of_host_that_is_down(self):
        server = self.resized()
        self.host_down('mix1')
        self.reset_state(server)
        self.audit()
        self.host_up('mix1')
        self.reset_and_fix(server)

    def test_audit_does_not_end_resize_of_soft_deleted_server(self):
        server = self.create('high', host='mix1')
        self.kill_in('_finish_resize', 'resize_migrated', 'post-migrating',
                     server, resize={'flavorRef': self.flavors['low']})
        self.change(server, task_state=None, vm_state='soft-delete')
        self.audit()

    def test_audit_does_not_end_unconfirmed_resize(self):
        server = self.create('high', host='mix1')
        self.start_move(server, 'mix2')
        self.audit('--fix')
        self.revert(server)
        self.assert_stable_allocations()
