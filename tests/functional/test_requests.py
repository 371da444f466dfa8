# SPDX-License-Identifier: Apache-2.0

"""Nova places each kind of request by its class, or gives a reason."""

import contextlib
import logging
import re
from unittest import mock

import fixtures
from lxml import etree
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client
from nova.virt import hardware
from oslo_serialization import jsonutils
from oslo_utils.fixture import uuidsentinel as uuids

from nova_prio.model import cpu_capacity
from nova_prio.objects import host_report
from nova_prio.scheduler import failures
from nova_prio.scheduler.filters import priority_filter
from nova_prio_scenario import cloud
from tests.functional import base


def hw(**extra_specs):
    """Return extra specs with prefix hw."""
    return {'hw:' + key: value for key, value in extra_specs.items()}


HIGH = hw(cpu_priority='high')
LOW = hw(cpu_priority='low')
ORDINARY = {}
PINNED = hw(cpu_policy='dedicated')
MIXED = hw(cpu_policy='mixed', cpu_dedicated_mask='0-1')
ONE_CELL = hw(numa_nodes='1')
TWO_CELLS = hw(numa_nodes='2')
ONE_AND_THREE = {**TWO_CELLS, 'hw:numa_cpus.0': '0', 'hw:numa_mem.0': '64',
                 'hw:numa_cpus.1': '1-3', 'hw:numa_mem.1': '192'}
FIVE_AND_ONE = {**TWO_CELLS, 'hw:numa_cpus.0': '0-4', 'hw:numa_mem.0': '128',
                'hw:numa_cpus.1': '5', 'hw:numa_mem.1': '128'}
LARGE_PAGES = hw(mem_page_size='large')
PREFER, REQUIRE, ISOLATE = (
    hw(cpu_thread_policy=policy)
    for policy in ('prefer', 'require', 'isolate'))
EMULATOR_ISOLATED = hw(emulator_threads_policy='isolate')
EMULATOR_SHARED = hw(emulator_threads_policy='share')
REALTIME = hw(cpu_realtime='true', cpu_realtime_mask='^0')

#: Outcome of a request if Placement has no candidate.
NOT_OFFERED = 'not offered'
UNFIT = 'numa_topology'
WHOLE_CORES = 'whole_cores'
FULL = {row: row + '_capacity' for row in cpu_capacity.Rows._fields}

#: The hosts have two NUMA cells. The names of CPU sets are dedicated, shared
#: and all, of one cell or of both.
CELLS = dict(cells=2, dedicated='0-3,6-9', shared='4-5,10-11')
NAMES = {frozenset(hardware.parse_cpu_spec(cpus)): name for name, cpus in {
    'D0': '0-3', 'D1': '6-9', 'S0': '4-5', 'S1': '10-11', 'S': '4-5,10-11',
    'L0': '0-5', 'L1': '6-11', 'L': '0-11'}.items()}

#: vCPUs, extra specs, and the outcome on empty hosts: a layout or a reason.
#: 'mix' is a mix host, 'prio' a priority host without mix, 'stock' a host with
#: Nova's driver. 'smt' is a mix host with thread siblings.
CASES = [
    (4, HIGH, dict(mix='D0 D0 D0 D0', stock=NOT_OFFERED)),
    (4, LOW, dict(mix='L L L L +S', prio='S S S S')),
    (4, ORDINARY, dict(mix='S S S S')),
    # Each guest cell must fit on a host cell.
    (5, HIGH, dict(mix=UNFIT)),
    (3, ONE_CELL, dict(mix=UNFIT, stock=UNFIT)),
    (7, {**LOW, **ONE_CELL}, dict(mix=UNFIT)),
    (4, {**LOW, **TWO_CELLS}, dict(prio='S0 S0 S1 S1')),
    (4, {**HIGH, **ONE_AND_THREE}, dict(mix='D0 D1 D1 D1')),
    (4, ONE_AND_THREE, dict(mix=UNFIT)),
    (4, {**LOW, **ONE_AND_THREE}, dict(prio=UNFIT)),
    (6, {**LOW, **FIVE_AND_ONE}, dict(mix='L0 L0 L0 L0 L0 L1 +S')),
    # Only the mix host has huge pages, of 2 MB.
    (2, {**HIGH, **hw(mem_page_size='2048')}, dict(mix='D0 D0', prio=UNFIT)),
    (2, {**LOW, **LARGE_PAGES}, dict(mix='L0 L0 +S0')),
    (2, LARGE_PAGES, dict(mix='S0 S0', stock=UNFIT)),
    (4, {**HIGH, **PREFER}, dict(mix='D0 D0 D0 D0')),
    (4, {**HIGH, **REQUIRE}, dict(mix=NOT_OFFERED, smt='D0 D0 D0 D0')),
    (2, {**HIGH, **ISOLATE}, dict(mix=WHOLE_CORES, prio='D0 D0')),
    (2, {**PINNED, **ISOLATE}, dict(mix=WHOLE_CORES, stock='D0 D0')),
    (2, {**HIGH, **REALTIME}, dict(mix=WHOLE_CORES, prio='D0 D0 +D0')),
    (3, {**HIGH, **EMULATOR_ISOLATED}, dict(mix='D0 D0 D0 +D0')),
    (4, {**HIGH, **EMULATOR_ISOLATED}, dict(mix=UNFIT)),
    (2, {**HIGH, **EMULATOR_SHARED}, dict(mix='D0 D0 +S')),
    (4, {**HIGH, **MIXED}, dict(mix='D0 D0 S0 S0')),
    (4, MIXED, dict(mix='D0 D0 S0 S0')),
    # Any number of vCPUs; low ones up to the number of all CPUs.
    *((vcpus, LOW, dict(mix=vcpus * 'L ' + '+S')) for vcpus in range(1, 13)),
    *((vcpus, HIGH, dict(mix=' '.join(vcpus * ['D0'])))
      for vcpus in range(1, 4)),
]


def name_of(cpus):
    """Return the name of a CPU set; a single CPU has that of its cell."""
    if len(cpus) == 1:
        return next(name for names, name in NAMES.items() if cpus <= names)
    return NAMES.get(frozenset(cpus)) or hardware.format_cpu_spec(cpus)


def layout(domain):
    """Return the CPUs of the vCPUs of a guest, such as 'D0 D0 S0'.

    If the emulator threads have other CPUs, a word such as '+S' follows.
    """
    total = domain.find('vcpu')
    cpusets = int(total.text) * [total.get('cpuset')]
    for pin in domain.iterfind('cputune/vcpupin'):
        cpusets[int(pin.get('vcpu'))] = pin.get('cpuset')
    vcpus = [hardware.parse_cpu_spec(cpuset) for cpuset in cpusets]
    names = [name_of(cpus) for cpus in vcpus]
    for pin in domain.iterfind('cputune/emulatorpin'):
        cpus = hardware.parse_cpu_spec(pin.get('cpuset'))
        if cpus != set().union(*vcpus):
            names.append('+' + name_of(cpus))
    return ' '.join(names)


class Requests(base.FunctionalTest):
    """Base class with methods for requests and their outcomes."""

    def setUp(self):
        super().setUp()
        # By default, Nova disables a compute after ten failed builds.
        self.flags(consecutive_build_service_disable_threshold=0,
                   group='compute')
        self.flags(allow_resize_to_same_host=False, shelved_offload_time=0)
        self.log = self.useFixture(fixtures.FakeLogger(
            name=priority_filter.LOG.name, level=logging.DEBUG))

    def _settled(self, server):
        server = self.api.get_server(server['id'])
        self.assertNotEqual('BUILD', server['status'])
        self.assertIsNone(server['OS-EXT-STS:task_state'])
        return server

    def _gone(self, server):
        self.assertRaises(client.OpenStackApiNotFoundException,
                          self.api.get_server, server['id'])
        self.assertEqual({}, self.held(server))

    def held(self, server):
        """Return the allocations of a server: dict, provider to resources."""
        return {provider: held['resources'] for provider, held in
                self._get_allocations_by_server_uuid(server['id']).items()}

    def ask(self, flavor, count=1, **kwargs):
        """Create servers; return all that exist, in any state."""
        self.asked = len(self.log.output)
        body = self._build_server(flavor_id=flavor, networks='none', **kwargs)
        server = self.api.post_server(
            {'server': {**body, 'min_count': count, 'max_count': count}})
        if count == 1:
            return self.soon(self._settled, server)
        return [self.soon(self._settled, each)
                for each in self.api.get_servers()]

    def reason(self, host):
        """Return the reason of the last refusal of a host by the filter."""
        found = re.findall(r'^Host %s, node %s refused: (\w+): ' % (
            host, host), self.log.output[self.asked:], re.MULTILINE)
        self.assertLessEqual(len(found), 1)
        return found[0] if found else NOT_OFFERED

    def outcome(self, server, host):
        """Return the layout of a server on a host, or the refusal reason."""
        if server['status'] != 'ACTIVE':
            return self.reason(host)
        self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])
        return layout(self.domain(server))

    def act(self, server, status='ACTIVE', **action):
        """Request an action, and wait until it ends."""
        self.api.post_server_action(server['id'], action)
        self.soon(lambda: self.assertEqual(
            status, self._settled(server)['status']))

    def delete(self, *servers):
        """Delete servers, and wait until they are gone."""
        for server in servers:
            self.api.delete_server(server['id'])
        for server in servers:
            self.soon(self._gone, server)

    def try_out(self, flavor, host, **kwargs):
        """Return the outcome of a request, and delete the server."""
        server = self.ask(flavor, **(kwargs or {'host': host}))
        outcome = self.outcome(server, host)
        self.delete(server)
        return outcome


class EmptyHosts(Requests):
    """Hosts of the table without instances."""

    def setUp(self):
        super().setUp()
        stock = fakelibvirt.create_mempages

        def with_huge_pages(mappings):
            (size, number), = mappings
            return stock([(size, number - 2 ** 18), (2048, 512)])

        with mock.patch.object(
                fakelibvirt, 'create_mempages', with_huge_pages):
            self.start_seed_host('mix', **CELLS)
        self.start_seed_host('smt', threads=2, **CELLS)
        self.start_seed_host('prio', mix=False, **CELLS)
        self.start_host('stock', driver=cloud.STOCK_DRIVER,
                        aggregate={'priority_mix': 'true'}, **CELLS)


class EachRequest(EmptyHosts):
    """Requests one after the other, on empty hosts."""

    def test_each_request_on_requested_and_forced_hosts(self):
        """A forced host bypasses the filter, not the claim."""
        wrong = {}
        for vcpus, extra_specs, outcomes in CASES:
            flavor = self.flavor(vcpus, **extra_specs)
            for host, wanted in outcomes.items():
                asked = vcpus, *extra_specs.items(), host
                server = self.ask(flavor, host=host)
                found = self.outcome(server, host)
                if found != wanted:
                    wrong[asked] = found
                if server['status'] == 'ACTIVE':
                    self._assert_counted(server, vcpus, extra_specs, found)
                self.delete(server)
                if host == 'mix' and wanted in (UNFIT, WHOLE_CORES):
                    found = self.try_out(flavor, host, az='nova:mix')
                    if found != NOT_OFFERED:
                        wrong[*asked, 'forced'] = found
        self.assertEqual({}, wrong)
        self.assertEqual(
            'L L L L +S', self.try_out(self.low, 'mix', az='nova:mix'))

    def _assert_counted(self, server, vcpus, extra_specs, found):
        dedicated = found.partition('+')[0].count('D')
        shared = vcpus - dedicated
        dedicated += EMULATOR_ISOLATED.items() <= extra_specs.items()
        held, = self.held(server).values()
        self.assertEqual((dedicated, shared), (
            held.get('PCPU', 0), held.get('VCPU', 0)), extra_specs)
        host = self.host_of(server)
        if host != 'stock':
            ordinary = 0 if LOW.items() <= extra_specs.items() else shared
            self.assertEqual((dedicated, shared, ordinary),
                             self.report(host).used, extra_specs)
        pages = self.domain(server).find('memoryBacking/hugepages')
        self.assertEqual('hw:mem_page_size' in extra_specs,
                         pages is not None, extra_specs)


class MultiCreate(Requests):
    """Resources consumed by a request count for its next instances."""

    def test_multi_create_places_all_or_none(self):
        self.start_seed_host('mix', **CELLS)
        for vcpus, extra_specs, first, second, reason_of_third in (
                (4, HIGH, 'D0 D0 D0 D0', 'D1 D1 D1 D1', FULL['high']),
                (4, ORDINARY, 'S S S S', 'S S S S', FULL['ordinary']),
                (6, {**LOW, **TWO_CELLS}, 'L0 L0 L0 L1 L1 L1 +S',
                 'L0 L0 L0 L1 L1 L1 +S', FULL['low']),
                (5, {**LOW, **ONE_CELL}, 'L0 L0 L0 L0 L0 +S0',
                 'L1 L1 L1 L1 L1 +S1', UNFIT),
                (6, {**MIXED, **hw(cpu_dedicated_mask='0-3')},
                 'D0 D0 D0 D0 S0 S0', 'D1 D1 D1 D1 S1 S1', FULL['high'])):
            flavor = self.flavor(vcpus, **extra_specs)
            servers = self.ask(flavor, count=3)
            self.assertEqual(
                3 * ['ERROR'], [server['status'] for server in servers])
            self.assertEqual(reason_of_third, self.reason('mix'))
            self.assertEqual(
                {0}, set(self.resources('mix', 'usages').values()))
            self.delete(*servers)
            servers = self.ask(flavor, count=2)
            self.assertEqual([first, second], sorted(
                self.outcome(server, 'mix') for server in servers))
            self.delete(*servers)


class Neighbours(Requests):
    """Two hosts; one has residents of each class in both cells.

    Each row has enough capacity for its class, but no single cell does.
    """

    MOVERS = ((3, HIGH, 'D0 D0 D0'),
              (4, {**LOW, **ONE_CELL}, 'L0 L0 L0 L0 +S0'),
              (2, ONE_CELL, 'S0 S0'))

    def test_moves_need_capacity_in_a_single_cell(self):
        self.let_guests_migrate()
        for host in ('mix1', 'mix2'):
            self.start_seed_host(host, **CELLS)
        # Each cell has 2 of 4 dedicated CPUs free, 3 of 8 vCPUs of the low
        # row and 1 of 4 of the ordinary row.
        for vcpus, extra_specs in (
                (4, HIGH), (4, LOW), (4, ORDINARY), (2, ORDINARY)):
            self.ask(self.flavor(vcpus, **extra_specs, **TWO_CELLS),
                     host='mix2')
        self.assertEqual((4, 10, 6), self.report('mix2').used)
        movers = []
        for vcpus, extra_specs, wanted in self.MOVERS:
            flavor = self.flavor(vcpus, **extra_specs)
            movers.append(self.ask(flavor, host='mix1'))
            self._assert_fits(movers[-1], 'mix1', wanted)
            self._refuse_all_moves(
                movers[-1], self.flavor(vcpus, **extra_specs))
        self._fill_with_mixed_policy()
        self.delete(*(server for server in self.api.get_servers()
                      if self.host_of(server) == 'mix2'))
        for server, (_, _, wanted) in zip(movers, self.MOVERS):
            self._move_about(server, wanted)
        self._evacuate(movers)

    def _assert_fits(self, server, host, wanted):
        found = self.outcome(self.soon(self._settled, server), host)
        self.assertIn(found, (wanted, wanted.replace('0', '1')))

    def _refuse(self, server, **action):
        self.asked = len(self.log.output)
        with contextlib.suppress(client.OpenStackApiException):
            self.api.post_server_action(server['id'], action)
        self.soon(self._settled, server)
        self.assertEqual(UNFIT, self.reason('mix2'), action)

    def _refuse_all_moves(self, server, flavor):
        self._refuse(server, migrate={'host': 'mix2'})
        for host in ('mix2', None):
            self._refuse(server, **{'os-migrateLive': {
                'host': host, 'block_migration': 'auto'}})
        self._refuse(server, resize={'flavorRef': flavor})
        self._shelve_server(server)
        self._refuse(server, unshelve={'host': 'mix2'})
        self._move(server, 'mix1', unshelve=None)

    def _fill_with_mixed_policy(self):
        for vcpus, extra_specs, wanted in (
                (4, MIXED, UNFIT),
                (4, {**MIXED, **TWO_CELLS, **hw(cpu_dedicated_mask='0,2')},
                 'D0 S0 D1 S1'),
                (3, MIXED, FULL['ordinary']),
                (3, {**HIGH, **MIXED}, FULL['ordinary']),
                (1, ONE_CELL, FULL['ordinary']),
                (2, {**HIGH, **TWO_CELLS}, 'D0 D1'),
                (4, {**LOW, **TWO_CELLS}, 'L0 L0 L1 L1 +S')):
            server = self.ask(self.flavor(vcpus, **extra_specs), host='mix2')
            self.assertEqual(wanted, self.outcome(server, 'mix2'))
        self.assertEqual((8, 16, 8), self.report('mix2').used)

    def _move(self, server, host, **action):
        self.api.post_server_action(server['id'], action)
        self.soon(self._is_on, server, host)

    def _is_on(self, server, host):
        self.assertEqual(
            host, self._settled(server)['OS-EXT-SRV-ATTR:host'])

    def _move_about(self, server, wanted):
        self._move(server, 'mix2', **{'os-migrateLive': {
            'host': 'mix2', 'block_migration': 'auto'}})
        self.assertIn(layout(etree.fromstring(self.migrated_xml)), (
            wanted, wanted.replace('0', '1')))
        self._move(server, 'mix1', migrate={'host': 'mix1'})
        self._confirm_resize(server)
        self._assert_fits(server, 'mix1', wanted)

    def _evacuate(self, servers):
        self.computes['mix1'].stop()
        self.api.put_service_force_down(self.api.get_services(
            host='mix1', binary='nova-compute')[0]['id'], True)
        for server in servers:
            self._move(server, 'mix2', evacuate={'host': 'mix2'})
        self.assertEqual((3, 6, 2), self.report('mix2').used)


class BadHosts(Requests):
    """Hosts with wrong data in Nova or Placement."""

    def _write(self, **record):
        with self.record('mix') as node:
            for name, value in record.items():
                setattr(node, name, value)
            node.save()

    def _stats(self, version, **more):
        primitive = jsonutils.loads(
            host_report.HostReport.to_stats(self.report('mix')))
        primitive['nova_prio_object.version'] = version
        primitive['nova_prio_object.data'].update(more)
        return {host_report.STATS_KEY: jsonutils.dumps(primitive)}

    def _older_stats(self, version):
        """Return the stats in the format of an older version."""
        stored = host_report.HostReport.obj_from_primitive(jsonutils.loads(
            host_report.HostReport.to_stats(self.report('mix'))))
        return {host_report.STATS_KEY: jsonutils.dumps(
            stored.obj_to_primitive(target_version=version))}

    def test_wrong_host_records_are_refused_with_a_reason(self):
        # A host that has just started has not been updated again.
        with mock.patch.object(self, 'update_host'):
            self.start_seed_host('mix', **CELLS)
        high, low, ordinary = (self.flavor(2, **extra_specs, **ONE_CELL)
                               for extra_specs in (HIGH, LOW, ORDINARY))
        failures._log_once.cache_clear()
        errors = self.useFixture(fixtures.FakeLogger(
            name=failures.LOG.name, level=logging.ERROR))
        no_report = {'stats': {}}
        unreadable = {'stats': {host_report.STATS_KEY: '[7]'}}
        with self.record('mix') as node:
            empty = {name: getattr(node, name) for name in (
                'stats', 'free_ram_mb', 'numa_topology',
                'cpu_allocation_ratio')}
        for flavor, wanted, edits in (
                (high, 'D0 D0', {}), (low, 'L0 L0 +S0', {}),
                (ordinary, 'S0 S0', {}),
                (high, 'unreadable_report', unreadable),
                (low, 'unreadable_report', unreadable),
                (ordinary, 'unreadable_report', unreadable),
                (low, 'unreadable_report', {
                    'stats': self._stats('2.0')}),
                (low, 'L0 L0 +S0', {'stats': self._stats('1.99', new=[7])}),
                (high, 'D0 D0', {'stats': self._older_stats('1.0')}),
                (low, 'L0 L0 +S0', {'stats': self._older_stats('1.0')}),
                (ordinary, 'S0 S0', {'stats': self._older_stats('1.1')}),
                (high, 'no_report', no_report),
                (low, 'no_report', no_report),
                (ordinary, 'S0 S0', no_report),
                (high, 'unreadable_host', {'free_ram_mb': None}),
                (low, 'unreadable_host', {'free_ram_mb': None}),
                (low, 'no_numa_topology', {'numa_topology': None})):
            self._write(**{**empty, **edits})
            self.assertEqual(wanted, self.try_out(flavor, 'mix'), edits)
        self.assertIn('PriorityFilter failed for host mix, node mix: the host '
                      'is refused to priority instances.', errors.output)
        self.assertEqual(1, errors.output.count('Traceback'), errors.output)
        self._write(**empty)
        # At the ratio of 2.0, each cell has 1 of 4 vCPUs free after these.
        resident, _ = (self.ask(self.flavor(vcpus, **TWO_CELLS))
                       for vcpus in (4, 2))
        for ratio in (4.0, 0.0):
            self._write(cpu_allocation_ratio=ratio)
            self.assertEqual(UNFIT, self.try_out(ordinary, 'mix'))
        self._write(**unreadable)
        server = self._rebuild_server(resident, self.image())
        self.assertEqual('S0 S0 S1 S1', self.outcome(server, 'mix'))

    def _set_metadata(self, aggregate, **metadata):
        self.api.post_aggregate_action(
            aggregate, {'set_metadata': {'metadata': metadata}})

    def test_aggregate_metadata_is_read_as_documented(self):
        self.start_seed_host('mix', aggregate=None, **CELLS)
        first, second = (self._create_aggregate(name) for name in 'ab')
        for aggregate in (first, second):
            self.api.add_host_to_aggregate(aggregate, 'mix')
        self._set_metadata(first, priority_mix='perhaps', priority='gold',
                           priority_ordinary='true', Priority_Mix='true')
        server = self.ask(self.low)
        self.assertIn('No host aggregate has the metadata',
                      server['fault']['message'])
        for metadata in ({'priority_mix': 'true'},
                         {'priority_mix': None, 'priority': ' TRUE '}):
            self._set_metadata(second, **metadata)
            self.assertEqual(
                'L L L L +S', self.try_out(self.low, 'mix'))
        for value, wanted in (('no', 'S S S S'), ('FALSE', NOT_OFFERED)):
            self._set_metadata(second, priority_ordinary=value)
            self.assertEqual(wanted, self.try_out(self.plain, 'mix'))
        # Placement still has an aggregate that the host left.
        self._set_metadata(second, priority=None)
        self.start_seed_host('other')
        third = self.api.api_get('/os-aggregates').body['aggregates'][-1]
        self._set_aggregate(self.compute_rp_uuids['mix'], third['uuid'])
        for flavor in (self.high, self.low):
            self.assertEqual(
                'not_a_priority_host', self.try_out(flavor, 'mix'))

    def test_wrong_offers_of_placement_are_refused(self):
        """Placement offers VCPU for PCPU, too many vCPUs and sold memory."""
        self.start_seed_host('mix', **CELLS)
        self.start_seed_host('prio', mix=False, **CELLS)
        mix = self.compute_rp_uuids['mix']
        inventory = self._get_provider_inventory(mix)
        inventory['VCPU']['max_unit'] = 16
        self._update_inventory(mix, {
            'inventories': inventory, 'resource_provider_generation':
                self._get_resource_provider_by_uuid(mix)['generation']})
        self.assertEqual('too_many_vcpus', self.try_out(
            self.flavor(13, **LOW), 'mix'))
        # nova-scheduler would not start with this value.
        self.flags(disable_fallback_pcpu_query=False, group='workarounds')
        server = self.ask(self.high, host='mix')
        self.assertEqual('D0 D0 D0 D0', self.outcome(server, 'mix'))
        self.assertEqual(4, self.held(server)[mix].get('PCPU'))
        self.placement.put('/allocations/%s' % uuids.orphan, {
            'allocations': {mix: {'resources': {'PCPU': 4}}},
            'project_id': 'p', 'user_id': 'u', 'consumer_generation': None,
            'consumer_type': 'INSTANCE'}, version='1.38')
        self.assertEqual(
            'no_pcpu_candidate', self.try_out(self.high, 'mix'))
        self.assertEqual('no_threads', self.try_out(
            self.flavor(**PINNED, **REQUIRE), 'prio'))
        self.flags(ram_allocation_ratio=2.0)
        self.update_host('prio')
        for memory_mb, extra_specs, wanted in (
                (12000, ORDINARY, 'S'), (6000, HIGH, 'memory'),
                (6000, LOW, 'S')):
            flavor = self._create_flavor(vcpu=1, memory_mb=memory_mb, disk=1,
                                         extra_spec=extra_specs or None)
            self.assertEqual(wanted, self.outcome(
                self.ask(flavor, host='prio'), 'prio'))
