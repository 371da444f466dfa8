# SPDX-License-Identifier: Apache-2.0

"""The worked example of the co-location design, on a stock Nova."""

from nova_prio.model import cpu_capacity
from tests.functional import base


class SeedExample(base.FunctionalTest):
    """12 CPUs, 8 of them dedicated, ratio 2: two high and four low."""

    def setUp(self):
        super().setUp()
        self.start_seed_host()

    def test_example_host_reports_inventory_and_traits(self):
        found = self.resources('mix1')
        self.assertEqual(
            (12, 4, 2.0, 12),
            tuple(found['VCPU'][key] for key in (
                'total', 'reserved', 'allocation_ratio', 'max_unit')))
        self.assertEqual(8, found['PCPU']['total'])
        self.assertEqual(1.0, found['MEMORY_MB']['allocation_ratio'])
        self.assertLessEqual(
            {'CUSTOM_CPU_PRIORITY', 'CUSTOM_CPU_PRIORITY_MIX'},
            set(self.traits('mix1')))

    def test_two_high_and_four_low_fill_the_host(self):
        highs = [self.boot(self.high) for _ in range(2)]
        lows = [self.boot(self.low) for _ in range(4)]
        for flavor in (self.high, self.low, self.plain):
            self.boot(flavor, 'ERROR')

        pins = []
        for server in highs:
            domain = self.domain(server)
            self.assertEqual('/high_prio_machine',
                             domain.findtext('resource/partition'))
            pins += [pin.get('cpuset')
                     for pin in domain.findall('cputune/vcpupin')]
        self.assertEqual(list(range(8)), sorted(map(int, pins)))
        for server in lows:
            domain = self.domain(server)
            self.assertEqual('/low_prio_machine',
                             domain.findtext('resource/partition'))
            self.assertEqual('0-11', domain.find('vcpu').get('cpuset'))
            self.assertEqual([], domain.findall('cputune/vcpupin'))
        self.assertEqual(
            {'VCPU': 16, 'PCPU': 8},
            {key: used for key, used in self.resources(
                'mix1', 'usages').items() if key.endswith('CPU')})

        report = self.report('mix1')
        self.assertEqual(cpu_capacity.Rows(8, 16, 8), report.sellable)
        self.assertEqual(cpu_capacity.Rows(8, 16, 0), report.used)

        for server in highs + lows:
            self._delete_server(server)
        self.assertEqual(cpu_capacity.Rows(0, 0, 0), self.report('mix1').used)
        self.assertEqual(0, self.resources('mix1', 'usages')['VCPU'])

    def test_multi_create_beyond_capacity_is_refused(self):
        """Nova reads the host once for all instances of a request."""
        self.boot_with_hint(self.plain, 'low', 'ERROR', count=5)
        self.assertEqual(0, self.resources('mix1', 'usages')['VCPU'])
        self.boot_with_hint(self.plain, 'low', 'ACTIVE', count=4)
        self.update_host('mix1')
        self.assertEqual(16, self.report('mix1').used.low)

    def test_low_guest_with_numa_topology_floats_on_its_cell(self):
        """Its vCPUs float on all CPUs of a host cell."""
        domain = self.domain(self.boot(self.flavor(**{
            'hw:cpu_priority': 'low', 'hw:numa_nodes': '1'})))
        self.assertIsNone(domain.find('vcpu').get('cpuset'))
        self.assertEqual({'0-11'}, {
            pin.get('cpuset') for pin in domain.findall('cputune/vcpupin')})
        self.assertEqual(
            '8-11', domain.find('cputune/emulatorpin').get('cpuset'))
        self.assertEqual('/low_prio_machine',
                         domain.findtext('resource/partition'))

    def _threads(self, server):
        """Return the CPUs of the emulator and I/O threads of a server."""
        domain = self.domain(server)
        found = [pin.get('cpuset') for name in ('emulatorpin', 'iothreadpin')
                 for pin in domain.iterfind('cputune/' + name)]
        self.assertEqual(
            1 + int(domain.findtext('iothreads') or 0), len(found))
        return set(found)

    def test_low_emulator_threads_run_on_configured_set(self):
        plain = self.flavor(2, **{'hw:cpu_priority': 'low'})
        cells = self.flavor(2, **{'hw:cpu_priority': 'low',
                                  'hw:numa_nodes': '2'})
        sets = {'dedicated': '0-3,6-9', 'shared': '4-5', 'cells': 2,
                'cpus': 12, 'low_emulator_set': '10-11'}
        self.start_seed_host('mix2', **sets)
        self.start_seed_host('low1', **{
            **sets, 'shared': '4-5,11', 'mix': False})
        for host, floating in ('mix2', '0-9'), ('low1', '4-5,11'):
            server = self.boot(plain, az='nova:' + host)
            self.assertEqual({'10-11'}, self._threads(server))
            self.assertEqual(
                floating, self.domain(server).find('vcpu').get('cpuset'))
        # Nova needs shared CPUs in each cell. Cell 1 of mix2 has none.
        server = self.boot(cells, az='nova:low1')
        self.assertEqual({'10-11'}, self._threads(server))
        self.assertEqual({'4-5', '11'}, set(self.cpus_of_vcpus(server)))
        for flavor in self.flavor(2, **{'hw:cpu_priority': 'high'}), (
                self.flavor(2)):
            server = self.boot(flavor, az='nova:low1')
            self.assertNotIn('10-11', [
                pin.get('cpuset') for pin in self.domain(server).iterfind(
                    'cputune/emulatorpin')])

    def test_low_emulator_threads_run_on_configured_set_across_cells(self):
        self.start_seed_host('mix2', dedicated='0-3,6-9', shared='4,10',
                             cells=2, low_emulator_set='5,11')
        server = self.boot(self.flavor(2, **{
            'hw:cpu_priority': 'low', 'hw:numa_nodes': '2'}), az='nova:mix2')
        self.assertEqual({'5,11'}, self._threads(server))
        self.assertEqual({'0-4', '6-10'}, set(self.cpus_of_vcpus(server)))

    def test_recount_equals_claims(self):
        self.boot(self.high)
        self.boot(self.low)
        self.boot(self.plain)
        counted = self.report('mix1')
        self.assertEqual(cpu_capacity.Rows(4, 8, 4), counted.used)
        self.update_host('mix1')
        self.assertEqual(counted, self.report('mix1'))
