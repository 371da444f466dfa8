# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio metrics``, compared with other commands."""

import dataclasses
import os
import time
from unittest import mock

import fixtures
from nova import context
from nova import exception
from nova import objects
from prometheus_client import parser

from nova_prio.admin.audit import finding
from nova_prio.admin import cloud_metrics
from nova_prio.admin.explain import judge
from nova_prio.model import cpu_capacity
from nova_prio.model import low_supply
from nova_prio.objects import host_report
from nova_prio.placement import allocations
from tests import commands
from tests.functional import base


class Metrics(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.start_seed_host('mix1')
        self.start_host('plain1', cpus=4, shared='0-3', ratio=2.0,
                        aggregate={'priority_ordinary': 'false'})
        self.start_host('stock1', cpus=4, driver='libvirt.LibvirtDriver')
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova_prio.prom')

    def measure(self, *arguments, status=0, words=''):
        """Run the command with --output; return dict, name -> labels -> value.

        :param words: these are in the standard error
        """
        found, _, said = commands.run(
            'metrics', '--output', self.path, *arguments, options=())
        self.assertEqual(status, found, said)
        self.assertIn(words, said)
        self.assertEqual(['nova_prio.prom'],
                         os.listdir(os.path.dirname(self.path)))
        with open(self.path) as file:
            return self.read(file.read())

    def read(self, text):
        """Return dict, name -> tuple of labels -> value.

        Each metric must have the labels and the help of ``METRICS``.
        """
        found = {}
        for family in parser.text_string_to_metric_families(text):
            metric = cloud_metrics.METRICS[family.name]
            self.assertEqual(('gauge', metric.help),
                             (family.type, family.documentation))
            for sample in family.samples:
                self.assertEqual(set(metric.labels), sample.labels.keys())
                found.setdefault(sample.name, {})[tuple(
                    map(sample.labels.get, metric.labels))] = sample.value
        return found

    def change_report(self, host, **values):
        """Write other values into the report of a host."""
        with self.record(host) as node:
            report = host_report.HostReport.from_stats(node.stats)
            text = host_report.HostReport.to_stats(
                dataclasses.replace(report, **values))
            node.stats = {**node.stats, host_report.STATS_KEY: text}
            node.save()

    def test_numbers_are_those_of_capacity_show(self):
        for flavor in self.high, self.low, self.low, self.plain:
            self.boot(flavor, az='nova:mix1')
        # It is unknown on the other host.
        self.change_report('mix1', low_supply=low_supply.LowSupply(
            cpu_percent=600, wait_percent=40))
        before = time.time()
        flavors = ['--flavor', self.high, '--flavor', self.low]
        found = self.measure(*flavors)
        _, rows, _ = commands.run('capacity', 'show')
        states = {'sold': 'Sold', 'sellable': 'Sellable', 'remaining': 'Left'}
        self.assertEqual(
            {(row['Host'], name, state): row['%s %s' % (name.title(), column)]
             for row in rows for name in cpu_capacity.Rows._fields
             for state, column in states.items()}, found['nova_prio_cpus'])
        self.assertEqual(12, found['nova_prio_cpus']['mix1', 'low', 'sold'])
        self.assertEqual({('mix1',): 6}, found['nova_prio_low_supply_cpus'])
        self.assertEqual({('mix1',): 0.4}, found['nova_prio_low_wait_ratio'])
        self.assertEqual(
            {('mix1', 'priority_mix=true', 'true'): 1,
             ('plain1', 'priority_ordinary=false', 'false'): 1},
            found['nova_prio_aggregate_info'])
        self.assertEqual({(kind,): 0 for kind in finding.REMEDIES},
                         found['nova_prio_audit_findings'])
        for name in ('blocked_cpus', 'partition_problem', 'report_problem',
                     'service_disabled', 'priority_disabled'):
            self.assertEqual({('mix1',): 0, ('plain1',): 0},
                             found['nova_prio_' + name], name)
        for name in 'service_seen', 'report_changed':
            times = found['nova_prio_%s_timestamp_seconds' % name]
            self.assertEqual({('mix1',), ('plain1',)}, times.keys())
            for seconds in times.values():
                self.assertTrue(0 <= before + 1 - seconds < 300, seconds)
        self.assertEqual({(): 1}, found['nova_prio_collection_success'])
        now = found['nova_prio_collection_timestamp_seconds'][()]
        self.assertTrue(before <= now <= time.time())
        self.assertEqual(cloud_metrics.METRICS.keys(), found.keys())

    def test_units_are_those_of_capacity_show(self):
        self.boot(self.high, az='nova:mix1')
        flavors = self.high, self.low
        names = {flavor: objects.Flavor.get_by_flavor_id(
            context.get_admin_context(), flavor).name for flavor in flavors}
        found = self.measure('--no-audit', '--flavor', self.high, '--flavor',
                             names[self.low], '--flavor', names[self.high])
        for flavor in flavors:
            _, rows, _ = commands.run('capacity', 'show', '--flavor', flavor)
            self.assertEqual(
                {row['Host']: row['Units'] for row in rows},
                {host: number for (host, name), number
                 in found['nova_prio_units'].items()
                 if name == names[flavor]})
        self.assertEqual(
            1, found['nova_prio_units']['mix1', names[self.high]])
        found = self.measure(
            '--no-audit', '--flavor', 'none', '--flavor', self.low,
            words="Flavor 'none' is omitted: --flavor is 'none'; allowed are")
        self.assertEqual({names[self.low]}, {
            name for _, name in found['nova_prio_units']})
        with mock.patch.object(judge.Judge, '__init__', autospec=True,
                               side_effect=exception.NovaException()):
            self.measure('--no-audit')
            self.measure('--flavor', self.low, status=1)

    def test_standard_output_has_the_same_metrics(self):
        status, found, _ = commands.run('metrics', options=(), load=self.read)
        self.assertEqual(0, status)
        self.assertEqual(self.measure()['nova_prio_cpus'],
                         found['nova_prio_cpus'])

    def test_problems_of_hosts(self):
        self.change_report('mix1', partition_problem='It is missing.',
                           blocked=frozenset({2, 3}), problem='It failed.')
        service, = self.api.get_services(host='plain1', binary='nova-compute')
        self.api.put_service(service['id'], {'status': 'disabled'})
        found = self.measure('--no-audit')
        for name, mix, plain in (
                ('blocked_cpus', 2, 0), ('partition_problem', 1, 0),
                ('report_problem', 1, 0), ('service_disabled', 0, 1)):
            self.assertEqual({('mix1',): mix, ('plain1',): plain},
                             found['nova_prio_' + name], name)
        self.assertNotIn('nova_prio_audit_findings', found)

    def test_host_that_host_disable_has_disabled(self):
        commands.run('host', 'disable', 'plain1', '--timeout', '0')
        disabled = 'nova_prio_priority_disabled'
        self.assertEqual({('mix1',): 0, ('plain1',): 1},
                         self.measure('--no-audit')[disabled])
        commands.run('host', 'enable', 'plain1', options=())
        self.assertEqual({('mix1',): 0, ('plain1',): 0},
                         self.measure('--no-audit')[disabled])

    def test_unreadable_report_has_no_rows(self):
        with self.record('mix1') as node:
            node.stats = {**node.stats, host_report.STATS_KEY: 'no JSON'}
            node.save()
        found = self.measure()
        self.assertEqual({('mix1',): 1, ('plain1',): 0},
                         found['nova_prio_report_problem'])
        self.assertEqual(
            {'plain1'}, {labels[0] for labels in found['nova_prio_cpus']})
        self.assertEqual(
            1, found['nova_prio_audit_findings']['unreadable_report',])

    def test_findings_of_the_audit_are_counted(self):
        for _ in range(2):
            server = self.boot(self.low, az='nova:mix1')
            self.placement.delete('/allocations/' + server['id'])
        found = self.measure()['nova_prio_audit_findings']
        self.assertEqual(
            {'missing_allocation': 2},
            {kind: number for (kind,), number in found.items() if number})

    def test_silent_cell_is_no_success(self):
        cell = self.host_mappings['mix1'].cell_mapping.uuid
        with mock.patch.object(
                context, 'scatter_gather_skip_cell0', autospec=True,
                return_value={cell: context.did_not_respond_sentinel}):
            found = self.measure('--no-audit', words=(
                'Cell %s does not answer' % cell))
        self.assertEqual({(): 0}, found['nova_prio_collection_success'])
        self.assertNotIn('nova_prio_cpus', found)

    def test_failure_replaces_the_old_numbers(self):
        self.measure()
        with mock.patch.object(
                context, 'scatter_gather_skip_cell0', autospec=True,
                side_effect=exception.NovaException('It is broken.')):
            found = self.measure(status=1, words='It is broken.')
        self.assertEqual({'nova_prio_collection_success',
                          'nova_prio_collection_timestamp_seconds'},
                         found.keys())
        self.assertEqual({(): 0}, found['nova_prio_collection_success'])

    def test_failure_of_placement_is_no_success(self):
        with mock.patch.object(
                allocations, 'get_json', autospec=True,
                side_effect=allocations.PlacementRefused('It is broken.')):
            found = self.measure(status=1, words='It is broken.')
        self.assertEqual({(): 0}, found['nova_prio_collection_success'])

    def test_file_that_cannot_be_written_is_refused(self):
        status, _, said = commands.run(
            'metrics', '--output', '/dev/null/f.prom', options=())
        self.assertEqual(1, status)
        self.assertIn("--output is '/dev/null/f.prom', which cannot be "
                      'written: Not a directory.', said)
