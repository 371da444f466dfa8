# SPDX-License-Identifier: Apache-2.0


"""Removal of the package while instances with a priority exist."""

import inspect

import fixtures
from nova.api.validation.extra_specs import validators
from nova.compute import claims
from nova.scheduler import host_manager
from nova.scheduler import request_filter
from nova.tests.functional.api import client

from nova_prio.api import compute_api
from nova_prio.compute import resource_tracker
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs
from nova_prio.scheduler import request_filter as prio_request_filter
from nova_prio.virt import demand
from nova_prio_scenario import cloud
from tests.functional import base

STOCK_API = compute_api.PriorityAPI.__bases__[0]
BOTH = {'resources:PCPU': '1', 'resources:VCPU': '1'}
HIGH, LOW = {'hw:cpu_priority': 'high'}, {'hw:cpu_priority': 'low'}
#: Name of a case -> (extra specs, hint, dedicated vCPUs, shared vCPUs).
CASES = {
    'high': (HIGH, None, 1, 0),
    'high by hint': ({}, 'high', 1, 0),
    'high of PCPU': ({**HIGH, 'resources:PCPU': '1'}, None, 1, 0),
    'high and mixed': ({**HIGH, 'hw:cpu_policy': 'mixed',
                        'hw:cpu_dedicated_mask': '0'}, None, 1, 1),
    'high of both': ({**HIGH, **BOTH}, None, 1, 1),
    'mixed of both': (BOTH, None, 1, 1),
    'low': (LOW, None, 0, 1),
    'low by hint': ({}, 'low', 0, 1),
    'low with a NUMA node': ({**LOW, 'hw:numa_nodes': '1'}, None, 0, 1),
}


class Removed(base.FunctionalTest):
    """Base class with actions on instances after the removal."""

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.let_guests_migrate()
        for name in ('mix1', 'mix2'):
            self.start_seed_host(name)

    def flavor(self, vcpus=4, **extra_specs):
        """Create a flavor so small that many instances fit on one host."""
        return self._create_flavor(
            vcpu=vcpus, memory_mb=256, disk=1, ephemeral=0,
            extra_spec=extra_specs or None)

    def remove_the_package(self):
        """Restart API, scheduler and computes as if the package was removed.

        Each replaced attribute of Nova is restored. If the package makes a
        decision later, the test fails.
        """
        self.flags(enabled=False, group='nova_prio')
        validators.VALIDATORS.clear()
        validators.load_validators()
        self._put_back('nova.compute.api.API', STOCK_API)
        # The controllers already have an API object; restore its methods.
        for name, method in vars(STOCK_API).items():
            if name in vars(compute_api.PriorityAPI) and name[:2] != '__':
                self._put_back(
                    'nova_prio.api.compute_api.PriorityAPI.' + name, method)
        self._put_back('nova.compute.resource_tracker.ResourceTracker',
                       resource_tracker.PriorityResourceTracker.__bases__[-1])
        self._put_back('nova.compute.resource_tracker.claims', claims)
        request_filter.ALL_REQUEST_FILTERS.remove(
            prio_request_filter.restrict_request)
        self.flags(
            available_filters=['nova.scheduler.filters.all_filters'],
            enabled_filters=['ComputeFilter', 'NUMATopologyFilter'],
            weight_classes=['nova.scheduler.weights.all_weighers'],
            group='filter_scheduler')
        self.scheduler.manager.host_manager = host_manager.HostManager()
        for name in sorted(self.computes):
            self._host_options[name][None, 'compute_driver'] = (
                cloud.STOCK_DRIVER)
            self.restart_compute_service(name)
        self._assert_removed()

    def _put_back(self, name, value):
        self.useFixture(fixtures.MonkeyPatch(name, value))

    def _assert_removed(self):
        def fail(*args, **kwargs):
            raise AssertionError('nova_prio is asked: %s %s' % (args, kwargs))

        for module in (cpu_capacity, demand, flavor_specs):
            for name, value in inspect.getmembers(
                    module, inspect.isfunction):
                if value.__module__ == module.__name__:
                    self._put_back('%s.%s' % (module.__name__, name), fail)
        manager = self.scheduler.manager.host_manager
        loaded = [*manager.enabled_filters, *manager.weighers]
        for compute in self.computes.values():
            loaded += [compute.manager.driver, compute.manager.rt]
        for each in loaded:
            self.assertTrue(
                type(each).__module__.startswith('nova.'), type(each))

    def act(self, server, state='ACTIVE', **action):
        self.api.post_server_action(server['id'], action)
        return self._wait_for_state_change(server, state)

    def move(self, server, **action):
        """Cold-migrate or resize a server."""
        self.act(server, 'VERIFY_RESIZE', **action)
        self.act(server, confirmResize=None)

    def cpu_allocations(self, server):
        """Return allocations: dict, host to dict, resource class to int."""
        hosts = {uuid: name for name, uuid in self.compute_rp_uuids.items()}
        return {hosts[uuid]: {
            name: amount for name, amount in held['resources'].items()
            if name in ('PCPU', 'VCPU')} for uuid, held in
            self._get_allocations_by_server_uuid(server['id']).items()}


class Kinds(Removed):
    """One instance for each case; all fit on the shared CPUs without mix."""

    def setUp(self):
        super().setUp()
        self.plain = self.flavor(1)
        self.servers = {}
        for case, (extra_specs, hint, *vcpus) in CASES.items():
            self.servers[case] = self.create(extra_specs, hint, sum(vcpus))
        # A pending resize uses CPUs twice, and mix1 needs all of its CPUs.
        self.unmoved, self.pending_resizes = [[
            self.create(extra_specs, None, 1, 'mix2')
            for extra_specs in kinds] for kinds in (
                (HIGH, LOW), (HIGH, LOW, HIGH))]
        for server in self.pending_resizes:
            self.act(server, 'VERIFY_RESIZE',
                     resize={'flavorRef': self.plain})
        self.remove_the_package()

    def create(self, extra_specs, hint, vcpus, host='mix1'):
        flavor = self.flavor(vcpus, **extra_specs)
        if hint:
            server = self.boot_with_hint(
                flavor, hint, availability_zone='nova:' + host)
        else:
            server = self.boot(flavor, az='nova:' + host)
        self.api.api_delete('/flavors/%s' % flavor)
        return server

    def assert_guest(self, case, host):
        """Assert host and guest of an instance, as stock Nova creates it."""
        server = self.servers[case]
        _, _, dedicated, shared = CASES[case]
        self.assertEqual('ACTIVE', self.api.get_server(server['id'])['status'])
        self.assertEqual(host, self.host_of(server))
        self.assertEqual({host: {
            name: amount for name, amount in (
                ('PCPU', dedicated), ('VCPU', shared)) if amount}},
            self.cpu_allocations(server))
        domain = self.domain(server)
        self.assertIsNone(domain.find('resource'))
        pins = [pin.get('cpuset') for pin in domain.findall('cputune/vcpupin')]
        if not pins:
            pins = [domain.find('vcpu').get('cpuset')] * shared
        self.assertEqual(shared, pins.count('8-11'), pins)
        self.assertEqual(dedicated, len({pin for pin in pins
                                         if pin in map(str, range(8))}), pins)

    def test_instances_of_each_kind_work_after_removal(self):
        """Some instances are deleted before their guests start again."""
        for server in self.unmoved:
            self._delete_server(server)
        for case, server in self.servers.items():
            self.act(server, 'SHUTOFF', **{'os-stop': None})
            self.act(server, **{'os-start': None})
            self.assert_guest(case, 'mix1')
            self.act(server, reboot={'type': 'HARD'})
            self.assert_guest(case, 'mix1')
            self.move(server, migrate={'host': 'mix2'})
            self.assert_guest(case, 'mix2')
            self.act(server, **{'os-migrateLive': {
                'host': 'mix1', 'block_migration': 'auto'}})
            self.assertEqual('mix1', self.host_of(server))
            self.act(server, 'SHELVED_OFFLOADED', shelve=None)
            self.act(server, unshelve=None)
            self.assert_guest(case, self.host_of(server))
            self.move(server, resize={'flavorRef': self.plain})
            self.assertEqual({}, self.extra_specs(server))
            self.assertEqual(
                '8-11', self.domain(server).find('vcpu').get('cpuset'))
            # The instance may now use one more shared CPU.
            self._delete_server(server)
        confirmed, reverted, deleted = self.pending_resizes
        self.act(confirmed, confirmResize=None)
        self.act(reverted, revertResize=None)
        for server in (confirmed, reverted, deleted):
            self._delete_server(server)
        for host in sorted(self.computes):
            usages = self.resources(host, 'usages')
            self.assertEqual((0, 0), (usages['PCPU'], usages['VCPU']))


class Overfull(Removed):
    """More low-priority vCPUs than the shared CPUs can sell without mix."""

    def setUp(self):
        super().setUp()
        self.fours = [self.boot(self.flavor(4, **LOW), az='nova:mix1')
                      for _ in range(2)]
        self.six = self.boot(self.flavor(6, **LOW), az='nova:mix1')

    def _set(self, host, **options):
        self._host_options[host].update(
            {tuple(name.split('__')) if '__' in name else (None, name): value
             for name, value in options.items()})
        self.restart_compute_service(host)
        self.update_host(host)

    def assert_usable(self, server, cpus):
        self.act(server, 'SHUTOFF', **{'os-stop': None})
        self.act(server, **{'os-start': None})
        self.act(server, reboot={'type': 'HARD'})
        self.assertEqual(
            cpus, self.domain(server).find('vcpu').get('cpuset'))

    def test_oversold_host_works_after_removal_at_once(self):
        """Instances that are too large stay until their host has more CPUs."""
        self.remove_the_package()
        for server in (*self.fours, self.six):
            self.assert_usable(server, '8-11')
        for action in (
                {'migrate': {'host': 'mix2'}},
                {'os-migrateLive': {'host': 'mix2',
                                    'block_migration': 'auto'}},
                {'resize': {'flavorRef': self.flavor(1)}}):
            error = self.assertRaises(
                client.OpenStackApiException,
                self.api.post_server_action, self.six['id'], action)
            self.assertIn('NoValidHost', str(error))
        for host in sorted(self.computes):
            self._set(host, compute__cpu_dedicated_set='0-5',
                      compute__cpu_shared_set='6-11',
                      cpu_allocation_ratio=3.0)
        self.move(self.six, migrate={'host': 'mix2'})
        self.act(self.fours[0], **{'os-migrateLive': {
            'host': 'mix2', 'block_migration': 'auto'}})
        for server in (*self.fours, self.six):
            self.assert_usable(server, '6-11')
            self._delete_server(server)
        for host in sorted(self.computes):
            self.assertEqual(0, self.resources(host, 'usages')['VCPU'])

    def test_oversold_host_works_after_removal_in_order(self):
        """Disable mix, then move the surplus, then remove the package."""
        for host in sorted(self.computes):
            self._set(host, cpu_priority_mix_enable=False)
        report = self.report('mix1')
        self.assertEqual((14, 8), (report.used.low, report.sellable.low))
        self.move(self.six, resize={'flavorRef': self.flavor(4, **LOW)})
        self.move(self.fours[0], migrate={'host': 'mix2'})
        self.remove_the_package()
        for server in (*self.fours, self.six):
            self.assert_usable(server, '8-11')
        self.act(self.six, **{'os-migrateLive': {
            'host': 'mix1', 'block_migration': 'auto'}})
        self._delete_server(self.six)
        self.move(self.fours[0], migrate={'host': 'mix1'})
        self.assert_usable(self.fours[0], '8-11')
