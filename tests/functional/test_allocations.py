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

#: Name of a flavor -> (vCPUs, extra specs, expected VCPU and PCPU).
FLAVORS = {
    'high': (2, mixed.HIGH, {'PCPU': 2}),
    'low': (3, mixed.LOW, {'VCPU': 3}),
    'low in both cells': (
        4, {**mixed.LOW, **test_requests.TWO_CELLS}, {'VCPU': 4}),
    'ordinary': (5, {}, {'VCPU': 5}),
    'pinned': (1, test_requests.PINNED, {'PCPU': 1}),
    'mixed': (3, mixed.mixed('0'), {'PCPU': 1, 'VCPU': 2}),
    'numbers': (3, mixed.numbers(2, 1), {'PCPU': 2, 'VCPU': 1}),
}
EPHEMERAL_GB = {flavor: n for n, flavor in enumerate(FLAVORS, 1)}
MEMORY_MB = {flavor: 128 * n for n, flavor in enumerate(FLAVORS, 1)}
SWAP_MB, SWAP_GB = 1025, 2
#: Flavor -> flavor of the resize.
NEXT = dict(zip(FLAVORS, [*list(FLAVORS)[1:], *FLAVORS]))


class Allocations(test_requests.Requests):
    """A mix host; ``expected`` has all allocations that must exist."""

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
        # Consumer -> name of a provider -> resources.
        self.expected = {}
        self.start('mix1')
        self.flavors = {
            flavor: self._create_flavor(
                vcpu=vcpus, memory_mb=MEMORY_MB[flavor], disk=self.ROOT_GB,
                ephemeral=EPHEMERAL_GB[flavor], swap=SWAP_MB,
                extra_spec={**extra_specs, **self.EXTRA_SPECS} or None)
            for flavor, (vcpus, extra_specs, _) in FLAVORS.items()}

    def start(self, host):
        self.start_seed_host(host, cpus=24, cells=2, ratio=3.0,
                             dedicated='0-7,12-19', shared='8-11,20-23')

    def expected_allocation(self, server, flavor=None, host=None):
        """Return the expected allocation: dict, provider to resources."""
        flavor, host = flavor or server['flavor'], host or server['host']
        root_gb = 0 if server['from_volume'] else self.ROOT_GB
        return {host: {
            **FLAVORS[flavor][2], 'MEMORY_MB': MEMORY_MB[flavor],
            'DISK_GB': root_gb + EPHEMERAL_GB[flavor] + SWAP_GB}}

    def create(self, flavor, from_volume=False, state='ACTIVE', host='mix1'):
        """Create a server, and expect its allocation from now on."""
        body = self._build_server(
            flavor_id=self.flavors[flavor], networks='none', host=host,
            image_uuid='' if from_volume else None)
        if from_volume:
            body['block_device_mapping_v2'] = [{
                'source_type': 'image', 'uuid': self.image(),
                'destination_type': 'volume', 'volume_size': 1,
                'boot_index': 0}]
        shown = self.soon(
            self._settled, self.api.post_server({'server': body}))
        self.assertEqual(state, shown['status'])
        server = {'id': shown['id'], 'flavor': flavor,
                  'from_volume': from_volume, 'migration': None,
                  'host': shown['OS-EXT-SRV-ATTR:host']}
        if state == 'ACTIVE':
            self.expected[server['id']] = self.expected_allocation(server)
        return server

    def create_all(self, **kwargs):
        return [self.create(flavor, **kwargs) for flavor in FLAVORS]

    def start_move(self, server, target, flavor=None):
        """Migrate or resize; the migration takes the old allocation over."""
        self.act(server, 'VERIFY_RESIZE', **(
            {'resize': {'flavorRef': self.flavors[flavor]}} if flavor
            else {'migrate': None}))
        server['migration'] = self.migrations_of(server['id'])[-1]['uuid']
        self.expected[server['migration']] = self.expected[server['id']]
        self.expected[server['id']] = self.expected_allocation(
            server, flavor, target)
        self.assert_allocations()

    def revert(self, server):
        self.act(server, revertResize=None)
        self.expected[server['id']] = self.expected.pop(server['migration'])
        self.assert_allocations()

    def confirm(self, server):
        self.act(server, confirmResize=None)
        del self.expected[server['migration']]
        self.assert_allocations()

    def delete(self, *servers):
        super().delete(*servers)
        for server in servers:
            self.expected.pop(server['id'], None)
            self.expected.pop(server['migration'], None)
        self.assert_allocations()

    def assert_allocations(self):
        """Assert that Placement has the expected allocations and no others."""
        # The source host deletes its allocation last.
        self.soon(self._assert_equal_allocations)

    def assert_stable_allocations(self):
        """Assert the allocations, also after each nova-compute has updated."""
        self.assert_allocations()
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
                         for needed in self.expected.values()),
                        collections.Counter())
            usages = self.placement.get(url + 'usages').body['usages']
            self.assertEqual(total, +collections.Counter(usages), name)
        self.assertEqual(self.expected, found)

    @contextlib.contextmanager
    def conflicts(self, number, after=0):
        """Let writes of allocations conflict.

        :param number: number of writes that conflict
        :param after: number of writes before them that succeed
        """
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
        """Revert a resize of each server, then move some of them."""
        from_volume = [self.create(flavor, from_volume=True)
                       for flavor in ('high', 'low', 'mixed')]
        servers = [*self.create_all(), from_volume.pop(0)]
        self.assert_stable_allocations()
        self.delete(*from_volume)
        for host, some in ('mix1', servers[1::2]), ('mix2', servers[::2]):
            self.flags(allow_resize_to_same_host=host == 'mix1')
            if host not in self.computes:
                self.start(host)
            for server in some:
                self.start_move(server, host, NEXT[server['flavor']])
            self.assert_stable_allocations()
            for server in some:
                self.revert(server)
        for server in servers[1::2]:
            self.start_move(server, 'mix2')
            if server is not servers[1]:
                self.confirm(server)
        self.assert_stable_allocations()
        self.delete(*servers)

    def test_allocations_are_exact_after_live_move_shelve_evacuate(self):
        servers = self.create_all()
        self.start('mix2')
        for server in servers:
            self._live_migrate(server)
            self.expected[server['id']] = self.expected_allocation(
                server, host='mix2')
            self.assert_stable_allocations()
        for server in servers[::2]:
            self.act(server, 'SHELVED_OFFLOADED', shelve=None)
            needed = self.expected.pop(server['id'])
            self.assert_allocations()
            self.act(server, unshelve={'host': 'mix2'})
            self.expected[server['id']] = needed
            self.assert_allocations()
        self.host_down('mix2')
        for server in servers:
            self.act(server, 'SHUTOFF', evacuate={'host': 'mix1'})
            self.expected[server['id']].update(
                self.expected_allocation(server))
            self.assert_allocations()
        self.assert_stable_allocations()
        self.host_up('mix2')
        for server in servers:
            del self.expected[server['id']]['mix2']
        self.assert_stable_allocations()
        self.delete(*servers)


class FailedAndDeleted(Allocations):

    def test_failed_builds_and_deletes_leave_no_allocation(self):
        """An allocation that an operator has deleted before is no error."""
        self.start('mix2')
        for flavor in 'high', 'low', 'ordinary', 'mixed':
            with mock.patch(SPAWN, side_effect=RuntimeError()) as spawn:
                server = self.create(flavor, state='ERROR', host=None)
            self.assertEqual(2, spawn.call_count, flavor)
            self.assert_allocations()
            self.delete(server)
        servers = self.create_all()
        on_mix2 = [self.create(flavor, host='mix2')
                   for flavor in ('high', 'low')]
        for server in [*servers[::2], *on_mix2]:
            self._delete_server_allocations(server['id'])
            del self.expected[server['id']]
        self.assert_allocations()
        self.host_down('mix1')
        self.delete(*servers, *on_mix2)
        self.host_up('mix1')
        self.assert_stable_allocations()

    def test_conflicting_writes_are_retried(self):
        """A write is tried four times. If all fail, no allocation remains."""
        self.start('mix2')
        for flavor in 'high', 'mixed':
            with self.conflicts(4):
                server = self.create(flavor, state='ERROR')
            fault = self.api.get_server(server['id'])['fault']['message']
            self.assertIn('No valid host was found', fault)
            self.delete(server)
            with self.conflicts(3):
                server = self.create(flavor)
            self.assert_allocations()
            # The migration takes the allocation over before the claim.
            for after in 0, 2:
                with self.conflicts(4, after):
                    self.assertRaises(
                        client.OpenStackApiException,
                        self.api.post_server_action,
                        server['id'], {'migrate': None})
                self.assert_allocations()
                self.act(server, **{'os-resetState': {'state': 'active'}})
            with self.conflicts(3, after=2):
                self.start_move(server, 'mix2')
            with self.conflicts(3):
                self.revert(server)
        self.assert_stable_allocations()


class SharedStorage(Allocations):
    """Hosts with too small disks, and a provider that shares disks."""

    ROOT_GB = 200

    def expected_allocation(self, *args, **kwargs):
        (host, needed), = super().expected_allocation(*args, **kwargs).items()
        return {'shared': {'DISK_GB': needed.pop('DISK_GB')}, host: needed}

    def test_disk_is_allocated_from_the_sharing_provider(self):
        self.share_disks()
        # If a host is requested, Nova ignores shared disks.
        servers = self.create_all(host=None)
        self.assert_stable_allocations()
        self.start('mix2')
        for server in servers[:2]:
            self.start_move(server, 'mix2', NEXT[server['flavor']])
            self.revert(server)
        self.assert_stable_allocations()
        self.delete(*servers)


class PciDevices(Allocations):
    """Each host has a device with a child provider in Placement."""

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

    def expected_allocation(self, *args, **kwargs):
        needed = super().expected_allocation(*args, **kwargs)
        device = {'CUSTOM_PCI_{vendor_id}_{product_id}'.format(
            **self.DEVICE): 1}
        return {**needed, '%s_0000:81:00.0' % min(needed): device}

    def test_devices_are_allocated_with_both_priorities(self):
        self.start('mix2')
        for flavor in 'high', 'low':
            server = self.create(flavor)
            self.start_move(server, 'mix2')
            self.assert_stable_allocations()
            (self.revert if flavor == 'high' else self.confirm)(server)
            self.assert_stable_allocations()
            self.delete(server)
