# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio report`` with the records of a cloud."""

import json
import os
import tarfile
from unittest import mock

import fixtures

from nova_prio.admin.audit import guests
from nova_prio.admin.support import bundle
from nova_prio.objects import host_report
from nova_prio.placement import allocations
from tests import commands
from tests.functional import base

#: A secret that no option has.
LEAK = 'le4ked'


class SupportReport(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.start_seed_host('mix1')
        self.start_host('stock1', cpus=4, driver='libvirt.LibvirtDriver')

    def read(self):
        """Run the command; return the states, and the texts of the files."""
        path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'report.tar.gz')
        # The in-process test environment has connected the databases, and its
        # libvirt is only that of its services.
        with (mock.patch('nova_prio.admin.host_inventory.connect_databases'),
              mock.patch.object(
                  guests, 'connect', side_effect=guests.GuestsUnreadable)):
            status, rows, said = commands.run('report', '--output', path)
        self.assertEqual(0, status, said)
        with tarfile.open(path) as archive:
            texts = {os.path.basename(member.name):
                     archive.extractfile(member).read().decode()
                     for member in archive}
        return {row['File']: row['State'] for row in rows}, texts

    def read_data(self):
        """Return dict, name of a JSON file -> its data."""
        _, texts = self.read()
        return {name: json.loads(text) for name, text in texts.items()
                if name.endswith('.json')}

    def test_bundle_has_the_records_of_nova_and_placement(self):
        self._delete_server(self.boot(self.high, az='nova:mix1'))
        commands.run('host', 'disable', 'mix1', '--timeout', '0')
        states, texts = self.read()
        self.assertEqual(
            {'partitions.json', 'guests.json', 'log.txt'},
            {name for name, state in states.items() if state != bundle.OK},
            states)
        data = self.read_data()
        _, rows, _ = commands.run('capacity', 'show')
        self.assertEqual(
            [{'host': row['Host'], **{
                amount.lower(): {
                    name: row['%s %s' % (name.title(), amount)]
                    for name in ('high', 'low', 'ordinary')}
                for amount in ('Sold', 'Sellable', 'Left')}}
             for row in rows], data['capacity.json'])
        mix1, stock1 = data['reports.json']['hosts']
        self.assertEqual('0-7', mix1['report']['nova_prio_object.data'][
            'cpu_dedicated_set'])
        self.assertIsNone(stock1['report'])
        self.assertEqual([{'host': 'mix1', 'uuid': mix1['uuid']}],
                         data['disabled-hosts.json'])
        aggregate, = (each for each in data['aggregates.json']
                      if 'mix1' in each['hosts'])
        self.assertEqual('true', aggregate['metadata']['priority_mix'])
        self.assertEqual(
            {('mix1', True), ('stock1', True)},
            {(each['host'], each['is_up']) for each in data['services.json']
             if each['binary'] == 'nova-compute'})
        self.assertEqual([], data['audit.json'])

    def test_secrets_in_records_are_masked(self):
        aggregate, = self.api.api_get('/os-aggregates').body['aggregates']
        self.api.post_aggregate_action(aggregate['id'], {'set_metadata': {
            'metadata': {'admin_password': LEAK, 'priority_mix': 'true',
                         'url': 'https://user:%s@host/' % LEAK}}})
        with self.record('mix1') as node:
            report = host_report.HostReport.from_stats(node.stats)
            report.problem = 'libvirt says: password="%s"' % LEAK
            node.stats = {host_report.STATS_KEY: report.to_stats()}
            node.save()
        with self.record('stock1') as node:
            node.stats = {host_report.STATS_KEY: json.dumps({'token': LEAK})}
            node.save()
        service, = self.api.get_services(host='mix1', binary='nova-compute')
        self.api.put_service(service['id'], {
            'status': 'disabled', 'disabled_reason': 'token: %s' % LEAK})
        _, texts = self.read()
        self.assertNotIn(LEAK, str(texts))
        self.assertIn('libvirt says: password=***', texts['reports.json'])
        self.assertIn('https://***@host/', texts['aggregates.json'])
        self.assertIn('token: ***', texts['services.json'])

    def test_audit_and_placement(self):
        server = self.boot(self.high, az='nova:mix1', name='of-a-user')
        self._delete_server_allocations(server['id'])
        found = self.read_data()['audit.json']
        self.assertEqual(
            [('mix1', 'missing_allocation', server['id'])],
            [(each['host'], each['kind'], each['consumer']) for each in found])
        with mock.patch.object(
                allocations, 'get_json', autospec=True,
                side_effect=allocations.PlacementRefused('It is broken.')):
            states, texts = self.read()
        self.assertNotIn('of-a-user', str(texts))
        self.assertEqual('PlacementRefused: It is broken.',
                         states['disabled-hosts.json'])
        self.assertEqual(bundle.OK, states['capacity.json'])
