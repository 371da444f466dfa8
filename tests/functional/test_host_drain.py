# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host drain``."""

from unittest import mock

from nova import context
from nova import exception
from nova import objects
from nova.tests.fixtures import libvirt

from nova_prio.admin.explain import judge
from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import services
from nova_prio.cmd import report
from nova_prio.compat import contract
from tests import commands
from tests.functional import base
from tests.functional import devices
from tests.functional import maintenance

PRE_LIVE_MIGRATION = (
    'nova.virt.libvirt.driver.LibvirtDriver.pre_live_migration')
UPDATE_NUMA_XML = 'nova.virt.libvirt.migration._update_numa_xml'
LIVE_MIGRATION = 'nova.compute.rpcapi.ComputeAPI.live_migration'


class HostDrain(maintenance.Maintenance):

    def create_all(self):
        """Create a server of each class on mix1; return dict, name -> ID."""
        mixed = self.flavor(2, **{'hw:cpu_policy': 'mixed',
                                  'hw:cpu_dedicated_mask': '0'})
        high = self.flavor(2, **{'hw:cpu_priority': 'high'})
        servers = {name: self.boot(flavor, az='nova:mix1')
                   for name, flavor in (
                       ('high', high), ('low', self.low),
                       ('ordinary', self.flavor(1)), ('mixed', mixed))}
        self._stop_server(servers['low'])
        return {name: server['id'] for name, server in servers.items()}

    def hosts(self, servers):
        """Return dict, name -> host of a server."""
        return {name: self.host_of({'id': uuid})
                for name, uuid in servers.items()}

    def test_all_classes_leave_and_the_service_is_disabled(self):
        servers = self.create_all()
        planned = self.drain('mix1', '--dry-run')
        self.assertEqual(
            [('live', 'mix1', 'mix2', 'planned')] * 3 + [
                ('cold', 'mix1', 'mix2', 'planned')],
            [(row['Way'], row['Source'], row['Destination'], row['State'])
             for row in planned.values()])
        self.assertIn('Nothing was changed. Hosts: mix1; moves: 4;', self.said)
        self.assert_service('mix1', 'enabled')
        self.assertEqual({'mix1'}, set(self.hosts(servers).values()))
        self.assertEqual({}, self.drain('mix1', '--concurrency', '2'))
        self.assertIn('mix1: no instances. Next: maintain the host, then run '
                      '"nova-prio host return mix1".', self.said)
        self.assert_service('mix1', 'disabled', services.REASON)
        self.assertEqual({'mix2'}, set(self.hosts(servers).values()))
        self.assertEqual('SHUTOFF', self.api.get_server(
            servers['low'])['status'])
        self.assertIn('CUSTOM_CPU_PRIORITY', self.traits('mix1'))

    def test_refused_destination_is_tried_elsewhere(self):
        server = self.boot(self.high, az='nova:mix1')
        self.start_seed_host('mix3')
        stock, called = self.computes['mix2'].driver.pre_live_migration, []

        def refuse(*args, **kwargs):
            called.append(1)
            raise exception.MigrationPreCheckError(reason='no storage')

        for name in 'mix2', 'mix3':
            self.computes[name].driver.pre_live_migration = (
                lambda *args, **kwargs: (stock if called else refuse)(
                    *args, **kwargs))
        self.drain('mix1')
        self.assertIn('refused, because Migration pre-check error: no storage',
                      self.said)
        self.assertEqual(2, len(self.migrations_of(server['id'])))

    def test_equal_guests_are_judged_once(self):
        """As are those of the other hosts."""
        low = {'hw:cpu_priority': 'low'}
        equal = self.flavor(1, **low)
        for name in 'mix1', 'mix2':
            self.boot_with_count(equal, name, number=3)
            self.boot(self.flavor(1, **low), az='nova:' + name)
        decided = []
        stock = judge.Judge.decide

        def decide(of_cloud, spec, **kwargs):
            """Count the decisions about each flavor."""
            decided.append(spec.flavor.flavorid)
            return stock(of_cloud, spec, **kwargs)

        with mock.patch.object(judge.Judge, 'decide', decide):
            rows = self.drain('mix1', '--dry-run')
            self.assertEqual(4, len(rows))
            self.assertEqual(1, decided.count(equal))
            self.assertEqual(2, len(decided))
            decided.clear()
            found, rows, said = commands.run('capacity', 'show',
                                             '--after-loss')
        self.assertEqual(report.CLEAN, found, said)
        self.assertEqual(2, len(rows))
        self.assertEqual(1, decided.count(equal))
        self.assertEqual(3, len(decided))

    def boot_with_count(self, flavor, host, number):
        """Create servers with one request."""
        body = self._build_server(
            flavor_id=flavor, networks='none', az='nova:' + host)
        body.update(min_count=number, max_count=number,
                    return_reservation_id=True)
        self.wait_for_request(self.api.post_server({'server': body}))

    def test_nova_chooses_the_host(self):
        """Of five hosts, two have a trait that the flavor requires."""
        for number in 3, 4, 5:
            self.start_seed_host('mix%d' % number)
        for name in 'mix1', 'mix5':
            self.add_trait(name, 'CUSTOM_NIC_FAST')
        server = self.boot(self.flavor(2, **{
            'hw:cpu_priority': 'high', 'trait:CUSTOM_NIC_FAST': 'required'}),
            az='nova:mix1')
        planned = self.drain('mix1', '--dry-run')
        self.assertEqual('mix5', planned[server['id']]['Destination'])
        self.drain('mix1')
        self.assertEqual('mix5', self.host_of(server))
        self.assertEqual(1, len(self.migrations_of(server['id'])))

    def test_instances_stay_within_an_aggregate(self):
        self.start_seed_host('mix3')
        aggregate = self.api.post_aggregate(
            {'aggregate': {'name': 'rack'}})['id']
        self.api.add_host_to_aggregate(aggregate, 'mix3')
        # Nova would prefer the empty host.
        self.boot(self.high, az='nova:mix3')
        server = self.boot(self.high, az='nova:mix1')
        self.drain('mix1', '--within', 'rack')
        self.assertEqual('mix3', self.host_of(server))
        self.drain('mix3', '--within', 'other', status=report.FAILED)
        self.assertIn("--within is 'other'; allowed are names of", self.said)

    def test_nothing_is_disabled_if_no_instance_can_leave(self):
        server = self.boot(self.flavor(8, **{'hw:cpu_priority': 'high'}),
                           az='nova:mix1')
        self.boot(self.high, az='nova:mix2')
        rows = self.drain('mix1', status=report.FOUND)
        self.assertIn('mix2 lacks least: 8 PCPU needed, 4 free of 8',
                      rows[server['id']]['Reason'])
        self.assertIn('Nothing was changed: no instance can leave. Instances '
                      'left on mix1: 1. Act on each', self.said)
        self.assert_service('mix1', 'enabled')

    def test_nothing_is_disabled_for_an_instance_without_an_allowed_way(self):
        """Another host has room for the instance."""
        server = self.boot(self.high, az='nova:mix1')
        self.api.post_server_action(server['id'], {'suspend': None})
        self._wait_for_state_change(server, 'SUSPENDED')
        rows = self.drain('mix1', status=report.FOUND)
        self.assertEqual('is suspended: only --allow shelve moves it',
                         rows[server['id']]['Reason'])
        self.assert_service('mix1', 'enabled')

    def test_instances_leave_a_host_in_a_disabled_cell(self):
        """Nova disables a cell for new instances only."""
        server = self.boot(self.high, az='nova:mix1')
        for cell in objects.CellMappingList.get_all(
                context.get_admin_context()):
            if not cell.is_cell0():
                cell.disabled = True
                cell.save()
        self.scheduler.manager.host_manager.refresh_cells_caches()
        _, rows, _ = commands.run('explain', '--flavor', self.high)
        self.assertEqual({'cell'}, {row['Result'] for row in rows})
        self.drain('mix1')
        self.assertEqual('mix2', self.host_of(server))

    def test_no_instance_is_live_migrated_to_an_older_hypervisor(self):
        server = self.boot(self.high, az='nova:mix1')
        with self.record('mix1') as node:
            newer = node.hypervisor_version + 1
        with mock.patch.object(self.computes['mix1'].driver._host,
                               'get_version', return_value=newer):
            rows = self.drain('mix1', status=report.FOUND)
            self.assertEqual(
                'is on a newer or another hypervisor',
                rows[server['id']]['Reason'])
            self.assert_service('mix1', 'enabled')
            self.drain('mix1', '--allow', 'cold')
        self.assertEqual('mix2', self.host_of(server))

    def test_each_instance_that_is_left_has_a_reason(self):
        locked, failing, large, suspended, resized, deleted = (
            self.boot(flavor, az='nova:mix1') for flavor in (
                self.low, self.low, self.flavor(5, **{
                    'hw:cpu_priority': 'high'}), self.flavor(1),
                self.flavor(1), self.flavor(1)))
        self.boot(self.high, az='nova:mix2')
        self.api.post_server_action(locked['id'], {'lock': None})
        self.api.post_server_action(suspended['id'], {'suspend': None})
        self._wait_for_state_change(suspended, 'SUSPENDED')
        self.api.post_server_action(
            resized['id'], {'resize': {'flavorRef': self.flavor(2)}})
        self._wait_for_state_change(resized, 'VERIFY_RESIZE')
        self.flags(reclaim_instance_interval=3600)
        self.api.delete_server(deleted['id'])
        self._wait_for_state_change(deleted, 'SOFT_DELETED')
        with mock.patch(PRE_LIVE_MIGRATION,
                        side_effect=exception.MigrationPreCheckError(
                            reason='no storage')):
            rows = self.drain('mix1', status=report.FOUND)
        reasons = {uuid: row['Reason'] for uuid, row in rows.items()}
        self.assertEqual('is locked', reasons.pop(locked['id']))
        self.assertEqual(
            'is suspended: only --allow shelve moves it',
            reasons.pop(suspended['id']))
        self.assertEqual('to be confirmed or reverted by its owner',
                         reasons.pop(resized['id']))
        self.assertRegex(reasons.pop(failing['id']),
                         '^Nova refused the live migration from mix1 to mix2: '
                         '.*no storage')
        self.assertRegex(reasons.pop(large['id']),
                         'fits on no host; mix2 lacks least: 5 PCPU needed, '
                         '4 free of 8 .Placement.; Nova refused')
        self.assertEqual({}, reasons)
        self.assertIn('Instances left on mix1: 5. Act on each as its reason '
                      'says', self.said)
        # The operator allows more; the owner confirms the resize.
        self.api.post_server_action(locked['id'], {'unlock': None})
        self._confirm_resize(resized)
        self.drain('mix1', '--allow', 'cold', '--allow', 'shelve')
        self.assertEqual(
            ['SHELVED_OFFLOADED'] * 2,
            [self.api.get_server(each['id'])['status']
             for each in (large, suspended)])

    def test_guest_that_nova_33_cannot_live_migrate_is_named(self):
        """Its XML has no I/O thread, which an older release started."""
        server = self.boot(self.high, az='nova:mix1')
        # Nova fails before libvirt has a job.
        with (mock.patch.object(contract, 'get_nova_release',
                                return_value='33.0.2'),
              mock.patch(UPDATE_NUMA_XML, side_effect=AttributeError()),
              mock.patch.object(
                  libvirt.Domain, 'jobStats',
                  return_value={'type': libvirt.VIR_DOMAIN_JOB_NONE})):
            rows = self.drain('mix1', status=report.FOUND)
        self.assertRegex(rows[server['id']]['Reason'],
                         'Nova refused .*Launchpad bug 2152697.: then hard '
                         'reboot it')
        self.api.post_server_action(
            server['id'], {'reboot': {'type': 'HARD'}})
        self._wait_for_state_change(server, 'ACTIVE')
        self.drain('mix1')
        self.assertEqual('mix2', self.host_of(server))

    def test_cold_migration_is_the_next_way_if_it_is_allowed(self):
        server = self.boot(self.high, az='nova:mix1')
        with mock.patch(PRE_LIVE_MIGRATION,
                        side_effect=exception.MigrationPreCheckError(
                            reason='no storage')):
            self.drain('mix1', '--allow', 'cold')
        self.assertEqual(('mix2', 'ACTIVE'), (
            self.host_of(server), self.api.get_server(server['id'])['status']))

    def test_instance_that_somebody_else_moves_has_left(self):
        servers = [self.boot(self.low, az='nova:mix1') for _ in range(2)]
        stock = one_move.OneMove.start

        def start(move):
            """Let somebody else move the server first."""
            self.live_migrate_to(move.move.uuid, 'mix2')
            stock(move)

        with mock.patch.object(one_move.OneMove, 'start', start):
            self.drain('mix1')
        self.assertIn('done, because it was there already', self.said)
        self.assertNotIn('mix1', map(self.host_of, servers))

    def test_interrupted_drain_continues(self):
        """Also, moves that wait for a request are finished."""
        high, cold, shelved = (
            self.boot(flavor, az='nova:mix1')
            for flavor in (self.high, self.low, self.flavor(1)))
        self.flags(shelved_offload_time=-1)
        self._shelve_server(shelved, 'SHELVED')
        self._migrate_server(cold)
        self.host_disable('mix1')
        with mock.patch('nova_prio.admin.moves.servers.Servers.confirm',
                        side_effect=KeyboardInterrupt):
            rows = self.drain('mix1', status=report.FOUND)
        self.assertEqual({
            high['id']: '', cold['id']: 'to be confirmed by this command',
            shelved['id']: 'is shelved: only --allow shelve removes it from '
            'the host'}, {uuid: row['Reason'] for uuid, row in rows.items()})
        self.assertIn('Interrupted. Instances left on mix1: 3.', self.said)
        self.drain('mix1', '--allow', 'shelve')
        for server, action in (
                (cold, 'confirm the cold migration from mix1 to mix2'),
                (shelved, 'remove the shelved instance from mix1')):
            self.assertIn('Instance %s (%s): %s: done.' % (
                server['id'], server['name'], action), self.said)
        self.assertIsNone(self.host_of(shelved))
        self.assertEqual(['mix2'] * 2, [self.host_of(high),
                                        self.host_of(cold)])
        # The reason of an operator stays.
        self.assert_service('mix1', 'disabled')

    def test_timeout_leaves_running_moves_to_nova(self):
        first, second = (self.boot(self.low, az='nova:mix1')
                         for _ in range(2))
        with mock.patch(LIVE_MIGRATION):
            rows = self.drain('mix1', '--timeout', '9', status=report.FOUND)
        self.assertEqual({'running', 'planned'},
                         {row['State'] for row in rows.values()})
        self.assertIn('The timeout is over. Instances left on mix1: 2.',
                      self.said)

    def test_host_with_an_arriving_instance_is_not_empty(self):
        server = self.boot(self.low, az='nova:mix2')
        with mock.patch(LIVE_MIGRATION):
            self.api.post_server_action(server['id'], {'os-migrateLive': {
                'host': 'mix1', 'block_migration': 'auto'}})
            self._wait_for_server_parameter(
                server, {'OS-EXT-STS:task_state': 'migrating'})
        rows = self.drain('mix1', '--timeout', '1', status=report.FOUND)
        self.assertEqual(('mix2', 'mix1', 'running'), tuple(
            rows[server['id']][name]
            for name in ('Source', 'Destination', 'State')))
        self.assertIn('The timeout is over. Instances left on mix1: 1.',
                      self.said)

    def test_instance_that_changes_during_the_drain_has_a_reason(self):
        server = self.boot(self.low, az='nova:mix1')
        with mock.patch('nova_prio.admin.moves.servers.ALLOWED_STATUS',
                        {'live': ()}):
            rows = self.drain('mix1', status=report.FOUND)
        self.assertEqual('its status is ACTIVE',
                         rows[server['id']]['Reason'])

    def test_unknown_host_is_refused(self):
        self.command('drain', 'mix9', status=report.FAILED)
        self.assertIn("HOST is 'mix9'; allowed are names of", self.said)

    def test_unknown_column_is_refused_before_a_change(self):
        self.command('drain', 'mix1', '-c', 'Host', status=report.FAILED)
        self.assertIn("--column is 'Host'; allowed are Instance,", self.said)
        self.assert_service('mix1', 'enabled')


class SharedDisks(maintenance.Maintenance):
    """Hosts whose disks are those of a sharing provider."""

    def test_drain_counts_the_disks_of_the_sharing_provider(self):
        self.share_disks(total=1000)
        # A host has no 200 GB.
        flavor = self._create_flavor(
            vcpu=4, memory_mb=256, disk=200,
            extra_spec={'hw:cpu_priority': 'high'})
        server = self.boot(flavor)
        source = self.host_of(server)
        found, _, said = commands.run('capacity', 'show', '--after-loss')
        self.assertEqual(report.CLEAN, found, said)
        self.drain(source, '--dry-run')
        self.drain(source)
        self.assertNotEqual(source, self.host_of(server))


class TightHosts(maintenance.Maintenance):
    """Hosts of which each has room for one large server."""

    def setUp(self):
        base.FunctionalTest.setUp(self)
        maintenance.let_commands_move(self)
        self.flags(connection='sqlite://', group='api_database')
        self.start_seed_host('mix1', cpus=36, dedicated='0-29',
                             shared='30-35')
        for name, dedicated in ('b', '0-9'), ('c', '0-8'), ('d', '0-7'):
            self.start_seed_host(name, dedicated=dedicated, shared='10-11')

    def test_drain_keeps_a_host_for_each_server(self):
        """Nova sends the first one where only the last one could go."""
        for host, traits in ('mix1', 'ABC'), ('b', 'AB'), ('c', 'BC'), (
                'd', 'C'):
            for trait in traits:
                self.add_trait(host, 'CUSTOM_' + trait)
        servers = [self.boot(self.flavor(8, **{
            'hw:cpu_priority': 'high',
            'trait:CUSTOM_%s' % trait: 'required'}), az='nova:mix1')
            for trait in 'BCA']
        self.drain('mix1', '--dry-run')
        self.assertIn('left: 0', self.said)
        self.drain('mix1')
        self.assertEqual(['c', 'd', 'b'], list(map(self.host_of, servers)))


class Devices(devices.FunctionsOnHosts, maintenance.Maintenance):
    """Hosts with PCI devices that no live migration can move."""

    DEVICE = {name: value for name, value
              in devices.FunctionsOnHosts.DEVICE.items()
              if name != 'live_migratable'}
    ALIASES = [devices.make_alias(DEVICE)]

    def test_instance_with_a_device_is_only_cold_migrated(self):
        server = self.boot(self.flavor(2, **{
            'hw:cpu_priority': 'high',
            'pci_passthrough:alias': 'function:1'}), az='nova:mix1')
        rows = self.drain('mix1', status=report.FOUND)
        self.assertEqual('has PCI devices that Nova does not live-migrate',
                         rows[server['id']]['Reason'])
        self.assert_service('mix1', 'enabled')
        self.drain('mix1', '--allow', 'cold')
        self.assertEqual('mix2', self.host_of(server))
