# SPDX-License-Identifier: Apache-2.0

"""Placement's mirror of the host aggregates."""

import contextlib
import io
from unittest import mock

from keystoneauth1 import exceptions as ks_exceptions
from nova.cmd import manage
import nova.conf
from nova import context
from nova import exception
from nova import objects
from oslo_upgradecheck import upgradecheck

from nova_prio.cmd import report
from nova_prio.cmd import status
from nova_prio.placement import allocations
from tests import commands
from tests.functional import base

CONF = nova.conf.CONF
CLIENT = 'nova.scheduler.client.report.SchedulerReportClient.'


class Mirror(base.FunctionalTest):
    """Two priority hosts, each with a correct or a wrong mirror."""

    def setUp(self):
        super().setUp()
        for host in 'mix1', 'mix2':
            self.start_seed_host(host)
        self.priority = self._aggregates['priority_mix=true']
        self.closed = self._create_aggregate('closed')
        self.admin_api.post_aggregate_action(self.closed, {'set_metadata': {
            'metadata': {'priority_ordinary': 'false'}}})

    def change(self, action, aggregate, host):
        """Add a host to an aggregate, or remove it."""
        self.admin_api.post_aggregate_action(
            aggregate, {action + '_host': {'host': host}})

    def lose(self, aggregate, host):
        """Add a host to an aggregate while the mirroring fails."""
        error = exception.ResourceProviderUpdateConflict(
            uuid=self.compute_rp_uuids[host], generation=1, error='conflict')
        with mock.patch(CLIENT + 'aggregate_add_host', side_effect=error):
            self.change('add', aggregate, host)

    def leave(self, aggregate, host):
        """Remove a host from an aggregate in Nova alone."""
        with mock.patch(CLIENT + 'aggregate_remove_host',
                        side_effect=exception.ResourceProviderNotFound(
                            name_or_uuid=host)):
            self.change('remove', aggregate, host)

    def uuid_of(self, aggregate):
        """Return the UUID of an aggregate in Nova and Placement."""
        return objects.Aggregate.get_by_id(
            context.get_admin_context(), aggregate).uuid

    def warnings(self):
        """Return the warnings of the upgrade check on host aggregates."""
        checks = status.Checks(CONF)
        with mock.patch('nova_prio.admin.host_inventory.connect_databases'):
            result = dict(checks._upgrade_checks)['Host aggregates'](checks)
        self.assertEqual(
            upgradecheck.Code.WARNING if result.details
            else upgradecheck.Code.SUCCESS, result.code)
        return result.details or ''

    def found(self, *arguments):
        """Return the rows of an audit."""
        code, rows, said = commands.run('audit', *arguments)
        self.assertEqual(
            report.FOUND if rows else report.CLEAN, code, (rows, said))
        return rows

    def fix(self):
        """Let the audit repair all findings."""
        _, rows, _ = commands.run('audit', '--fix')
        self.assertEqual({'fixed'}, {row['State'] for row in rows}, rows)

    def assert_agree(self):
        self.assertEqual('', self.warnings())
        self.assertEqual([], self.found())

    def sync(self):
        """Run the command of Nova that adds missing members to the mirror."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(
                0, manage.PlacementCommands().sync_aggregates(verbose=True))

    def test_audit_adds_host_to_mirror_of_priority_aggregate(self):
        self.assert_agree()
        self.change('remove', self.priority, 'mix1')
        self.lose(self.priority, 'mix1')
        self.change('remove', self.priority, 'mix2')
        self.boot(self.high, state='ERROR')
        self.change('add', self.priority, 'mix2')
        self.assertEqual(
            "Host mix1 of the host aggregate 'priority_mix=true' is not in "
            'that aggregate in Placement, which offers it to no priority '
            'instance; run "nova-manage placement sync_aggregates".',
            self.warnings())
        row, = self.found()
        self.assertEqual(
            ('mix1', 'wrong_aggregates', '', 'priority_mix=true', 'none'),
            tuple(row[name] for name in (
                'Host', 'Finding', 'Consumer', 'Needed', 'Placement')))
        self.assertIn('"nova-manage placement sync_aggregates" adds the',
                      row['Remedy'])
        self.sync()
        self.assert_agree()
        self.boot(self.high)

    def test_audit_adds_host_to_mirror_of_disabled_aggregate(self):
        for host in 'mix1', 'mix2':
            self.lose(self.closed, host)
        self.assertEqual(
            "Each of the hosts mix1, mix2 of the host aggregate 'closed' is "
            'not in that aggregate in Placement, which offers it to new '
            'ordinary instances; run "nova-manage placement '
            'sync_aggregates".', self.warnings())
        self.assertEqual(
            [(host, 'closed, priority_mix=true', 'priority_mix=true')
             for host in ('mix1', 'mix2')],
            [(row['Host'], row['Needed'], row['Placement'])
             for row in self.found()])
        self.fix()
        self.assert_agree()
        self.boot(self.plain, state='ERROR')

    def test_audit_removes_leftover_host_from_mirror(self):
        """Nova's command removes no member. The audit does."""
        self.change('add', self.closed, 'mix1')
        for aggregate in self.priority, self.closed:
            self.leave(aggregate, 'mix1')
        self.sync()
        said = self.warnings()
        for words in (
                "Host mix1 is not in the host aggregate 'priority_mix=true', "
                'but in that aggregate in Placement, which offers it to '
                'priority instances; run "nova-prio audit --fix", or take it ',
                "Host mix1 is not in the host aggregate 'closed', but in that "
                'aggregate in Placement, which offers it to no new ordinary '
                'instance; '):
            self.assertIn(words, said)
        row, = self.found()
        self.assertEqual(('none', 'closed, priority_mix=true'),
                         (row['Needed'], row['Placement']))
        provider = self.compute_rp_uuids['mix1']
        self.assertIn('resource provider aggregate set %s" removes' % provider,
                      row['Remedy'])
        self.fix()
        self.assertEqual([], self.found())
        self.assertEqual([], self.placement.get(
            '/resource_providers/%s/aggregates' % provider,
            version='1.1').body['aggregates'])

    def test_other_aggregates_are_not_compared(self):
        """Providers may be in them to share resources."""
        other = self._create_aggregate('other')
        self.lose(other, 'mix1')
        self.lose(self.closed, 'mix1')
        shared = self._create_aggregate('shared')
        uuid = self.uuid_of(shared)
        provider = self.compute_rp_uuids['mix1']
        url = '/resource_providers/%s/aggregates' % provider
        before = self.placement.get(url, version='1.1').body['aggregates']
        answer = self.placement.put(url, [*before, uuid], version='1.1')
        self.assertEqual(200, answer.status, answer.body)
        self.assertIn('sync_aggregates', self.warnings())
        self.fix()
        self.assert_agree()
        self.assertEqual(
            {uuid, *before, self.uuid_of(self.closed)},
            set(self.placement.get(url, version='1.1').body['aggregates']))

    def test_host_that_joins_during_an_audit_is_not_found(self):
        """The audit reads Nova's aggregates again before each finding."""
        stock = objects.AggregateList.get_all.__func__
        self.change('remove', self.priority, 'mix2')

        def get_all(cls, admin):
            found = stock(cls, admin)
            if next(first, None):
                self.change('add', self.priority, 'mix2')
            return found

        first = iter([True])
        with mock.patch.object(objects.AggregateList, 'get_all',
                               classmethod(get_all)):
            self.assertEqual([], self.found())

    def test_upgrade_check_without_placement(self):
        """One sentence states that the aggregates were not compared."""
        for error in (ks_exceptions.ConnectFailure('gone'),
                      ks_exceptions.MissingAuthPlugin('no plug-in')):
            with mock.patch(CLIENT + 'get', side_effect=error):
                self.assertEqual(
                    'The aggregates of Placement cannot be compared with the '
                    'host aggregates: %s; see [placement] in nova.conf, and '
                    'run this again.' % error, self.warnings())

    def test_upgrade_check_reads_each_aggregate_once(self):
        self.lose(self._create_aggregate('other'), 'mix1')
        with mock.patch.object(allocations, 'get_json',
                               side_effect=allocations.get_json) as answer:
            self.warnings()
        self.assertEqual(2, answer.call_count)
