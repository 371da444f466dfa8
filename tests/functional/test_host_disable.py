# SPDX-License-Identifier: Apache-2.0


"""The commands ``nova-prio host verify``, ``disable`` and ``enable``."""

import json

import fixtures
from nova.compute import manager as compute_manager
from nova.conductor import manager
from nova import exception

from nova_prio.admin.host import removal
from nova_prio.admin.host import state
from nova_prio.cmd import host_disable
from nova_prio.cmd import report
from nova_prio.model import traits
from nova_prio.placement import allocations as prio_allocations
from tests import commands
from tests.functional import colocation

TERMS = ('--dedicated', '0-7', '--shared', '8-11', '--ratio', '2')


class HostDisable(colocation.Colocation):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(
            removal, 'INTERVAL_SECONDS', 0.1))

    def disable(self, *arguments, status=report.FOUND):
        """Run the command; return dict, UUID -> row."""
        return {row['Instance']: row for row in self.command(
            'disable', 'mix1', *arguments, status=status)}

    def verify(self, *arguments, status=report.FOUND, **kwargs):
        """Run the command; return dict, item -> row, without ok rows."""
        return {row['Item']: row for row in self.command(
            'verify', 'mix1', *arguments, status=status, **kwargs)
            if row['State'] != 'ok'}

    def records(self):
        """Return the records of the host in Placement, without generations."""
        uuid = self.compute_rp_uuids['mix1']
        aggregates = self.placement.get(
            '/resource_providers/%s/aggregates' % uuid, version='1.19').body
        allocations = self.placement.get(
            '/resource_providers/%s/allocations' % uuid).body['allocations']
        return (self.resources('mix1'), sorted(self.traits('mix1')),
                sorted(aggregates['aggregates']),
                {consumer: held['resources']
                 for consumer, held in allocations.items()})

    def restore_stock_options(self, dedicated=None, shared=None):
        """Restore the options of a host with the default ratio."""
        self.do(dedicated, shared, '16.0', False, colocation.STOCK)

    def change_to_priority_host(self, **kwargs):
        """Turn a stock host into a priority host, with a plan."""
        self.flags(initial_ram_allocation_ratio=1.5)
        self.start_stock_host(ratio=None, **kwargs)
        self.floating = self.boot(self.plain)
        self.update_host('mix1')
        self.before = self.records()
        self.plan(*TERMS)
        self.do()

    def test_disable_with_plan_restores_stock_host(self):
        self.change_to_priority_host()
        servers = {name: self.boot(flavor) for name, flavor in (
            ('low', self.low), ('other', self.low))}
        self.assertNotEqual(self.before, self.records())
        kept = ('--plan', str(self.kept))
        self.disable(*kept, '--timeout', '0')
        self.assertIn(' Host mix1: disabled for priority instances, to remove '
                      'co-location.\n', self.said)
        self.assertIn('Instances that must leave mix1: 2. Act on each as its '
                      'reason says (migrate, delete, confirm), and run this '
                      'command again; the host is disabled for priority '
                      'instances.', self.said)
        self.boot(self.low, 'ERROR')
        for server in servers.values():
            self._delete_server(server)
        self.assertEqual({}, self.disable(*kept))
        self.assertIn('No instance has to leave mix1. Next: restore the '
                      'options of nova-compute (compute_driver = '
                      'libvirt.LibvirtDriver, cpu_dedicated_set = '
                      '<not set>, cpu_shared_set = <not set>, '
                      'cpu_allocation_ratio = 4.0 or <not set> as before, ',
                      self.said)
        self._host_options['mix1'].update({
            (None, 'compute_driver'): colocation.STOCK,
            (None, 'cpu_allocation_ratio'): None,
            (None, 'cpu_priority_mix_enable'): False,
            ('compute', 'cpu_dedicated_set'): None,
            ('compute', 'cpu_shared_set'): None})
        self.restart_compute_service('mix1')
        self.assertNotEqual(self.before, self.records())
        self.disable(*kept, '--dry-run')
        self.assertIn('Nothing was changed. This command would remove the '
                      'traits from mix1, and set its allocation ratios to '
                      'MEMORY_MB 1.5, VCPU 4.0.', self.said)
        self.assertNotEqual(self.before, self.records())
        self.disable(*kept, status=report.CLEAN)
        for expected in (
                ' Host mix1: the traits of this package are as before the '
                'plan (none).\n',
                ' Host mix1: the allocation ratios are as before the plan.\n',
                'mix1 is restored. Its allocation ratios are MEMORY_MB 1.5, '
                'VCPU 4.0. Remove it from the host aggregate'):
            self.assertIn(expected, self.said)
        self.assertEqual(self.before, self.records())
        for _ in range(2):
            self.restart_compute_service('mix1')
            self.update_host('mix1')
            self.assertEqual(self.before, self.records())
        self.disable(*kept, status=report.CLEAN)
        self.assertEqual(self.before, self.records())

    def test_options_that_were_not_restored_are_reported(self):
        self.change_to_priority_host()
        self.do('0-7', '8-11', '2.0', False, colocation.STOCK)
        self.disable('--plan', str(self.kept))
        self.assertIn('nova-compute reports other amounts of VCPU, PCPU than '
                      'before the plan', self.said)
        self.restore_stock_options()
        self.disable(status=report.CLEAN)
        self.assertIn('VCPU 16.0; use --plan to restore the old ones',
                      self.said)

    def test_disable_lists_pinned_instances_of_host_without_cpu_sets(self):
        """With the restored options, Nova pins instances as before."""
        self.flags(disable_fallback_pcpu_query=False, group='workarounds')
        self.start_stock_host()
        pinned = self.flavor(2, **{'hw:cpu_policy': 'dedicated'})
        plan = self.plan(*TERMS)
        self.assertEqual('', plan['option', 'cpu_shared_set']['Now'])
        self.do()
        server = self.boot(pinned)
        kept = ('--plan', str(self.kept))
        self.assertIn(server['id'], self.disable(*kept, '--timeout', '0'))
        self._delete_server(server)
        self.disable(*kept)
        self.restore_stock_options()
        self.disable(*kept, status=report.CLEAN)
        self.boot(pinned)

    def test_disable_restores_host_that_had_the_driver_before(self):
        self.start_seed_host(mix=False)
        self.update_host('mix1')
        before = self.records()
        self.plan(*TERMS)
        self.do()
        kept = ('--plan', str(self.kept))
        self.disable(*kept)
        self.assertIn('compute_driver = prio.PriorityLibvirtDriver, ',
                      self.said)
        self.do(mix=False)
        self.disable(*kept, '--dry-run')
        self.disable(*kept, status=report.CLEAN)
        self.assertIn('mix1 is restored. Its allocation ratios are MEMORY_MB '
                      '1.0, VCPU 2.0. There is nothing to do.', self.said)
        self.boot(self.low)
        self.update_host('mix1')
        self.assertEqual(before[:3], self.records()[:3])

    def test_instance_between_scheduler_and_host_must_leave(self):
        """No cell has the instance yet."""
        self.start_stock_host()
        self.plan(*TERMS)
        self.do()
        kept = ('--plan', str(self.kept))
        schedule = manager.ComputeTaskManager._schedule_instances
        found = []

        def look(conductor, *args, **kwargs):
            answer = schedule(conductor, *args, **kwargs)
            found.append([self.disable('--dry-run', *more)
                          for more in ((), kept)])
            return answer

        self.useFixture(fixtures.MockPatchObject(
            manager.ComputeTaskManager, '_schedule_instances', look))
        low, high = self.boot(self.low), self.boot(self.high)
        self.assertEqual(
            [['being created'] * 2, [None, 'being created']],
            [[rows.get(server['id'], {}).get('Reason') for rows in several]
             for server, several in zip((low, high), found, strict=True)])

    def test_revert_to_cpus_outside_the_plan_must_leave(self):
        self.start_stock_host(dedicated='0-1', shared='2-11')
        self.plan(*TERMS)
        self.do()
        self.start_seed_host('mix2')
        server = self.boot(self.high, az='nova:mix1')
        self._migrate_server(server)
        row = self.disable(
            '--plan', str(self.kept), '--timeout', '0')[server['id']]
        self.assertEqual(('to be confirmed or reverted', ''),
                         (row['Reason'], row['Fits On']))
        self.disable()
        self.assertIn('No instance has to leave mix1', self.said)
        self.assertIn('or moves of them to confirm or revert', self.said)

    def test_live_migration_in_flight_must_leave(self):
        self.start_seed_host()
        self.start_seed_host('mix2')
        server = self.boot(self.low, az='nova:mix1')
        prepare = compute_manager.ComputeManager.pre_live_migration
        found = []

        def look(compute, *args, **kwargs):
            found.append(self.disable('--dry-run'))
            found.append(self.said)
            return prepare(compute, *args, **kwargs)

        self.let_guests_migrate()
        self.useFixture(fixtures.MockPatchObject(
            compute_manager.ComputeManager, 'pre_live_migration', look))
        self._live_migrate(server)
        self.assertEqual({server['id']}, set(found[0]))
        self.assertIn('Instances that must leave mix1: 1.', found[1])

    def test_claim_refuses_reschedule_to_disabled_host(self):
        """The claim refuses it after nova-compute has read the trait."""
        self.start_seed_host()
        self.start_seed_host('mix2')
        build = compute_manager.ComputeManager._build_and_run_instance
        first = []

        def fail(compute, *args, **kwargs):
            if not first:
                first.append(compute.host)
                other, = {'mix1', 'mix2'} - set(first)
                self.command('disable', other, '--timeout', '0',
                             status=report.FOUND)
                # As after [compute] resource_provider_association_refresh.
                self.computes[other].rt.reportclient.clear_provider_cache()
                self.update_host(other)
                raise exception.RescheduledException(
                    instance_uuid='x', reason='x')
            return build(compute, *args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(
            compute_manager.ComputeManager, '_build_and_run_instance', fail))
        server = self.boot(self.low, 'ERROR')
        self.assertIsNone(self.host_of(server))

    def test_destinations_are_listed_and_can_be_used(self):
        self.change_to_priority_host()
        low = [self.boot(self.low) for _ in range(2)]
        self.start_seed_host('mix2', dedicated='0-3', shared='4-7', ratio=1.0)
        self.start_host('stock1', driver=colocation.STOCK)
        found = self.disable('--dry-run')
        self.assertEqual({'', 'mix2'},
                         {found[server['id']]['Fits On'] for server in low})
        self.start_seed_host('mix3')
        found = self.disable('--dry-run')
        self.assertEqual({'mix3'},
                         {found[server['id']]['Fits On'] for server in low})
        fits = {server['id']: found[server['id']]['Fits On']
                for server in low}
        self.disable('--timeout', '0')
        for server in low:
            self._migrate_server(server)
            self._confirm_resize(server)
            self.assertEqual(fits[server['id']], self.host_of(server))
        self.disable()
        self.assertIn('No instance has to leave mix1', self.said)

    def test_unconfirmed_resize_must_leave(self):
        """A revert would return the instance to the host."""
        self.change_to_priority_host()
        self.start_seed_host('mix2')
        server = self.boot(self.low, az='nova:mix1')
        self._migrate_server(server)
        row = self.disable('--timeout', '0')[server['id']]
        self.assertEqual('to be confirmed or reverted', row['Reason'])
        self._revert_resize(server)
        row = self.disable('--timeout', '0')[server['id']]
        self.assertEqual('low priority', row['Reason'])

    def test_instance_that_arrives_by_a_resize_must_leave(self):
        """It gets its new flavor in the last step."""
        self.change_to_priority_host()
        self.start_seed_host('mix2')
        server = self.boot(self.flavor(2), az='nova:mix2')
        found = []
        for name in 'resize_instance', 'finish_resize':
            step = getattr(compute_manager.ComputeManager, name)

            def look(*args, step=step, **kwargs):
                found.extend(self.disable('--dry-run'))
                return step(*args, **kwargs)

            self.useFixture(fixtures.MockPatchObject(
                compute_manager.ComputeManager, name, look))
        self._resize_server(server, self.low)
        self.assertEqual('mix1', self.host_of(server))
        self.assertEqual([server['id']] * 2, found)

    def test_instance_pinned_outside_the_old_cpu_sets_must_leave(self):
        self.start_stock_host(dedicated='0-3', shared='4-11')
        stays = self.boot(self.flavor(4, **{'hw:cpu_policy': 'dedicated'}))
        self.plan(*TERMS)
        self.do()
        leaves = self.boot(self.high)
        kept = ('--plan', str(self.kept))
        found = self.disable(*kept, '--timeout', '0')
        self.assertEqual({leaves['id']: 'pinned outside'},
                         {uuid: row['Reason'] for uuid, row in found.items()})
        self._delete_server(leaves)
        self.disable(*kept)
        self.restore_stock_options('0-3', '4-11')
        self.disable(*kept, status=report.CLEAN)
        self._reboot_server(stays, hard=True)

    def test_disable_waits_and_keeps_host_disabled(self):
        """The host is enabled and instances are deleted during the wait."""
        self.change_to_priority_host()
        servers = [self.boot(self.low) for _ in range(2)]
        reads = []
        read_state = state.read_state

        def act_and_read(context, client, host):
            reads.append(host)
            if len(reads) == 2:
                view = read_state(context, client, host)
                removal.set_disabled(context, client, view, False)
                self._delete_server(servers[0])
            elif len(reads) == 4:
                self.assertNotIn(traits.CPU_PRIORITY, self.traits('mix1'))
                self._delete_server(servers[1])
            return read_state(context, client, host)

        self.useFixture(fixtures.MockPatchObject(
            state, 'read_state', act_and_read))
        self.disable()
        self.assertIn('No instance has to leave mix1', self.said)
        commands.run('host', 'enable', 'mix1', options=())
        self._disable_while_placement_restarts(self.boot(self.low))

    def _disable_while_placement_restarts(self, server):
        read_state = state.read_state
        reads = []

        def fail_once(context, client, host):
            reads.append(host)
            if len(reads) == 2:
                raise prio_allocations.PlacementRefused('x')
            if len(reads) == 3:
                self._delete_server(server)
            return read_state(context, client, host)

        self.useFixture(fixtures.MockPatchObject(
            state, 'read_state', fail_once))
        self.disable()
        self.assertIn('No instance has to leave mix1', self.said)

    def test_dry_run_and_enable(self):
        """A dry run changes nothing. Only an operator enables the host."""
        self.change_to_priority_host()
        low = self.boot(self.low)
        before = self.records()
        row = self.disable('--dry-run')[low['id']]
        self.assertEqual([low['name'], 'low', 4, 256, 'low priority', ''], [
            row[name] for name in host_disable.COLUMNS[1:]])
        self.assertIn('; nothing was changed.', self.said)
        self.assertEqual(before, self.records())
        opened = self.traits('mix1')
        self.disable('--timeout', '0')
        self.boot(self.high, 'ERROR')
        for _ in range(2):
            # Neither nova-compute nor the audit enables the host.
            self.update_host('mix1')
            self.assertIn(traits.CPU_PRIORITY_DISABLED, self.traits('mix1'))
            self.assertNotIn(traits.CPU_PRIORITY, self.traits('mix1'))
            found = self.verify('--plan', str(self.kept))
            self.assertEqual({'blocked_cpus', 'traits'}, set(found))
            self.assertIn(
                'on the host. Of those that float in the plan, these are '
                'here: %s (%s).' % (self.floating['id'],
                                    self.floating['name']),
                found['blocked_cpus']['Remedy'])
            self.assertNotIn('virsh', found['blocked_cpus']['Remedy'])
            self.restart_compute_service('mix1')
        disabled = self.traits('mix1')
        found, _, said = commands.run('host', 'enable', 'mix1', '--dry-run',
                                      options=())
        self.assertEqual((0, 'Nothing was changed. This command would enable '
                          'mix1 for priority instances.\n'), (found, said))
        self.assertEqual(disabled, self.traits('mix1'))
        text = ('mix1 is enabled for priority instances. Run "nova-prio host '
                'verify mix1" to check its state.\n')
        found, _, said = commands.run('host', 'enable', 'mix1', options=())
        self.assertEqual(0, found)
        self.assertRegex(said, r'^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d Host mix1: '
                         r'enabled for priority instances\.\n' + text + '$')
        # Nothing is left to change.
        self.assertEqual((0, None, text), commands.run(
            'host', 'enable', 'mix1', options=()))
        self.assertEqual(sorted(opened), sorted(self.traits('mix1')))
        self.boot(self.low)
        self.start_host('stock1', driver=colocation.STOCK)
        found, _, said = commands.run(
            'host', 'enable', 'stock1', options=())
        self.assertEqual(1, found)
        self.assertIn("HOST is 'stock1', whose nova-compute reports no "
                      'priority CPUs', said)
        self._assert_commands_with_nova_compute_down(low)

    def _assert_commands_with_nova_compute_down(self, server):
        service, = self.api.get_services(host='mix1', binary='nova-compute')
        self.api.put_service_force_down(service['id'], True)
        self.assertEqual('down', self.verify()['nova-compute']['Compute'])
        self.assertIn(server['id'], self.disable('--timeout', '0'))
        self.assertIn('Its nova-compute is down: start it first.', self.said)
        _, _, said = commands.run('host', 'enable', 'mix1', options=())
        self.assertIn('The nova-compute of mix1 is down: start it.', said)

    def test_verify(self):
        self.start_stock_host(aggregate=None)
        self.plan(*TERMS)
        kept = ('--plan', str(self.kept))
        found = self.verify(*kept)
        self.assertIn('compute_driver = prio.PriorityLibvirtDriver',
                      found['report']['Remedy'])
        self.assertIn('inventory PCPU', found)
        self.do(ratio='3.0')
        found = self.verify(*kept)
        self.assertEqual({
            'aggregate', 'cpu_allocation_ratio', 'inventory VCPU',
            'sellable low', 'sellable ordinary'}, set(found))
        self.assertEqual(('16', '28'), tuple(
            found['sellable low'][name] for name in ('Plan', 'Compute')))
        self.do()
        self._host_options['mix1'][None, 'host'] = 'mix1'
        self.assertEqual({'aggregate'}, set(self.verify(*kept)))
        aggregate = self.api.post_aggregate(
            {'aggregate': {'name': 'priority'}})['id']
        self.api.add_host_to_aggregate(aggregate, 'mix1')
        self.api.post_aggregate_action(aggregate, {'set_metadata': {
            'metadata': {'priority_mix': 'true'}}})
        self.assertEqual({}, self.verify(*kept, status=report.CLEAN))
        self.assertIn('All values agree. The guests were not checked: to '
                      'check them, run this command on mix1, with two options '
                      '--config-file', self.said)
        self.assertEqual({}, self.verify(status=report.CLEAN))

    def test_verify_accepts_instances_that_left_after_the_plan(self):
        """max_unit of the plan depends on the usage at that time."""
        self.start_stock_host()
        servers = [self.boot(self.plain) for _ in range(3)]
        terms = ('--dedicated', '0-7', '--shared', '8-9', '--ratio', '1',
                 '--no-mix')
        self.plan(*terms)
        self.do('0-7', '8-9', '1.0', False)
        for server in servers:
            self._delete_server(server)
        for _ in range(2):
            self.update_host('mix1')
        self.assertEqual({}, self.verify(
            '--plan', str(self.kept), status=report.CLEAN))

    def test_disable_needs_a_plan_for_pinned_instances(self):
        """Without a plan it mentions them. It refuses other files."""
        self.start_seed_host()
        self.boot(self.high)
        self.disable()
        self.assertIn('use --plan to list the ones that must leave', self.said)
        for text, expected in (
                (None, 'cannot be read: No such file or directory'),
                ('', 'is no plan; allowed is the output of'),
                ('[]', 'is no plan; allowed is the output of'),
                ('{"a": 1}', 'is no plan; allowed is the output of')):
            path = self.directory / 'x'
            if text is not None:
                path.write_text(text)
            for command in 'verify', 'disable':
                self.command(command, 'mix1', '--plan', str(path), status=1)
                self.assertIn(expected, self.said)
        self.start_seed_host('mix2')
        plan = self.plan(*TERMS, host='mix1')
        for name, column, value in (
                (('option', 'cpu_dedicated_set'), 'Now', 'banana'),
                (('option', 'cpu_allocation_ratio'), 'Then', 'x'),
                (('inventory', 'VCPU'), 'Now', 'x'),
                (('room', 'low'), 'Then', 'x')):
            broken = {**plan, name: {**plan[name], column: value}}
            path.write_text(json.dumps(list(broken.values())))
            before = self.traits('mix1')
            for command in 'verify', 'disable':
                self.command(command, 'mix1', '--plan', str(path), status=1)
                self.assertIn('is no plan; allowed is the output', self.said)
            self.assertEqual(before, self.traits('mix1'))
        self.plan(*TERMS, host='mix2')
        self.command('verify', 'mix1', '--plan', str(self.kept), status=1)
        self.assertIn('is a plan of mix2; allowed is a plan of mix1.',
                      self.said)
        self.command('disable', 'mix1', '--timeout', '-1', status=2)
        self.assertIn("'-1' is given; allowed are whole numbers from 0 on",
                      self.said)
