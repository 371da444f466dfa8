# SPDX-License-Identifier: Apache-2.0

"""The hosts and instances that the planner of moves reads from Nova."""

from unittest import mock

from nova import context as nova_context
from nova.scheduler.client import report as report_client
from nova.tests.functional.api import client
import os_resource_classes as orc

from nova_prio.admin.fleet import cloud_fleet
from nova_prio.model.planner import plan as planner
from tests.functional import base


class FleetTest(base.FunctionalTest):
    """A cloud whose guests can migrate."""

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()

    def read(self):
        """Return the CloudFleet after an update of each host."""
        for name in sorted(set(self.computes) - self.hosts_down):
            self.update_host(name)
        return cloud_fleet.read_fleet(
            nova_context.get_admin_context(),
            report_client.SchedulerReportClient())

    def usages(self, fleet):
        """Return dict, host -> usage, without the report at its beginning."""
        return {name: fleet.get_usage(name)._replace(host=None)
                for name in fleet.hosts}

    def execute(self, move):
        """Let nova-api move a server to the planned destination."""
        server = self.api.get_server(move.uuid)
        if move.way == 'live':
            self.live_migrate_to(move.uuid, move.destination)
        elif move.way == 'cold':
            self.api.post_server_action(
                move.uuid, {'migrate': {'host': move.destination}})
            self._wait_for_state_change(server, 'VERIFY_RESIZE')
            self.api.post_server_action(move.uuid, {'confirmResize': None})
            self._wait_for_state_change(server, server['status'])
        else:
            self._shelve_server(server, 'SHELVED_OFFLOADED')
        self.assertEqual(move.destination, self.host_of(server))

    def assert_plan_can_be_executed(self, cloud, plan):
        """Execute the moves; compare the plan with the records of Nova."""
        fleet = cloud.make_fleet()
        self.assertEqual((), plan.misses)
        for move in plan.moves:
            self.execute(move)
            fleet.move(*move[:2], move.destination)
            self.assertEqual(
                self.usages(self.read().make_fleet()), self.usages(fleet))

    def drain(self, name, number):
        """Plan and execute the drain of a host of this many servers."""
        cloud = self.read()
        plan = planner.plan_drain(cloud.make_fleet(), [name])
        self.assertEqual(number, len(plan.moves))
        self.assert_plan_can_be_executed(cloud, plan)
        self.assertEqual([], self.read().make_fleet().list_guests(name))


class DrainOfAllClasses(FleetTest):

    def setUp(self):
        super().setUp()
        self.flags(disk_allocation_ratio=2.0)
        self.flags(ram_allocation_ratio=1.5)
        for name in 'mix1', 'mix2':
            self.start_seed_host(name, cpus=24, dedicated='0-11',
                                 shared='12-23')
        self.start_seed_host('off1', mix=False)
        self.start_host('stock1', cpus=4, driver='libvirt.LibvirtDriver')
        mixed = self.flavor(4, **{'hw:cpu_policy': 'mixed',
                                  'hw:cpu_dedicated_mask': '0-1'})
        pinned = self.flavor(2, **{'hw:cpu_policy': 'dedicated'})
        isolated = self.flavor(2, **{'hw:cpu_priority': 'high',
                                     'hw:emulator_threads_policy': 'isolate'})
        self.servers = [self.boot(flavor, az='nova:mix1') for flavor in (
            self.high, self.low, self.plain, mixed, pinned, isolated)]

    def boot_group(self, policy, hosts):
        """Create servers of a new server group on hosts."""
        group = self.api.post_server_groups({'name': 'g', 'policy': policy})
        return [self._wait_for_state_change(self.api.post_server({
            'server': self._build_server(
                flavor_id=self.low, networks='none', az='nova:' + name),
            'os:scheduler_hints': {'group': group['id']}}), 'ACTIVE')
            for name in hosts]

    def test_drain_of_all_classes_is_executed_in_plan_order(self):
        apart = self.boot_group('anti-affinity', ['mix1', 'mix2'])
        self._stop_server(self.boot(
            self.flavor(1, **{'hw:cpu_priority': 'high'}), az='nova:mix1'))
        self.drain('mix1', 8)
        self.assertEqual('off1', self.host_of(apart[0]))

    def test_capacity_is_that_of_placement(self):
        self.start_host('stock2', cpus=8, dedicated='0-3', shared='4-7',
                        driver='libvirt.LibvirtDriver')
        self.boot(self.flavor(3, **{'hw:cpu_policy': 'mixed',
                                    'hw:cpu_dedicated_mask': '0'}),
                  az='nova:stock2')
        for host in self.read().hosts:
            inventories = self.resources(host.name)
            usages = self.resources(host.name, 'usages')
            for name, free in (
                    (orc.MEMORY_MB, host.free_memory_mb if host.report.mix
                     else host.free_memory_mb + host.overcommit_mb),
                    (orc.DISK_GB, host.free_disk_gb),
                    (orc.VCPU, capacity_left(host))):
                of_class = inventories[name]
                self.assertEqual(
                    int((of_class['total'] - of_class['reserved']) *
                        of_class['allocation_ratio']) - usages[name],
                    free, (host.name, name))

    def test_instances_that_must_not_move(self):
        locked, suspended, broken, resized, stays = (
            self.boot(self.low, az='nova:mix1') for _ in range(5))
        self.api.post_server_action(locked['id'], {'lock': {}})
        self._suspend_server(suspended)
        self.api.post_server_action(
            broken['id'], {'os-resetState': {'state': 'error'}})
        self.api.post_server_action(
            resized['id'], {'migrate': {'host': 'mix2'}})
        self._wait_for_state_change(resized, 'VERIFY_RESIZE')
        cloud = self.read()
        ways = {each.uuid: each.ways for each in cloud.instances}
        self.assertEqual(
            [('is locked', set()), ('', {'shelve'}),
             ('is in the state error', set()),
             ('has an in-flight migration', set()),
             ('', {'live', 'cold', 'shelve'})],
            [(cloud.details[each['id']].obstacle, ways[each['id']])
             for each in (locked, suspended, broken, resized, stays)])
        # The source of the resize still has the usage.
        plan = planner.plan_drain(cloud.make_fleet(), ['mix1'], ['live'])
        self.assertEqual(
            {locked['id'], suspended['id'], broken['id']},
            {miss.instance.uuid for miss in plan.misses})
        used = [each.report.used for each in cloud.hosts
                if each.name.startswith('mix')]
        rows = [each.needs.request.needed_rows for each in cloud.instances]
        self.assertEqual(
            [sum(each) for each in zip(*used)],
            [sum(each) + (4 if row == 1 else 0)
             for row, each in enumerate(zip(*rows))])
        self.host_down('mix1')
        cloud = self.read()
        self.assertEqual('is on a host whose nova-compute is down',
                         cloud.details[stays['id']].obstacle)
        with self.record('mix1') as node:
            node.hypervisor_type = 'ironic'
            node.save()
        self.assertEqual('is a bare metal server',
                         self.read().details[stays['id']].obstacle)

    def test_hosts_that_take_no_instances(self):
        def find_open(server, hosts=None):
            fleet = self.read().make_fleet(hosts)
            instance = fleet.instances[server['id']]
            return {name for name in fleet.hosts
                    if fleet.find_place(instance, name)} - {'mix1'}

        high, low, plain, *_ = self.servers
        self.assertEqual({'mix2', 'off1'}, find_open(high))
        self.assertEqual({'mix2', 'off1', 'stock1'}, find_open(plain))
        self.assertEqual({'off1'}, find_open(plain, {'mix1', 'off1'}))
        self.placement.put('/traits/CUSTOM_CPU_PRIORITY_DISABLED', None,
                           version='1.6')
        self._set_provider_traits(
            self.compute_rp_uuids['mix2'], ['CUSTOM_CPU_PRIORITY_DISABLED'])
        self.assertEqual({'off1'}, find_open(low))
        self.assertEqual({'mix2', 'off1', 'stock1'}, find_open(plain))
        self.host_disable('off1')
        self.host_down('mix2')
        self.assertEqual(set(), find_open(high))
        self.assertEqual({'stock1'}, find_open(plain))
        zone = self._create_aggregate('zone')
        self.api.post_aggregate_action(zone, {'set_metadata': {
            'metadata': {'availability_zone': 'z'}}})
        self.api.add_host_to_aggregate(zone, 'stock1')
        self.assertEqual(set(), find_open(plain))

    def test_refused_hosts_are_no_destinations(self):
        cloud = self.read()
        high = self.servers[0]['id']
        fleet = cloud.make_fleet(refused={high: frozenset(['mix2'])})
        self.assertIsNone(fleet.find_place(fleet.instances[high], 'mix2'))
        self.assertTrue(fleet.find_place(fleet.instances[high], 'off1'))


def capacity_left(host):
    """Return the VCPU of Placement that the rows of a host leave."""
    row = 'low' if host.report.mix else 'ordinary'
    return (getattr(host.report.sellable, row) -
            getattr(host.report.used, row))


class Disks(FleetTest):

    def boot_from_volume(self):
        """Create a server that boots from a volume; return it."""
        body = self._build_server(
            flavor_id=self.low, networks='none', image_uuid='')
        body['block_device_mapping_v2'] = [{
            'source_type': 'image', 'uuid': self.image(), 'volume_size': 1,
            'destination_type': 'volume', 'boot_index': 0}]
        return self._wait_for_state_change(
            self.api.post_server({'server': body}), 'ACTIVE')

    def test_disks_are_those_of_placement(self):
        self.start_seed_host()
        for flavor in (self.low, self.flavor(1, **{
                'hw:cpu_priority': 'low', 'resources:DISK_GB': '3'})):
            self.boot(flavor)
        self.boot_from_volume()
        cloud = self.read()
        self.assertEqual([11, 3, 10], [
            each.needs.disk_gb for each in cloud.instances])
        self.assertEqual(24, self.resources('mix1', 'usages')[orc.DISK_GB])
        self.assertIsNotNone(cloud.hosts[0].free_disk_gb)
        shared = self._post_resource_provider('shared')['uuid']
        self._set_provider_traits(shared, ['MISC_SHARES_VIA_AGGREGATE'])
        aggregate, = self.api.api_get('/os-aggregates').body['aggregates']
        self._set_aggregate(shared, aggregate['uuid'])
        self.assertIsNotNone(self.read().hosts[0].free_disk_gb)
        self._set_inventory(shared, {
            'resource_class': 'DISK_GB', 'total': 10000})
        self.assertIsNone(self.read().hosts[0].free_disk_gb)


class MovesMeanwhile(FleetTest):

    def test_no_move_is_missed(self):
        """One begins and one ends while the instances are read."""
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)
        begun, ended = (self.boot(self.low, az='nova:mix1')['id']
                        for _ in range(2))
        self.api.post_server_action(ended, {'migrate': {'host': 'mix2'}})
        self._wait_for_state_change({'id': ended}, 'VERIFY_RESIZE')
        iterate = cloud_fleet._iterate_instances

        def change(cctxt):
            """Read the instances, and let the moves go on."""
            yield from iterate(cctxt)
            self.api.post_server_action(ended, {'confirmResize': None})
            self._wait_for_state_change({'id': ended}, 'ACTIVE')
            self.api.post_server_action(begun, {'migrate': {'host': 'mix2'}})
            self._wait_for_state_change({'id': begun}, 'VERIFY_RESIZE')

        with mock.patch.object(cloud_fleet, '_iterate_instances', change):
            cloud = self.read()
        self.assertEqual({begun, ended}, {
            each.instance_uuid for each in cloud.migrations})
        self.assertEqual([begun], [
            each.instance_uuid for each in self.read().migrations])


class TwoCells(FleetTest):
    """Two hosts, each in a cell of Nova of its own."""

    NUMBER_OF_CELLS = 2

    def test_no_instance_leaves_its_cell(self):
        for name, cell in ('mix1', 'cell1'), ('mix2', 'cell2'):
            self.start_seed_host(name, nova_cell=cell)
        servers = [self.boot(self.low, az='nova:' + host)['id']
                   for host in ('mix1', 'mix2')]
        cloud = self.read()
        self.assertEqual(set(servers), set(cloud.details))
        miss, = planner.plan_drain(
            cloud.make_fleet(), ['mix1'], ['live']).misses
        self.assertIn('not in aggregate of the cell', miss.reason)
        error = self.assertRaises(
            client.OpenStackApiException, self.api.post_server_action,
            servers[0], {'os-migrateLive': {
                'host': 'mix2', 'block_migration': 'auto'}})
        self.assertIn('Compute host mix2 could not be found', str(error))
        silent = self.host_mappings['mix1'].cell_mapping.uuid
        read = nova_context.scatter_gather_skip_cell0
        with mock.patch.object(
                nova_context, 'scatter_gather_skip_cell0',
                lambda *args, **kwargs: {
                    **read(*args, **kwargs),
                    silent: nova_context.did_not_respond_sentinel}):
            cloud = self.read()
        self.assertEqual((silent,), cloud.silent_cells)
        self.assertEqual({servers[1]}, set(cloud.details))
        self.assertEqual(['mix2'], [host.name for host in cloud.hosts])


class DrainWithCells(FleetTest):

    def test_drain_of_hosts_with_two_cells(self):
        options = dict(cpus=16, cells=2, dedicated='0-5,8-13',
                       shared='6-7,14-15')
        for name in 'mix1', 'mix2':
            self.start_seed_host(name, **options)
        for vcpus, extra_specs in (
                (3, {'hw:cpu_priority': 'high'}),
                (2, {'hw:cpu_priority': 'high'}),
                (4, {'hw:cpu_priority': 'high', 'hw:numa_nodes': '2'}),
                (4, {'hw:cpu_priority': 'low', 'hw:numa_nodes': '2'}),
                (2, {'hw:cpu_priority': 'low', 'hw:numa_nodes': '1'}),
                (2, {'hw:numa_nodes': '1'}),
                (3, {'hw:cpu_policy': 'mixed',
                     'hw:cpu_dedicated_mask': '0'})):
            self.boot(self.flavor(vcpus, **extra_specs), az='nova:mix1')
        self.boot(self.low, az='nova:mix2')
        self.boot(self.flavor(2, **{'hw:cpu_priority': 'high'}),
                  az='nova:mix2')
        self.drain('mix1', 7)
