# SPDX-License-Identifier: Apache-2.0


"""The periodic task corrects allocations that drifted in Placement."""

import itertools
import logging
from unittest import mock

import fixtures
from nova import context
from nova import objects
from oslo_utils.fixture import uuidsentinel as uuids
import requests

from nova_prio.compute import allocation_healing
from nova_prio.placement import allocations as prio_allocations
from tests.functional import test_allocations as allocations


class Drift(allocations.Allocations):
    """Helpers that change allocations as other clients do."""

    def put(self, server, **resources):
        """Set the allocation at the host, and keep all others."""
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


class Healing(Drift):

    def heal(self, host='mix1'):
        """Run the periodic task of a host; return its warnings."""
        log = self.useFixture(fixtures.FakeLogger(
            name=allocation_healing.LOG.name, level=logging.WARNING,
            format='%(instance_uuid)s %(message)s'))
        self.update_host(host)
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

    def test_other_classes_and_providers_are_kept(self):
        """Other classes and other providers stay as they are."""
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

    def test_instance_that_is_not_idle_is_left_alone(self):
        """An instance that moves, or is changed, is left alone."""
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

    def test_offloaded_instance_that_keeps_its_host(self):
        """Nova failed to report to Placement when it offloaded it."""
        server = self.create('mixed')
        self.act(server, 'SHELVED_OFFLOADED', shelve=None)
        self.change(server, host='mix1')
        self.put(server, **self.needs.pop(server['id'])['mix1'])
        self.assertIn(server['id'], self.heal())
        self.assert_held()
        self.assertEqual('', self.heal())

    def test_host_without_mix_heals_only_instances_with_a_priority(self):
        self.start_host('off1', cpus=24, cells=2, ratio=3.0,
                        dedicated='0-7,12-19', shared='8-11,20-23',
                        aggregate={'priority_mix': 'true'})
        kinds = 'high', 'low', 'ordinary', 'pinned'
        servers = {kind: self.create(kind, host='off1') for kind in kinds}
        for server in servers.values():
            self._delete_server_allocations(server['id'])
        for kind in 'ordinary', 'pinned':
            del self.needs[servers[kind]['id']]
        said = self.heal('off1')
        self.assert_held()
        self.assertEqual(
            {'high', 'low'}, {kind for kind in kinds
                              if servers[kind]['id'] in said})

    def test_consumers_not_on_the_host_are_left_alone(self):
        """Instances elsewhere or nowhere, and migrations that ended."""
        self.start('mix2')
        moved, shelved, failed = (self.create('high') for _ in range(3))
        self.start_move(moved, 'mix2')
        self.confirm(moved)
        self.act(shelved, 'SHELVED_OFFLOADED', shelve=None)
        self.change(failed, host=None, vm_state='error')
        self.needs[shelved['id']] = {}
        for uuid in moved['id'], moved['migration'], shelved['id']:
            self.put({'id': uuid, 'host': 'mix1'}, PCPU=2)
            self.needs.setdefault(uuid, {})['mix1'] = {'PCPU': 2}
        for _ in range(3):
            self.assertEqual('', self.heal())
            self.assert_held()

    def test_refused_write_is_logged_once(self):
        """It is said once that Placement refuses, and done when it fits."""
        server = self.create('high')
        # As after the fallback of the scheduler on a host with PCPU.
        self.put(server, VCPU=2)
        other = {'id': uuids.other, 'host': 'mix1'}
        self.put(other, PCPU=15)
        said = self.heal()
        self.assertIn(server['id'], said)
        self.assertIn('Placement refused the request: ', said)
        self.assertIn('The requested amount would exceed the capacity', said)
        self.assertEqual('', self.heal())
        self._delete_server_allocations(other['id'])
        self.assertIn('Corrected the allocation', self.heal())
        self.assert_held()

    def test_conflicts(self):
        """Healing reads a changed allocation again, four times."""
        server = self.create('high')
        for number, said in ((3, 'Corrected the allocation'),
                             (4, '4 attempts failed')):
            self.drift([server])
            with self.conflicts(number):
                self.assertIn(said, self.heal())
        self.heal()
        self.assert_held()

    def test_unexpected_answer_does_not_fail_the_recount(self):
        """An unexpected answer does not fail the recount."""
        server = self.create('high')
        self.drift([server])
        with mock.patch('nova.scheduler.client.report.SchedulerReportClient.'
                        'put', return_value=self._page()):
            self.assertIn('answers /allocations/%s with status 503'
                          % server['id'], self.heal())
        with mock.patch.object(prio_allocations, 'find_drifted',
                               side_effect=AttributeError('new')):
            self.assertEqual('', self.heal())
        self.assertEqual(0, self.report('mix1').low_used)
        self.heal()
        self.assert_held()

    @staticmethod
    def _page():
        answer = requests.Response()
        answer.status_code, answer._content = 503, b'<html>'
        return answer

    def test_move_that_begins_meanwhile_prevents_the_write(self):
        """Healing does not write if a move has begun since."""
        server = self.create('high')
        self.drift([server])
        stock, amounts = prio_allocations.get_if_idle, itertools.count(3)

        def at_rest(cctxt, uuid):
            found = stock(cctxt, uuid)
            self.put(server, PCPU=next(amounts))
            return found

        with mock.patch.object(prio_allocations, 'get_if_idle', at_rest):
            self.assertIn('4 attempts failed', self.heal())
