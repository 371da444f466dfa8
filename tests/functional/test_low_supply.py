# SPDX-License-Identifier: Apache-2.0

"""Low-priority servers go to the host with CPU time for them."""

import pathlib
import types

import fixtures
import nova.conf

from nova_prio.virt.libvirt import supply_meter
from tests import commands
from tests.functional import base

CONF = nova.conf.CONF
FAKE = 'nova.tests.fixtures.libvirt.'
METER = 'nova_prio.virt.libvirt.supply_meter.'
# The fixture of fake hosts replaces this method.
MEASURE = supply_meter.SupplyMeter.measure
CPUS = 12


class LowSupply(base.FunctionalTest):
    """Hosts whose CPUs idle for a part of the time.

    ``idle`` is host -> part, ``wait`` is host -> part of the time that each
    vCPU waits. Guests use no time.
    """

    def setUp(self):
        super().setUp()
        self.seconds = 1000
        self.idle, self.wait, self.calls = {}, {}, []
        # Host -> seconds of its last update, and counters since its start.
        self.updated, self.idled, self.waited = {}, {}, {}
        self.error = None

        def get_stats(connection, stats, flags):
            """Return the times of the vCPUs of all guests of a host."""
            self.calls.append(connection)
            if self.error:
                raise self.error
            delay = int(self.waited[self.measured] * 10 ** 9)
            times = {'vcpu.0.time': 0, 'vcpu.0.delay': delay}
            return [(domain, times) for domain in connection.listAllDomains(1)]

        def get_xml(domain, flags):
            """Return the domain XML that the driver made.

            The fake libvirt drops the partition.
            """
            return self._guest_xmls[domain.UUIDString()]

        self.stat_file = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'stat')
        for name, value in {
                METER + 'SupplyMeter.measure': MEASURE,
                METER + '_STAT_FILE': str(self.stat_file),
                METER + 'time': types.SimpleNamespace(
                    monotonic=lambda: self.seconds),
                FAKE + 'VIR_DOMAIN_STATS_VCPU': 8,
                FAKE + 'VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE': 1,
                FAKE + 'VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT': 1 << 29,
                FAKE + 'Connection.getAllDomainStats': get_stats,
                FAKE + 'Domain.XMLDesc': get_xml,
        }.items():
            self.useFixture(fixtures.MonkeyPatch(name, value))

    def start(self, name, idle, **kwargs):
        """Start a host, and measure it twice."""
        self.idle[name] = idle
        self.update(name, lambda: self.start_seed_host(name, **kwargs))
        self.pass_minutes(1, name)

    def update(self, name, step=None):
        """Recount a host, or take another step, with its counters."""
        elapsed = self.seconds - self.updated.get(name, 0)
        self.updated[name] = self.seconds
        for part, total in ((self.idle, self.idled),
                            (self.wait, self.waited)):
            total[name] = (
                total.get(name, 0) + elapsed * part.get(name, 0))
        idle = int(self.idled[name] * 100)
        self.stat_file.write_text('\n'.join(
            'cpu%d %d 0 0 %d 0 0 0 0' % (cpu, 100 * self.seconds - idle, idle)
            for cpu in range(CPUS)))
        self.measured = name
        if step:
            step()
        else:
            self.update_host(name)

    def pass_minutes(self, minutes, *names):
        """Let each host recount once in a minute."""
        for _ in range(minutes):
            self.seconds += 60
            for name in names:
                self.update(name)

    def weigh(self, multiplier):
        """Set the option, and create the weighers again, which read it."""
        self.flags(low_supply_weight_multiplier=multiplier, group='nova_prio')
        manager = self.scheduler.manager.host_manager
        manager.weighers = [
            weigher() for weigher in manager.weight_handler.
            get_matching_classes(CONF.filter_scheduler.weight_classes)]

    def test_low_server_goes_where_cpus_idle(self):
        """The other weighers prefer the busy host, which has more memory."""
        self.start('busy', 0.1, memory_mb=16384)
        self.start('idle', 0.8, memory_mb=12288)
        self.assertEqual((120, 960), tuple(
            self.report(name).low_supply.cpu_percent
            for name in ('busy', 'idle')))
        low = self.flavor(1, **{'hw:cpu_priority': 'low'})
        self.assertEqual('busy', self.host_of(self.boot(low)))
        self.weigh(10.0)
        self.assertEqual('idle', self.host_of(self.boot(low)))

    def test_full_host_with_supply_leaves_the_busy_one(self):
        """The weigher refuses no host."""
        self.start('busy', 0)
        self.start('idle', 1)
        self.weigh(10.0)
        servers = [self.boot(self.low) for _ in range(5)]
        self.assertEqual(['idle'] * 4 + ['busy'],
                         [self.host_of(server) for server in servers])

    def test_servers_of_one_request_share_the_supply(self):
        """Of 6 and 2.4 CPUs, the vCPUs get 3, 1.5, 1.2 and 1.0 CPUs each."""
        self.start('half', 0.5)
        self.start('fifth', 0.2)
        self.weigh(10.0)
        self.boot_with_hint(self.flavor(2), 'low', count=4)
        hosts = [server['OS-EXT-SRV-ATTR:host']
                 for server in self.api.get_servers()]
        self.assertEqual(['fifth', 'half', 'half', 'half'], sorted(hosts))

    def test_failed_measurement_fails_no_recount(self):
        self.start('host1', 1)
        log = self.useFixture(fixtures.FakeLogger('nova_prio'))
        self.boot(self.low)
        self.calls.clear()
        self.error = AttributeError('no such call')
        self.pass_minutes(5, 'host1')
        # One call for each recount.
        self.assertEqual(5, len(self.calls))
        report = self.report('host1')
        self.assertEqual(1200, report.low_supply.cpu_percent)
        self.assertEqual(4, report.used.low)
        self.assertEqual('', report.problem)
        self.pass_minutes(6, 'host1')
        self.assertIsNone(self.report('host1').low_supply)
        self.assertEqual('', self.report('host1').problem)
        self.boot(self.low)
        self.assertEqual(
            1, log.output.count('nova_prio cannot measure the low supply'))

    def test_quiet_host_writes_no_record(self):
        """The record is written no more often than without a measurement."""
        self.start('host1', 1)
        self.boot(self.low)
        self.pass_minutes(2, 'host1')
        with self.record('host1') as node:
            before = node.updated_at
        for minute in range(30):
            self.idle['host1'] = 1 - minute % 3 / 100
            self.pass_minutes(1, 'host1')
        with self.record('host1') as node:
            self.assertEqual(before, node.updated_at)

    def test_commands_show_the_low_supply(self):
        self.start('busy', 0)
        self.start('idle', 0.5)
        self.boot(self.low, az='nova:busy')
        # After five minutes, the average is 57 %, which is a step from 70 %.
        self.wait['busy'] = 0.7
        self.pass_minutes(20, 'busy', 'idle')
        status, rows, _ = commands.run('capacity', 'show')
        self.assertEqual(
            {'busy': (0, 60), 'idle': (6, 0)},
            {row['Host']: (row['Low Supply'], row['Low Wait Percent'])
             for row in rows})
        _, rows, _ = commands.run('capacity', 'show', '--by-aggregate')
        self.assertEqual((6, 60), (
            rows[0]['Low Supply'], rows[0]['Low Wait Percent']))
        _, table, _ = commands.run('capacity', 'show', options=(), load=str)
        self.assertIn('6.0 (0 %)', table)
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'page')
        commands.run('capacity', 'show', '--html', str(path))
        self.assertIn('0.0 (60 %)', path.read_text())
        for multiplier, best in (('0', 'idle'), ('-10', 'busy')):
            for name in 'busy', 'idle':
                self._join_aggregate(
                    name, {'low_supply_weight_multiplier': multiplier})
            _, rows, _ = commands.run('explain', '--flavor', self.low)
            found = {row['Host']: (row['Rank'], row['Low Supply'])
                     for row in rows}
            other = 'busy' if best == 'idle' else 'idle'
            self.assertEqual((1, 2), (found[best][0], found[other][0]))
            self.assertEqual((0, 1.5), (found['busy'][1], found['idle'][1]))
        _, rows, said = commands.run('explain', '--flavor', self.high)
        self.assertEqual([None, None], [row['Low Supply'] for row in rows])
        self.assertIn('except PriorityWeighter and LowSupplyWeigher', said)

    def test_metrics_have_the_low_supply(self):
        self.start('busy', 0.5)
        self.start('new', 1, mix=False)
        self.boot(self.low, az='nova:busy')
        self.wait['busy'] = 0.5
        self.pass_minutes(20, 'busy')
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'a.prom')
        commands.run('metrics', '--output', str(path), options=())
        text = path.read_text()
        for line in ('nova_prio_low_supply_cpus{host="busy"} 6.0',
                     'nova_prio_low_wait_ratio{host="busy"} 0.4',
                     # The shared CPUs of a host without mix.
                     'nova_prio_low_supply_cpus{host="new"} 4.0'):
            self.assertIn(line, text)
