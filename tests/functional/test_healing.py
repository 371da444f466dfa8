# SPDX-License-Identifier: Apache-2.0


"""The periodic task corrects allocations that drifted in Placement."""

import itertools
import logging
from unittest import mock

import fixtures
from nova.compute import manager
from nova import context
from nova import objects
from nova.tests.functional.api import client
from oslo_utils.fixture import uuidsentinel as uuids
import requests

from nova_prio.compute import allocation_healing
from nova_prio.objects import migration_states
from nova_prio.placement import allocations as prio_allocations
from tests.functional import test_allocations as allocations


class Drift(allocations.Allocations):
    """Helpers that change allocations as other clients do."""

    def put(self, server, **resources):
        """Set the allocation of a server on its host, and keep all others."""
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
        """Change each allocation: delete it, or change classes or amounts."""
        for number, server in enumerate(servers):
            needs = dict(self.expected[server['id']]['mix1'])
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

    def change(self, server, **values):
        """Change the record of an instance."""
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

    def heal(self, host='mix1'):
        """Run the periodic task of a host; return its warnings."""
        log = self.useFixture(fixtures.FakeLogger(
            name=allocation_healing.LOG.name, level=logging.WARNING,
            format='%(instance_uuid)s %(message)s'))
        self.update_host(host)
        return log.output


class Healing(Drift):

    def test_drifted_allocations_are_healed(self):
        self.assertEqual('', self.heal())
        servers = [*self.create_all(), self.create('high', from_volume=True)]
        self.assertEqual('', self.heal())
        for turn in range(3):
            self.drift(servers[turn:] + servers[:turn])
            warnings = self.heal()
            self.assert_allocations()
            for server in servers:
                self.assertIn(server['id'], warnings)
            self.assertEqual('', self.heal())

    def test_other_classes_and_providers_are_kept(self):
        """Resource classes and providers of others do not change."""
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
        self.expected[server['id']]['other'] = {'VCPU': 3}
        self.expected[server['id']]['mix1']['CUSTOM_LICENCE'] = 1
        self.heal()
        self.assert_allocations()

    def test_busy_instances_are_not_healed(self):
        """One instance is resized, and one is rebooting."""
        self.start('mix2')
        server, other = self.create('high'), self.create('low')
        self.start_move(server, 'mix2')
        self.put({**server, 'host': 'mix2'}, VCPU=2)
        self.change(other, task_state='rebooting')
        self.put(other, VCPU=1)
        self.update_host('mix2')
        self.assertEqual('', self.heal())
        for server, host, cpus in (server, 'mix2', 2), (other, 'mix1', 1):
            self.assertEqual({'VCPU': cpus}, self.placement.get(
                '/allocations/' + server['id']).body['allocations'][
                    self.compute_rp_uuids[host]]['resources'])

    def test_allocation_of_offloaded_instance_is_deleted(self):
        """Nova failed to delete the allocation when it offloaded."""
        server = self.create('mixed')
        self.act(server, 'SHELVED_OFFLOADED', shelve=None)
        self.change(server, host='mix1')
        self.put(server, **self.expected.pop(server['id'])['mix1'])
        self.assertIn(server['id'], self.heal())
        self.assert_allocations()
        self.assertEqual('', self.heal())

    def test_host_without_mix_heals_only_instances_with_a_priority(self):
        self.start_host('off1', cpus=24, cells=2, ratio=3.0,
                        dedicated='0-7,12-19', shared='8-11,20-23',
                        aggregate={'priority_mix': 'true'})
        flavors = 'high', 'low', 'ordinary', 'pinned'
        servers = {flavor: self.create(flavor, host='off1')
                   for flavor in flavors}
        for server in servers.values():
            self._delete_server_allocations(server['id'])
        for flavor in 'ordinary', 'pinned':
            del self.expected[servers[flavor]['id']]
        warnings = self.heal('off1')
        self.assert_allocations()
        self.assertEqual(
            {'high', 'low'}, {flavor for flavor in flavors
                              if servers[flavor]['id'] in warnings})

    def test_consumers_not_on_the_host_are_not_healed(self):
        """Instances on another host or on none, and ended migrations."""
        self.start('mix2')
        moved, shelved, failed = (self.create('high') for _ in range(3))
        self.start_move(moved, 'mix2')
        self.confirm(moved)
        self.act(shelved, 'SHELVED_OFFLOADED', shelve=None)
        self.change(failed, host=None, vm_state='error')
        self.expected[shelved['id']] = {}
        for uuid in moved['id'], moved['migration'], shelved['id']:
            self.put({'id': uuid, 'host': 'mix1'}, PCPU=2)
            self.expected.setdefault(uuid, {})['mix1'] = {'PCPU': 2}
        for _ in range(3):
            self.assertEqual('', self.heal())
            self.assert_allocations()

    def test_refused_write_is_logged_once(self):
        """The allocation is corrected when its amounts fit."""
        server = self.create('high')
        # The fallback query of the scheduler leads to such an allocation.
        self.put(server, VCPU=2)
        other = {'id': uuids.other, 'host': 'mix1'}
        self.put(other, PCPU=15)
        warnings = self.heal()
        self.assertIn(server['id'], warnings)
        self.assertIn('Placement refused the request: ', warnings)
        self.assertIn(
            'The requested amount would exceed the capacity', warnings)
        self.assertEqual('', self.heal())
        self._delete_server_allocations(other['id'])
        self.assertIn('Corrected the allocation', self.heal())
        self.assert_allocations()

    def test_conflicting_write_is_retried(self):
        """Healing makes four attempts, and reads the allocation again."""
        server = self.create('high')
        for number, warnings in ((3, 'Corrected the allocation'),
                                 (4, '4 attempts failed')):
            self.drift([server])
            with self.conflicts(number):
                self.assertIn(warnings, self.heal())
        self.heal()
        self.assert_allocations()

    def test_unexpected_answer_does_not_fail_the_recount(self):
        server = self.create('high')
        self.drift([server])
        with mock.patch('nova.scheduler.client.report.SchedulerReportClient.'
                        'put', return_value=self._page()):
            self.assertIn('answers /allocations/%s with status 503'
                          % server['id'], self.heal())
        with mock.patch.object(prio_allocations, 'find_drifted',
                               side_effect=AttributeError('new')):
            self.assertEqual('', self.heal())
        self.assertEqual(0, self.report('mix1').used.low)
        self.heal()
        self.assert_allocations()

    @staticmethod
    def _page():
        answer = requests.Response()
        answer.status_code, answer._content = 503, b'<html>'
        return answer

    def test_instance_that_changed_lately_is_not_healed(self):
        server = self.create('high')
        self.drift([server])
        with mock.patch.object(migration_states, 'QUIET_SECONDS', 60):
            self.assertEqual('', self.heal())
        self.assertIn(server['id'], self.heal())

    def test_move_that_begins_during_healing_prevents_the_write(self):
        server = self.create('high')
        self.drift([server])
        stock, amounts = migration_states.get_if_idle, itertools.count(3)

        def get_if_idle(cctxt, uuid):
            found = stock(cctxt, uuid)
            self.put(server, PCPU=next(amounts))
            return found

        with mock.patch.object(migration_states, 'get_if_idle', get_if_idle):
            self.assertIn('4 attempts failed', self.heal())


class SourceReturns(Drift):
    """The source host starts again while a server is evacuated from it.

    Nova then deletes the allocation at the source, and ends the migration.
    The server has no task any more, and still has the source as its host.
    """

    def setUp(self):
        super().setUp()
        self.start('mix2')
        self.server = self.create('high')

    def evacuate(self, error=None):
        """Evacuate the server to mix2; mix1 starts and heals before the end.

        :param error: exception with which the evacuation fails at its end
        """
        stock = manager.ComputeManager.stop_instance

        def stop(compute, *args, **kwargs):
            # Nova stops each evacuated server when it has started.
            stock(compute, *args, **kwargs)
            self.host_up('mix1')
            if error:
                raise error

        self.host_down('mix1')
        with mock.patch.object(manager.ComputeManager, 'stop_instance', stop):
            self.act(self.server, 'SHUTOFF', evacuate={'host': 'mix2'})

    def test_source_does_not_heal_instance_that_is_leaving(self):
        self.evacuate()
        self.assertEqual('mix2', self.host_of(self.server))
        self.expected[self.server['id']] = self.expected_allocation(
            self.server, host='mix2')
        self.assert_stable_allocations()

    def test_source_heals_instance_that_came_back(self):
        """An unshelve makes no migration: the evacuation stays the last."""
        self.evacuate()
        self.act(self.server, 'SHELVED_OFFLOADED', shelve=None)
        self.act(self.server, unshelve={'host': 'mix1'})
        self.drift([self.server])
        self.assertIn(self.server['id'], self.heal())
        self.assert_stable_allocations()

    def test_source_heals_instance_after_failed_evacuation(self):
        self.assertRaises(client.OpenStackApiException, self.evacuate,
                          RuntimeError('it was made to fail'))
        self.assertEqual('mix1', self.host_of(self.server))
        self.assertEqual({}, self.held(self.server))
        self.assertIn(self.server['id'], self.heal())
        self.assert_stable_allocations()
