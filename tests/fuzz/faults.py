# SPDX-License-Identifier: Apache-2.0

"""Faults on demand: moves and guests fail, and migrations wait."""

import contextlib
import threading

import fixtures
from nova.compute import manager
from nova import exception
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt.libvirt import driver

from tests.functional import base

DRIVER = 'nova.virt.libvirt.driver.LibvirtDriver.'
#: How a live migration may fail: a method of the driver and its error.
FAILURES = {
    # Fails before the claim of the destination.
    'check': (DRIVER + 'check_can_live_migrate_source',
              exception.MigrationError),
    # Fails in the last check, after the claim.
    'last-check': (DRIVER + 'check_source_migrate_data_at_dest',
                   exception.MigrationPreCheckError),
    'pre-migration': (DRIVER + 'pre_live_migration',
                      exception.MigrationError),
}
#: Maximum seconds of an operation.
PATIENCE_SECONDS = 60


class FaultyCloud(base.FunctionalTest):
    """A cloud with a fake libvirt that migrates guests, or fails on demand.

    The fake libvirt keeps the domain XML of the driver. It stops a guest
    before a cold migration, as libvirt does.
    """

    def setUp(self):
        super().setUp()
        self._held_migrations = {}
        self._failing_guests = {}
        self._live_migrations = 0
        self._watch_live_migrations()
        self._keep_xml()
        self.useFixture(fixtures.MonkeyPatch(base.FAKE_MIGRATE,
                                             self._migrate_guest))
        self.useFixture(fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain.abortJob', self._abort_guest))
        # The fake libvirt calls this method without the flags.
        self.useFixture(fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain.managedSaveRemove',
            _forget_saved_state))
        self.useFixture(fixtures.MonkeyPatch(
            DRIVER + 'migrate_disk_and_power_off', _power_off))

    def connection(self, host):
        """Return the fake libvirt of a host."""
        return self.computes[host].driver._host.get_connection()

    def domains(self, host):
        """Return the guests of a host: dict, UUID -> fake domain."""
        return {domain.UUIDString(): domain
                for domain in list(self.connection(host)._vms.values())}

    def is_migrating_live(self, uuid):
        """Return whether a caller must wait for running live migrations.

        :param uuid: UUID of the server for which the caller waits. If the
            migration of another server is held, do not wait for its end
        """
        is_other_held = (
            self._held_migrations and uuid not in self._held_migrations)
        return bool(self._live_migrations and not is_other_held)

    def _watch_live_migrations(self):
        """Count the running live migrations.

        The API does not show their last steps.
        """
        stock = manager.ComputeManager._do_live_migration
        lock = threading.Lock()

        def count(number):
            with lock:
                self._live_migrations += number

        def migrate(*args, **kwargs):
            count(1)
            try:
                return stock(*args, **kwargs)
            finally:
                count(-1)

        self.useFixture(fixtures.MonkeyPatch(
            'nova.compute.manager.ComputeManager._do_live_migration',
            migrate))

    def _keep_xml(self):
        parse = fakelibvirt.Domain._parse_definition

        def parse_and_keep(domain, xml):
            domain.xml = xml
            return parse(domain, xml)

        self.useFixture(fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain._parse_definition',
            parse_and_keep))
        self.useFixture(fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain.XMLDesc',
            lambda domain, flags: domain.xml))

    @contextlib.contextmanager
    def failing(self, name, error):
        """Let a method fail during the context.

        :param name: full name of the method
        :param error: function of ``reason`` that returns the exception
        """
        def fail(*args, **kwargs):
            raise error(reason='the fuzz made it fail')

        with fixtures.MonkeyPatch(name, fail):
            yield

    def no_guest_starts(self):
        """Return a context where libvirt starts no guest."""
        return self.failing(DRIVER + 'spawn',
                            exception.InstanceDeployFailure)

    def no_disk_moves(self):
        """Return a context where cold migrations fail at the source."""
        return self.failing(DRIVER + 'migrate_disk_and_power_off', _rollback)

    def fail_next_migration(self, uuid, raises):
        """Let the next live migration of a guest fail in libvirt.

        :param raises: whether the call raises an error, as in libvirt. If
            false, only the job fails, as in Nova's own tests
        """
        self._failing_guests[uuid] = raises

    @contextlib.contextmanager
    def hold_migration(self, uuid):
        """Hold the live migration of a guest until the context ends.

        :returns: function that returns whether the migration was aborted
        """
        event = self._held_migrations[uuid] = threading.Event()
        try:
            yield event.is_set
        finally:
            self._held_migrations.pop(uuid).set()

    def reset_jobs(self):
        """Reset the result of the last migration of each guest."""
        self._failing_guests.clear()
        for host in self.computes:
            for domain in self.domains(host).values():
                domain._job_type = fakelibvirt.VIR_DOMAIN_JOB_NONE

    def _migrate_guest(self, domain, destination, params, flags):
        uuid = domain.UUIDString()
        waits = self._held_migrations.get(uuid)
        if waits:
            waits.wait(PATIENCE_SECONDS)
        # The job also ends if the guest was destroyed meanwhile.
        raises = (
            domain._job_type == fakelibvirt.VIR_DOMAIN_JOB_CANCELLED or
            domain.info()[0] == fakelibvirt.VIR_DOMAIN_SHUTOFF)
        if uuid in self._failing_guests:
            domain.fail_job()
            raises = self._failing_guests[uuid]
        if raises:
            raise fakelibvirt.make_libvirtError(
                fakelibvirt.libvirtError, 'the migration job has failed',
                error_code=fakelibvirt.VIR_ERR_OPERATION_INVALID,
                error_domain=fakelibvirt.VIR_FROM_QEMU)
        if domain._job_type == fakelibvirt.VIR_DOMAIN_JOB_FAILED:
            return
        host = destination.split('/')[2]
        self.connection(host).defineXML(params['destination_xml']).create()
        domain.destroy()
        domain.undefine()
        domain.complete_job()

    def _abort_guest(self, domain):
        domain._job_type = fakelibvirt.VIR_DOMAIN_JOB_CANCELLED
        self._held_migrations[domain.UUIDString()].set()


def _forget_saved_state(domain, flags=0):
    domain._has_saved_state = False


def _rollback(reason):
    return exception.InstanceFaultRollback(
        exception.ResizeError(reason=reason))


def _power_off(compute, context, instance, *args, **kwargs):
    driver.LibvirtDriver.power_off(compute, instance)
    return '{}'
