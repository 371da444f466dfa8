# SPDX-License-Identifier: Apache-2.0

"""What Nova leaves of a resize that has failed does no harm.

The record of the instance then has the topology of one flavor, and the other
flavor.
"""

import threading
from unittest import mock

import fixtures
from nova import context
from nova import exception
from nova import objects

from nova_prio.virt import demand
from tests.functional import base
from tests.functional import double_pins

_DRIVER = 'nova.virt.libvirt.driver.LibvirtDriver.'
_HIGH = {'hw:cpu_priority': 'high'}
_PINNED = {'hw:cpu_policy': 'dedicated'}


class FailedResize(base.FunctionalTest):
    """A server, and a resize in which the destination fails."""

    # Otherwise the error of the end fails the beginning of the resize as well.
    CAST_AS_CALL = False

    def fail_to_resize(self, server, flavor):
        """Resize a server; its guest does not start on the destination."""
        with mock.patch(_DRIVER + 'finish_migration',
                        side_effect=exception.NovaException('made to fail')):
            self.api.post_server_action(
                server['id'], {'resize': {'flavorRef': flavor}})
            self._wait_for_state_change(server, 'ERROR')
            self._wait_for_migration_status(server, ['error'])
            self._wait_for_server_parameter(
                server, {'OS-EXT-STS:task_state': None})

    def kill_before_finish(self, server, **action):
        """Move a server to mix2, which dies before it changes the record."""
        step = base.leave_unfinished('resize_migrated', 'post-migrating')
        died = threading.Event()

        def die(*args, **kwargs):
            step(*args, **kwargs)
            died.set()

        with mock.patch('nova.compute.manager.ComputeManager._finish_resize',
                        die):
            self.api.post_server_action(server['id'], action)
            self.assertTrue(died.wait(30))
        self.assertEqual('mix2', self.host_of(server))

    def recount(self, *hosts):
        """Recount often enough for each lease to end that nothing needs."""
        for _ in range(3):
            for host in hosts:
                self.update_host(host)


class OnItsHost(FailedResize):
    """The server is resized on its host, and keeps its old CPUs."""

    specs = _HIGH
    host_options = {}

    def setUp(self):
        super().setUp()
        self.start_seed_host('mix1', **self.host_options)
        self.flags(allow_resize_to_same_host=True)
        self.server = self.boot(self.flavor(2, **self.specs))
        self.own = self.get_record_cpus()
        self.resize_in_vain()
        self.recount('mix1')

    def resize_in_vain(self):
        """Let a resize fail; the record then has the new CPUs."""
        # Another flavor of the same size, for other CPUs.
        self.fail_to_resize(self.server, self.flavor(
            2, **self.specs, **{'quota:cpu_shares': '100'}))
        self.assertNotEqual(self.own, self.get_record_cpus())

    def get_record_cpus(self):
        """Return the CPUs in the record of the server."""
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(), self.server['id'],
            expected_attrs=['numa_topology'])
        return demand.get_instance_pins(instance)

    def assert_old_cpus(self):
        """Assert that the record is right, and takes no room from others."""
        self.recount('mix1')
        self.assertEqual(self.own, self.get_record_cpus())
        self.boot(self.flavor(2, **_PINNED), az='nova:mix1')

    def test_guest_starts_on_old_cpus_right_after_failure(self):
        """Until the second recount, the host keeps the new CPUs as well."""
        self.reset_state(self.server)
        self.resize_in_vain()
        self._reboot_server(self.server, hard=True)
        self.assertEqual(self.own, set(map(
            int, self.cpus_of_vcpus(self.server))))
        self.assert_old_cpus()

    def test_old_cpus_survive_failed_rebuild(self):
        with fixtures.MonkeyPatch(
                _DRIVER + '_create_image',
                mock.Mock(side_effect=exception.ImageNotFound(image_id='x'))):
            self.api.post_server_action(self.server['id'], {
                'rebuild': {'imageRef': self.image()}})
            self._wait_for_action_fail_completion(
                self.server, 'rebuild', 'compute_rebuild_instance')
        self.assert_old_cpus()

    def test_old_cpus_survive_next_move(self):
        self.start_seed_host('mix2', **self.host_options)
        self.reset_state(self.server)
        with fixtures.MonkeyPatch(
                _DRIVER + 'migrate_disk_and_power_off', mock.Mock(
                    side_effect=exception.InstanceFaultRollback(
                        exception.ResizeError(reason='made to fail')))):
            self.api.post_server_action(
                self.server['id'], {'migrate': {'host': 'mix2'}})
            self.soon(lambda: self.assertEqual(
                ['error', 'error'], [
                    migration['status'] for migration
                    in self.migrations_of(self.server['id'])]))
            self._wait_for_server_parameter(
                self.server, {'OS-EXT-STS:task_state': None})
        self.assert_old_cpus()


class OrdinaryOnItsHost(OnItsHost):
    """The same without mix, for a pinned server without a priority."""

    specs = _PINNED
    host_options = {'mix': False, 'aggregate': None}


class OnAnotherHost(FailedResize):
    """A topology with too few CPUs lets no vCPU run on those of others."""

    refuses_starts = True

    def setUp(self):
        super().setUp()
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)
        self.boot(self.high, az='nova:mix2')
        self.server = self.boot(self.flavor(4, **_HIGH), az='nova:mix1')

    def assert_refused(self):
        """Assert that the guest starts only on CPUs for all of its vCPUs."""
        self.api.post_server_action(
            self.server['id'], {'reboot': {'type': 'HARD'}})
        self._wait_for_action_fail_completion(
            self.server, 'reboot', 'compute_reboot_instance')
        driver = self.computes['mix2'].driver
        self.assertNotIn(self.server['id'], [
            guest.uuid for guest in driver._host.list_guests()])

    def test_server_does_not_start_without_cpus_for_each_vcpu(self):
        self.fail_to_resize(self.server, self.flavor(2, **_HIGH))
        self.assert_refused()
        # The remedy.
        self.reset_state(self.server)
        self.api.post_server_action(
            self.server['id'],
            {'resize': {'flavorRef': self.flavor(3, **_HIGH)}})
        self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
        self.assertEqual(3, len(set(self.cpus_of_vcpus(self.server))))

    def test_lease_of_another_flavor_is_not_used(self):
        self.kill_before_finish(
            self.server, resize={'flavorRef': self.flavor(2, **_HIGH)})
        self.recount('mix1', 'mix2')
        self.reset_state(self.server)
        self.assert_refused()


class PowerLoss(FailedResize, double_pins.PinnedCloud):
    """The destination loses power, and starts all guests when it returns.

    The server has the numbers of other CPUs in its record: those that it had
    on the source.
    """

    def setUp(self):
        super().setUp()
        self.flags(resume_guests_state_on_host_boot=True)
        # The server comes first, so that its guest starts first.
        self.server = self.boot(self.four, az='nova:mix1')
        self.resident = self.boot(self.four, az='nova:mix2')
        self.own = self.pins(self.resident)
        self.assertEqual(self.own, self.pins(self.server))

    def restore_power(self):
        """Start mix2; return its running guests, as ``running_cpus``."""
        for domain in self.domains('mix2').values():
            domain.destroy()
        self.restart_compute_service('mix2')
        self.update_host('mix2')
        running = self.running_cpus('mix2')
        self.assertEqual(self.own, running.pop(self.resident['id']))
        return running

    def assert_starts_beside_resident(self):
        """Assert that the guest of the server gets its own CPUs."""
        cpus = self.restore_power()[self.server['id']]
        self.assertEqual((4, set()), (len(cpus), cpus & self.own))

    def test_guest_starts_on_cpus_of_destination(self):
        self.kill_before_finish(self.server, migrate={'host': 'mix2'})
        self.assert_starts_beside_resident()

    def test_guest_starts_there_after_error_of_destination(self):
        with mock.patch('nova.compute.manager.ComputeManager.'
                        '_update_bdm_for_swap_to_finish_resize',
                        side_effect=exception.NovaException('made to fail')):
            self.api.post_server_action(
                self.server['id'], {'migrate': {'host': 'mix2'}})
            self._wait_for_migration_status(self.server, ['error'])
            self._wait_for_server_parameter(
                self.server, {'OS-EXT-STS:task_state': None})
        self.assertEqual('mix2', self.host_of(self.server))
        self.assert_starts_beside_resident()

    def assert_stays_off(self, flavor):
        """Assert that a guest in a resize to a flavor does not start."""
        self.kill_before_finish(self.server, resize={'flavorRef': flavor})
        self.assertEqual({}, self.restore_power())
        self.reset_state(self.server)
        self.assertEqual({}, self.restore_power())

    def test_guest_with_cpus_of_other_flavor_stays_off(self):
        self.assert_stays_off(self.two)

    def test_guest_without_cpus_stays_off(self):
        self.assert_stays_off(self.plain)

    def test_guest_without_cpus_of_its_specs_stays_off(self):
        """No extra spec of the flavor is a policy."""
        self.server = self.boot(
            self.flavor(2, **_HIGH, **{'resources:PCPU': '2'}), az='nova:mix1')
        self.assert_stays_off(self.plain)
