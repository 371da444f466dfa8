# SPDX-License-Identifier: Apache-2.0


"""The command ``nova-prio host plan``, compared with the changed host."""

import pathlib
import re
from unittest import mock

import fixtures
from lxml import etree
from nova import exception

from nova_prio.admin.audit import guest_audit
from nova_prio.cmd import report
from nova_prio.compat import contract
from nova_prio.compute import oversold_warnings
from nova_prio.model import traits
from tests import commands
from tests.functional import colocation


class HostPlan(colocation.Colocation):

    def setUp(self):
        super().setUp()
        self.warn = self.useFixture(
            fixtures.MockPatchObject(oversold_warnings.LOG, 'warning')).mock
        self.pinned = self.flavor(2, **{'hw:cpu_policy': 'dedicated'})

    def refused(self, *arguments):
        self.plan(*arguments, status=1)
        return self.said

    def names(self, plan, part):
        """Return the names that a plan has of a part, a set."""
        return {name for each, name in plan if each == part}

    def plan_and_do(self, dedicated='0-7', shared='8-11', ratio='2.0',
                    mix=True, floats=(), over=(), joined=(), healed=()):
        """Plan, apply the plan, and compare the host with the plan.

        :param floats: servers that keep floating on dedicated CPUs
        :param over: servers of an oversold row
        :param joined: servers that would share their CPUs with low-priority
            guests
        :param healed: servers whose allocations change
        """
        plan = self.plan(
            '--dedicated', dedicated, '--shared', shared, '--ratio', ratio,
            *(() if mix else ['--no-mix']))
        for part, servers in (('floats', floats), ('over', over),
                              ('joined', joined), ('allocation', healed)):
            self.assertEqual({server['id'] for server in servers},
                             self.names(plan, part), part)
        for name in 'VCPU', 'PCPU', 'MEMORY_MB':
            if ('inventory', name) in plan:
                self.assertEqual(
                    self.resources('mix1').get(name, {}),
                    plan['inventory', name]['Now'])
        self.do(dedicated, shared, ratio, mix)
        self.assertEqual(
            {name: there for name, there in self.resources('mix1').items()
             if name != 'DISK_GB'},
            {name: plan['inventory', name]['Then']
             for name in self.names(plan, 'inventory')
             if plan['inventory', name]['Then']})
        self.assertEqual(
            plan['traits', 'traits']['Then'].split(),
            [trait for trait in sorted(self.traits('mix1'))
             if trait.startswith('CUSTOM_CPU_PRIORITY')])
        came = self.report('mix1')
        for row in 'high', 'low', 'ordinary':
            self.assertEqual(
                {'sellable': getattr(came.sellable, row),
                 'sold': getattr(came.used, row),
                 'left': getattr(came.left, row)},
                plan['room', row]['Then'], row)
        self.assertEqual(
            {server['id'] for server in over},
            {call.kwargs['instance_uuid']
             for call in self.warn.call_args_list})
        for server in healed:
            self.assertEqual(
                plan['allocation', server['id']]['Then'],
                {name: amount for name, amount in
                 self._get_allocations_by_server_uuid(server['id'])[
                     self.compute_rp_uuids['mix1']]['resources'].items()})
        again = self.plan(
            '--dedicated', dedicated, '--shared', shared, '--ratio', ratio,
            *(() if mix else ['--no-mix']))
        for (part, _), row in again.items():
            if part in ('option', 'inventory', 'traits', 'room'):
                self.assertEqual(row['Now'], row['Then'], row)
        return plan

    def test_plan_of_empty_host(self):
        self.start_stock_host()
        plan = self.plan_and_do()
        self.assertEqual({'total': 12, 'reserved': 4, 'max_unit': 12,
                          'min_unit': 1, 'step_size': 1,
                          'allocation_ratio': 2.0},
                         plan['inventory', 'VCPU']['Then'])
        self.assertEqual({}, plan['inventory', 'PCPU']['Now'])
        self.assertEqual('16.0', plan['option', 'cpu_allocation_ratio']['Now'])
        self.assertEqual('ready', plan['verdict', 'mix1']['Then'])
        self.assertIn('even if the option is not set',
                      plan['option', 'cpu_allocation_ratio']['Remedy'])
        self.assertIn('The host is ready. Next: Keep this plan: repeat the '
                      'command with "-f json > FILE".', self.said)
        self.assertTrue(plan['step', '4']['Remedy'].startswith(
            'Run "nova-prio-status upgrade check" on mix1. It checks'))

    def test_traits_of_earlier_conversion_are_not_the_state_before(self):
        self.start_stock_host()
        provider = self.compute_rp_uuids['mix1']
        for name in traits.CPU_PRIORITY, traits.CPU_PRIORITY_MIX:
            self._create_trait(name)
        self._set_provider_traits(provider, [
            *self.traits('mix1'), traits.CPU_PRIORITY,
            traits.CPU_PRIORITY_MIX])
        plan = self.plan_and_do()
        self.assertEqual('libvirt.LibvirtDriver',
                         plan['option', 'compute_driver']['Now'])
        self.assertEqual('', plan['traits', 'traits']['Now'])

    def test_plan_lists_ordinary_guests_of_host_without_cpu_sets(self):
        self.start_stock_host()
        servers = [self.boot(self.plain) for _ in range(3)]
        stopped = self.boot(self.flavor(1))
        self._stop_server(stopped)
        plan = self.plan_and_do(floats=servers, over=[*servers, stopped])
        self.assertEqual({'sellable': 8, 'sold': 13, 'left': 0},
                         plan['room', 'ordinary']['Then'])
        self.assertEqual({'sellable': 8, 'sold': 0, 'left': 0},
                         plan['room', 'high']['Then'])

    def test_plan_lists_pinned_instances_of_host_without_cpu_sets(self):
        """Nova pins instances on such a host, and they hold VCPU."""
        self.flags(disable_fallback_pcpu_query=False, group='workarounds')
        self.start_stock_host()
        server = self.boot(self.pinned)
        self.plan_and_do(joined=[server], healed=[server])

    def test_plan_with_other_cpu_sets(self):
        self.start_stock_host(dedicated='0-3', shared='4-11')
        pinned = self.boot(self.pinned)
        floating = self.boot(self.plain)
        cells = self.boot(self.flavor(2, **{'hw:numa_nodes': '1'}))
        mixed = self.boot(self.flavor(
            2, **{'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}))
        plan = self.plan_and_do(floats=[floating, cells, mixed],
                                joined=[pinned, mixed])
        self.assertEqual({'sellable': 8, 'sold': 3, 'left': 1},
                         plan['room', 'high']['Then'])

    def test_plan_counts_emulator_threads_as_floating(self):
        """Emulator threads float on shared CPUs, even if vCPUs are pinned."""
        # The fake libvirt drops the CPU set of the emulator threads.
        self.useFixture(fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain.XMLDesc',
            lambda domain, flags: self.guest_xml(domain.UUIDString())))
        self.start_seed_host(dedicated='0-5', shared='6-11')
        pinned = self.boot(self.flavor(2, **{
            'hw:cpu_policy': 'dedicated',
            'hw:emulator_threads_policy': 'share'}))
        low = self.boot(self.low)
        plan = self.plan_and_do('0-8', '9-11', floats=[pinned, low],
                                joined=[pinned])
        self.assertEqual('CPUs 6-8', plan['floats', low['id']]['Now'])

    def test_plan_names_cores_with_cpus_of_both_sets(self):
        """Threads of a core have successive numbers: 8 and 9, for example."""
        self.start_stock_host(threads=2)
        plan = self.plan('--dedicated', '0-8', '--shared', '9-11',
                         '--ratio', '2.0')
        self.assertEqual('dedicated 8, shared 9',
                         plan['host', 'SMT siblings']['Then'])
        self.assertEqual('ready', plan['verdict', 'mix1']['Then'])
        plan = self.plan('--dedicated', '0-7', '--shared', '8-11',
                         '--ratio', '2.0')
        self.assertNotIn(('host', 'SMT siblings'), plan)

    def test_instance_pinned_outside_blocks_plan(self):
        self.start_stock_host(dedicated='0-7', shared='8-11')
        server = self.boot(self.flavor(8, **{'hw:cpu_policy': 'dedicated'}))
        plan = self.plan('--dedicated', '4-7', '--shared', '8-11', '--ratio',
                         '2', status=report.FOUND)
        self.assertEqual(
            ('CPUs 0-3', 'CPUs 4-7'), tuple(
                plan['pinned outside', server['id']][column]
                for column in ('Now', 'Then')))
        self.assertEqual('not ready', plan['verdict', 'mix1']['Then'])
        self.assertIn('The host is not ready. Next: Solve the problems first '
                      '(pinned outside), and plan again.', self.said)
        self.assertRaises(SystemExit, self.do, '4-7')

    def test_whole_cores_block_plan_with_mix(self):
        self.start_stock_host(dedicated='0-7', shared='8-11')
        server = self.boot(self.flavor(
            2, **{'hw:cpu_policy': 'dedicated',
                  'hw:cpu_thread_policy': 'isolate'}))
        plan = self.plan('--dedicated', '0-7', '--shared', '8-11', '--ratio',
                         '2', status=report.FOUND)
        self.assertEqual({server['id']}, self.names(plan, 'whole cores'))
        plan = self.plan('--dedicated', '0-7', '--shared', '8-11', '--ratio',
                         '2', '--no-mix')
        self.assertEqual(set(), self.names(plan, 'whole cores'))

    def test_plan_switches_mix_on_and_off(self):
        self.flags(ram_allocation_ratio=1.5)
        self.start_seed_host(mix=False)
        self.boot(self.high)
        low = [self.boot(self.low) for _ in range(2)]
        plan = self.plan_and_do()
        self.assertEqual(('1.5', '1.0'), tuple(
            plan['option', 'ram_allocation_ratio'][column]
            for column in ('Now', 'Then')))
        low += [self.boot(self.low) for _ in range(2)]
        self.flags(ram_allocation_ratio=1.0)
        self.plan_and_do(mix=False, over=low)

    def test_plan_shows_oversold_memory(self):
        """Mix ends the overcommit of memory."""
        self.flags(ram_allocation_ratio=16.0)
        self.start_stock_host(memory_mb=1024)
        servers = [self.boot(self.flavor(1)) for _ in range(3)]
        plan = self.plan('--dedicated', '0-7', '--shared', '8-11', '--ratio',
                         '2')
        with self.record('mix1') as node:
            free = node.free_ram_mb
        self.assertLess(free, 0)
        self.assertEqual({'left': free}, plan['room', 'memory']['Now'])
        self.assertIn('until %d MB have moved away' % -free,
                      plan['room', 'memory']['Remedy'])
        self.do()
        self.assertEqual(plan['inventory', 'MEMORY_MB']['Then'],
                         self.resources('mix1')['MEMORY_MB'])
        self._delete_server(servers[0])
        self.boot(self.low, 'ERROR')

    def test_plan_with_another_ratio(self):
        self.start_seed_host()
        low = [self.boot(self.low) for _ in range(3)]
        plan = self.plan_and_do(ratio='1.25', over=low)
        # floor(4 * 1.25 + 8 * 0.25)
        self.assertEqual(7, plan['room', 'low']['Then']['sellable'])

    def test_plan_shows_host_in_motion_and_without_aggregate(self):
        self.start_stock_host(aggregate=None)
        server = self.boot(self.plain)
        self._resize_server(server, self.flavor(1))
        plan = self.plan('--dedicated', '0-7', '--shared', '8-11', '--ratio',
                         '2', status=report.FOUND)
        self.assertIn(('host', 'in motion'), plan)
        self.assertIn(('host', 'aggregate'), plan)

    def on_the_host(self, *arguments, isolated='', cgroups=(),
                    database='sqlite://', **kwargs):
        """Run the command on the host itself."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'x'
        path.write_text(isolated)
        servers = [self.guest_xml(server['id'])
                   for server in self.api.get_servers(detail=False)]
        host = self.computes['mix1'].driver._host

        def read(conf):
            return (guest_audit.GuestHost.from_libvirt(
                conf, host.get_connection().getCapabilities()),
                guest_audit.select_nova_guests(servers))

        with (self.host_conf('mix1'),
              mock.patch.object(guest_audit, 'read_guests', read),
              mock.patch(
                  'nova_prio.virt.libvirt.compute_checks.ISOLATED', path),
              mock.patch('nova_prio_host.command.find_problems',
                         return_value=list(cgroups))):
            self.flags(connection=database, group='api_database')
            return self.plan(
                '--dedicated', '0-7', '--shared', '8-11', '--ratio', '2',
                *arguments, here='mix1', **kwargs)

    def test_guest_that_nova_33_cannot_live_migrate_is_named(self):
        """Its XML has no I/O thread, which an older release started."""
        self.start_stock_host(dedicated='0-7', shared='8-11')
        server = self.boot(self.pinned)
        self.boot(self.plain)
        # Only newer releases of Nova start guests with I/O threads.
        xml = re.sub('<iothread.*?/>', '', self.guest_xml(server['id']))
        threaded = xml.replace('</cputune>', '<iothreadpin iothread="1" '
                               'cpuset="0"/></cputune>')
        for release, seen in (('33.0.2', xml), ('33.0.2', threaded),
                              ('34.0.0', xml)):
            with (mock.patch.object(contract, 'get_nova_release',
                                    return_value=release),
                  mock.patch.object(self, 'guest_xml', return_value=seen)):
                plan = self.on_the_host()
            row = plan.get(('host', 'live migration'))
            self.assertEqual((release, seen) == ('33.0.2', xml),
                             row is not None)
            if row:
                self.assertIn('instances %s, ' % server['id'], row['Remedy'])

    def test_plan_on_the_host_itself(self):
        """With and without the databases, kernel and guests are checked."""
        self.start_stock_host(dedicated='0-3,8', shared='4-7,9')
        pinned = self.boot(self.flavor(5, **{
            'hw:cpu_policy': 'dedicated',
            'hw:emulator_threads_policy': 'share'}))
        floating = self.boot(self.plain)
        for database in 'sqlite://', None:
            plan = self.on_the_host(status=report.FOUND, database=database)
            self.assertEqual(
                'CPUs 8', plan['pinned outside', pinned['id']]['Now'])
            # The emulator threads of the pinned instance float.
            for server in pinned, floating:
                self.assertEqual(
                    'CPUs 4-7', plan['floats', server['id']]['Now'])
            self.assertEqual(set(), self.names(plan, 'host'))
        self._delete_server(pinned)
        del self._guest_xmls[pinned['id']]
        plan = self.on_the_host(
            cgroups=['/high_prio_machine.slice is missing.'])
        self.assertEqual('/high_prio_machine.slice is missing.',
                         plan['host', 'partitions']['Remedy'])
        plan = self.on_the_host(isolated='6-9', status=report.FOUND)
        self.assertIn('CPUs 6-7, which the kernel',
                      plan['host', 'mix']['Remedy'])
        self.on_the_host('--no-mix', isolated='6-9')
        self._host_options['mix1']['nova_prio', 'low_emulator_set'] = '7-8'
        plan = self.on_the_host(status=report.FOUND)
        self.assertIn("[nova_prio] low_emulator_set is '7-8', but CPUs 7 are",
                      plan['host', 'low_emulator_set']['Remedy'])
        self._host_options['mix1']['nova_prio', 'low_emulator_set'] = None
        # The guest runs on the CPU sets from before a change.
        domain = etree.fromstring(self.guest_xml(floating['id']))
        domain.find('vcpu').set('cpuset', '0,9')
        self._guest_xmls[floating['id']] = etree.tostring(
            domain, encoding='unicode')
        for database in 'sqlite://', None:
            plan = self.on_the_host(database=database)
            self.assertEqual('CPUs 0', plan['floats', floating['id']]['Now'])
        self.on_the_host('--shared', '8-12', status=1)
        self.assertEqual('--dedicated or --shared holds CPUs 12; allowed are '
                         'the CPUs of the host: 0-11.\n', self.said)
        self.flags(connection=None, group='api_database')
        self.assertEqual(
            "HOST 'mix1' cannot be checked from this host, 'controller': this "
            'command needs [api_database] connection to check other hosts. '
            'Run it on mix1, or on a controller.\n', self.refused(
                '--shared', '0', '--ratio', '2', '--no-mix'))

    def test_guest_without_cpuset_floats_on_all_cpus(self):
        """Later CPU sets do not change the guest."""
        self.start_stock_host()
        server = self.boot(self.plain)
        self.do(None, '4-11', driver=colocation.STOCK, mix=False)
        plan = self.on_the_host()
        self.assertEqual('CPUs 0-7', plan['floats', server['id']]['Now'])
        self.do()
        self.assertEqual(self.report('mix1').remaining.high,
                         plan['room', 'high']['Then']['left'])

    def test_plan_removes_options_that_conflict_with_cpu_sets(self):
        self.start_stock_host()
        self._host_options['mix1'][None, 'reserved_host_cpus'] = 2
        self.restart_compute_service('mix1')
        self.update_host('mix1')
        plan = self.plan('--dedicated', '0-7', '--shared', '8-11', '--ratio',
                         '2')
        self.assertEqual(('2', ''), tuple(
            plan['option', 'reserved_host_cpus'][column]
            for column in ('Now', 'Then')))
        plan = self.on_the_host()
        self.assertIn('Nova does not start with this option and CPU sets',
                      plan['host', 'reserved_host_cpus']['Remedy'])
        self._host_options['mix1'][None, 'reserved_host_cpus'] = 0
        self.do()
        self.assertEqual(plan['inventory', 'VCPU']['Then'],
                         self.resources('mix1')['VCPU'])
        self._host_options['mix1'][None, 'reserved_host_cpus'] = 2
        self.assertRaises(exception.InvalidConfiguration, self.do)

    def test_plan_shows_nova_compute_down(self):
        self.start_stock_host()
        service, = self.api.get_services(host='mix1', binary='nova-compute')
        self.api.put_service_force_down(service['id'], True)
        plan = self.plan('--dedicated', '0-7', '--shared', '8-11', '--ratio',
                         '2', status=report.FOUND)
        self.assertEqual('down', plan['host', 'nova-compute']['Now'])

    def test_wrong_arguments_are_refused(self):
        self.start_stock_host()
        for expected, *arguments in (
                *(("--dedicated is '%s'; allowed are CPU numbers below 4096, "
                   'such as 0-3,8.' % text, '--dedicated', text)
                  for text in ('0-x', '0-4096', '0-99999999999')),
                ('--dedicated and --shared both hold CPUs 3; a CPU must be '
                 'in one of the two.', '--dedicated', '0-3', '--shared', '3'),
                ('Mix needs --dedicated and --shared; give both, or '
                 '--no-mix.', '--dedicated', '0-3'),
                ('Neither --dedicated nor --shared is given; give one or '
                 'both.', '--no-mix'),
                ("--ratio is 'x'; allowed are numbers from 0.0001 to 1000.",
                 '--ratio', 'x'),
                ("--ratio is '0'; allowed are numbers from 0.0001 to 1000.",
                 '--ratio', '0'),
                ("--ratio is '1e400'; allowed are numbers from 0.0001 to "
                 "1000.", '--ratio', '1e400'),
                ('--ratio is 0.1, which leaves no sellable low-priority vCPU; '
                 'use a larger ratio, or more CPUs for --shared.',
                 '--dedicated', '0-3', '--shared', '4', '--ratio', '0.1')):
            self.assertEqual(expected + '\n', self.refused(
                '--ratio', '2', *arguments))
        _, _, said = commands.run('host', 'plan', 'nowhere', '--shared', '0',
                                  '--ratio', '2', '--no-mix')
        self.assertIn("nowhere", said)
        self.assertIn('allowed are names of compute hosts', said)
