# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio explain``, at each stage of a request."""

from unittest import mock

import fixtures
from keystoneauth1 import exceptions as ks_exceptions
from nova import context
from nova import exception
from nova import objects
from nova.scheduler.client import report as report_client
from oslo_db import exception as db_exception
from oslo_utils import uuidutils
import tenacity

from nova_prio.admin.explain import copies
from nova_prio.admin.explain import judge
from nova_prio.admin.explain import requests
from nova_prio.cmd import report
from nova_prio.placement import refused_providers
from nova_prio_scenario import cloud
from tests import commands
from tests.functional import base
from tests.functional import devices


class Explained(base.FunctionalTest):
    """A cloud with a method that runs the command."""

    def explain(self, *arguments, status=0):
        """Run the command; return dict, host -> its row.

        ``said`` is the standard error.
        """
        found, rows, self.said = commands.run('explain', *arguments)
        self.assertEqual(status, found, self.said)
        return {row['Host']: row for row in rows or ()}

    def boot_in_group(self, group, state='ACTIVE'):
        """Create a high-priority server of a group; return it."""
        server = self.api.post_server({
            'server': self._build_server(
                flavor_id=self.high, networks='none'),
            'os:scheduler_hints': {'group': group}})
        return self._wait_for_state_change(server, state)

    def assert_refused(self, result, reason, row):
        """Check the row of a host that refuses."""
        self.assertEqual((result, reason, None, None), (
            row['Result'], row['Reason'], row['Rank'], row['Weight']))


class Stages(Explained):

    def setUp(self):
        super().setUp()
        self.start_seed_host('mix1')
        self.start_seed_host('off1', mix=False)
        self.start_host('plain1', cpus=4, shared='0-3', ratio=2.0,
                        aggregate={'priority_ordinary': 'false'})
        self.start_host('stock1', cpus=4, driver='libvirt.LibvirtDriver')

    def test_passing_hosts_have_rank_and_weight(self):
        self.boot(self.low, az='nova:mix1')
        for flavor, expected in (
                (self.high, {'mix1': (1, 8), 'off1': (2, 8)}),
                (self.low, {'mix1': (1, 12), 'off1': (2, 8)}),
                (self.plain, {'stock1': (1, 16), 'off1': (2, 8),
                              'mix1': (3, 4)})):
            found = {host: (row['Rank'], row['Weight'])
                     for host, row in self.explain('--flavor', flavor).items()
                     if row['Result'] == 'passes'}
            self.assertEqual(expected, found)
            self.assertIn('%d of 4 hosts pass as of now' % len(expected),
                          self.said)
        self.assertIn('Not evaluated: the weighers of nova.', self.said)

    def test_host_with_failed_builds_is_named(self):
        """Nova avoids it until a build succeeds there."""
        with mock.patch.object(self.computes['mix1'].driver, 'spawn',
                               side_effect=exception.NovaException()):
            for _ in range(2):
                self.boot(self.low, az='nova:mix1', state='ERROR')
        # nova-compute counts a failed build after the instance has failed.
        self.wait_for_failed_builds(2)
        self.update_host('mix1')
        reason = ('failed builds here since the last success: 2; Nova '
                  'prefers hosts with fewer')
        for multiplier, expected in ((1000000.0, reason), (0.0, '')):
            self.flags(build_failure_weight_multiplier=multiplier,
                       group='filter_scheduler')
            row = self.explain('--flavor', self.low)['mix1']
            self.assertEqual(
                ('passes', expected), (row['Result'], row['Reason']))
        self.flags(build_failure_weight_multiplier=1000000.0,
                   group='filter_scheduler')
        self.boot(self.low, az='nova:mix1')
        self.wait_for_failed_builds(0)
        self.update_host('mix1')
        self.assertEqual(
            '', self.explain('--flavor', self.low)['mix1']['Reason'])

    @tenacity.retry(wait=tenacity.wait_fixed(0.1), reraise=True,
                    stop=tenacity.stop_after_delay(30))
    def wait_for_failed_builds(self, number):
        """Wait until the nova-compute of mix1 counts failed builds."""
        stats = self.computes['mix1'].rt.stats['mix1']
        self.assertEqual(number, stats['failed_builds'])

    def test_request_filters_restrict_traits_and_aggregates(self):
        rows = self.explain('--flavor', self.high)
        self.assert_refused('request filter', 'is in no aggregate with '
                            'priority_mix=true', rows['plain1'])
        self.assert_refused(
            'request filter', 'lacks the trait CUSTOM_CPU_PRIORITY; is in no '
            'aggregate with priority_mix=true', rows['stock1'])
        rows = self.explain('--flavor', self.plain)
        self.assert_refused('request filter', 'is in the forbidden aggregate '
                            'priority_ordinary=false', rows['plain1'])
        service, = self.api.get_services(host='off1', binary='nova-compute')
        self.api.put_service(service['id'], {'status': 'disabled'})
        self.assert_refused(
            'request filter', 'has the forbidden trait '
            'COMPUTE_STATUS_DISABLED', self.explain(
                '--flavor', self.high)['off1'])

    def test_placement_counts_each_resource(self):
        for _ in range(2):
            self.boot(self.high, az='nova:mix1')
        self.boot(self.high, az='nova:off1')
        wide = self.flavor(6, **{'hw:cpu_priority': 'high'})
        rows = self.explain('--flavor', wide, status=3)
        self.assert_refused('Placement', '6 PCPU needed, 0 free of 8',
                            rows['mix1'])
        self.assert_refused('Placement', '6 PCPU needed, 4 free of 8',
                            rows['off1'])
        self.assertIn('No host passes as of now. Closest is off1, which '
                      'lacks 2 PCPU (Placement).', self.said)
        rows = self.explain('--flavor', self.flavor(13), status=3)
        self.assert_refused('Placement', '13 VCPU needed, 12 at most for one '
                            'instance', rows['mix1'])
        self.assertIn('No host is only short of resources. Most frequent, on',
                      self.said)

    def test_bulk_reads_give_the_same_reasons(self):
        self.boot(self.high, az='nova:mix1')
        flavors = [self.high, self.low, self.plain, self.flavor(
            6, **{'hw:cpu_priority': 'high'})]
        one_by_one = [self.explain('--flavor', flavor) for flavor in flavors]
        self.useFixture(fixtures.MockPatchObject(
            refused_providers, '_FEW', 0))
        self.assertEqual(one_by_one, [
            self.explain('--flavor', flavor) for flavor in flavors])
        rows = self.explain('--flavor', self.flavor(13), status=3)
        self.assert_refused(
            'Placement', '13 VCPU needed, not allowed for one instance '
            '(max_unit, min_unit or step_size)', rows['mix1'])

    def test_priority_filter_gives_its_reason(self):
        for _ in range(2):
            self.boot(self.plain, az='nova:mix1')
        rows = self.explain('--flavor', self.plain, '--host', 'mix1',
                            status=3)
        self.assert_refused(
            'PriorityFilter', 'ordinary_capacity: the ordinary row has 0 of 8 '
            'vCPUs free, 4 are needed', rows['mix1'])
        self.assertEqual(['mix1'], list(rows))
        self.assertIn('Closest is mix1, which lacks 4 vCPUs in the ordinary '
                      'row (PriorityFilter).', self.said)

    def test_hint_and_image_count(self):
        rows = self.explain('--flavor', self.plain, '--hint', 'low')
        self.assertEqual(16, rows['mix1']['Weight'])
        image = self.image(hw_numa_nodes=2)
        rows = self.explain('--flavor', self.high, '--image', image, status=3)
        self.assert_refused(
            'PriorityFilter', 'numa_topology: the NUMA topology of the '
            'instance does not fit on the host', rows['mix1'])

    def test_server_without_host_is_explained(self):
        wide = self.flavor(9, **{'hw:cpu_priority': 'high'})
        server = self.boot(wide, 'ERROR')
        self.assertEqual(self.explain('--flavor', wide, status=3),
                         self.explain(server['id'], status=3))
        self.assertIn('The fault of the server: No valid host was found.',
                      self.said)

    def test_failed_ordinary_server_is_explained_as_a_new_one(self):
        server = self.boot(self.flavor(20), 'ERROR')
        rows = self.explain(server['id'], '--host', 'plain1', status=3)
        self.assert_refused('request filter', 'is in the forbidden aggregate '
                            'priority_ordinary=false', rows['plain1'])

    def test_server_with_host_is_explained_as_a_move(self):
        """Its forced host, and what it uses there, do not count."""
        wide = self.flavor(8, **{'hw:cpu_priority': 'high'})
        server = self.boot(wide, az='nova:mix1')
        rows = self.explain(server['id'])
        self.assert_refused('nova-scheduler', 'the server is on this host; a '
                            'move needs another host', rows['mix1'])
        self.assertEqual('passes', rows['off1']['Result'])
        self.assertIn('The server is on mix1: the answer is about a move to '
                      'another host.', self.said)

    def test_every_enabled_filter_decides(self):
        self.start_seed_host('mix2')
        group = self.api.post_server_groups(
            {'name': 'apart', 'policy': 'anti-affinity'})['id']
        for _ in range(3):
            self.boot_in_group(group)
        fourth = self.boot_in_group(group, 'ERROR')
        rows = self.explain(fourth['id'], status=3)
        for host in 'mix1', 'mix2', 'off1':
            self.assertEqual('ServerGroupAntiAffinityFilter',
                             rows[host]['Result'])
        self.assertIn('No host passes as of now.', self.said)

    def test_filter_that_cannot_run_is_named(self):
        filters = cloud.CONF.filter_scheduler.enabled_filters
        self.flags(enabled_filters=[*filters, 'OtherFilter'],
                   group='filter_scheduler')
        self.explain('--flavor', self.high)
        self.assertIn('2 of 4 hosts may pass as of now: filter OtherFilter '
                      'cannot run here', self.said)

    def test_placement_names_what_is_wrong_with_a_request(self):
        image = self.image(**{'trait:HW_CPU_X86_AVX': 'required'})
        for spec, value, more in (
                ('trait:CUSTOM_NONE', 'required', ()),
                ('trait:CUSTOM_NONE', 'forbidden', ()),
                ('resources:CUSTOM_NONE', '1', ()),
                ('trait:HW_CPU_X86_AVX', 'forbidden', ('--image', image))):
            rows = self.explain('--flavor', self.flavor(**{spec: value}),
                                *more, status=3)
            self.assertEqual('Placement', rows['off1']['Result'])
            self.assertRegex(rows['off1']['Reason'], (
                '^Placement refuses the request: .*' + spec.split(':')[1]))
            self.assertNotIn('incorrect', rows['off1']['Reason'])

    def test_forced_host_is_refused_by_nova_compute(self):
        for _ in range(2):
            self.boot(self.plain, az='nova:mix1')
        server = self.boot(self.plain, 'ERROR', az='nova:mix1')
        rows = self.explain(server['id'], status=3)
        self.assertEqual('nova-compute', rows['mix1']['Result'])

    def test_flavor_is_explained_though_projects_are_restricted(self):
        self.flags(limit_tenants_to_placement_aggregate=True,
                   group='scheduler')
        rows = self.explain('--flavor', self.low)
        self.assertEqual('passes', rows['mix1']['Result'])

    def test_wrong_arguments_are_refused(self):
        unknown = 'c0ffee00-0000-4000-8000-000000000000'
        server = self.boot(self.low)['id']
        for arguments, words in (
                ([], 'Neither SERVER nor --flavor'),
                ([server, '--flavor', self.low], 'Both SERVER and --flavor'),
                ([server, '--hint', 'low'], "--hint is 'low', which is "),
                ([unknown], "SERVER is '%s'; allowed are UUIDs" % unknown),
                (['--flavor', 'none'], "--flavor is 'none'; allowed are"),
                (['--flavor', self.low, '--host', 'none'],
                 "--host is 'none'; allowed are names of compute hosts."),
                (['--flavor', self.low, '--hint', 'some'], "'some'"),
                (['--flavor', self.low, '--hint', 'high'], "'high'"),
                (['--flavor', self.low, '--image', unknown],
                 "--image is '%s', which cannot be read: " % unknown)):
            self.explain(*arguments, status=1)
            self.assertIn(words, self.said)
            self.assertEqual(1, len(self.said.splitlines()), self.said)

    def test_unreachable_services_are_named(self):
        server = self.boot(self.low)['id']
        with mock.patch('nova.objects.Instance.get_by_uuid',
                        side_effect=db_exception.DBError()):
            self.explain(server, status=1)
        self.assertIn('in a cell that does not answer', self.said)
        with mock.patch('nova.objects.ComputeNodeList.get_all',
                        side_effect=db_exception.DBError()):
            self.assertEqual({}, self.explain('--flavor', self.low, status=3))
            self.assertIn('does not answer; its hosts are omitted', self.said)
            self.assertIn('There are no hosts.', self.said)
        self.useFixture(fixtures.MockPatch(
            'nova.scheduler.client.report.SchedulerReportClient.get',
            side_effect=ks_exceptions.ConnectFailure('no route')))
        self.explain('--flavor', self.low, status=1)
        self.assertIn('Placement does not answer: no route.', self.said)


class Copies(Explained):
    """The judge on states that do not exist yet."""

    def decide(self, flavor):
        """Return the decision about a new server of a flavor."""
        return self.judge.decide(requests.build_request(
            self.context, cloud.CONF, objects.Flavor.get_by_flavor_id(
                self.context, flavor), {}, None), before_moves=True)

    def test_each_class_is_judged_on_the_whole_host(self):
        """The floating CPUs of the first instance are not those of others."""
        self.context = context.get_admin_context()
        self.start_seed_host(cpus=16, cells=2, dedicated='0-5,8-9',
                             shared='6-7,10-15')
        placement = report_client.SchedulerReportClient()
        self.judge = judge.Judge(self.context, placement)
        world = copies.Copies(self.context, placement, self.judge)
        low = self.flavor(1, **{'hw:cpu_priority': 'low',
                                'hw:numa_nodes': '1'})
        plain = self.flavor(4, **{'hw:numa_nodes': '1'})
        self.assertIsNone(world.arrive(
            self.decide(low), uuidutils.generate_uuid(), 'mix1'))
        refusals = [world.arrive(
            self.decide(plain), uuidutils.generate_uuid(), 'mix1')
            for _ in range(4)]
        self.assertEqual([None, None, None], refusals[:3])
        self.assertIn('numa_topology', refusals[3].reason)
        for flavor in low, plain, plain, plain:
            self.boot(flavor)
        self.boot(plain, 'ERROR')


class SeveralNodes(Explained):
    """A host with two compute nodes, as one of Ironic."""

    def setUp(self):
        super().setUp()
        self.start_seed_host()
        self.start_host('multi', cpus=4, driver='libvirt.LibvirtDriver')
        second = self._post_resource_provider('node2')['uuid']
        with self.record('multi') as node:
            values = {name: getattr(node, name) for name in node.fields
                      if node.obj_attr_is_set(name) and name != 'id'}
            values.update(uuid=second, hypervisor_hostname='node2')
            objects.ComputeNode(node._context, **values).create()
        for name, inventory in self.resources('multi').items():
            self._set_inventory(second, {
                **inventory, 'resource_class': name})
        self._set_provider_traits(second, self.traits('multi'))

    def test_each_node_has_an_answer(self):
        nodes = {'multi:multi', 'multi:node2'}
        rows = self.explain('--flavor', self.plain)
        self.assertEqual({'mix1'} | nodes, rows.keys())
        self.assertEqual({'passes'}, {row['Result'] for row in rows.values()})
        rows = self.explain('--flavor', self.plain, '--host', 'multi')
        self.assertEqual(nodes, rows.keys())
        rows = self.explain('--flavor', self.plain, '--host', 'multi:node2')
        self.assertEqual({'multi:node2'}, rows.keys())

    def test_request_may_name_a_node(self):
        server = self.boot(self.flavor(20), 'ERROR', az='nova:multi:node2')
        rows = self.explain(server['id'], status=3)
        for name in 'mix1', 'multi:multi':
            self.assert_refused('Placement', 'the request names another host',
                                rows[name])
        self.assertIn('20 VCPU needed', rows['multi:node2']['Reason'])

    def test_moves_of_its_guests_are_not_planned(self):
        server = self.boot(self.plain, az='nova:multi:multi')
        rows = self.explain(server['id'])
        for name in 'multi:multi', 'multi:node2':
            self.assertIn('a move needs another host', rows[name]['Reason'])
        status, _, said = commands.run('host', 'drain', 'multi', '--dry-run')
        self.assertEqual(1, status)
        self.assertIn('allowed are names of compute hosts with one compute '
                      'node', said)
        self.boot(self.low, az='nova:mix1')
        status, _, said = commands.run(
            'room', 'plan', '--flavor', self.high, '--count', '3')
        self.assertEqual(report.FOUND, status, said)
        # A plan may be older than the records of the judge.
        admin = context.get_admin_context()
        placement = report_client.SchedulerReportClient()
        world = copies.Copies(
            admin, placement, judge.Judge(admin, placement))
        instance = requests.read_instance(admin, server['id'])
        world.depart(instance)


class NoAggregate(Explained):

    def test_request_filter_may_refuse_the_request(self):
        self.start_seed_host(aggregate=None)
        rows = self.explain('--flavor', self.high, status=3)
        self.assertEqual('request filter', rows['mix1']['Result'])
        self.assertIn('No host aggregate has the metadata priority_mix=true',
                      rows['mix1']['Reason'])

    def test_aggregate_of_a_zone_may_be_a_priority_aggregate(self):
        """Both aggregates are named for the priority, only one for a zone."""
        for name in '1', '2':
            self.start_seed_host('mix' + name, aggregate={
                'priority_mix': 'true', 'availability_zone': 'z' + name})
        eight = self.flavor(8, **{'hw:cpu_priority': 'high'})
        self.boot(eight, az='z1')
        server = self.boot(eight, 'ERROR', az='z1')
        rows = self.explain(server['id'], status=3)
        self.assert_refused('Placement', '8 PCPU needed, 0 free of 8',
                            rows['mix1'])
        self.assertRegex(rows['mix2']['Reason'], 'is in no aggregate with ')


class TwoCells(Explained):
    """Two hosts, each in a cell of Nova of its own."""

    NUMBER_OF_CELLS = 2

    def test_shelved_server_stays_in_its_cell(self):
        self.flags(shelved_offload_time=0)
        for name, cell in ('mix1', 'cell1'), ('mix2', 'cell2'):
            self.start_seed_host(name, nova_cell=cell)
        server = self.boot(self.flavor(8, **{'hw:cpu_priority': 'high'}),
                           az='nova:mix1')
        self._shelve_server(server, 'SHELVED_OFFLOADED')
        self.boot(self.high, az='nova:mix1')
        rows = self.explain(server['id'], status=3)
        self.assertIn('the server is in another cell', rows['mix2']['Reason'])
        self.assertIn('8 PCPU needed', rows['mix1']['Reason'])


class Devices(devices.FunctionsOnHosts, Explained):
    """Hosts with PCI devices."""

    def test_claim_of_devices_on_a_forced_host_fails(self):
        self.start_seed_host('mix1')
        for number, state in (self.FUNCTIONS, 'ACTIVE'), (1, 'ERROR'):
            server = self.boot(self.flavor(1, **{
                'hw:cpu_priority': 'low',
                'pci_passthrough:alias': 'function:%d' % number}),
                az='nova:mix1', state=state)
        row = self.explain(server['id'], status=3)['mix1']
        self.assertIn('Claim pci failed', self.said)
        self.assert_refused(
            'nova-compute', 'the requested PCI devices are not free', row)
