# SPDX-License-Identifier: Apache-2.0

"""Amounts of both hosts after live migrations that failed or aborted.

These tests trigger no recount. Only the hosts themselves recount.
"""

import contextlib
import threading

import fixtures
from nova.objects import fields
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client

from nova_prio_scenario import cloud
from tests.functional import accounts
from tests.functional import base
from tests.functional import devices
from tests.functional import test_live_migration as live

CONDUCTOR = 'nova.conductor.tasks.live_migrate.LiveMigrationTask.'


class _Rollback(base.FunctionalTest):
    """Guests on mix1 whose live migration to mix2 fails."""

    FLAVORS = 'high', 'low', 'low in both cells', 'ordinary', 'mixed'

    def setUp(self):
        super().setUp()
        self.let_guests_migrate()
        options = dict(cells=2, dedicated='0-3,6-9', shared='4-5,10-11')
        self.start_seed_host('mix1', **options)
        self.servers = {}
        for flavor in self.FLAVORS:
            vcpus, extra_specs = live.FLAVORS[flavor]
            self.servers[flavor] = self.boot(self.flavor(vcpus, **extra_specs))
        self.start_seed_host('mix2', **options)
        self.before = accounts.of_all(self)
        self.earlier = {}

    def _ask_to_migrate(self, server):
        self.earlier[server['id']] = len(self.migrations_of(server['id']))
        self.api.post_server_action(server['id'], {'os-migrateLive': {
            'host': 'mix2', 'block_migration': 'auto'}})

    def _assert_as_before(self, *servers):
        """Wait for all amounts from before, with the servers on mix1.

        Then forget the results of the migrations in libvirt.
        """
        for server in servers:
            self._wait_for_state_change(server, 'ACTIVE')
            self.assertEqual('mix1', self.host_of(server))
        self._wait_for_assert(
            lambda: self.assertEqual(self.before, accounts.of_all(self)),
            max_retries=30, sleep=0.1)
        connection = self.computes['mix1'].driver._host.get_connection()
        for server in self.servers.values():
            connection.lookupByUUIDString(
                server['id'])._job_type = fakelibvirt.VIR_DOMAIN_JOB_NONE

    def _fail_each(self, servers, name, how, *statuses):
        """Let a function fail, and migrate each server."""
        for server in servers:
            with fixtures.MonkeyPatch(name, how):
                with contextlib.suppress(client.OpenStackApiException):
                    self._ask_to_migrate(server)
                self.soon(self._newest_is, server, *statuses)
            self._assert_as_before(server)

    def _newest_is(self, server, *statuses):
        """Return the migration that was asked for, which has a status."""
        migrations = self.migrations_of(server['id'])
        self.assertGreater(len(migrations), self.earlier[server['id']])
        newest = migrations[-1]
        self.assertIn(newest['status'], statuses)
        return newest


class Rollback(_Rollback):
    """One failure after the other, of each guest."""

    #: What fails -> how, and the status of the migration after that.
    FAILURES = {
        live.LAST_CHECK: (live.refuse, 'error', 'failed'),
        live.DRIVER + 'check_can_live_migrate_source': (live.fail, 'error'),
        live.DRIVER + 'pre_live_migration': (live.fail, 'failed'),
    }
    #: Failures that are tested with each guest.
    FAILURES_OF_EACH = {
        CONDUCTOR + '_bind_ports_on_destination': (
            live.refuse, 'error', 'failed'),
        base.FAKE_MIGRATE: (
            lambda domain, *args, **kwargs: domain.fail_job(), 'failed'),
    }

    def test_each_failure_releases_claim(self):
        some = [self.servers[flavor]
                for flavor in ('high', 'low', 'ordinary', 'mixed')]
        self._fail(some, self.servers.values())

    def test_failure_on_stock_source_releases_claim(self):
        """Stock Nova does not know all claims of the destination."""
        some = [self.servers[flavor] for flavor in ('high', 'ordinary')]
        for server in self.servers.values():
            if server not in some:
                self._delete_server(server)
        self._host_options['mix1'][None, 'compute_driver'] = cloud.STOCK_DRIVER
        self.restart_compute_service('mix1')
        self.update_host('mix1')
        self.servers = dict(enumerate(some))
        self.before = accounts.of_all(self)
        self._fail(some, some)

    def _fail(self, some, servers):
        """Let migrations fail in each way.

        :param some: servers for the ways that are tested with few guests
        """
        for each, failures in ((some, self.FAILURES),
                               (servers, self.FAILURES_OF_EACH)):
            for name, (how, *statuses) in failures.items():
                self._fail_each(each, name, how, *statuses)
        self._abort_running(*servers)
        self._abort_queued(*servers)
        self._fail_with_exception(*some)

    @contextlib.contextmanager
    def _running_migrations(self):
        """Let each live migration run until it is aborted."""
        is_over = threading.Event()

        def wait(domain, *args, **kwargs):
            is_over.wait(60)

        def abort(domain):
            domain._job_type = fakelibvirt.VIR_DOMAIN_JOB_CANCELLED
            is_over.set()

        with (fixtures.MonkeyPatch(base.FAKE_MIGRATE, wait),
              fixtures.MonkeyPatch(
                  'nova.tests.fixtures.libvirt.Domain.abortJob', abort)):
            try:
                yield
            finally:
                is_over.set()

    def _abort(self, server, status):
        migration = self.soon(self._newest_is, server, status)
        self.api.delete_migration(server['id'], migration['id'])
        self.soon(self._newest_is, server, 'cancelled')

    def _abort_running(self, *servers):
        for server in servers:
            with self._running_migrations():
                self._ask_to_migrate(server)
                self._abort(server, 'running')
            self._assert_as_before(server)

    def _abort_queued(self, first, *queued):
        with self._running_migrations():
            self._ask_to_migrate(first)
            self.soon(self._newest_is, first, 'running')
            for server in queued:
                self._ask_to_migrate(server)
                self._abort(server, 'queued')
                self._wait_for_state_change(server, 'ACTIVE')
            self._abort(first, 'running')
        self._assert_as_before(first, *queued)

    def _fail_with_exception(self, *servers):
        """In this case, Nova 32 to 34 set the instance to ERROR."""
        def fail(domain, *args, **kwargs):
            domain.fail_job()
            live.fail()

        for server in servers:
            with fixtures.MonkeyPatch(base.FAKE_MIGRATE, fail):
                self._ask_to_migrate(server)
                self.soon(self._newest_is, server, 'error', 'failed')
            self._assert_as_before()


class UnreleasedClaims(base.FunctionalTest):
    """Claims that their host does not release without a later claim."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(
            'nova_prio.compute.live_migration_watcher._INTERVAL_SECONDS',
            3600))
        self.let_guests_migrate()
        self.start_seed_host('mix1')
        self.server = self.boot(self.flavor(1, **{'hw:cpu_priority': 'low'}))
        self.start_seed_host('plain', dedicated=None, shared='0-3', ratio=1.0,
                             mix=False)
        self.before = accounts.of_all(self)

    def _fail_to_migrate(self):
        with fixtures.MonkeyPatch(
                CONDUCTOR + '_bind_ports_on_destination', live.refuse):
            self.assertRaises(
                client.OpenStackApiException, self.api.post_server_action,
                self.server['id'], {'os-migrateLive': {
                    'host': 'plain', 'block_migration': 'auto'}})
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertIn(self.server['id'], [
            uuid for uuid, _, _ in accounts.of_host(self, 'plain')['leases']])

    def _assert_recounted(self, host):
        """Assert that a recount changes no amount of the host."""
        counted = accounts.of_host(self, host)
        self.update_host(host)
        recounted = accounts.of_host(self, host)
        for name in ('report', 'usage in the record', 'usage in the tracker',
                     'Placement'):
            self.assertEqual(recounted[name], counted[name])

    def test_next_claim_releases_claim_of_failed_migration(self):
        """The next claim is that of another or of the same instance."""
        self._fail_to_migrate()
        # All CPUs are sold only if no claim of the low instance remains.
        server = self.boot(self.flavor(4), host='plain')
        self._assert_recounted('plain')
        self.assertEqual(4, self.resources('plain')['VCPU']['total'])
        self._delete_server(server)
        self._fail_to_migrate()
        self._live_migrate(self.server, 'completed')
        # The second claim of the same instance kept its first one.
        for _ in range(2):
            self.update_host('plain')
        self._assert_recounted('plain')
        self.assertEqual(1, self.report('plain').used.low)

    def test_unreleased_claim_raises_no_inventory(self):
        """An error in the release does not affect other instances either."""
        self._fail_to_migrate()
        log = self.useFixture(fixtures.FakeLogger('nova_prio'))
        with fixtures.MonkeyPatch(
                'nova_prio.compute.live_migration_watcher.'
                'LiveMigrationWatcher._find_ended',
                live.fail):
            server = self.boot(self.flavor(4), host='plain')
        self.assertIn('are not released before the next recount', log.output)
        self.assertEqual(4, self.resources('plain')['VCPU']['total'])
        self._delete_server(server)
        self.update_host('plain')
        self.assertEqual(self.before['plain'],
                         accounts.of_host(self, 'plain'))


class DevicesInPlacement(devices.FunctionsOnHosts, _Rollback):
    """Guests with a virtual function that Placement also counts."""

    FUNCTIONS = 4
    FLAVORS = 'high', 'low', 'ordinary'

    def setUp(self):
        self.flags(report_in_placement=True, group='pci')
        self.flags(pci_in_placement=True, group='filter_scheduler')
        super().setUp()

    def flavor(self, vcpus=4, **extra_specs):
        return super().flavor(
            vcpus, **{'pci_passthrough:alias': 'function:1', **extra_specs})

    def test_live_migration_succeeds_after_failures(self):
        self._fail_each(
            self.servers.values(), CONDUCTOR + '_bind_ports_on_destination',
            live.refuse, 'error', 'failed')
        self._fail_each(
            self.servers.values(), base.FAKE_MIGRATE,
            lambda domain, *args, **kwargs: domain.fail_job(), 'failed')
        for server in self.servers.values():
            # The guest starts again on mix1, with its device.
            self._reboot_server(server, hard=True)
            self._live_migrate(server, 'completed')
            self.assertEqual('mix2', self.host_of(server))
            self._reboot_server(server, hard=True)
            self.assertEqual(
                1, len(self.domain(server).findall('devices/hostdev')))
        for host, used in ('mix1', 0), ('mix2', len(self.FLAVORS)):
            # With shared disks, Nova frees the device at the source only in a
            # recount.
            self.update_host(host)
            self.soon(self._assert_used, host, used)

    def _assert_used(self, host, count):
        found = accounts.of_host(self, host)
        self.assertEqual(count, len([
            status for status in found['devices'].values()
            if status == fields.PciDeviceStatus.ALLOCATED]))
        self.assertEqual(count, sum(
            used for _, usages in found['Placement'].values()
            for name, used in usages.items()
            if name.startswith('CUSTOM_PCI_')))
