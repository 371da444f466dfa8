# SPDX-License-Identifier: Apache-2.0


"""The commands ``nova-prio host`` for several hosts at once."""

from concurrent import futures
import json
import threading

import fixtures

from nova_prio.admin.host import removal
from nova_prio.cmd import report
from nova_prio.model import traits
from tests import commands
from tests.functional import colocation

TERMS = ('--dedicated', '0-7', '--shared', '8-11', '--ratio', '2')


class SeveralHosts(colocation.Colocation):

    def setUp(self):
        super().setUp()
        self.plans = self.directory / 'plans'

    def run_all(self, *arguments, status=report.CLEAN):
        """Run a command; return dict, name of a host -> other columns."""
        return {row.pop('Host'): list(row.values())
                for row in self.command(*arguments, status=status)}

    def plan_all(self, *arguments, status=report.CLEAN):
        """Plan hosts, by default with TERMS; return the result of each."""
        return self.run_all('plan', '--output-dir', str(self.plans),
                            *(arguments or ('--all', *TERMS)), status=status)

    def next_step(self, name):
        """Return the next step for a host whose plan was written."""
        return 'Follow the steps of %s.' % (self.plans / (name + '.json'))

    def files(self):
        """Return the plans: dict, name of a file -> text."""
        return {path.name: path.read_text() for path in self.plans.iterdir()}

    def start_stock_hosts(self, *names, **kwargs):
        for name in names:
            self.start_stock_host(name=name, **kwargs)

    def test_each_plan_is_the_output_for_its_host(self):
        self.start_stock_hosts('mix2', 'mix1')
        server = self.boot(self.plain)
        self.assertEqual({name: ['ready', 0, self.next_step(name)]
                          for name in ('mix1', 'mix2')}, self.plan_all())
        self.assertEqual('Hosts: 2 (ready: 2). Follow the column "Next".\n',
                         self.said)
        for name in 'mix1', 'mix2':
            _, text, _ = commands.run('host', 'plan', name, *TERMS, load=str)
            self.assertEqual(text, self.files()[name + '.json'])
        rows = json.loads(self.files()[self.host_of(server) + '.json'])
        self.assertEqual(
            {server['name']}, {row['Instance Name'] for row in rows
                               if row['Name'] == server['id']})

    def test_interrupted_command_goes_on(self):
        self.start_stock_hosts('mix1', 'mix2')
        self.plan_all('mix2', *TERMS)
        # This would change the plan.
        self.boot(self.plain, az='nova:mix2')
        before = self.files()
        path = self.plans / 'mix2.json'
        self.assertEqual(
            {'mix1': ['ready', 0, self.next_step('mix1')],
             'mix2': ['ready', 0, '%s exists: follow its steps.' % path]},
            self.plan_all())
        self.assertEqual(before['mix2.json'], self.files()['mix2.json'])
        self.assertEqual({'mix1.json', 'mix2.json'}, set(self.files()))

    def test_plan_of_other_terms_is_not_overwritten(self):
        self.start_stock_hosts('mix1', 'mix2')
        self.plan_all('mix1', *TERMS)
        before = self.files()
        found = self.plan_all('mix1', 'mix2', *TERMS, '--no-mix', status=1)
        self.assertEqual(['failed', '', (
            '%s is a plan with other terms (cpu_dedicated_set = 0-7, '
            'cpu_shared_set = 8-11, cpu_allocation_ratio = 2, '
            'cpu_priority_mix_enable = true); give the same terms, or another '
            '--output-dir.' % (self.plans / 'mix1.json'))], found['mix1'])
        self.assertEqual('ready', found['mix2'][0])
        self.assertEqual(before['mix1.json'], self.files()['mix1.json'])
        (self.plans / 'mix1.json').write_text('x')
        self.assertIn('is no plan', self.plan_all(status=1)['mix1'][2])

    def test_host_that_is_not_ready_gets_no_plan(self):
        """It is planned again when its problem is solved."""
        self.start_stock_hosts('mix1', 'mix2')
        service, = self.api.get_services(host='mix2', binary='nova-compute')
        self.api.put_service_force_down(service['id'], True)
        self.assertEqual(
            ['not ready', 1, 'Solve the problems first (nova-compute), and '
             'plan again.'], self.plan_all(status=report.FOUND)['mix2'])
        self.assertEqual({'mix1.json'}, set(self.files()))
        rows = self.command('plan', 'mix2', *TERMS, status=report.FOUND)
        (self.plans / 'mix2.json').write_text(json.dumps(rows))
        self.assertIn('was not ready: delete the file',
                      self.plan_all(status=report.FOUND)['mix2'][2])
        (self.plans / 'mix2.json').unlink()
        self.api.put_service_force_down(service['id'], False)
        self.assertEqual('ready', self.plan_all()['mix2'][0])

    def test_hosts_without_the_planned_cpus_fail(self):
        self.start_stock_hosts('mix1')
        self.start_stock_hosts('small1', cpus=8)
        self.start_stock_hosts('small2', cpus=8, dedicated='0-3', shared='4-7')
        self.start_stock_hosts('part', dedicated='0-3', shared='4-7')
        found = self.plan_all(status=1)
        for name in 'small1', 'small2':
            self.assertEqual(['failed', '', (
                '--dedicated or --shared holds CPUs 8-11; allowed are the '
                'CPUs of the host: 0-7.')], found[name])
        self.assertEqual(['ready'] * 2, [
            found[name][0] for name in ('mix1', 'part')])
        self.assertEqual({'mix1.json', 'part.json'}, set(self.files()))

    def test_hosts_are_selected_by_name_aggregate_or_all(self):
        self.start_stock_hosts('mix1', 'mix2')
        self.start_stock_hosts('mix3', aggregate={'x': 'y'})
        groups = {aggregate['hosts'][0]: aggregate['name']
                  for aggregate in self.api.api_get(
                      '/os-aggregates').body['aggregates']}
        self.api.post_aggregate({'aggregate': {'name': 'empty'}})
        for hosts, *arguments in (
                (['mix3', 'mix1'], 'mix3', 'mix1', 'mix3'),
                (['mix3'], '--aggregate', groups['mix3']),
                (['mix3', 'mix1', 'mix2'], '--aggregate', groups['mix3'],
                 '--aggregate', groups['mix1'], '--aggregate', groups['mix3']),
                (['mix1', 'mix2', 'mix3'], '--all')):
            self.assertEqual(hosts, list(self.plan_all(*arguments, *TERMS)))
        for expected, *arguments in (
                ("--aggregate is 'x'; allowed are names of host aggregates "
                 'with hosts.', '--aggregate', 'x'),
                ("--aggregate is 'empty'; allowed are names", '--aggregate',
                 'empty'),
                ("Host 'x' is not mapped to any cell; allowed are names of "
                 'compute hosts.', 'mix1', 'x'),
                ('Given are HOST and --all; allowed is exactly one of HOST, '
                 '--aggregate and --all.', '--all', 'mix1'),
                ('Given are no hosts; allowed is', )):
            before = self.files()
            self.command('plan', *arguments, *TERMS, '--output-dir',
                         str(self.plans), status=1)
            self.assertIn(expected, self.said)
            self.assertEqual(before, self.files())
        self.command('plan', '--all', *TERMS, status=1)
        self.assertEqual('--output-dir is not given; several hosts need it, '
                         'because each plan is written to a file.\n',
                         self.said)
        self.command('plan', '--all', *TERMS, '--output-dir',
                     str(self.plans / 'mix1.json'), status=1)
        self.assertIn('which is no directory and cannot be made: File exists.',
                      self.said)
        self.command('plan', '--all', *TERMS, '--concurrency', '0', status=2)

    def convert(self, *names):
        """Plan and convert stock hosts."""
        self.start_stock_hosts(*names)
        self.plan_all()
        for name in names:
            self.do(name=name)

    def test_verify_compares_each_host_with_its_plan(self):
        self.convert('mix1', 'mix2')
        self.start_stock_hosts('stock')
        self.do(ratio='3.0', name='mix2')
        kept = ('--plan', str(self.plans))
        found = self.run_all('verify', '--all', *kept, status=report.FAILED)
        self.assertEqual({
            'mix1': ['ok', 0, 'The guests were not checked: run this command '
                     'on the host.'],
            'mix2': ['differs', 4, 'Set the options of nova-compute as '
                     'planned, and restart nova-compute.'],
            'stock': ['failed', '', 'The plan %s cannot be read: No such file '
                      'or directory.' % (self.plans / 'stock.json')]}, found)
        self.run_all('verify', 'mix1', 'mix2', *kept, status=report.FOUND)
        self.run_all('verify', 'mix1', 'mix1', *kept)
        self.assertEqual('Hosts: 1 (ok: 1). Follow the column "Next".\n',
                         self.said)
        self.command('verify', 'mix1', *kept)
        self.assertIn('All values agree.', self.said)
        path = str(self.plans / 'mix1.json')
        self.command('verify', '--all', '--plan', path, status=1)
        self.assertEqual("--plan is '%s'; allowed are directories of plans, "
                         'for several hosts.\n' % path, self.said)

    def test_finding_has_the_name_of_its_instance(self):
        self.start_seed_host()
        server = self.boot(self.low)
        self._delete_server_allocations(server['id'])
        for row in (*self.command('verify', 'mix1', status=report.FOUND),
                    *commands.run('audit')[1]):
            text = row.get('Item', row.get('Consumer'))
            self.assertEqual(server['name'] if server['id'] in text else '',
                             row['Instance Name'])
        for arguments in ('host', 'verify', 'mix1'), ('audit',):
            _, table, _ = commands.run(
                *arguments, options=('--max-width', '0'), load=str)
            self.assertIn('%s (%s)' % (server['id'], server['name']), table)
            self.assertNotIn('Instance Name', table)

    def test_disable_restores_each_host_at_its_pace(self):
        self.convert('mix1', 'mix2')
        before = self.traits('mix1')
        server = self.boot(self.low, az='nova:mix1')
        arguments = ('disable', 'mix1', 'mix2', 'x', '--plan',
                     str(self.plans), '--timeout', '0')
        self.command(*arguments, status=1)
        arguments = [each for each in arguments if each != 'x']
        found = self.run_all(*arguments, '--dry-run', status=report.FOUND)
        self.assertEqual(before, self.traits('mix1'))
        found = self.run_all(*arguments, status=report.FOUND)
        self.assertEqual(
            [('instances must leave', 1), ('restore options', 0)],
            [tuple(found[name][:2]) for name in ('mix1', 'mix2')])
        self.assertIn(
            ' Host mix2: disabled for priority instances, to remove '
            'co-location.\n', self.said)
        self.assertIn(
            'Host mix1: instances that must leave: 1. To list them, run '
            '"nova-prio host disable mix1 --dry-run".\n', self.said)
        self.do(None, None, '16.0', False, colocation.STOCK, 'mix2')
        found = self.run_all(*arguments, status=report.FOUND)
        self.assertEqual(
            [('instances must leave', 1), ('restored', 0)],
            [tuple(found[name][:2]) for name in ('mix1', 'mix2')])
        self._delete_server(server)
        self.do(None, None, '16.0', False, colocation.STOCK, 'mix1')
        for _ in range(2):
            found = self.run_all(*arguments)
            self.assertEqual(['restored'] * 2,
                             [row[0] for row in found.values()])
        self.assertEqual(
            'Hosts: 2 (restored: 2). Follow the column "Next".\n', self.said)

    def test_interrupt_ends_the_wait_for_several_hosts(self):
        self.convert('mix1', 'mix2')
        self.boot(self.low, az='nova:mix1')
        self.boot(self.low, az='nova:mix2')
        stock, is_waiting = removal.Removal.wait, threading.Event()

        def wait(self, timeout_seconds, interrupted):
            is_waiting.set()
            assert interrupted.wait(60)
            return stock(self, timeout_seconds, interrupted)

        def interrupt(tasks):
            """Interrupt the command: with eventlet, a signal hits a task."""
            assert is_waiting.wait(60)
            raise KeyboardInterrupt

        self.useFixture(fixtures.MockPatchObject(
            removal.Removal, 'wait', wait))
        self.useFixture(fixtures.MockPatchObject(
            futures, 'as_completed', interrupt))
        found = self.run_all('disable', '--all', status=report.FOUND)
        self.assertEqual(['instances must leave', 'interrupted'],
                         [row[0] for row in found.values()])
        self.assertEqual(
            [True, False], [traits.CPU_PRIORITY_DISABLED in self.traits(name)
                            for name in ('mix1', 'mix2')])

    def test_enable_lists_each_host(self):
        self.convert('mix1', 'mix2')
        self.start_stock_hosts('stock')
        self.command('disable', 'mix1', 'mix2', '--timeout', '0',
                     status=report.FOUND)
        found = self.run_all('enable', '--all', '--dry-run', status=1)
        self.assertEqual(
            {'mix1': 'not changed', 'mix2': 'not changed', 'stock': 'failed'},
            {name: row[0] for name, row in found.items()})
        self.assertIn(traits.CPU_PRIORITY_DISABLED, self.traits('mix1'))
        found = self.run_all('enable', '--all', '--concurrency', '2',
                             status=1)
        self.assertEqual(
            {'mix1': 'enabled', 'mix2': 'enabled', 'stock': 'failed'},
            {name: row[0] for name, row in found.items()})
        for name in 'mix1', 'mix2':
            self.assertIn(traits.CPU_PRIORITY, self.traits(name))
