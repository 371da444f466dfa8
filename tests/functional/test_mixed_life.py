# SPDX-License-Identifier: Apache-2.0

"""Guests of mixed CPU policy keep layout and allocations in moves."""

from nova import context
from nova.db.api import api as api_db
from nova.db.api import models as api_models
from nova.db.main import api as main_db
from nova.limit import local
from nova.tests.functional.api import client
from oslo_limit import fixture as limit_fixture
from oslo_serialization import jsonutils

from nova_prio.model import cpu_capacity
from tests.functional import test_mixed_numbers as mixed
from tests.functional import test_requests

HIGH = mixed.HIGH
LOW = mixed.LOW
FULL = {row: row + '_capacity' for row in cpu_capacity.Rows._fields}

#: Name of a flavor -> (vCPUs, extra specs, layout of the guest, (PCPU, VCPU)).
FLAVORS = {
    'example': (8, mixed.EXAMPLE, mixed.ON_TWO_NODES, (5, 3)),
    'high': (3, {**mixed.numbers(2, 1), **HIGH}, 'S0 D0 D0', (2, 1)),
    'isolated': (
        2, mixed.numbers(2, 1, emulator_threads_policy='isolate'),
        'S0 D0 +D0', (2, 1)),
    'pinned': (4, {'hw:cpu_policy': 'dedicated'}, 'D0 D0 D0 D0', (4, 0)),
    'floating': (4, {}, 'S', (0, 4)),
    'floating in a cell': (
        2, {'hw:numa_nodes': '1'}, 'S0 S0', (0, 2)),
}


class Life(mixed.Mixed):
    """Hosts of two NUMA cells with different CPU sets; the first has mix."""

    def start_two_hosts(self):
        self.start_seed_host('mix1', cpus=16, cells=2,
                             dedicated='0-4,8-12', shared='5-7,13-15')
        self.start_seed_host('prio2', cpus=16, cells=2, mix=False,
                             dedicated='1-5,11-15', shared='0,6-10')
        self.flavors = {
            flavor: self.flavor(vcpus, **extra_specs)
            for flavor, (vcpus, extra_specs, _, _) in FLAVORS.items()}
        self.flavor_names = {}

    def create(self, flavor, host='mix1'):
        server = self.ask(self.flavors[flavor], host=host)
        self.flavor_names[server['id']] = flavor
        self.assert_on(host, server)
        return server

    def assert_on(self, host, *servers):
        """Assert layouts and allocations of servers, and all usages."""
        for server in servers:
            self._assert_on(host, server)
        self.assert_accounts()

    def _assert_on(self, host, server):
        flavor = self.flavor_names[server['id']]
        _, _, layout, held = FLAVORS[flavor]
        server = self.soon(self._is_on, server, host)
        self.assertEqual({host: held}, self.held(server), flavor)
        found = self.layout(server)
        # Nova may choose either cell as the first.
        if found[1:2] == '1':
            found = found.translate(str.maketrans('01', '10'))
        self.assertEqual(layout, found, flavor)
        self.assertEqual(mixed.mask_of(layout), self.dedicated_cpus(server))
        self.assertEqual(
            '/high_prio_machine' if flavor == 'high' else None,
            self.domain(server).findtext('resource/partition'), flavor)

    def _is_on(self, server, host):
        server = self._settled(server)
        self.assertEqual(('ACTIVE', host), (
            server['status'], server['OS-EXT-SRV-ATTR:host']))
        return server

    def assert_accounts(self):
        """Assert that Placement and host reports equal the allocations."""
        for host in set(self.computes) - self.hosts_down:
            # The source host deletes its allocations last.
            pcpu, vcpu = self.soon(self._held_on, host)
            report = self.report(host)
            self.assertEqual((pcpu, vcpu, vcpu), report.used, host)
            self.update_host(host)
            self.assertEqual(report, self.report(host))

    def _held_on(self, host):
        held = [self.held(server).get(host, (0, 0))
                for server in self.api.get_servers()]
        usages = self.resources(host, 'usages')
        held_on_host = usages['PCPU'], usages['VCPU']
        self.assertEqual(
            tuple(sum(each) for each in zip((0, 0), *held)), held_on_host)
        return held_on_host


class Moves(Life):

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self.start_two_hosts()
        self.servers = [self.create(flavor)
                        for flavor in ('example', 'high', 'isolated')]
        self.specs = [self.extra_specs(server) for server in self.servers]

    def _assert_all_on(self, host):
        self.assert_on(host, *self.servers)
        self.assertEqual(self.specs, [
            self.extra_specs(server) for server in self.servers])

    def test_rebuilds_and_moves_keep_layout_and_allocations(self):
        self._rebuild()
        for server in self.servers:
            self.act(server, **{'os-migrateLive': {
                'host': 'prio2', 'block_migration': 'auto'}})
            self.assert_on('prio2', server)
        for server in self.servers:
            self.act(server, 'SHELVED_OFFLOADED', shelve=None)
            self.assertEqual({}, self.held(server))
            self.assert_accounts()
            self.act(server, unshelve={'host': 'mix1'})
        self._assert_all_on('mix1')
        for server in self.servers:
            self.act(server, 'VERIFY_RESIZE', migrate=None)
            self._confirm_resize(server)
            self.assert_accounts()
        self._assert_all_on('prio2')
        self.host_down('prio2')
        for server in self.servers:
            self.act(server, 'SHUTOFF', evacuate={'host': 'mix1'})
            self.act(server, **{'os-start': None})
            self.assertEqual(
                {'mix1'}, set(self.held(server)) - {'prio2'})
        self.host_up('prio2')
        self._assert_all_on('mix1')
        self.delete(*self.servers)
        self.assert_accounts()
        self.assertEqual((0, 0, 0), self.report('mix1').used)

    def _rebuild(self):
        """Rebuild with each image that fits, and be refused with others."""
        server = self.servers[0]
        for image in self.image(), self.image(hw_cpu_policy='mixed'):
            self.act(server, rebuild={'imageRef': image})
        self._assert_all_on('mix1')
        with self.nothing_changes():
            for server in self.servers:
                self.assertIn('hw_cpu_policy', self._rebuild_refused(
                    server, hw_cpu_policy='dedicated'))
                self.assertIn('NUMA', self._rebuild_refused(
                    server, hw_numa_nodes='2'))

    def _rebuild_refused(self, server, **properties):
        return self.refusal(self.api.post_server_action, server['id'], {
            'rebuild': {'imageRef': self.image(**properties)}})


class MixedResize(Life):

    def test_resize_changes_kind_of_vcpus_and_revert_restores(self):
        """Resize to each flavor; revert each resize once."""
        self.start_two_hosts()
        server = self.create('pinned')
        host, other = 'mix1', 'prio2'
        for flavor in ('example', 'floating', 'isolated', 'pinned'):
            before = self.flavor_names[server['id']]
            self._resize(server, flavor)
            self.act(server, revertResize=None)
            self.flavor_names[server['id']] = before
            self.assert_on(host, server)
            self._resize(server, flavor)
            self._confirm_resize(server)
            host, other = other, host
            self.assert_on(host, server)
        self.delete(server)
        self._create_two()

    def _resize(self, server, flavor):
        self.act(server, 'VERIFY_RESIZE',
                 resize={'flavorRef': self.flavors[flavor]})
        self.flavor_names[server['id']] = flavor

    def _create_two(self):
        """Both instances use all dedicated CPUs of one host."""
        servers = self.ask(self.flavors['example'], count=2, host='mix1')
        self.flavor_names = dict.fromkeys(
            [server['id'] for server in servers], 'example')
        self.assert_on('mix1', *servers)
        self.assertEqual([*range(5), *range(8, 13)], sorted(
            int(pin.get('cpuset')) for server in servers
            for pin in self.domain(server).iterfind('cputune/vcpupin')
            if pin.get('cpuset').isdigit()))
        self.delete(*servers)
        self.assert_accounts()


class MixHost(mixed.Mixed):
    """8 dedicated CPUs, 4 shared ones at 2: rows of 8, 16 and 8."""

    def setUp(self):
        super().setUp()
        self.start_seed_host('mix', **test_requests.CELLS)

    def _numbers(self, vcpus, pcpu, vcpu, **extra_specs):
        return self.flavor(vcpus, **mixed.numbers(pcpu, vcpu, **extra_specs))

    def test_mixed_instance_uses_both_rows(self):
        for flavor, layout, used in (
                (self._numbers(4, 2, 2, numa_nodes='2'),
                 'S0 D0 S1 D1', (2, 2, 2)),
                (self._numbers(4, 2, 2, numa_nodes='2', cpu_priority='high'),
                 'S0 D0 S1 D1', (4, 4, 4)),
                (self._numbers(2, 2, 1, emulator_threads_policy='isolate'),
                 'S0 D0 +D0', (6, 5, 5))):
            server = self.ask(flavor)
            self.assertEqual(layout, self.layout(server))
            self.assertEqual(used, self.report('mix').used)
        server = self.ask(self._numbers(5, 1, 4))
        self._assert_refused(
            'ordinary', 'the ordinary row has 3 of 8 vCPUs free, 4 are needed',
            server)
        # Placement has fewer free PCPU than requested.
        server = self.ask(self._numbers(4, 3, 1))
        self.assertEqual(('ERROR', {}), (
            server['status'], self.held(server)))
        self.assertEqual(test_requests.NOT_OFFERED, self.reason('mix'))
        self.assertEqual((6, 5, 5), self.report('mix').used)

    def _assert_refused(self, row, text, *servers):
        for server in servers:
            self.assertEqual(('ERROR', {}), (
                server['status'], self.held(server)))
        self.assertEqual(FULL[row], self.reason('mix'))
        self.assertIn(text, self.log.output[self.asked:])

    def test_full_row_refuses_mixed_instance(self):
        """In a multi-create, the earlier instances use up the row."""
        servers = self.ask(self._numbers(6, 4, 2), count=3)
        self._assert_refused(
            'high', 'the high row has 0 of 8 vCPUs free, 4 are needed',
            *servers)
        self.delete(*servers)
        resident = self.ask(self.flavor(12, **LOW))
        servers = self.ask(self._numbers(3, 1, 2), count=3)
        self._assert_refused(
            'low', 'the low row has 0 of 16 vCPUs free, 2 are needed',
            *(each for each in servers if each['id'] != resident['id']))
        self.assertEqual((0, 12, 0), self.report('mix').used)
        server = self.ask(self._numbers(4, 2, 2, cpu_realtime='yes'))
        self.assertEqual('ERROR', server['status'])
        self.assertEqual('whole_cores', self.reason('mix'))

    def test_hint_makes_dedicated_vcpus_high_priority(self):
        """The hint stays after a resize. The image sets the guest's nodes."""
        self.flags(allow_resize_to_same_host=True)
        flavor = self._numbers(4, 2, 2)
        server = self.boot_with_hint(
            flavor, 'high', imageRef=self.image(hw_numa_nodes='2'))
        self._assert_high(server, '1,3', 'S0 D0 S1 D1', (2, 2))
        self._resize_server(server, self._numbers(6, 4, 2))
        self._assert_high(
            server, '1-2,4-5', 'S0 D0 D0 S1 D1 D1', (4, 2))
        self.delete(server)
        low = self.boot_with_hint(self.plain, 'low')
        for call in (lambda: self.resize_refused(low, flavor),
                     lambda: self.refusal(
                         self.boot_with_hint, flavor, 'low'),
                     lambda: self.refused(self._numbers(
                         4, 2, 2, cpu_priority='low'))):
            with self.nothing_changes():
                self.assertIn(
                    "Extra spec resources:PCPU of the flavor is '2'; with "
                    "low priority only resources:VCPU = '4' is allowed.",
                    call())

    def _assert_high(self, server, mask, layout, held):
        self.assertEqual(
            {**mixed.mixed(mask), **HIGH, 'nova_prio:source': 'hint'},
            self.extra_specs(server))
        self.assertEqual(layout, self.layout(server))
        self.assertEqual({'mix': held}, self.held(server))
        self.assertEqual('/high_prio_machine', self.domain(
            server).findtext('resource/partition'))


#: Limits that do not concern CPUs.
OTHER_LIMITS = {
    local.SERVER_METADATA_ITEMS: 128, local.INJECTED_FILES: 5,
    local.INJECTED_FILES_CONTENT: 10240, local.INJECTED_FILES_PATH: 255,
    local.KEY_PAIRS: 100, local.SERVER_GROUPS: 10,
    local.SERVER_GROUP_MEMBERS: 10, 'servers': 100,
    'class:MEMORY_MB': 65536, 'class:DISK_GB': 1000}


class Quota(mixed.OneHost):
    """Both numbers count in quota as the mask of the same meaning."""

    ISOLATED = mixed.hw(numa_nodes='2', emulator_threads_policy='isolate')

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.example = [self.flavor(8, **extra_specs) for extra_specs in (
            mixed.EXAMPLE, mixed.mixed('2-3,5-7', numa_nodes='2'))]
        # One more PCPU is allocated.
        self.isolated = [self.flavor(8, **extra_specs) for extra_specs in (
            {**mixed.numbers(6, 3), **self.ISOLATED},
            {**mixed.mixed('2-3,5-7'), **self.ISOLATED})]

    def _is_forbidden(self, call, *args):
        try:
            call(*args)
        except client.OpenStackApiException as error:
            self.assertEqual(403, error.response.status_code)
            return True
        return False

    def _create(self, flavor):
        server = self.ask(flavor)
        self.assertEqual('ACTIVE', server['status'])
        self.delete(server)

    def _assert_create(self, flavors, limit_to, *limits):
        """Assert that the first limits suffice, and that no others do."""
        for flavor in flavors:
            for number, limit in enumerate(limits):
                limit_to(limit)
                self.assertEqual(
                    number > 0, self._is_forbidden(self._create, flavor))

    def _assert_resize(self, limit_to, *limits):
        server = self.ask(self.flavor(2))
        for flavor in self.example[:1]:
            for number, limit in enumerate(limits):
                limit_to(limit)
                forbidden = self._is_forbidden(
                    self.api.post_server_action, server['id'],
                    {'resize': {'flavorRef': flavor}})
                self.assertEqual(number > 0, forbidden)
                if not forbidden:
                    self._wait_for_state_change(server, 'VERIFY_RESIZE')
                    self._revert_resize(server)
        self.delete(server)

    def test_cores_quota_counts_both_numbers(self):
        def limit_to(cores):
            self.flags(cores=cores, group='quota')

        self._assert_create(self.example + self.isolated, limit_to, 8, 7)
        self._assert_resize(limit_to, 8, 7)
        self.flags(count_usage_from_placement=True, group='quota')
        for there, flavor in zip(self.isolated[:1], self.example):
            limit_to(9)
            server = self.ask(there)
            self._assert_create([flavor], limit_to, 9 + 8, 9 + 7)
            self.delete(server)

    def test_unified_limits_count_pcpu_and_vcpu(self):
        self.flags(driver='nova.quota.UnifiedLimitsDriver', group='quota')
        limits = self.useFixture(limit_fixture.LimitFixture({}, {}))

        def limit_to(pcpu_and_vcpu):
            pcpu, vcpu = pcpu_and_vcpu
            limits.reglimits = {
                **OTHER_LIMITS, 'class:PCPU': pcpu, 'class:VCPU': vcpu}

        self._assert_create(self.example, limit_to, (5, 3), (4, 3), (5, 2))
        self._assert_create(self.isolated, limit_to, (6, 3), (5, 3), (6, 2))
        self._assert_resize(limit_to, (5, 5), (4, 5), (5, 4))
        for there, flavor in zip(self.isolated[:1], self.example):
            limit_to((6, 3))
            server = self.ask(there)
            self._assert_create(
                [flavor], limit_to, (11, 6), (10, 6), (11, 5))
            self.delete(server)


class StoredByOldNova(Life):
    """Instances stored before Nova had a field for pinned CPUs."""

    def setUp(self):
        super().setUp()
        self.start_two_hosts()

    def _in_cell(self):
        return context.target_cell(
            context.get_admin_context(),
            self.host_mappings['mix1'].cell_mapping)

    def _stored(self, server):
        """Return the NUMA topology of an instance from the cell database."""
        with self._in_cell() as cctxt:
            extra = main_db.instance_extra_get_by_instance_uuid(
                cctxt, server['id'], columns=['numa_topology'])
            return jsonutils.loads(extra['numa_topology'])

    def _store_as_before(self, server):
        stored = self._stored(server)
        self._make_old(stored)
        with self._in_cell() as cctxt:
            main_db.instance_extra_update_by_uuid(
                cctxt, server['id'],
                {'numa_topology': jsonutils.dumps(stored)})
        admin = context.get_admin_context()
        with api_db.context_manager.writer.using(admin):
            row = admin.session.query(api_models.RequestSpec).filter_by(
                instance_uuid=server['id']).one()
            spec = jsonutils.loads(row.spec)
            self._make_old(spec['nova_object.data']['numa_topology'])
            row.spec = jsonutils.dumps(spec)

    def _make_old(self, topology):
        """Turn a stored topology into the format of Nova before 22."""
        for cell in topology['nova_object.data']['cells']:
            cell['nova_object.version'] = '1.4'
            cell.pop('nova_object.changes', None)
            data = cell['nova_object.data']
            pinned = data.pop('pcpuset')
            if data['cpu_policy'] == 'dedicated':
                data['cpuset'] = pinned

    def _pinned(self, server):
        """Return the stored set of pinned vCPUs, or None."""
        cell, = self._stored(server)['nova_object.data']['cells']
        return cell['nova_object.data'].get('pcpuset')

    def test_old_instances_are_counted_moved_and_deleted(self):
        pinned, floating = servers = [
            self.create(flavor) for flavor in ('pinned', 'floating in a cell')]
        for server in servers:
            self._store_as_before(server)
            self.assertIsNone(self._pinned(server))
        self.restart_compute_service('mix1')
        self.update_host('mix1')
        self.assertEqual((4, 2, 2), self.report('mix1').used)
        self.assert_on('mix1', *servers)
        self.assertEqual({0, 1, 2, 3}, set(self._pinned(pinned)))
        self.assertEqual([], self._pinned(floating))
        for server in servers:
            self.act(server, 'VERIFY_RESIZE', migrate=None)
            self._confirm_resize(server)
        self.assert_on('prio2', *servers)
        self.delete(*servers)
        self.assert_accounts()
        self.assertEqual((0, 0, 0), self.report('prio2').used)
