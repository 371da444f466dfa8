# SPDX-License-Identifier: Apache-2.0


"""``nova-prio host verify``, ``disable`` and ``enable``: all the way back."""

import json

import fixtures
from nova.compute import manager as compute_manager
from nova.conductor import manager
from nova import exception

from nova_prio.admin.host import drain
from nova_prio.cmd import host_disable
from nova_prio.cmd import report
from nova_prio.placement import allocations as prio_allocations
from nova_prio.placement import traits
from tests import commands
from tests.functional import colocation

TERMS = ('--dedicated', '0-7', '--shared', '8-11', '--ratio', '2')


class HostDisable(colocation.Colocation):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(
            host_disable, 'INTERVAL_SECONDS', 0.1))

    def disable(self, *arguments, status=report.FOUND):
        """Run the command; returns dict, UUID -> row."""
        return {row['Instance']: row for row in self.command(
            'disable', 'mix1', *arguments, status=status)}

    def verify(self, *arguments, status=report.FOUND, **kwargs):
        """Run the command; returns dict, item -> row of what differs."""
        return {row['Item']: row for row in self.command(
            'verify', 'mix1', *arguments, status=status, **kwargs)
            if row['State'] != 'ok'}

    def records(self):
        """Return what Placement has of the host, but for generations."""
        uuid = self.compute_rp_uuids['mix1']
        aggregates = self.placement.get(
            '/resource_providers/%s/aggregates' % uuid, version='1.19').body
        allocations = self.placement.get(
            '/resource_providers/%s/allocations' % uuid).body['allocations']
        return (self.resources('mix1'), sorted(self.traits('mix1')),
                sorted(aggregates['aggregates']),
                {consumer: held['resources']
                 for consumer, held in allocations.items()})

    def back_to_stock(self, dedicated=None, shared=None):
        """Set the options as they were, where the ratio was Nova's own."""
        self.do(dedicated, shared, '16.0', False, colocation.STOCK)

    def to_priority_host(self, **kwargs):
        """Plan and make a priority host of one of stock Nova."""
        self.flags(initial_ram_allocation_ratio=1.5)
        self.start_stock_host(ratio=None, **kwargs)
        self.boot(self.plain)
        self.update_host('mix1')
        self.before = self.records()
        self.plan(*TERMS)
        self.do()

    def test_there_and_back(self):
        self.to_priority_host()
        servers = {name: self.boot(flavor) for name, flavor in (
            ('low', self.low), ('other', self.low))}
        self.assertNotEqual(self.before, self.records())
        kept = ('--plan', str(self.kept))
        self.disable(*kept, '--timeout', '0')
        self.assertIn('To leave mix1: 2. See to each as its reason asks '
                      '(migrate, delete, confirm), and run this again: no '
                      'priority instance comes to it any more.', self.said)
        self.boot(self.low, 'ERROR')
        for server in servers.values():
            self._delete_server(server)
        self.assertEqual({}, self.disable(*kept))
        self.assertIn('None has to leave mix1. Next: set the options of '
                      'nova-compute there as they were (compute_driver = '
                      'libvirt.LibvirtDriver, cpu_dedicated_set = '
                      '<not set>, cpu_shared_set = <not set>, '
                      'cpu_allocation_ratio = 4.0, ', self.said)
        self._host_options['mix1'].update({
            (None, 'compute_driver'): colocation.STOCK,
            (None, 'cpu_allocation_ratio'): None,
            (None, 'cpu_priority_mix_enable'): False,
            ('compute', 'cpu_dedicated_set'): None,
            ('compute', 'cpu_shared_set'): None})
        self.restart_compute_service('mix1')
        self.assertNotEqual(self.before, self.records())
        self.disable(*kept, '--dry-run')
        self.assertIn('Nothing was changed. Traits would be taken from mix1, '
                      'and its allocation ratios would be MEMORY_MB 1.5, VCPU '
                      '4.0.', self.said)
        self.assertNotEqual(self.before, self.records())
        self.disable(*kept, status=report.CLEAN)
        self.assertIn('mix1 is as before. Its allocation ratios are MEMORY_MB '
                      '1.5, VCPU 4.0. Take it out of the host aggregate',
                      self.said)
        self.assertEqual(self.before, self.records())
        for _ in range(2):
            self.restart_compute_service('mix1')
            self.update_host('mix1')
            self.assertEqual(self.before, self.records())
        self.disable(*kept, status=report.CLEAN)
        self.assertEqual(self.before, self.records())

    def test_what_was_not_set_back(self):
        self.to_priority_host()
        self.do('0-7', '8-11', '2.0', False, colocation.STOCK)
        self.disable('--plan', str(self.kept))
        self.assertIn('nova-compute reports other amounts of VCPU, PCPU than '
                      'before', self.said)
        self.back_to_stock()
        self.disable(status=report.CLEAN)
        self.assertIn('VCPU 16.0: --plan would give it those of before',
                      self.said)

    def test_pinned_instances_of_a_host_without_sets(self):
        """With the options as told, Nova takes them there as before."""
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
        self.back_to_stock()
        self.disable(*kept, status=report.CLEAN)
        self.boot(pinned)

    def test_a_host_that_was_ours_before(self):
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
        self.assertIn('mix1 is as before. Its allocation ratios are MEMORY_MB '
                      '1.0, VCPU 2.0. There is nothing to do.', self.said)
        self.boot(self.low)
        self.update_host('mix1')
        self.assertEqual(before[:3], self.records()[:3])

    def test_what_is_on_its_way(self):
        """Between scheduler and host, where no cell has it yet."""
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

    def test_a_move_that_may_come_back_to_other_cpus(self):
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
        self.assertIn('None has to leave mix1', self.said)

    def test_a_live_migration_is_one_that_has_to_leave(self):
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
        self.assertIn('To leave mix1: 1.', found[1])

    def test_a_reschedule_does_not_go_round_it(self):
        """A claim refuses it, as soon as nova-compute has seen the trait."""
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

    def test_a_dry_run_changes_nothing(self):
        self.to_priority_host()
        low = self.boot(self.low)
        before = self.records()
        row = self.disable('--dry-run')[low['id']]
        self.assertEqual(['low', 4, 256, 'low priority', ''], [
            row[name] for name in host_disable.COLUMNS[1:]])
        self.assertIn('; nothing was changed.', self.said)
        self.assertEqual(before, self.records())
        self.boot(self.low)

    def test_where_they_would_fit(self):
        self.to_priority_host()
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
        self.assertIn('None has to leave mix1', self.said)

    def test_who_may_still_come(self):
        """Those that wait to be confirmed could come back."""
        self.to_priority_host()
        self.start_seed_host('mix2')
        server = self.boot(self.low, az='nova:mix1')
        self._migrate_server(server)
        row = self.disable('--timeout', '0')[server['id']]
        self.assertEqual('to be confirmed or reverted', row['Reason'])
        self._revert_resize(server)
        row = self.disable('--timeout', '0')[server['id']]
        self.assertEqual('low priority', row['Reason'])

    def test_pinned_where_the_sets_of_before_do_not_let_them_be(self):
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
        self.back_to_stock('0-3', '4-11')
        self.disable(*kept, status=report.CLEAN)
        self._reboot_server(stays, hard=True)

    def test_it_waits_and_keeps_the_host_closed(self):
        """Others may open the host meanwhile, and instances go."""
        self.to_priority_host()
        servers = [self.boot(self.low) for _ in range(2)]
        looks = []
        look = host_disable.Disable.look

        def act_and_look(command, host):
            looks.append(host)
            if len(looks) == 2:
                drain.enable(command.context, command.placement,
                             look(command, host)[0])
                self._delete_server(servers[0])
            elif len(looks) == 4:
                self.assertNotIn(traits.TRAIT, self.traits('mix1'))
                self._delete_server(servers[1])
            return look(command, host)

        self.useFixture(fixtures.MockPatchObject(
            host_disable.Disable, 'look', act_and_look))
        self.disable()
        self.assertIn('None has to leave mix1', self.said)

    def test_enable(self):
        self.to_priority_host()
        opened = self.traits('mix1')
        self.disable('--timeout', '0')
        self.boot(self.high, 'ERROR')
        for _ in range(2):
            # nova-compute leaves it as it is, and so does the audit.
            self.update_host('mix1')
            self.assertIn(traits.TRAIT_DISABLED, self.traits('mix1'))
            self.assertNotIn(traits.TRAIT, self.traits('mix1'))
            self.assertEqual(
                {'kept CPUs', 'traits'}, set(self.verify(
                    '--plan', str(self.kept))))
            self.restart_compute_service('mix1')
        found, _, said = commands.run('host', 'enable', 'mix1', options=())
        self.assertEqual((0, 'mix1 admits priority instances. Run "nova-prio '
                          'host verify mix1" to see that all is as it should '
                          'be.\n'), (found, said))
        self.assertEqual(sorted(opened), sorted(self.traits('mix1')))
        self.boot(self.low)
        self.start_host('stock1', driver=colocation.STOCK)
        found, _, said = commands.run(
            'host', 'enable', 'stock1', options=())
        self.assertEqual(1, found)
        self.assertIn("HOST is 'stock1', whose nova-compute reports no "
                      'priority CPUs', said)

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
        self.assertIn('All agree, as far as it is seen from here. For its '
                      'guests run this on mix1, with --config-file', self.said)
        self.assertEqual({}, self.verify(status=report.CLEAN))

    def test_nova_compute_is_down(self):
        self.to_priority_host()
        server = self.boot(self.low)
        service, = self.api.get_services(host='mix1', binary='nova-compute')
        self.api.put_service_force_down(service['id'], True)
        self.assertEqual('down', self.verify()['nova-compute']['Compute'])
        self.assertIn(server['id'], self.disable('--timeout', '0'))
        self.assertIn('Its nova-compute is down: start it first.', self.said)
        _, _, said = commands.run('host', 'enable', 'mix1', options=())
        self.assertIn('The nova-compute of mix1 is down: start it.', said)

    def test_placement_is_restarted_meanwhile(self):
        self.to_priority_host()
        server = self.boot(self.low)
        look = host_disable.Disable.look
        looks = []

        def fail_once(command, host):
            looks.append(host)
            if len(looks) == 2:
                raise prio_allocations.PlacementRefused('x')
            if len(looks) == 3:
                self._delete_server(server)
            return look(command, host)

        self.useFixture(fixtures.MockPatchObject(
            host_disable.Disable, 'look', fail_once))
        self.disable()
        self.assertIn('None has to leave mix1', self.said)

    def test_what_has_left_since_the_plan(self):
        """The plan was of an inventory that had room for what was in use."""
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

    def test_pinned_instances_and_no_plan(self):
        self.start_seed_host()
        self.boot(self.high)
        self.disable()
        self.assertIn('--plan tells which have to leave', self.said)

    def test_what_is_no_plan(self):
        self.start_seed_host()
        for text, expected in (
                (None, 'cannot be read: No such file or directory'),
                ('', 'is no plan; allowed is what'),
                ('[]', 'is no plan; allowed is what'),
                ('{"a": 1}', 'is no plan; allowed is what')):
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
                self.assertIn('is no plan; allowed is what', self.said)
            self.assertEqual(before, self.traits('mix1'))
        self.plan(*TERMS, host='mix2')
        self.command('verify', 'mix1', '--plan', str(self.kept), status=1)
        self.assertIn('a plan of mix2; allowed is one of mix1.', self.said)
        self.command('disable', 'mix1', '--timeout', '-1', status=2)
        self.assertIn("'-1' is given; allowed are whole seconds from 0 on",
                      self.said)
