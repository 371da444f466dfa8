# SPDX-License-Identifier: Apache-2.0


"""Guests on stale CPU sets keep pinned instances off their CPUs.

If the operator changes the CPU sets, an ordinary guest floats on the old
shared set until a hard reboot or a move. No instance may be pinned to these
CPUs.
"""

import logging
import os
import threading
from unittest import mock

import fixtures
from nova.compute import manager
import nova.conf
from nova import context
from nova import exception
from nova.tests.fixtures import libvirt
from nova.virt import hardware
from nova.virt.libvirt import driver
from nova.virt.libvirt import guest
from oslo_utils.fixture import uuidsentinel as uuids

from nova_prio.objects import host_report
from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt import guests
from nova_prio.virt.libvirt import partitions
from tests.functional import base

CONF = nova.conf.CONF


class StaleGuests(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.log = self.useFixture(fixtures.FakeLogger(
            name=manager.LOG.name, level=logging.DEBUG))

    def restart(self, name='mix1', dedicated='0-7', shared='8-11', mix=True,
                driver='prio.PriorityLibvirtDriver'):
        """Restart a host with other options."""
        self._host_options[name].update({
            (None, 'compute_driver'): driver,
            (None, 'cpu_priority_mix_enable'): mix,
            ('compute', 'cpu_dedicated_set'): dedicated,
            ('compute', 'cpu_shared_set'): shared})
        self.restart_compute_service(name)

    def start_with_one_guest(self, flavor, **kwargs):
        """Turn a stock host with one guest into a priority host."""
        self.start_seed_host(dedicated=None, shared=None, mix=False,
                             driver='libvirt.LibvirtDriver', **kwargs)
        server = self.boot(flavor)
        self.restart()
        return server

    def reboot(self, server):
        self.api.post_server_action(
            server['id'], {'reboot': {'type': 'HARD'}})
        self._wait_for_state_change(server, 'ACTIVE')

    def delete_unseen(self, server, name='mix1'):
        """Delete a server while nova-compute is forced down."""
        service, = self.api.get_services(
            host=name, binary='nova-compute')
        self.api.put_service_force_down(service['id'], True)
        self._delete_server(server)
        self.api.put_service_force_down(service['id'], False)

    def keep_xml(self):
        """Let the fake libvirt show the generated XML in full."""
        self.useFixture(fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain.XMLDesc',
            lambda domain, flags: self.guest_xml(domain.UUIDString())))

    def assert_blocked(self, cpus, name='mix1'):
        self.update_host(name)
        self.assertEqual(
            host_report.parse_cpu_set(cpus), self.report(name).blocked)

    def pins(self, server):
        """Return the CPUs that a server is pinned to."""
        return set(map(int, self.cpus_of_vcpus(server)))

    def test_guest_on_all_cpus_blocks_dedicated_cpus_until_reboot(self):
        server = self.start_with_one_guest(self.plain)
        self.assert_blocked('0-7')
        self.boot(self.high, 'ERROR')
        self.boot(self.low)
        self.reboot(server)
        self.assert_blocked('')
        self.boot(self.high)

    def test_forced_host_refuses_high_instance(self):
        self.start_with_one_guest(self.plain)
        self.boot(self.high, 'ERROR', az='nova:mix1')
        self.assertIn(
            'the high row has 0 of 8 vCPUs free, 4 are needed '
            '(guests on stale CPU sets use 8 more until a hard reboot or a '
            'move of these guests)', self.log.output)

    def test_high_instance_gets_unblocked_dedicated_cpus(self):
        self.start_seed_host(dedicated='4-7')
        self.boot(self.plain)
        for mix in True, False:
            self.restart(dedicated='4-9', shared='10,11', mix=mix)
            self.assert_blocked('8-9')
            first = self.boot(self.high, az='nova:mix1')
            self.assertEqual({4, 5, 6, 7}, self.pins(first))
            self.boot(self.flavor(1, **{'hw:cpu_priority': 'high'}), 'ERROR')
            self._delete_server(first)
        # Without mix, the filter decides as Nova, but the claim does not.
        self.boot(self.flavor(6, **{'hw:cpu_policy': 'dedicated'}), 'ERROR')
        pinned = self.boot(self.flavor(4, **{'hw:cpu_policy': 'dedicated'}))
        self.assertEqual({4, 5, 6, 7}, self.pins(pinned))

    def test_multi_create_gets_no_blocked_cpus(self):
        self.start_seed_host(dedicated='2-7')
        self.boot(self.plain)
        self.restart(dedicated='2-9', shared='10,11')
        pair = self.flavor(2, **{'hw:cpu_priority': 'high'})
        servers = [self.boot(pair, az='nova:mix1') for _ in range(2)]
        body = {'server': {**self._build_server(
            flavor_id=pair, networks='none'), 'min_count': 2}}
        failed = self._wait_for_state_change(
            self.api.post_server(body), 'ERROR')
        self._delete_server(failed)
        servers.append(self.boot(pair))
        self.assertEqual(set(range(2, 8)), set().union(
            *map(self.pins, servers)))

    def test_suspended_guest_blocks_cpus(self):
        server = self.start_with_one_guest(self.plain)
        self._suspend_server(server)
        self.assert_blocked('0-7')
        self._resume_server(server)
        self.assert_blocked('0-7')
        self.api.post_server_action(server['id'], {'os-stop': None})
        self._wait_for_state_change(server, 'SHUTOFF')
        self.assert_blocked('')

    def test_guest_that_moves_away_frees_cpus(self):
        server = self.start_with_one_guest(self.plain)
        self.start_seed_host('mix2')
        self._migrate_server(server)
        self._confirm_resize(server)
        self.assert_blocked('')
        self.assert_blocked('', 'mix2')

    def test_floating_vcpus_of_pinned_guest_block_cpus(self):
        self.start_seed_host(dedicated='0-5')
        self.boot(self.flavor(4, **{'hw:cpu_policy': 'mixed',
                                    'hw:cpu_dedicated_mask': '0-1'}))
        self.restart(dedicated='0-8', shared='9-11')
        self.assert_blocked('8')

    def test_low_guests_block_no_cpus(self):
        self.start_seed_host()
        self.boot(self.low)
        self.boot(self.high)
        self.assert_blocked('')
        self.restart(mix=False)
        self.assert_blocked('')

    def test_rescued_guest_blocks_cpus(self):
        self.flags(instances_path=self.useFixture(fixtures.TempDir()).path)
        server = self.start_with_one_guest(self.plain)
        os.makedirs(os.path.join(CONF.instances_path, server['id']))
        for action, state in ({'rescue': {}}, 'RESCUE'), (
                {'unrescue': None}, 'ACTIVE'):
            self.api.post_server_action(server['id'], action)
            self._wait_for_state_change(server, state)
            self.assert_blocked('0-7')

    def test_guest_blocks_cpus_during_reboot(self):
        server = self.start_with_one_guest(self.plain)
        launch = guest.Guest.launch
        seen = []

        def launch_late(of, *args, **kwargs):
            if of.uuid == server['id'] and not seen:
                self.update_host('mix1')
                seen.append(self.report('mix1').blocked)
            return launch(of, *args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(
            guest.Guest, 'launch', launch_late))
        self.api.post_server_action(
            server['id'], {'reboot': {'type': 'SOFT'}})
        self._wait_for_state_change(server, 'ACTIVE')
        self.assertEqual([set(range(8))], seen)
        self.assert_blocked('0-7')

    def test_emulator_threads_block_cpus(self):
        self.start_seed_host(dedicated='0-5', shared='6-11', mix=False)
        self.boot(self.flavor(2, **{
            'hw:cpu_policy': 'dedicated',
            'hw:emulator_threads_policy': 'share'}))
        self.restart(dedicated='0-8', shared='9-11')
        self.assert_blocked('6-8')

    def test_emulator_threads_of_low_guest_block_cpus(self):
        """Low vCPUs may share CPUs with a high guest; the threads may not."""
        self.start_seed_host(dedicated='0-5', shared='6-11')
        self.boot(self.low)
        self.restart(dedicated='0-8', shared='9-11')
        self.keep_xml()
        self.assert_blocked('6-8')

    def test_low_emulator_threads_on_own_set_block_cpus_after_change(self):
        """They block dedicated CPUs if the sets of the host change."""
        self.start_seed_host(dedicated='0-5', shared='6-9',
                             low_emulator_set='10-11')
        self.boot(self.low)
        self._host_options['mix1']['nova_prio', 'low_emulator_set'] = None
        self.restart(dedicated='0-5,11', shared='6-9')
        self.keep_xml()
        self.assert_blocked('11')

    def test_recount_asks_libvirt_once_which_guests_run(self):
        """A guest that is off is asked; only its state of rest is unknown."""
        self.start_seed_host()
        servers = [self.boot(self.high), self.boot(self.low)]
        off = self.boot(self.low)
        self.api.post_server_action(off['id'], {'os-stop': None})
        self._wait_for_state_change(off, 'SHUTOFF')
        asked = []
        is_active = libvirt.Domain.isActive

        def note(domain):
            asked.append(domain.UUIDString())
            return is_active(domain)

        with fixtures.MonkeyPatch(
                'nova.tests.fixtures.libvirt.Domain.isActive', note):
            self.computes['mix1'].driver.priority_host.guests.read_guests(
                set(range(8)))
        self.assertEqual({off['id']}, set(asked))
        up = [guest.uuid for guest in self.computes[
            'mix1'].driver.priority_host.guests.list_last_read()
            if guest.is_up]
        self.assertEqual(sorted(each['id'] for each in servers), sorted(up))

    def test_report_stays_if_libvirt_does_not_answer(self):
        """The host keeps its tracker snapshot and the last known guests."""
        self.start_with_one_guest(self.plain)
        self.restart(dedicated='4-9', shared='10,11')
        self.boot(self.low)
        self.assert_blocked('4-9')
        self.api.get_servers()
        before = self.report('mix1')
        recount = self.computes['mix1'].rt.update_available_resource
        with mock.patch('nova.virt.libvirt.host.Host.list_instance_domains',
                        side_effect=exception.HypervisorUnavailable(
                            host='mix1')):
            self.assertRaises(exception.HypervisorUnavailable, recount,
                              context.get_admin_context(), 'mix1')
        self.assert_refused_as_before(before)
        # If libvirt does not show a guest, its last known CPUs count.
        with self.unreadable_guests():
            recount(context.get_admin_context(), 'mix1')
        self.assert_refused_as_before(before)
        with mock.patch(
                'nova.tests.fixtures.libvirt.Domain.XMLDesc',
                side_effect=libvirt.make_libvirtError(
                    libvirt.libvirtError, 'gone',
                    error_code=libvirt.VIR_ERR_NO_DOMAIN)):
            self.computes['mix1'].rt.update_available_resource(
                context.get_admin_context(), 'mix1')
        self.assertEqual(set(), self.report('mix1').blocked)

    def unreadable_guests(self):
        """Return a context where libvirt fails to show the guests."""
        connection = self.computes['mix1'].driver._host.get_connection()
        hidden = [domain.UUIDString() for domain in
                  connection.listAllDomains(3)]
        stock = libvirt.Domain.XMLDesc

        def show(domain, flags):
            if domain.UUIDString() in hidden:
                raise libvirt.make_libvirtError(
                    libvirt.libvirtError, 'timed out',
                    error_code=libvirt.VIR_ERR_OPERATION_TIMEOUT)
            return stock(domain, flags)

        return fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain.XMLDesc', show)

    def assert_refused_as_before(self, before):
        self.boot(self.high, 'ERROR', az='nova:mix1')
        self.assertEqual(before, self.report('mix1'))

    def test_unreadable_guest_blocks_all_dedicated_cpus_with_one_warning(self):
        self.start_seed_host()
        server = self.boot(self.flavor(2, **{'hw:cpu_priority': 'high'}))
        log = self.useFixture(fixtures.FakeLogger(name=guests.LOG.name))
        with self.unreadable_guests():
            self.restart()
            free = set(range(8)) - self.pins(server)
            self.assert_blocked(hardware.format_cpu_spec(free))
            self.boot(self.high, 'ERROR', az='nova:mix1')
            self.boot(self.plain)
        self.assertEqual(1, log.output.count(
            'libvirt does not show its domain XML'))
        self.assert_blocked('')
        self.boot(self.high)

    def test_foreign_domain_is_logged_once_and_named_in_refusals(self):
        self.start_seed_host()
        log = self.useFixture(fixtures.FakeLogger(name=guests.LOG.name))
        filtered = self.useFixture(fixtures.FakeLogger(
            name='nova_prio.scheduler.filters.priority_filter',
            level=logging.DEBUG))
        connection = self.computes['mix1'].driver._host.get_connection()
        xml = partitions._PROBE_XML % ('kvm', 'vm-of-operator', uuids.foreign,
                                       '2-7')
        domain = connection.defineXML(xml)
        domain.XMLDesc = lambda flags: xml
        domain.create()
        for _ in range(2):
            self.assert_blocked('2-7')
        self.assertEqual(1, log.output.count(
            'The libvirt domain vm-of-operator (%s), which Nova did not '
            'create, may run on the dedicated CPUs 2-7' % uuids.foreign))
        self.assertEqual('vm-of-operator', self.report('mix1').blocked_by)
        named = '(orphan guests among them: vm-of-operator)'
        self.boot(self.high, 'ERROR')
        self.assertIn(named, filtered.output)
        self.boot(self.high, 'ERROR', az='nova:mix1')
        self.assertIn(named, self.log.output)
        domain.destroy()
        self.assert_blocked('')
        self.assertEqual('', self.report('mix1').blocked_by)
        self.boot(self.high)

    def test_guest_of_deleted_instance_blocks_cpus(self):
        """The instance was deleted while nova-compute was forced down."""
        self.start_seed_host(dedicated='0-5', shared='6-11')
        server = self.boot(self.high)
        kept = self.pins(server)
        self.delete_unseen(server)
        self.assert_blocked(hardware.format_cpu_spec(kept))
        self.boot(self.high, 'ERROR')
        other = self.boot(self.flavor(2, **{'hw:cpu_priority': 'high'}))
        self.assertEqual(set(range(6)) - kept, self.pins(other))

    def test_guest_left_by_failed_build_blocks_cpus(self):
        """libvirt stops during the start; the next instance comes soon."""
        self.start_seed_host()
        self.keep_xml()
        spawn = driver.LibvirtDriver.spawn

        def leave(*args, **kwargs):
            spawn(*args, **kwargs)
            away()

        def away(*args, **kwargs):
            raise exception.HypervisorUnavailable(host='mix1')

        name = 'nova.virt.libvirt.driver.LibvirtDriver.'
        with (fixtures.MonkeyPatch(name + 'spawn', leave),
              fixtures.MonkeyPatch(name + 'destroy', away)):
            left = self.boot(self.high, 'ERROR')
        kept = self.pins(left)
        self.assertEqual(4, len(kept))
        self.assertEqual(kept, self.report('mix1').hidden)
        self.assertEqual(set(range(8)) - kept,
                         self.pins(self.boot(self.high)))
        self.assert_blocked(hardware.format_cpu_spec(kept))
        connection = self.computes['mix1'].driver._host.get_connection()
        connection.lookupByUUIDString(left['id']).destroy()
        self.assert_blocked('')
        # A second look ends the lease of the guest.
        self.update_host('mix1')
        self.assertEqual(set(), self.report('mix1').hidden)
        with fixtures.MonkeyPatch(name + 'spawn', away):
            self.boot(self.flavor(1, **{'hw:cpu_priority': 'high'}), 'ERROR')
        self.assertEqual(set(), self.report('mix1').hidden)

    def test_failed_build_asks_libvirt_without_lock_of_tracker(self):
        """A recount finishes while the build waits for libvirt."""
        self.start_seed_host()
        stock = libvirt.Connection.lookupByUUIDString
        recounts = []

        def fail(*args, **kwargs):
            self.useFixture(fixtures.MonkeyPatch(
                'nova.tests.fixtures.libvirt.Connection.lookupByUUIDString',
                look_up))
            raise exception.HypervisorUnavailable(host='mix1')

        def look_up(*args, **kwargs):
            if not recounts:
                recounts.append(threading.Thread(
                    target=self.update_host, args=('mix1',), daemon=True))
                recounts[0].start()
                recounts[0].join(10)
                recounts.append(recounts[0].is_alive())
            return stock(*args, **kwargs)

        name = 'nova.virt.libvirt.driver.LibvirtDriver.'
        with (fixtures.MonkeyPatch(name + 'spawn', fail),
              fixtures.MonkeyPatch(name + 'destroy', mock.Mock()),
              fixtures.MonkeyPatch(name + 'cleanup', mock.Mock())):
            self.boot(self.high, 'ERROR')
        self.assertFalse(recounts[1])

    def test_guest_left_by_failed_live_migration_blocks_cpus(self):
        """Nova releases the claim before libvirt has stopped the guest."""
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)
        server = self.boot(self.high, host='mix1')

        def leave(domain, destination, params, flags):
            self.computes['mix2'].driver._host.get_connection().defineXML(
                params['destination_xml']).create()
            domain.fail_job()

        with (fixtures.MonkeyPatch(base.FAKE_MIGRATE, leave),
              fixtures.MonkeyPatch(
                  'nova.virt.libvirt.driver.LibvirtDriver.'
                  'rollback_live_migration_at_destination', mock.Mock())):
            self.api.post_server_action(server['id'], {'os-migrateLive': {
                'host': 'mix2', 'block_migration': 'auto'}})
            self._wait_for_migration_status(server, ['failed', 'error'])
        self.assertEqual(4, self.report('mix2').remaining.high)
        self.assertEqual(4, len(self.report('mix2').hidden))
        self.boot(self.flavor(5, **{'hw:cpu_priority': 'high'}), 'ERROR',
                  az='nova:mix2')
        self.update_host('mix2')
        self.assertEqual(4, len(self.report('mix2').blocked))

    def test_guest_of_deleted_instance_is_logged_once(self):
        self.start_seed_host()
        server = self.boot(self.low)
        log = self.useFixture(fixtures.FakeLogger(name=guests.LOG.name))
        said = ('The guest %s runs here, but its instance is not on this host.'
                % server['OS-EXT-SRV-ATTR:instance_name'])
        self.keep_xml()
        self.delete_unseen(server)
        for times in 0, 1, 1:
            self.update_host('mix1')
            self.assertEqual(times, log.output.count(said))
        connection = self.computes['mix1'].driver._host.get_connection()
        domain = connection.lookupByUUIDString(server['id'])
        domain.destroy()
        self.update_host('mix1')
        domain.create()
        for times in 1, 2:
            self.update_host('mix1')
            self.assertEqual(times, log.output.count(said))

    def test_foreign_domains_and_moving_instances_are_not_logged(self):
        """Domains that Nova did not create, and instances that move."""
        log = self.useFixture(fixtures.FakeLogger(name=guests.LOG.name))
        found = guests.HostGuests(None, None)
        guest = guest_xml.Guest('guest', uuids.guest, is_of_nova=True)
        foreign = guest._replace(uuid=uuids.foreign, is_of_nova=False)
        found._last_read = [guest, foreign], frozenset({0})
        with mock.patch.object(found, 'is_running'):
            for counted, moving, named, cpus in (
                    ({uuids.guest, uuids.foreign}, set(), 0, set()),
                    ({uuids.guest}, set(), 0, {0}),
                    (set(), {uuids.guest}, 0, {0}), (set(), set(), 1, {0})):
                for _ in range(2):
                    found.update_blocked([], counted.__contains__, moving)
                self.assertEqual(cpus, found.blocked)
                self.assertEqual(
                    ['guest'] * len({uuids.guest, uuids.foreign} - counted),
                    found.blocked_by)
                self.assertEqual(
                    named, log.output.count('The guest guest runs here'))

    def test_partition_probes_block_no_cpus(self):
        """Probes are not guests of Nova. Low ones block by threads alone."""
        blocked = []
        for priority, name in (
                ('high', partitions.PROBE_PREFIX), ('low', 'x'),
                ('high', 'x'), (None, 'x')):
            xml = guest_xml.apply_priority(
                partitions._PROBE_XML % ('kvm', name, uuids.probe, '0-7'),
                priority, {8} if priority else None)
            found = guests.HostGuests(None, None)
            found._last_read = (
                [guest_xml.Guest.from_xml(xml)], frozenset({0, 1}))
            for is_running in False, True:
                with mock.patch.object(found, 'is_running',
                                       return_value=is_running):
                    found.update_blocked([], set().__contains__, set())
                if not is_running:
                    self.assertEqual(set(), found.blocked)
            blocked.append(found.blocked)
        self.assertEqual([set(), set(), {0, 1}, {0, 1}], blocked)

    def test_guest_counts_as_running_if_libvirt_does_not_answer(self):
        self.start_seed_host()
        server = self.boot(self.low)
        driver = self.computes['mix1'].driver
        self.assertTrue(driver.guests.is_running(server['id']))
        self.assertFalse(driver.guests.is_running(uuids.none))
        for error in (exception.HypervisorUnavailable(host='mix1'),
                      libvirt.make_libvirtError(
                          libvirt.libvirtError, 'timed out',
                          error_code=libvirt.VIR_ERR_OPERATION_TIMEOUT)):
            with mock.patch.object(driver._host, 'get_connection',
                                   side_effect=error):
                self.assertTrue(driver.guests.is_running(server['id']))
