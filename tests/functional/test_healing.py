# SPDX-License-Identifier: Apache-2.0


"""What drifted in Placement is put right by the periodic task."""

import itertools
import logging
from unittest import mock

import fixtures
from nova import context
from nova import exception
from nova import objects
from nova.tests.functional.api import client
from oslo_utils.fixture import uuidsentinel as uuids
import requests

from nova_prio.compute import healing
from nova_prio import holdings
from tests.functional import test_allocations as allocations


class Drift(allocations.Allocations):
    """Words for what others do to Placement."""

    def put(self, server, **resources):
        """Let Placement hold this of a host, besides what is elsewhere."""
        url = '/allocations/' + server['id']
        found = self.placement.get(url, version='1.28').body
        for key, value in (('project_id', uuids.project),
                           ('user_id', uuids.user),
                           ('consumer_generation', None)):
            found.setdefault(key, value)
        found['allocations'][self.compute_rp_uuids[server['host']]] = {
            'resources': resources}
        answer = self.placement.put(url, found, version='1.28')
        self.assertEqual(204, answer.status, answer.body)

    def drift(self, servers):
        """Let each server hold something else than it needs."""
        for number, server in enumerate(servers):
            needs = dict(self.needs[server['id']]['mix1'])
            if number % 3 == 0:
                self._delete_server_allocations(server['id'])
                continue
            if number % 3 == 1:
                swapped = {'VCPU': needs.pop('PCPU', 0),
                           'PCPU': needs.pop('VCPU', 0)}
                needs.update({name: amount for name, amount in swapped.items()
                              if amount})
            else:
                needs['MEMORY_MB'] += 1
                needs['DISK_GB'] -= 1
            self.put(server, **needs)


class Healing(Drift):

    def heal(self, form='%(instance_uuid)s %(message)s'):
        """Run the periodic task of the host; returns what it says."""
        log = self.useFixture(fixtures.FakeLogger(
            name=healing.LOG.name, level=logging.WARNING, format=form))
        self.update_host('mix1')
        return log.output

    def test_each_kind(self):
        self.assertEqual('', self.heal())
        servers = [*self.create_all(), self.create('high', from_volume=True)]
        self.assertEqual('', self.heal())
        for turn in range(3):
            self.drift(servers[turn:] + servers[:turn])
            said = self.heal()
            self.assert_held()
            for server in servers:
                self.assertIn(server['id'], said)
            self.assertEqual('', self.heal())

    def test_what_is_not_its_own(self):
        """Other classes stay, and so does what is held elsewhere."""
        server = self.create('high')
        self.placement.put('/resource_classes/CUSTOM_LICENCE', None,
                           version='1.7')
        self._set_inventory(self.compute_rp_uuids['mix1'], {
            'resource_class': 'CUSTOM_LICENCE', 'total': 1})
        other = self._post_resource_provider('other')['uuid']
        self._set_inventory(other, {'resource_class': 'VCPU', 'total': 9})
        self.compute_rp_uuids['other'] = other
        self.put({**server, 'host': 'other'}, VCPU=3)
        self.put(server, VCPU=2, CUSTOM_LICENCE=1)
        self.needs[server['id']]['other'] = {'VCPU': 3}
        self.needs[server['id']]['mix1']['CUSTOM_LICENCE'] = 1
        self.heal()
        self.assert_held()

    def test_what_moves(self):
        """An instance that moves, or is changed, is left alone."""
        self.start('mix2')
        server, other = self.create('high'), self.create('low')
        self.start_move(server, 'mix2')
        self.put({**server, 'host': 'mix2'}, VCPU=2)
        self._change(other, task_state='rebooting')
        self.put(other, VCPU=1)
        self.update_host('mix2')
        self.assertEqual('', self.heal())
        for server, host, cpus in (server, 'mix2', 2), (other, 'mix1', 1):
            self.assertEqual({'VCPU': cpus}, self.placement.get(
                '/allocations/' + server['id']).body['allocations'][
                    self.compute_rp_uuids[host]]['resources'])

    def _shelve(self, server):
        """Take a server off its host; returns what it held."""
        self.api.post_server_action(server['id'], {'shelve': None})
        self._wait_for_state_change(server, 'SHELVED_OFFLOADED')
        return self.needs.pop(server['id'])['mix1']

    def _change(self, server, **values):
        """Change what Nova knows of an instance."""
        cell = self.host_mappings['mix1'].cell_mapping
        with context.target_cell(
                context.get_admin_context(), cell) as cctxt:
            instance = objects.Instance.get_by_uuid(cctxt, server['id'])
            node = objects.ComputeNode.get_by_host_and_nodename(
                cctxt, 'mix1', 'mix1')
            if 'host' in values:
                values.update(node=values['host'],
                              compute_id=values['host'] and node.id)
            instance.update(values)
            instance.save()

    def _assert_taken_away(self, server, needs):
        """Let a server hold what it does not need."""
        self.put(server, **needs)
        self.assertIn(server['id'], self.heal())
        self.assert_held()
        self.assertEqual('', self.heal())

    def test_offloaded(self):
        """Placement was away when Nova took them off their host.

        One keeps its host where only the report to Placement failed.
        """
        for values in {}, {'host': 'mix1'}:
            server = self.create('mixed')
            needs = self._shelve(server)
            self._change(server, **values)
            self._assert_taken_away(server, needs)

    def test_failed_before_it_was_on_a_host(self):
        """nova-compute was killed in the middle of its claim."""
        server = self.create('high')
        self._change(server, host=None, vm_state='error')
        self._assert_taken_away(server, self.needs.pop(server['id'])['mix1'])

    def test_on_its_way_to_a_host(self):
        """What is built, or unshelved, holds what it needs in time."""
        for values in ({'vm_state': 'building', 'task_state': 'scheduling'},
                       {'vm_state': 'building'},
                       {'vm_state': 'shelved_offloaded',
                        'task_state': 'unshelving'}):
            self._change(self.create('low'), host=None, **values)
            self.assertEqual('', self.heal())
            self.assert_held()

    def test_one_that_is_unshelved_meanwhile(self):
        """What it holds by then is its own."""
        server = self.create('low')
        needs = self._shelve(server)
        self.put(server, **needs)
        find = holdings.differing

        def unshelve(*args):
            found = list(find(*args))
            self.assertEqual(1, len(found))
            self.api.post_server_action(server['id'], {'unshelve': None})
            self._wait_for_state_change(server, 'ACTIVE')
            return found

        with mock.patch.object(holdings, 'differing', unshelve):
            self.assertEqual('', self.heal())
        self.needs[server['id']] = {'mix1': needs}
        self.assert_held()

    def test_live_migration_left_open(self):
        """nova-compute ends when a guest has moved, before that is noted."""
        self.start('mix2')
        server = self.create('high')
        self.api.post_server_action(server['id'], {'os-migrateLive': {
            'host': 'mix2', 'block_migration': 'auto'}})
        self._wait_for_migration_status(server, ['completed'])
        self.assertEqual('mix2', self.host_of(server))
        migration, = objects.MigrationList.get_by_filters(
            context.get_admin_context(), {'instance_uuid': server['id']})
        migration.status = 'running'
        migration.save()
        left = {'id': migration.uuid, 'host': 'mix1'}
        self.put(left, PCPU=2)

        def state():
            now = objects.Migration.get_by_id(
                context.get_admin_context(), migration.id)
            return now.status, bool(
                self._get_allocations_by_server_uuid(migration.uuid))

        # It may be that of this run.
        self.assertEqual('', self.heal())
        self.assertEqual(('running', True), state())
        self.assertIn('is ended: the instance is on mix2.',
                      self.said_by_restart('mix1'))
        self.assertEqual(('completed', False), state())

    def said_by_restart(self, host):
        """Start a nova-compute anew; returns what it says of drift."""
        log = self.useFixture(fixtures.FakeLogger(
            name=healing.LOG.name, level=logging.WARNING))
        self.restart_compute_service(host)
        return log.output

    def die(self, task_state, status):
        """Return a step of a migration in which nova-compute is killed."""
        def step(*args, **kwargs):
            migration, = (each for each in (*args, *kwargs.values())
                          if isinstance(each, objects.Migration))
            migration.status = status
            migration.save()
            instance = migration.instance
            instance.task_state = task_state
            instance.save()

        return step

    def test_killed_before_a_guest_moved(self):
        """All is as if the move had never begun, at once."""
        self.start('mix2')
        others = [self.create('high', host='mix1') for _ in range(2)]
        live = {'os-migrateLive': {'host': 'mix2', 'block_migration': 'auto'}}
        for name, move, task_state, status in (
                ('_do_live_migration', live, 'migrating', 'queued'),
                ('_do_live_migration', live, 'migrating', 'preparing'),
                ('_do_live_migration', live, 'migrating', 'running'),
                ('resize_instance', {'migrate': {'host': 'mix2'}},
                 'resize_prep', 'pre-migrating'),
                ('_resize_instance', {'migrate': {'host': 'mix2'}},
                 'resize_migrating', 'migrating')):
            server = self.create('high', host='mix1')
            before = self.cpus_of_vcpus(server)
            with mock.patch('nova.compute.manager.ComputeManager.' + name,
                            side_effect=self.die(task_state, status)):
                self.api.post_server_action(server['id'], move)
                migration = self.soon(self._died, server, status)
            self.assertIn('is ended: the instance is on mix1.',
                          self.said_by_restart('mix1'))
            self.assertEqual('error', objects.MigrationList.get_by_filters(
                context.get_admin_context(),
                {'instance_uuid': server['id']})[0].status)
            self.assertEqual({}, self._get_allocations_by_server_uuid(
                migration.uuid))
            self.assert_held()
            # Not those that were claimed on the other host.
            self.act(server, rebuild={'imageRef': self.image()})
            self.assertEqual(before, self.cpus_of_vcpus(server))
            self.assertEqual('', self.heal())
            self.assert_kept()
            self.delete(server)
        self.delete(*others)

    def test_killed_while_libvirt_moves_a_guest(self):
        """libvirt ends the move: the instance holds what it has on both."""
        self.start('mix2')
        self.create('high', host='mix1')
        server = self.create('high', host='mix1')
        before = self.cpus_of_vcpus(server)
        migration = self._lose_guest(server, 'running')
        self.assertIn('libvirt moved it to mix2', self.said_by_restart('mix1'))
        self.assertEqual({}, self._get_allocations_by_server_uuid(
            migration.uuid))
        self.assertIn('put right', self.heal())
        self.assertEqual(
            {self.compute_rp_uuids[host] for host in ('mix1', 'mix2')},
            set(self._get_allocations_by_server_uuid(server['id'])))
        needs = self.needs[server['id']]
        needs['mix2'] = needs['mix1']
        self.act(server, rebuild={'imageRef': self.image()})
        self.assertEqual(before, self.cpus_of_vcpus(server))
        self.assert_kept()

    def _lose_guest(self, server, status):
        """Kill nova-compute in a live migration, and the guest is gone."""
        die = self.die('migrating', status)

        def move(*args, **kwargs):
            self.computes['mix1'].driver.destroy(args[0], args[2], [])
            die(*args, **kwargs)

        with mock.patch('nova.compute.manager.ComputeManager.'
                        '_do_live_migration', side_effect=move):
            self.api.post_server_action(server['id'], {'os-migrateLive': {
                'host': 'mix2', 'block_migration': 'auto'}})
            return self.soon(self._died, server, status)

    def test_killed_before_libvirt_could_move_a_guest(self):
        """A guest that is gone has not gone there."""
        self.start('mix2')
        self._lose_guest(self.create('high', host='mix1'), 'preparing')
        said = self.said_by_restart('mix1')
        self.assertIn('is ended: the instance is on mix1.', said)
        self.assertNotIn('libvirt moved it', said)
        self.assert_held()

    def _fail_to_migrate(self):
        """Return a server that stays on mix1, its CPUs and the migration."""
        self.start('mix2')
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
                server['id'], {'migrate': {'host': 'mix2'}})
        return server, before, self._died(server, 'error')

    def test_rebuild_right_after_a_migration_that_failed(self):
        """It uses the CPUs of this host, also before the next recount."""
        server, before, _ = self._fail_to_migrate()
        self.act(server, rebuild={'imageRef': self.image()})
        self.assertEqual(before, self.cpus_of_vcpus(server))
        self.assertEqual('', self.heal())
        self.assert_kept()

    def test_resize_that_failed_at_its_source(self):
        """What was claimed on the other host is forgotten."""
        server, before, migration = self._fail_to_migrate()
        with self.record('mix1') as node:
            seen = objects.InstanceList.get_by_host(
                node._context, 'mix1', expected_attrs=['migration_context'])
        self.assertIn('is ended: the instance is on mix1.', self.heal())
        # Who has read it before says nothing of what has ended by now.
        log = self.useFixture(fixtures.FakeLogger(healing.LOG.name))
        self.computes['mix1'].driver.healing.end_left_open(
            seen[0]._context, None, 'mix1', [migration],
            {instance.uuid: instance for instance in seen})
        self.assertEqual('', log.output)
        self.act(server, rebuild={'imageRef': self.image()})
        self.assertEqual(before, self.cpus_of_vcpus(server))
        self.assertEqual('', self.heal())
        self.assert_kept()

    def _died(self, server, status):
        migration, = objects.MigrationList.get_by_filters(
            context.get_admin_context(), {'instance_uuid': server['id']})
        self.assertEqual(status, migration.status)
        return migration

    def test_what_a_migration_left(self):
        """It is taken away in the second run that finds it."""
        self.start('mix2')
        moved, deleted, waiting = (self.create('high') for _ in range(3))
        for server in moved, deleted, waiting:
            self.start_move(server, 'mix2')
        for server in moved, deleted:
            self.confirm(server)
        self.delete(deleted)
        for server in moved, deleted:
            self.put({'id': server['migration'], 'host': 'mix1'}, PCPU=2)
        self.assertEqual('', self.heal())
        said = self.heal('%(message)s')
        for server in moved, deleted:
            self.assertIn('The migration %s has ended' % server['migration'],
                          said)
        self.assert_held()
        self.assertEqual('', self.heal())

    def test_what_a_migration_left_and_an_instance_lacks(self):
        self.start('mix2')
        server, moved = (self.create('high') for _ in range(2))
        self.start_move(moved, 'mix2')
        self.confirm(moved)
        self._delete_server_allocations(server['id'])
        self.put({'id': moved['migration'], 'host': 'mix1'}, PCPU=15)
        self.assertIn('Placement does not take it: ', self.heal())
        said = self.heal('%(message)s')
        self.assertIn('has ended', said)
        self.assertIn('put right', said)
        self.assert_held()

    def test_no_room(self):
        """It is said once that Placement refuses, and done when it fits."""
        server = self.create('high')
        # As the fallback of the scheduler leaves it where PCPU are sold.
        self.put(server, VCPU=2)
        other = {'id': uuids.other, 'host': 'mix1'}
        self.put(other, PCPU=15)
        said = self.heal()
        self.assertIn(server['id'], said)
        self.assertIn('Placement does not take it: ', said)
        self.assertIn('The requested amount would exceed the capacity', said)
        self.assertEqual('', self.heal())
        self._delete_server_allocations(other['id'])
        self.assertIn('put right', self.heal())
        self.assert_held()

    def test_conflicts(self):
        """What others change meanwhile is read again, and then given up."""
        server = self.create('high')
        for number, said in (3, 'put right'), (4, '4 attempts failed'):
            self.drift([server])
            with self.conflicts(number):
                self.assertIn(said, self.heal())
        self.heal()
        self.assert_held()

    def test_something_in_front_of_placement(self):
        """What cannot be read ends no update of the host."""
        server = self.create('high')
        self.drift([server])
        with mock.patch('nova.scheduler.client.report.SchedulerReportClient.'
                        'put', return_value=self._page()):
            self.assertIn('answers /allocations/%s with status 503'
                          % server['id'], self.heal())
        with mock.patch.object(holdings, 'differing',
                               side_effect=AttributeError('new')):
            self.assertIn('is not looked at.', self.heal('%(message)s'))
        self.assertEqual(0, self.report('mix1').low_used)
        self.heal()
        self.assert_held()

    @staticmethod
    def _page():
        answer = requests.Response()
        answer.status_code, answer._content = 503, b'<html>'
        return answer

    def test_moved_since(self):
        """What began to move after it was read is not written."""
        server = self.create('high')
        self.drift([server])
        stock, amounts = holdings.at_rest, itertools.count(3)

        def at_rest(cctxt, uuid):
            found = stock(cctxt, uuid)
            self.put(server, PCPU=next(amounts))
            return found

        with mock.patch.object(holdings, 'at_rest', at_rest):
            self.assertIn('4 attempts failed', self.heal())
