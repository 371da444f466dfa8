# SPDX-License-Identifier: Apache-2.0


"""Allocations of instances in Placement, exactly, from create to delete."""

import collections
import contextlib
import json
import types
from unittest import mock

import fixtures
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client
from placement import exception
from placement.objects import consumer

from tests.functional import test_mixed_numbers as mixed
from tests.functional import test_requests

SPAWN = 'nova.virt.libvirt.driver.LibvirtDriver.spawn'

#: vCPUs and extra specs of a flavor, and the CPUs of the allocation.
KINDS = {
    'high': (2, mixed.HIGH, {'PCPU': 2}),
    'low': (3, mixed.LOW, {'VCPU': 3}),
    'low in both cells': (
        4, {**mixed.LOW, **test_requests.TWO_CELLS}, {'VCPU': 4}),
    'ordinary': (5, {}, {'VCPU': 5}),
    'pinned': (1, test_requests.PINNED, {'PCPU': 1}),
    'mixed': (3, mixed.mixed('0'), {'PCPU': 1, 'VCPU': 2}),
    'numbers': (3, mixed.numbers(2, 1), {'PCPU': 2, 'VCPU': 1}),
}
EPHEMERAL_GB = {kind: n for n, kind in enumerate(KINDS, 1)}
MEMORY_MB = {kind: 128 * n for n, kind in enumerate(KINDS, 1)}
SWAP_MB, SWAP_GB = 1025, 2
#: The kind that each kind is resized to.
NEXT = dict(zip(KINDS, [*list(KINDS)[1:], *KINDS]))


class Allocations(test_requests.Requests):
    """A mix host; ``needs`` lists all allocations that must exist."""

    ROOT_GB = 3
    EXTRA_SPECS = {}

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        # No disks exist that a live migration could check.
        self.useFixture(fixtures.MockPatch(
            'nova.virt.libvirt.driver.LibvirtDriver._get_instance_disk_info',
            return_value=[]))
        # The client of Placement sleeps before each retry.
        self.useFixture(fixtures.MonkeyPatch(
            'nova.scheduler.client.report.random',
            types.SimpleNamespace(uniform=lambda *args: 0)))
        self.needs = {}  # consumer -> name of a provider -> resources
        self.start('mix1')
        self.flavors = {
            kind: self._create_flavor(
                vcpu=vcpus, memory_mb=MEMORY_MB[kind], disk=self.ROOT_GB,
                ephemeral=EPHEMERAL_GB[kind], swap=SWAP_MB,
                extra_spec={**extra_specs, **self.EXTRA_SPECS} or None)
            for kind, (vcpus, extra_specs, _) in KINDS.items()}

    def start(self, host):
        self.start_seed_host(host, cpus=24, cells=2, ratio=3.0,
                             dedicated='0-7,12-19', shared='8-11,20-23')

    def needed(self, server, kind=None, host=None):
        """Return the expected allocation: dict, provider to resources."""
        kind, host = kind or server['kind'], host or server['host']
        root_gb = 0 if server['from_volume'] else self.ROOT_GB
        return {host: {
            **KINDS[kind][2], 'MEMORY_MB': MEMORY_MB[kind],
            'DISK_GB': root_gb + EPHEMERAL_GB[kind] + SWAP_GB}}

    def create(self, kind, from_volume=False, state='ACTIVE', host='mix1'):
        """Create a server, and expect its allocation from now on."""
        body = self._build_server(
            flavor_id=self.flavors[kind], networks='none', host=host,
            image_uuid='' if from_volume else None)
        if from_volume:
            body['block_device_mapping_v2'] = [{
                'source_type': 'image', 'uuid': self.image(),
                'destination_type': 'volume', 'volume_size': 1,
                'boot_index': 0}]
        shown = self.soon(
            self._settled, self.api.post_server({'server': body}))
        self.assertEqual(state, shown['status'])
        server = {'id': shown['id'], 'kind': kind, 'from_volume': from_volume,
                  'host': shown['OS-EXT-SRV-ATTR:host'], 'migration': None}
        if state == 'ACTIVE':
            self.needs[server['id']] = self.needed(server)
        return server

    def share_disks(self):
        """Let a provider share its disks with the hosts; return its UUID."""
        shared = self._post_resource_provider('shared')['uuid']
        self._set_inventory(shared, {
            'resource_class': 'DISK_GB', 'total': 10000})
        self._set_provider_traits(shared, ['MISC_SHARES_VIA_AGGREGATE'])
        # A priority request asks for providers in the aggregate of the hosts.
        aggregate, = self.api.api_get('/os-aggregates').body['aggregates']
        self._set_aggregate(shared, aggregate['uuid'])
        return shared

    def create_all(self, **kwargs):
        return [self.create(kind, **kwargs) for kind in KINDS]

    def start_move(self, server, target, kind=None):
        """Migrate or resize; the migration takes the old allocation over."""
        self.act(server, 'VERIFY_RESIZE', **(
            {'resize': {'flavorRef': self.flavors[kind]}} if kind
            else {'migrate': None}))
        server['migration'] = self.migrations_of(server['id'])[-1]['uuid']
        self.needs[server['migration']] = self.needs[server['id']]
        self.needs[server['id']] = self.needed(server, kind, target)
        self.assert_held()

    def revert(self, server):
        self.act(server, revertResize=None)
        self.needs[server['id']] = self.needs.pop(server['migration'])
        self.assert_held()

    def confirm(self, server):
        self.act(server, confirmResize=None)
        del self.needs[server['migration']]
        self.assert_held()

    def delete(self, *servers):
        super().delete(*servers)
        for server in servers:
            self.needs.pop(server['id'], None)
            self.needs.pop(server['migration'], None)
        self.assert_held()

    def assert_held(self):
        """Assert that Placement has the expected allocations and no others."""
        # The source host deletes its allocation last.
        self.soon(self._assert_equal_allocations)

    def assert_kept(self):
        """Assert the same after each compute updated its host."""
        self.assert_held()
        for host in set(self.computes) - self.hosts_down:
            self.update_host(host)
        self._assert_equal_allocations()

    def _assert_equal_allocations(self):
        found = collections.defaultdict(dict)
        for provider in self._get_all_providers():
            name = provider['name']
            url = '/resource_providers/%s/' % provider['uuid']
            allocations = self.placement.get(url + 'allocations').body
            for uuid, held in allocations['allocations'].items():
                found[uuid][name] = held['resources']
            total = sum((collections.Counter(needed.get(name))
                         for needed in self.needs.values()),
                        collections.Counter())
            usages = self.placement.get(url + 'usages').body['usages']
            self.assertEqual(total, +collections.Counter(usages), name)
        self.assertEqual(self.needs, found)

    @contextlib.contextmanager
    def conflicts(self, number, after=0):
        """Let a number of writes conflict, after a number of consumers."""
        conflict = iter([*after * [False], *number * [True]])
        stock = consumer.Consumer.increment_generation

        def increment_generation(writer):
            if next(conflict, False):
                raise exception.ConcurrentUpdateDetected()
            stock(writer)

        with mock.patch.object(consumer.Consumer, 'increment_generation',
                               increment_generation):
            yield
        self.assertEqual([], list(conflict))


class Moves(Allocations):

    def test_allocations_are_exact_after_create_resize_and_cold_move(self):
        """Refuse a resize of each server, then resize and move each server."""
        from_volume = [self.create(kind, from_volume=True)
                       for kind in ('high', 'low', 'mixed')]
        servers = [*self.create_all(), from_volume.pop(0)]
        self.assert_kept()
        self.delete(*from_volume)
        for host, some in ('mix1', servers[1::2]), ('mix2', servers[::2]):
            self.flags(allow_resize_to_same_host=host == 'mix1')
            if host not in self.computes:
                self.start(host)
            for server in some:
                self.start_move(server, host, NEXT[server['kind']])
            self.assert_kept()
            for server in some:
                self.revert(server)
        for server in servers:
            self.start_move(server, 'mix2')
            if server is not servers[0]:
                self.confirm(server)
        self.assert_kept()
        self.delete(*servers)

    def test_allocations_are_exact_after_live_move_shelve_evacuate(self):
        servers = self.create_all()
        self.start('mix2')
        for server in servers:
            self._live_migrate(server)
            self.needs[server['id']] = self.needed(server, host='mix2')
            self.assert_kept()
        for server in servers[::2]:
            self.act(server, 'SHELVED_OFFLOADED', shelve=None)
            needed = self.needs.pop(server['id'])
            self.assert_held()
            self.act(server, unshelve={'host': 'mix2'})
            self.needs[server['id']] = needed
            self.assert_held()
        self.host_down('mix2')
        for server in servers:
            self.act(server, 'SHUTOFF', evacuate={'host': 'mix1'})
            self.needs[server['id']].update(self.needed(server))
            self.assert_held()
        self.assert_kept()
        self.host_up('mix2')
        for server in servers:
            del self.needs[server['id']]['mix2']
        self.assert_kept()
        self.delete(*servers)


class Gone(Allocations):

    def test_failed_builds_and_deletes_leave_no_allocation(self):
        """An allocation that the operator deleted before is no error."""
        self.start('mix2')
        for kind in 'high', 'low', 'ordinary', 'mixed':
            with mock.patch(SPAWN, side_effect=RuntimeError()) as spawn:
                server = self.create(kind, state='ERROR', host=None)
            self.assertEqual(2, spawn.call_count, kind)
            self.assert_held()
            self.delete(server)
        servers = self.create_all()
        stay = [self.create(kind, host='mix2') for kind in ('high', 'low')]
        for server in [*servers[::2], *stay]:
            self._delete_server_allocations(server['id'])
            del self.needs[server['id']]
        self.assert_held()
        self.host_down('mix1')
        self.delete(*servers, *stay)
        self.host_up('mix1')
        self.assert_kept()

    def test_conflicting_writes_are_retried(self):
        """A write is tried four times. If all fail, no allocation remains."""
        self.start('mix2')
        for kind in 'high', 'mixed':
            with self.conflicts(4):
                server = self.create(kind, state='ERROR')
            fault = self.api.get_server(server['id'])['fault']['message']
            self.assertIn('No valid host was found', fault)
            self.delete(server)
            with self.conflicts(3):
                server = self.create(kind)
            self.assert_held()
            # The migration takes the allocation over before the claim.
            for after in 0, 2:
                with self.conflicts(4, after):
                    self.assertRaises(
                        client.OpenStackApiException,
                        self.api.post_server_action,
                        server['id'], {'migrate': None})
                self.assert_held()
                self.act(server, **{'os-resetState': {'state': 'active'}})
            with self.conflicts(3, after=2):
                self.start_move(server, 'mix2')
            with self.conflicts(3):
                self.revert(server)
        self.assert_kept()


class SharedStorage(Allocations):
    """A provider shares disks; the hosts have too little local disk."""

    ROOT_GB = 200

    def needed(self, *args, **kwargs):
        (host, needed), = super().needed(*args, **kwargs).items()
        return {'shared': {'DISK_GB': needed.pop('DISK_GB')}, host: needed}

    def test_disk_is_allocated_from_the_sharing_provider(self):
        self.share_disks()
        # If a host is requested, Nova ignores shared disks.
        servers = self.create_all(host=None)
        self.assert_kept()
        self.start('mix2')
        for server in servers[:2]:
            self.start_move(server, 'mix2', NEXT[server['kind']])
            self.revert(server)
        self.assert_kept()
        self.delete(*servers)


class PciDevices(Allocations):
    """Each host has a device, whose provider is below the host's."""

    ADDITIONAL_FILTERS = ['PciPassthroughFilter']
    DEVICE = {'vendor_id': fakelibvirt.PCI_VEND_ID,
              'product_id': fakelibvirt.PCI_PROD_ID}
    EXTRA_SPECS = {'pci_passthrough:alias': 'device:1'}

    def setUp(self):
        self.flags(device_spec=[json.dumps(self.DEVICE)],
                   alias=[json.dumps({**self.DEVICE, 'name': 'device'})],
                   report_in_placement=True, group='pci')
        self.flags(pci_in_placement=True, group='filter_scheduler')
        super().setUp()

    def start_compute(self, *args, **kwargs):
        return super().start_compute(
            *args, pci_info=fakelibvirt.HostPCIDevicesInfo(
                num_pci=1, num_pfs=0, num_vfs=0), **kwargs)

    def needed(self, *args, **kwargs):
        needed = super().needed(*args, **kwargs)
        device = {'CUSTOM_PCI_{vendor_id}_{product_id}'.format(
            **self.DEVICE): 1}
        return {**needed, '%s_0000:81:00.0' % min(needed): device}

    def test_devices_are_allocated_with_both_priorities(self):
        self.start('mix2')
        for kind in 'high', 'low':
            server = self.create(kind)
            self.start_move(server, 'mix2')
            self.assert_kept()
            (self.revert if kind == 'high' else self.confirm)(server)
            self.assert_kept()
            self.delete(server)
