# SPDX-License-Identifier: Apache-2.0

"""No guest starts on a CPU that is leased to another instance.

A refusal must leave what the user and the operator need: the guest or its
saved memory, the disk, the allocation, and a way to try again.
"""

import fixtures
from nova.virt import hardware
from oslo_utils.fixture import uuidsentinel as uuids

from nova_prio.compute import containment
from nova_prio.model import leases
from tests.functional import double_pins
from tests.fuzz import faults

MANAGER = 'nova.compute.manager.ComputeManager.'
HARD = {'reboot': {'type': 'HARD'}}


class _Gate(double_pins.PinnedCloud):
    """A cloud where the CPUs of a server become those of another one."""

    def setUp(self):
        super().setUp()
        self.refusals = 0

    def take(self, server):
        """Lease a CPU of a server to another instance, wherever it is."""
        self.taken = []
        for host in self.HOSTS:
            host_leases = self.leases(host)
            cpus = self.own_cpus(host, server)
            for each in host_leases.get(server['id']):
                # A test may take it in the middle of a call of Nova.
                double_pins.let_go(host_leases, server['id'])
                self.assertTrue(host_leases.end(server['id'], each))
            if cpus:
                other = leases.LeaseSet(frozenset({min(cpus)}))
                self.assertEqual({}, host_leases.begin(uuids.other, other))
                self.taken.append((host_leases, other))
        self.assertTrue(self.taken)

    def give_back(self):
        """End the lease of the other instance."""
        for host_leases, other in self.taken:
            self.assertTrue(host_leases.end(uuids.other, other))

    def act(self, server, **action):
        """Ask for an action of a server; return the server when it is idle."""
        self.api.post_server_action(server['id'], action)
        return self.wait_until_idle(server)

    def allocation(self, server):
        """Return the resources of a server by UUID of the provider."""
        found = self._get_allocations_by_server_uuid(server['id'])
        return {uuid: each['resources'] for uuid, each in found.items()}

    def assert_one_refusal(self, server):
        """Assert that one start was refused since the last call."""
        text = ('Instance %s cannot start on its CPUs: this host has leased '
                'CPUs ' % server['id'])
        self.soon(lambda: self.assertEqual(
            self.refusals + 1, self.gate_log.output.count(text)))
        self.refusals += 1
        line = [line for line in self.gate_log.output.splitlines()
                if text in line][-1]
        self.assertIn(uuids.other, line)
        self.assertIn('migrate it cold, or shelve and unshelve it', line)


class StartsOnTheSameHost(_Gate):

    HOSTS = 'mix1',

    def setUp(self):
        super().setUp()
        self.server = self.boot(self.four)

    def domain_of(self, server):
        """Return the fake libvirt domain of a server."""
        return self.domains('mix1')[server['id']]

    def refuse(self, status, **action):
        """Ask for a start that is refused; compare what must not change."""
        domain = self.domain_of(self.server)
        before = domain.xml, self.allocation(self.server)
        self.take(self.server)
        found = self.act(self.server, **action)
        self.assertEqual(status, found['status'], action)
        self.assertIs(domain, self.domain_of(self.server), action)
        self.assertEqual(before, (domain.xml, self.allocation(self.server)),
                         action)
        self.assert_one_refusal(self.server)
        self.give_back()
        return domain

    def start(self, status='ACTIVE', **action):
        """Ask for a start that succeeds."""
        self.assertEqual(status, self.act(self.server, **action)['status'])
        self.assertTrue(self.domain_of(self.server).isActive())
        self.assertEqual(self.pins(self.server),
                         self.running_cpus('mix1')[self.server['id']])

    def test_refused_starts_keep_guest_and_saved_memory(self):
        domain = self.refuse('ACTIVE', **HARD)
        self.assertTrue(domain.isActive())
        self.start(**HARD)
        self.act(self.server, suspend=None)
        domain = self.refuse('SUSPENDED', resume=None)
        # Nova ends the task twice. The second time could end the next resume.
        self.soon(lambda: self.assertIn(
            'Successfully reverted task state from None', self.log.output))
        self.assertTrue(domain.hasManagedSaveImage(0))
        self.start(resume=None)
        self.act(self.server, **{'os-stop': None})
        self.refuse('SHUTOFF', **{'os-start': None})
        self.start(**{'os-start': None})

    def test_refused_rebuild_keeps_guest_and_allocation(self):
        image = {'imageRef': self.server['image']['id']}
        domain = self.refuse('ACTIVE', rebuild=image)
        self.assertTrue(domain.isActive())
        self.start(rebuild=image)

    def test_refused_rescue_and_unrescue_keep_guest(self):
        """Nova sets an instance to ERROR for each error of these."""
        domain = self.refuse('ERROR', rescue={})
        self.assertTrue(domain.isActive())
        self.start(**HARD)
        self.start('RESCUE', rescue={})
        domain = self.refuse('ERROR', unrescue=None)
        self.assertTrue(domain.isActive())
        self.start(**HARD)

    def test_refused_start_at_boot_of_host(self):
        """Another guest runs on the CPUs of a guest that is off."""
        self.flags(resume_guests_state_on_host_boot=True)
        other = self.boot(self.four)
        domain = self.domain_of(self.server)
        domain.destroy()
        self.domain_of(other).xml = domain.xml.replace(
            self.server['id'], other['id'])
        before = domain.xml, self.allocation(self.server)
        self.restart_compute_service('mix1')
        self.assertEqual(
            'ERROR', self.wait_until_idle(self.server)['status'])
        self.assertIs(domain, self.domain_of(self.server))
        self.assertFalse(domain.isActive())
        self.assertEqual(before, (domain.xml, self.allocation(self.server)))
        self.assertTrue(self.domain_of(other).isActive())
        self.assertIn(
            'Instance %s cannot start on its CPUs: this host has leased CPUs '
            '%s to instance %s' % (
                self.server['id'],
                hardware.format_cpu_spec(self.pins(self.server)),
                other['id']),
            self.gate_log.output)


class OtherStarts(_Gate):
    """Starts that the gate lets happen."""

    HOSTS = 'mix1',

    def setUp(self):
        super().setUp()
        self.server = self.boot(self.two)

    def reboot(self, server):
        """Reboot a server hard; assert that its guest runs."""
        self.assertEqual('ACTIVE', self.act(server, **HARD)['status'])
        self.assertTrue(self.domains('mix1')[server['id']].isActive())

    def replace(self, *new):
        """Give the server these LeaseSets instead of its own."""
        host_leases = self.leases('mix1')
        for each in host_leases.get(self.server['id']):
            self.assertTrue(host_leases.end(self.server['id'], each))
        for each in new:
            self.assertEqual({}, host_leases.begin(self.server['id'], each))

    def test_guest_starts_on_its_lease_and_corrects_its_record(self):
        leased = self.pins(self.server)
        self.move_record(self.server, 4)
        self.assertEqual({4, 5}, self.pins(self.server))
        self.reboot(self.server)
        self.assertEqual(leased, self.running_cpus('mix1')[self.server['id']])
        self.assertEqual(leased, self.pins(self.server))
        self.assertEqual(1, self.gate_log.output.count(
            'The record of the instance has the CPUs 4-5, but the CPUs %s of '
            'this host are leased to it.' % hardware.format_cpu_spec(leased)))
        self.assert_exact()
        self.reboot(self.server)
        self.assertEqual(1, self.gate_log.output.count('The record of'))

    def test_guest_without_lease_takes_its_free_cpus(self):
        self.replace()
        for _ in range(2):
            self.reboot(self.server)
        self.assertEqual(self.pins(self.server),
                         self.own_cpus('mix1', self.server))
        self.assertEqual(1, self.gate_log.output.count(
            'A guest starts on the CPUs %s, which were not leased to its '
            'instance' % hardware.format_cpu_spec(self.pins(self.server))))
        self.assert_exact()

    def test_guest_starts_if_gate_fails(self):
        log = self.useFixture(fixtures.FakeLogger(name=containment.LOG.name))

        def fail(*args):
            raise RuntimeError('it was made to fail')

        with fixtures.MonkeyPatch(
                'nova_prio.compute.start_gate.StartGate._take', fail):
            for _ in range(2):
                self.reboot(self.server)
        self.assertEqual(1, log.output.count(
            'nova_prio cannot check the CPUs of a guest before its start'))
        self.assertEqual(1, log.output.count('Traceback'))
        self.assert_exact()

    def test_floating_guests_start(self):
        """All dedicated CPUs are those of another instance."""
        floating = [self.boot(self.flavor(2)),
                    self.boot(self.flavor(2, **{'hw:cpu_priority': 'low'})),
                    self.boot(self.flavor(2, **{
                        'hw:cpu_priority': 'low', 'hw:numa_nodes': '1'}))]
        self._delete_server(self.server)
        self.assertEqual({}, self.leases('mix1').begin(
            uuids.other, leases.LeaseSet(self.DEDICATED)))
        for server in floating:
            self.reboot(server)
            self.act(server, **{'os-stop': None})
            self.assertEqual(
                'ACTIVE', self.act(server, **{'os-start': None})['status'])
        self.assertEqual('', self.gate_log.output)


class Arrivals(_Gate):
    """Guests that are new on a host."""

    def taking(self, name, server):
        """Return a context where a server loses its CPUs in a call.

        :param name: full name of a method that Nova calls before the start
        """
        return self.calling_once(name, lambda: self.take(server))

    def test_refused_build_is_rescheduled_and_unshelve_tried_again(self):
        refused = []

        def take():
            instance, = self.list_instances()
            refused.append(instance.host)
            self.take({'id': instance.uuid})

        with self.calling_once(faults.DRIVER + 'spawn', take):
            server = self.boot(self.four)
        self.assert_one_refusal(server)
        other, = set(self.HOSTS) - set(refused)
        self.assertEqual(other, self.host_of(server))
        self.assertEqual([self.compute_rp_uuids[other]],
                         list(self.allocation(server)))
        for host in self.HOSTS:
            tracker = self.computes[host].rt
            self.assertEqual(
                0, tracker.stats[host].get('failed_builds', 0), host)
        self.give_back()
        self.assert_exact()
        self._refuse_unshelve(server)

    def _refuse_unshelve(self, server):
        """Refuse an unshelve, and try it again."""
        self._shelve_server(server)
        image = self.instance(server).system_metadata['shelved_image_id']
        with self.taking(faults.DRIVER + 'spawn', server):
            self.api.post_server_action(server['id'], {'unshelve': None})
        self.assertEqual('SHELVED_OFFLOADED',
                         self.wait_until_idle(server)['status'])
        self.assert_one_refusal(server)
        self.assertEqual({}, self.allocation(server))
        self.assertIsNotNone(self.glance.show(None, image))
        self.give_back()
        self.assertEqual('ACTIVE',
                         self.act(server, unshelve=None)['status'])
        self.assert_exact()

    def test_refused_evacuation_can_be_tried_again(self):
        server = self.boot(self.four, host='mix1')
        before = self.allocation(server)
        self.host_down('mix1')
        with self.taking(faults.DRIVER + 'spawn', server):
            self.api.post_server_action(
                server['id'], {'evacuate': {'host': 'mix2'}})
        found = self.wait_until_idle(server)
        self.assertEqual(('ACTIVE', 'mix1'), (
            found['status'], found['OS-EXT-SRV-ATTR:host']))
        self._wait_for_migration_status(server, ['failed'])
        self.assertEqual(before, self.allocation(server))
        self.assert_one_refusal(server)
        self.assertEqual({}, self.domains('mix2'))
        self.give_back()
        self.api.post_server_action(
            server['id'], {'evacuate': {'host': 'mix2'}})
        self._wait_for_migration_status(server, ['done'])
        self.assertEqual('mix2', self.host_of(server))
        self.host_up('mix1')
        self.assert_exact()

    def test_refused_live_migration_goes_on_at_source(self):
        server = self.boot(self.four, host='mix1')
        before = self.allocation(server)
        with self.taking(MANAGER + 'pre_live_migration', server):
            self.api.post_server_action(server['id'], {'os-migrateLive': {
                'host': 'mix2', 'block_migration': 'auto'}})
        self._wait_for_migration_status(server, ['failed'])
        found = self.wait_until_idle(server)
        self.assertEqual(('ACTIVE', 'mix1'), (
            found['status'], found['OS-EXT-SRV-ATTR:host']))
        self.assertTrue(self.domains('mix1')[server['id']].isActive())
        self.assertEqual({}, self.domains('mix2'))
        self.assert_one_refusal(server)
        self.assertEqual([], self.leases('mix2').get(server['id']))
        self.assertIsNone(self.instance(server).migration_context)
        self.assertEqual(before, self.allocation(server))
        self.give_back()
        self.assert_exact()
        self._live_migrate(server)
        self.assertEqual('mix2', self.host_of(server))

    def test_refused_ends_of_cold_migration_leave_guest_off(self):
        server = self.boot(self.four, host='mix1')
        with self.taking(faults.DRIVER + 'finish_migration', server):
            self.api.post_server_action(server['id'], {'migrate': None})
        self.assert_off(server, 'mix2')
        self.start(server, 'mix2')
        self._migrate_server(server)
        self.assertEqual('mix1', self.host_of(server))
        with self.taking(faults.DRIVER + 'finish_revert_migration', server):
            self.api.post_server_action(server['id'], {'revertResize': None})
        self.assert_off(server, 'mix2')
        self.start(server, 'mix2')

    def assert_off(self, server, host):
        """Assert that a move ended on a host, where the guest is off."""
        found = self.wait_until_idle(server)
        self.assertEqual(('ERROR', host), (
            found['status'], found['OS-EXT-SRV-ATTR:host']))
        self.assert_one_refusal(server)
        self.assertFalse(any(
            self.running_cpus(each).get(server['id']) for each in self.HOSTS))
        self.assertIn(self.compute_rp_uuids[host], self.allocation(server))

    def start(self, server, host):
        """Start a server, whose CPUs are free again."""
        self.give_back()
        self.assertEqual('ACTIVE', self.act(server, **HARD)['status'])
        self.assertEqual(self.pins(server),
                         self.running_cpus(host)[server['id']])
        self.assert_exact()
