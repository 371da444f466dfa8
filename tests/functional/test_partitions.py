# SPDX-License-Identifier: Apache-2.0

"""A host whose libvirt cannot start guests in the partitions."""

import contextlib
import logging

import fixtures
from lxml import etree
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client

from tests.functional import base


class Partitions(base.FunctionalTest):
    """The fake libvirt starts guests except in the missing partitions."""

    def setUp(self):
        super().setUp()
        self.missing = {'/low_prio_machine'}
        create = fakelibvirt.Connection.createXML

        self.probed = []

        def create_xml(connection, xml, flags):
            self.probed.append(etree.fromstring(xml))
            for partition in self.missing:
                if partition in xml:
                    raise fakelibvirt.libvirtError(
                        'the cgroup of %s is missing' % partition)
            return create(connection, xml, flags)

        self.useFixture(fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Connection.createXML', create_xml))
        # Each step of a test must notice the changes of the step before.
        self.useFixture(fixtures.MonkeyPatch(
            'nova_prio.virt.libvirt.partitions.TRUST_SECONDS', 0))
        self.log = self.useFixture(fixtures.FakeLogger(
            'nova_prio.virt.libvirt.partitions'))

    def _problem_of(self, partition):
        return ('libvirt cannot start a guest in the partition %s (the cgroup '
                'of %s is missing); run nova-prio-host prepare on the host'
                % (partition, partition))

    def _refused(self, flavor, *loggers, **kwargs):
        """Boot a server, which must fail; return the log."""
        logs = [self.useFixture(fixtures.FakeLogger(
            name, level=logging.DEBUG)) for name in loggers]
        self.boot(flavor, 'ERROR', **kwargs)
        return ''.join(log.output for log in logs)

    def test_missing_partition_refuses_priority_instances(self):
        self.start_seed_host('mix1')
        words = self._problem_of('/low_prio_machine')
        self.assertEqual(1, self.log.output.count(words))
        self.assertEqual(words, self.report('mix1').partition_problem)
        for flavor in self.high, self.low:
            self.assertIn(words, self._refused(
                flavor, 'nova_prio.scheduler.filters.priority_filter'))
            # For a forced host, Nova runs no filters.
            self.assertIn(words, self._refused(
                flavor, 'nova.compute.claims', 'nova.compute.manager',
                az='nova:mix1'))
        self.boot(self.plain)
        self.missing.clear()
        self.update_host('mix1')
        self.assertIn('admitted again', self.log.output)
        self.boot(self.high)
        self.boot(self.low)
        connection = self.computes['mix1'].driver._host.get_connection()
        self.assertEqual(3, len(connection.listAllDomains(
            fakelibvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)))

    def test_probe_runs_on_cpus_without_high_priority_guests(self):
        """Probes run on the CPUs without high-priority guests, if any."""
        self.missing.clear()
        self.start_seed_host('mix1')
        self.start_seed_host('high1', shared=None, mix=False)
        self.start_seed_host('housekeeping', dedicated='0-5', shared='8-11',
                             low_emulator_set='6-7')
        # Nova keeps the idle dedicated CPUs offline.
        self.flags(cpu_power_management=True, group='libvirt')
        for name in ('power_up', 'power_down_all_dedicated_cpus',
                     'validate_all_dedicated_cpus'):
            self.stub_out('nova.virt.libvirt.cpu.api.API.' + name,
                          lambda api, *cpus: None)
        self.stub_out('nova.virt.libvirt.host.Host.get_online_cpus',
                      lambda host: {3})
        self.start_seed_host('full', dedicated='1-11', shared=None, mix=False)
        self.assertEqual(
            sorted([
                ('/high_prio_machine', '8-11'), ('/low_prio_machine', '8-11'),
                ('/high_prio_machine', '8-11'), ('/low_prio_machine', '8-11'),
                ('/high_prio_machine', '3'), ('/low_prio_machine', '3'),
                ('/high_prio_machine', '8-11'), ('/low_prio_machine', '6-7')]),
            sorted((domain.findtext('resource/partition'),
                    domain.find('vcpu').get('cpuset'))
                   for domain in self.probed))

    def test_any_error_of_a_probe_refuses_priority_instances(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Connection.createXML',
            lambda *args: {}['cgroup']))
        self.start_seed_host('mix1')
        self.assertIn("/high_prio_machine ('cgroup')",
                      self.report('mix1').partition_problem)
        self.boot(self.low, 'ERROR')
        self.boot(self.plain)

    def test_moves_share_recent_probe_results(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova_prio.virt.libvirt.partitions.TRUST_SECONDS', 600))
        self.let_guests_migrate()
        self.missing.clear()
        self.start_seed_host('mix1')
        self.start_seed_host('mix2')
        servers = [self.boot(self.low, az='nova:mix1') for _ in range(2)]
        probes = len(self.probed)
        for server in servers:
            self._live_migrate(server)
            self.assertEqual('mix2', self.host_of(server))
        self.assertEqual(probes, len(self.probed))

    def test_failed_guest_start_triggers_probes(self):
        """The next host update and a move to the host start the probes."""
        self.useFixture(fixtures.MonkeyPatch(
            'nova_prio.virt.libvirt.partitions.TRUST_SECONDS', 600))
        self.missing.clear()
        self.start_seed_host('mix1')
        driver = self.computes['mix1'].driver
        probes = len(self.probed)
        with fixtures.MonkeyPatch(
                'nova.virt.libvirt.guest.Guest.launch',
                lambda *args, **kwargs: {}['cgroup']):
            self.boot(self.plain, 'ERROR')
            driver.probe_partitions()
            self.update_host('mix1')
            self.assertEqual(probes, len(self.probed))
            self.missing.add('/low_prio_machine')
            self.boot(self.low, 'ERROR')
        self.assertEqual('', driver.partitions.problem)
        self.update_host('mix1')
        self.assertEqual(self._problem_of('/low_prio_machine'),
                         self.report('mix1').partition_problem)
        self.missing.clear()
        self.update_host('mix1')
        self.boot(self.low)

    def test_failed_live_migration_triggers_probes(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova_prio.virt.libvirt.partitions.TRUST_SECONDS', 600))
        self.missing.clear()
        self.start_seed_host('mix1')
        server = self.boot(self.low)
        self.start_seed_host('mix2')
        self.missing.add('/low_prio_machine')
        with self.no_guest_migrates():
            self._live_migrate(server, 'failed')
        # The destination releases the claim and updates its host.
        self.soon(lambda: self.assertEqual(
            self._problem_of('/low_prio_machine'),
            self.report('mix2').partition_problem))

    def test_destination_probes_before_live_migration(self):
        self.let_guests_migrate()
        self.missing.clear()
        self.start_seed_host('mix1')
        self.start_seed_host('mix2')
        server = self.boot(self.high)
        plain = self.boot(self.plain, az='nova:' + self.host_of(server))
        source = self.host_of(server)
        destination, = set(self.computes) - {source}
        self.missing.add('/high_prio_machine')
        self.assertRaises(
            client.OpenStackApiException, self._live_migrate, server)
        self.assertEqual(source, self.host_of(server))
        self.update_host(destination)
        self.assertEqual(self._problem_of('/high_prio_machine'),
                         self.report(destination).partition_problem)
        self.assertEqual('', self.report(source).partition_problem)
        self._live_migrate(plain)
        self.assertEqual(destination, self.host_of(plain))
        self.missing.clear()
        self.update_host(destination)
        self._live_migrate(server)
        self.assertEqual(destination, self.host_of(server))

    def _refused_move(self, server):
        """Return a server that stays, because its destination refuses."""
        shown = self.api.get_server(server['id'])
        self.assertEqual((None, 'mix1'), (
            shown['OS-EXT-STS:task_state'], shown['OS-EXT-SRV-ATTR:host']))
        self.assertEqual(self._problem_of('/high_prio_machine'),
                         self.computes['mix2'].driver.partitions.problem)
        return shown

    def test_destination_probes_before_cold_migration_and_evacuation(self):
        """Cold migration and evacuation leave the instance on its source."""
        self.missing.clear()
        self.start_seed_host('mix1')
        server = self.boot(self.high)
        self.start_seed_host('mix2')
        for move in {'migrate': None}, {'evacuate': {'host': 'mix2'}}:
            self.missing.add('/high_prio_machine')
            with contextlib.suppress(client.OpenStackApiException):
                self.api.post_server_action(server['id'], move)
            shown = self.soon(self._refused_move, server)
            if 'migrate' in move:
                self.assertIn(self._problem_of('/high_prio_machine'),
                              shown['fault']['message'])
            self.missing.clear()
            self.update_host('mix2')
            self.reset_state(server)
            if 'migrate' in move:
                self.host_down('mix1')
        self.api.post_server_action(server['id'], move)
        self._wait_for_state_change(server, 'SHUTOFF')
        self.assertEqual('mix2', self.host_of(server))
