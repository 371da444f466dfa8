# SPDX-License-Identifier: Apache-2.0

"""The examples end as documented, and refusals give their reasons."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import testtools

from nova_prio_scenario import cloud
from nova_prio_scenario import document
from nova_prio_scenario import player

EXAMPLES = pathlib.Path(__file__).parents[2] / 'examples'
PLAY = [os.path.join(os.path.dirname(sys.executable), 'nova-prio'),
        'scenario', 'play', '--format', 'json']

HOST = ('cpus: 12, dedicated: 0-7, shared: 8-11, ratio: 2.0, mix: true, '
        'aggregate: {priority_mix: true}')

# When the first resize begins, the ordinary row of mix-2 has 4 free CPUs and
# the low row of mix-3 has none.
REFUSED = """
hosts:
  - {name: mix-1, %(host)s}
  - {name: mix-2, %(host)s}
  - {name: mix-3, %(host)s}
flavors:
  - {name: four, vcpus: 4}
  - {name: six, vcpus: 6}
  - {name: eight, vcpus: 8}
steps:
  - create: {name: moved, flavor: four, host: mix-1}
    expect: active
  - create: {name: other, flavor: four, host: mix-2}
    expect: active
  - create: {name: low, count: 2, flavor: eight, hint: low, host: mix-3}
    expect: active
  - resize: {server: moved, flavor: six}
    expect: refused
  - resize: {server: moved, flavor: eight}
    expect: refused
  - create: {name: new, flavor: six}
    expect: refused
  - create: {name: late, flavor: four, hint: low, host: mix-3}
    expect: refused
""" % {'host': HOST}

DOWN = """
hosts:
  - {name: mix-1, %(host)s}
  - {name: Mix-2, %(host)s}
flavors:
  - {name: two, vcpus: 2}
steps:
  - create: {name: moved, flavor: two, host: mix-1}
  - create: {name: left, flavor: two, host: mix-1}
  - create: {name: other, flavor: two, host: mix-1}
  - live-migrate: {server: other, host: Mix-2}
    expect: migrated
  - migrate: {server: moved, confirm: false}
    expect: migrated
  - host-down: {host: mix-1}
  - confirm: {server: moved}
    expect: refused
  - live-migrate: {server: moved}
    expect: refused
  - shelve: {server: left}
    expect: refused
  - evacuate: {server: other}
    expect: refused
  - create: {name: new, flavor: two, host: mix-1}
    expect: refused
""" % {'host': HOST}

CHANGED = """
hosts:
  - {name: plain, cpus: 4}
flavors:
  - {name: two, vcpus: 2}
steps:
  - create: {name: old, flavor: two}
    expect: active
  - host-change: {host: plain, dedicated: 0-1}
    expect: refused
  - host-change: {host: plain, shared: 0-1, ratio: 3}
    expect: changed
  - reboot: {server: old}
    expect: active
  - create: {name: new, flavor: two}
    expect: active
  - stop: {server: new}
    expect: stopped
  - stop: {server: new}
    expect: refused
"""


class Scenarios(testtools.TestCase):
    """Scenarios that are played in the process of the tests.

    ``tests/example_check.py`` plays one with the command.
    """

    def _play(self, scenario):
        """Play a document.Document; return the JSON document."""
        with cloud.Cloud.running(scenario.affinity_domains) as running:
            played = player.Player(running, scenario, lambda line: None).play()
        self.assertEqual([], played.surprises)
        return json.loads(json.dumps(played.to_dict()))

    def _play_text(self, text):
        """Play a scenario; return the JSON document."""
        return self._play(document.Document(text, 'text'))

    def _play_file(self, name):
        """Play an example; return the JSON document."""
        return self._play(document.load(str(EXAMPLES / (name + '.yaml'))))

    def _play_example(self, name):
        """Play an example; return dict, name to server."""
        return by_name(self._play_file(name))

    def test_ordinary_example(self):
        played = self._play_example('ordinary')
        self.assertIn('the ordinary row has 0 of 8 vCPUs free, 4 are needed '
                      '(ordinary_capacity)', played['plain-3']['fault'])

    def test_fleet_example(self):
        played = self._play_example('fleet')
        self.assertEqual(
            {'mix-1', 'mix-2'},
            {played['db-1']['host'], played['db-2']['host']})
        self.assertIn('CUSTOM_CPU_PRIORITY', played['lost']['fault'])
        self.assertEqual('high', played['lost']['priority'])

    def test_asking_example(self):
        played = self._play_example('asking')
        self.assertEqual(('low', None), (played['by-hint']['priority'],
                                         played['by-flavor']['priority']))
        self.assertIn('drop the hint', played['both']['fault'])
        self.assertEqual(
            ('high', 'low', 'low'),
            tuple(played[name]['priority'] for name in (
                'both', 'low-but-pinned', 'low-but-pinning')))

    def test_lifecycle_example(self):
        played = self._play_file('lifecycle')
        self.assertEqual({
            'mix-1': ('up', [4, 0, 0], {'db-3': {'PCPU': 4}}),
            'mix-2': ('up', [6, 10, 4], {
                'db-1': {'PCPU': 6}, 'batch-2': {'VCPU': 6},
                'web': {'VCPU': 4}}),
            'mix-3': ('up', [8, 6, 0], {
                'db-2': {'PCPU': 4}, 'db-4': {'PCPU': 4},
                'batch-1': {'VCPU': 6}}),
        }, {host['name']: (
            host['state'],
            [row['used'] for row in host['classes'].values()],
            allocated_cpus(host, played['servers'])
        ) for host in played['hosts']})
        servers = by_name(played)
        self._assert_guests(servers)
        for name, reason in (
                ('too-early', 'mix-1: 4 PCPU needed, 0 free of 8'),
                ('too-early-low', 'mix-1: 6 VCPU needed, 0 free of 16'),
                ('db-4', 'mix-3: 4 PCPU needed, 0 free of 8'),
                ('db-4', 'mix-1: the server is on this host; a move needs '
                         'another host'),
                ('db-3', 'mix-1: the host is down')):
            self.assertIn(reason, servers[name]['fault'].split('\n'))

    def _assert_guests(self, servers):
        """Assert the partition and CPUs of each guest by its priority."""
        partitions = {'high': '/high_prio_machine',
                      'low': '/low_prio_machine', None: None}
        pinned = []
        for name in ('db-1', 'db-2', 'db-3', 'db-4', 'batch-1', 'batch-2',
                     'web'):
            server = servers[name]
            self.assertEqual('ACTIVE', server['status'], name)
            self.assertEqual(partitions[server['priority']],
                             server['partition'], name)
            if server['priority'] == 'high':
                pinned += [(server['host'], cpu) for cpu, in server['cpus']]
            else:
                first = 0 if server['priority'] else 8
                self.assertEqual([*range(first, 12)], server['cpus'], name)
        self.assertEqual(4 + 6 + 4 + 4, len(set(pinned)))
        self.assertLess(max(cpu for _, cpu in pinned), 8)

    def test_racks_example(self):
        played = self._play_file('racks')
        domains = {host['name']: host['domains'] for host in played['hosts']}
        self.assertEqual({'zone': 'east', 'rack': '2'}, domains['e2-a'])
        hosts = {name: server['host']
                 for name, server in by_name(played).items()}
        self.assertEqual(['e1-a', 'e2-a', 'w1-a', 'w1-a'], sorted(
            host for name, host in hosts.items()
            if not name.startswith('node')))
        self.assertEqual(['e1-b', 'e1-a', 'e2-a', 'w1-a'], [
            hosts['node-%d' % number] for number in range(1, 5)])

    def test_hosts_down_example(self):
        played = self._play_text(DOWN)
        self.assertEqual(
            {'mix-1': 'down', 'Mix-2': 'up'},
            {host['name']: host['state'] for host in played['hosts']})
        servers = by_name(played)
        self.assertEqual([
            'step 7 (confirm): Host mix-1 of the server is down.',
            'step 8 (live-migrate): Host mix-1 of the server is down.',
        ], servers['moved']['fault'].split('\n'))
        self.assertEqual('step 9 (shelve): Host mix-1 of the server is down.',
                         servers['left']['fault'])
        self.assertIn('Compute service of Mix-2 is still in use',
                      servers['other']['fault'])
        self.assertEqual([
            'step 11 (create): No valid host was found. There are not enough '
            'hosts available.',
            'Mix-2: the request names another host', 'mix-1: the host is down',
        ], servers['new']['fault'].split('\n'))

    def test_maintenance_example(self):
        played = self._play_file('maintenance')
        servers = by_name(played)
        self.assertEqual({
            'db-1': ('SHUTOFF', 'mix-2'), 'db-2': ('ACTIVE', 'mix-2'),
            'late': ('ACTIVE', 'mix-1'),
        }, {name: (servers[name]['status'], servers[name]['host'])
            for name in ('db-1', 'db-2', 'late')})
        self.assertEqual([4, 4], [
            len(servers[name]['cpus']) for name in ('db-1', 'db-2')])
        self.assertEqual([*range(11)], servers['batch']['cpus'])
        self.assertIsNone(servers['db-1']['fault'])
        self.assertIn('mix-2: 4 PCPU needed, 0 free of 8',
                      servers['db-2']['fault'])
        self.assertIn('mix-1: has the forbidden trait COMPUTE_STATUS_DISABLED',
                      servers['early']['fault'])
        first, second = played['hosts']
        self.assertIn("step 5 (host-change): nova_prio: [compute] "
                      "cpu_dedicated_set is '0-3'", first['fault'])
        self.assertIsNone(second['fault'])
        self.assertEqual(('enabled', '0-3', '4-11'), tuple(
            first[key] for key in ('status', 'dedicated', 'shared')))
        self.assertEqual([4, 20, 16], [
            row['sellable'] for row in first['classes'].values()])

    def test_refused_change_keeps_the_options_of_a_host(self):
        played = self._play_text(CHANGED)
        host, = played['hosts']
        self.assertEqual((None, '0-1', 3), tuple(
            host[key] for key in ('dedicated', 'shared', 'ratio')))
        self.assertEqual(6, host['classes']['ordinary']['sellable'])
        # The text is of Nova.
        self.assertIn('step 2 (host-change): This host has unpinned instances',
                      host['fault'])
        servers = by_name(played)
        # A soft reboot keeps the domain of libvirt.
        self.assertEqual([0, 1, 2, 3], servers['old']['cpus'])
        self.assertEqual([0, 1], servers['new']['cpus'])
        self.assertIn('step 7 (stop): HTTP 409', servers['new']['fault'])

    def test_refusal_has_a_reason_for_each_host(self):
        found = by_name(self._play_text(REFUSED))
        wide = ('the instance has more shared vCPUs than the host has shared '
                'CPUs (too_many_shared_vcpus)')
        own = 'mix-1: the server is on this host; a move needs another host'
        self.assertEqual([
            'step 4 (resize to six): No valid host was found.', own,
            'mix-2: ' + wide, 'mix-3: 6 VCPU needed, 0 free of 16',
            'step 5 (resize to eight): No valid host was found.', own,
            'mix-2: ' + wide, 'mix-3: 8 VCPU needed, 0 free of 16',
        ], found['moved']['fault'].split('\n'))
        self.assertEqual([
            'mix-1: ' + wide, 'mix-2: ' + wide,
            'mix-3: 6 VCPU needed, 0 free of 16',
        ], found['new']['fault'].split('\n')[1:])
        self.assertEqual('low', found['late']['priority'])
        self.assertIn('step 7 (create): ', found['late']['fault'])


class Interruption(testtools.TestCase):

    def _interrupt(self, number, line, seconds=0):
        """Send a signal a number of seconds after a line of progress."""
        with tempfile.TemporaryDirectory() as directory, subprocess.Popen(
                [*PLAY, str(EXAMPLES / 'asking.yaml')], text=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env={**os.environ, 'TMPDIR': directory}) as player:
            self.addCleanup(player.kill)
            for shown in player.stderr:
                if line in shown:
                    break
            time.sleep(seconds)
            player.send_signal(number)
            self.assertEqual(130, player.wait(timeout=30))
            self.assertEqual(
                'Interrupted.', player.stderr.read().splitlines()[-1])
            self.assertEqual([], os.listdir(directory))

    def test_terminate_while_nova_is_loaded(self):
        self._interrupt(signal.SIGTERM, 'Flavor, hint, conflicts', 1)

    def test_interrupt_while_steps_are_played(self):
        self._interrupt(signal.SIGINT, '[1/11]')


def by_name(document):
    """Return the servers of a result: dict, name to server."""
    return {server['name']: server for server in document['servers']}


def allocated_cpus(host, servers):
    """Return the CPU allocations on a host: dict, server to resources.

    The allocation of a consumer that is no server has the consumer id as key.
    """
    names = {server['id']: server['name'] for server in servers}
    return {names.get(consumer, consumer): {
        resource: amount
        for resource, amount in allocation['resources'].items()
        if resource in ('PCPU', 'VCPU')}
        for consumer, allocation in host['allocations'].items()}
