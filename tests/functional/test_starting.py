# SPDX-License-Identifier: Apache-2.0

"""A service with an invalid configuration must not start."""

import logging
import pathlib
import threading

import fixtures
from nova.compute import manager
from nova import exception
from nova.scheduler import manager as scheduler_manager
from nova.tests.fixtures import libvirt as fakelibvirt
from oslo_serialization import jsonutils

from nova_prio.compat import contract
from nova_prio_scenario import cloud
from tests.functional import base


class Starting(base.FunctionalTest):

    def _refusal(self, start, *args, **kwargs):
        log = self.useFixture(fixtures.FakeLogger(
            name=contract.LOG.name, level=logging.CRITICAL))
        error = self.assertRaises(SystemExit, start, *args, **kwargs)
        self.assertEqual(1, error.code)
        line, = log.output.splitlines()
        return line

    def test_compute_refuses_mix_without_dedicated_set(self):
        self.assertIn(
            '[compute] cpu_dedicated_set is empty',
            self._refusal(self.start_seed_host, dedicated=None))

    def test_compute_refuses_overlapping_sets(self):
        self.assertIn('both hold CPUs 6-7',
                      self._refusal(self.start_seed_host, shared='6-11'))

    def test_compute_refuses_low_emulator_set_with_dedicated_cpus(self):
        self.assertIn(
            "[nova_prio] low_emulator_set is '7-8', but CPUs 7 are in "
            '[compute] cpu_dedicated_set; give CPUs outside of it',
            self._refusal(self.start_seed_host, low_emulator_set='7-8'))

    def test_compute_refuses_low_emulator_set_without_cpus(self):
        for value in '8-x', '8,^8':
            self.assertIn(
                "[nova_prio] low_emulator_set is '%s'" % value,
                self._refusal(self.start_seed_host, low_emulator_set=value))

    def test_compute_refuses_low_emulator_set_with_missing_cpus(self):
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'x')
        path.write_text('0-11\n')
        self.useFixture(fixtures.MonkeyPatch(
            'nova_prio.virt.libvirt.compute_checks.ONLINE', path))
        self.assertIn(
            "[nova_prio] low_emulator_set is '11-12', but CPUs 12 are not "
            'online', self._refusal(
                self.start_seed_host, low_emulator_set='11-12'))

    def test_new_compute_starts_beside_its_test_guests(self):
        """On a busy host, libvirt may still stop the guests of the probes."""
        destroy = fakelibvirt.Domain.destroy
        check = manager.ComputeManager._sanity_check_new_host
        may_stop = threading.Event()
        self.addCleanup(may_stop.set)
        guests = []

        def destroy_late(domain):
            may_stop.wait()
            destroy(domain)

        def check_beside_guests(compute):
            guests.extend(compute.driver.list_instances())
            check(compute)
            may_stop.set()
            for thread in threading.enumerate():
                if thread.name in guests:
                    thread.join()

        for name, function in (
                ('nova.tests.fixtures.libvirt.Domain.destroy', destroy_late),
                ('nova.compute.manager.ComputeManager._sanity_check_new_host',
                 check_beside_guests),
                ('nova_prio.virt.libvirt.partitions.WAIT_SECONDS', 1)):
            self.useFixture(fixtures.MonkeyPatch(name, function))
        self.start_seed_host()
        self.assertEqual(2, len(guests))

    def test_compute_refuses_mix_without_capacity(self):
        self.assertIn(
            'cpu_allocation_ratio = 0.1',
            self._refusal(self.start_seed_host, ratio=0.1))

    def test_compute_refuses_instance_pinned_outside_its_sets(self):
        """Nova only warns, and each later recount fails."""
        self.start_seed_host()
        server = self.boot(self.flavor(vcpus=8, **{'hw:cpu_priority': 'high'}))
        self._assert_dedicated_set_is_refused(server, 'move the instance away')

    def test_compute_refuses_waiting_migration_outside_its_sets(self):
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)
        server = self.boot(self.flavor(vcpus=8, **{'hw:cpu_priority': 'high'}),
                           host='mix1')
        self._migrate_server(server)
        self._assert_dedicated_set_is_refused(
            server, 'confirm or revert its migration')

    def _assert_dedicated_set_is_refused(self, server, remedy):
        """Take CPUs of a server on mix1 out of its dedicated CPUs."""
        self._host_options['mix1']['compute', 'cpu_dedicated_set'] = '4-7'
        refusal = self._refusal(self.restart_compute_service, 'mix1')
        self.assertIn("[compute] cpu_dedicated_set is '4-7', but instance %s "
                      "is pinned outside of it" % server['id'], refusal)
        self.assertIn('set it as it was, %s, and change it then.' % remedy,
                      refusal)

    def test_compute_refuses_mismatched_nova(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova_prio.compat.contract.find_mismatches',
            lambda service: ['x is gone']))
        self.assertIn('match this package in nova-compute: x is gone. Install',
                      self._refusal(self.start_seed_host))

    def test_compute_with_wrong_device_spec_stops_with_message_of_nova(self):
        """A PF and its own VF cannot both be devices for instances."""
        self.flags(compute_driver=cloud.PRIORITY_DRIVER)
        self.flags(
            report_in_placement=True, group='pci',
            device_spec=[jsonutils.dumps(
                {'vendor_id': fakelibvirt.PCI_VEND_ID, 'product_id': product})
                for product in (fakelibvirt.PF_PROD_ID,
                                fakelibvirt.VF_PROD_ID)])
        error = self.assertRaises(
            exception.PlacementPciDependentDeviceException,
            self.start_compute, 'pci1',
            pci_info=fakelibvirt.HostPCIDevicesInfo(num_pfs=1, num_vfs=1))
        self.assertIn('0000:81:00.0', str(error))

    def test_scheduler_refuses_numa_topology_filter(self):
        self.flags(enabled_filters=['PriorityFilter', 'NUMATopologyFilter'],
                   group='filter_scheduler')
        self.assertIn("remove 'NUMATopologyFilter'",
                      self._refusal(scheduler_manager.SchedulerManager))

    def test_scheduler_refuses_fallback_query(self):
        self.flags(disable_fallback_pcpu_query=False, group='workarounds')
        self.assertIn('disable_fallback_pcpu_query is false',
                      self._refusal(scheduler_manager.SchedulerManager))
