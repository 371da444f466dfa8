# SPDX-License-Identifier: Apache-2.0

"""Each instance can leave a host that is oversold by far."""

from nova.tests.fixtures import libvirt as fakelibvirt

from nova_prio.model import cpu_capacity
from tests.functional import base

#: Name of a flavor -> (vCPUs, extra specs, allocated VCPU and PCPU).
FLAVORS = {
    'high': (2, {'hw:cpu_priority': 'high'}, {'PCPU': 2}),
    'low': (3, {'hw:cpu_priority': 'low'}, {'VCPU': 3}),
    'low in both cells': (
        2, {'hw:cpu_priority': 'low', 'hw:numa_nodes': '2'}, {'VCPU': 2}),
    'ordinary': (3, {}, {'VCPU': 3}),
    'pinned': (1, {'hw:cpu_policy': 'dedicated'}, {'PCPU': 1}),
    'mixed': (2, {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'},
              {'PCPU': 1, 'VCPU': 1}),
}


class MovingAway(base.FunctionalTest):
    """A full host that is still oversold after one instance has moved away.

    8 shared CPUs * 3 + 16 dedicated CPUs * 2 = 56 vCPUs are sold: 18 to two
    instances of each flavor, 38 to low-priority instances that stay.
    """

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        self.flags(disk_allocation_ratio=2.0)
        self._start('mix1')
        self.low_19 = self.flavor(19, **{'hw:cpu_priority': 'low'})
        for _ in range(2):
            self.boot(self.low_19)
        flavors = {name: self.flavor(vcpus, **extra_specs)
                   for name, (vcpus, extra_specs, _) in FLAVORS.items()}
        self.leaving = [
            (name, self.boot(flavor), leave)
            for leave in (self._leave_cold, self._leave_live)
            for name, flavor in flavors.items()]
        self.assertEqual((56, 56), self._low_row())
        self._start('mix2')

    def _start(self, host):
        self.start_seed_host(host, cpus=24, cells=2, ratio=3.0,
                             dedicated='0-7,12-19', shared='8-11,20-23')

    def _leave_cold(self, server):
        self._migrate_server(server)
        self._confirm_resize(server)

    def _leave_live(self, server):
        self._live_migrate(server)

    def _low_row(self):
        report = self.report('mix1')
        return report.sellable.low, report.used.low

    def _guests(self):
        """Return the guests of the full host from libvirt."""
        connection = self.computes['mix1'].driver._host.get_connection()
        return {domain.UUIDString(): domain.XMLDesc(0)
                for domain in connection.listAllDomains(
                    fakelibvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)}

    def _pinned(self):
        """Return the pinned CPUs in the format of the options."""
        return ','.join(
            cpus for _, server, _ in self.leaving
            for cpus in self.cpus_of_vcpus(server) if cpus.isdigit())

    def _change(self, dedicated, shared, **options):
        guests = self._guests()
        self.assertEqual(2 + len(self.leaving), len(guests))
        host_options = self._host_options['mix1']
        host_options['compute', 'cpu_dedicated_set'] = dedicated
        host_options['compute', 'cpu_shared_set'] = shared
        for name, value in options.items():
            host_options[None, name] = value
        self.restart_compute_service('mix1')
        self.update_host('mix1')
        self.assertEqual(guests, self._guests())

    def _lower_ratio_in_placement(self):
        """Set the ratio in Placement, as operators do without the option."""
        url = '/resource_providers/%s/inventories' % (
            self.compute_rp_uuids['mix1'])
        body = self.placement.get(url).body
        body['inventories']['VCPU']['allocation_ratio'] = 1.0
        self.assertEqual(200, self.placement.put(url, body).status)

    def _assert_all_leave(self, sellable, refused):
        """Assert that no instance is admitted, and that each one can leave.

        :param sellable: capacity of the low row now
        :param refused: priorities that have no room
        """
        self.assertEqual((sellable, 56), self._low_row())
        report = self.report('mix1')
        room = cpu_capacity.calculate_remaining(report.sellable, report.used)
        self.assertEqual(0, room.low)
        for priority in refused:
            extra_specs = {'hw:cpu_priority': priority} if priority else {}
            self.boot(self.flavor(1, **extra_specs), 'ERROR', az='nova:mix1')
        for name, server, leave in self.leaving:
            leave(server)
            self.assertEqual('mix2', self.host_of(server), name)
            held = self._get_allocations_by_server_uuid(server['id'])
            self.assertEqual([self.compute_rp_uuids['mix2']], list(held))
            held, = held.values()
            self.assertEqual(
                FLAVORS[name][2],
                {key: value for key, value in held['resources'].items()
                 if key.endswith('CPU')}, name)
        # The source host deletes its allocations last.
        self.soon(self._assert_no_allocation_left)
        self.update_host('mix1')
        self.assertEqual((0, 38, 0), self.report('mix1').used)

    def _assert_no_allocation_left(self):
        usages = self.resources('mix1', 'usages')
        self.assertEqual((38, 0), (usages['VCPU'], usages['PCPU']))

    def test_all_leave_after_all_free_cpus_are_removed(self):
        self._change(self._pinned(), '8,20', cpu_priority_mix_enable=False,
                     cpu_allocation_ratio=1.0)
        self._assert_all_leave(2, refused=('low', None, 'high'))

    def test_all_leave_after_ratio_falls_in_placement(self):
        """Some of the shared CPUs also become dedicated."""
        self._host_options['mix1'][None, 'cpu_allocation_ratio'] = None
        self._lower_ratio_in_placement()
        self._change('0-9,12-21', '10-11,22-23')
        self._assert_all_leave(4, refused=('low', None))


class OtherOversoldResources(base.FunctionalTest):
    """Other oversold resources than the low row of a mix host."""

    def _restart(self, **options):
        for name, value in options.items():
            group = 'compute' if name.endswith('_set') else None
            self._host_options['mix1'][group, name] = value
        self.restart_compute_service('mix1')
        self.update_host('mix1')

    def test_oversold_ordinary_row_refuses_instances_without_mix(self):
        """13 vCPUs are on 3 CPUs at 4, which sell 12."""
        self.start_seed_host(mix=False, ratio=4.0)
        for vcpus in (4, 4, 4, 1):
            self.boot(self.flavor(vcpus))
        self._restart(cpu_shared_set='8-10')
        self.assertEqual(13, self.report('mix1').used.ordinary)
        self.boot(self.flavor(1), 'ERROR')
        self.boot(self.flavor(1), 'ERROR', az='nova:mix1')
        self.boot(self.flavor(1, **{'hw:cpu_policy': 'dedicated'}))

    def test_instance_without_vcpu_allocation_needs_no_vcpu(self):
        self.start_seed_host(mix=False)
        unseen = self.flavor(4, **{'resources:VCPU': '0'})
        for _ in range(3):
            self.boot(unseen)
        self.update_host('mix1')
        self.assertEqual(12, self.report('mix1').used.ordinary)
        self.assertEqual(4, self.resources('mix1')['VCPU']['total'])
        self.boot(self.flavor(1))

    def test_instances_leave_if_memory_was_oversold_before_mix(self):
        self.flags(ram_allocation_ratio=1.5)
        self.let_guests_migrate()
        self.start_seed_host(mix=False)
        flavor = self._create_flavor(vcpu=1, memory_mb=6000, disk=1)
        cold, live, _ = [self.boot(flavor) for _ in range(3)]
        self._restart(cpu_priority_mix_enable=True)
        self.assertEqual(
            1.0, self.resources('mix1')['MEMORY_MB']['allocation_ratio'])
        self.boot(self.flavor(1), 'ERROR')
        self.start_seed_host('mix2')
        self._live_migrate(live)
        self._migrate_server(cold)
        self._confirm_resize(cold)
        self.assertEqual(['mix2', 'mix2'],
                         [self.host_of(cold), self.host_of(live)])
