# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The cloud of the fuzz: three hosts that differ, and faults on demand."""

import contextlib
import fractions
import threading
import time

import fixtures
from nova.compute import manager
from nova import context
from nova import exception
from nova import objects
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client
from nova.virt.libvirt import driver

from nova_prio.scenario import migrations
from tests.functional import base
from tests.fuzz import kinds
from tests.fuzz import model

DRIVER = 'nova.virt.libvirt.driver.LibvirtDriver.'
#: How a live migration may fail: a method of the driver and its error.
FAILURES = {
    # Before the destination has claimed.
    'check': (DRIVER + 'check_can_live_migrate_source',
              exception.MigrationError),
    # The last check, after the claim.
    'last-check': (DRIVER + 'check_source_migrate_data_at_dest',
                   exception.MigrationPreCheckError),
    'pre-migration': (DRIVER + 'pre_live_migration',
                      exception.MigrationError),
}
#: Seconds until an operation must have ended.
PATIENCE_SECONDS = 60

HOSTS = {
    # The worked example: one NUMA cell, at 2.0.
    'mix1': model.Host(
        cells=(frozenset(range(12)),),
        dedicated=frozenset(range(8)), shared=frozenset(range(8, 12)),
        ratio=fractions.Fraction(2), mix=True),
    'mix2': model.Host(
        cells=(frozenset(range(6)), frozenset(range(6, 12))),
        dedicated=frozenset({1, 2, 3, 4, 7, 8, 9}),
        shared=frozenset({0, 5, 6, 10, 11}),
        ratio=fractions.Fraction(3, 2), mix=True),
    'plain': model.Host(
        cells=(frozenset(range(6)), frozenset(range(6, 12))),
        dedicated=frozenset({0, 1, 2, 6, 7, 8}),
        shared=frozenset({3, 4, 5, 9, 10, 11}),
        ratio=fractions.Fraction(2), mix=False),
}


class NotSettled(Exception):
    """An operation that did not end."""


def _text(cpus):
    return ','.join(map(str, sorted(cpus)))


class FuzzCloud(base.FunctionalTest):
    """Three hosts, their model, and what the operations and checks need.

    The fake libvirt keeps the domain XML as the driver defined it, and stops
    a guest before a cold migration, as libvirt does.
    """

    # As calls, RPC casts would hand late errors back to the host that asked,
    # which then gives back claims that it keeps in a real cloud.
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        # A compute is disabled after ten builds that failed.
        self.flags(consecutive_build_service_disable_threshold=0,
                   group='compute')
        self.flags(max_concurrent_live_migrations=1)
        self.flags(shutdown_timeout=0)
        # A host that was down for a while reports itself after some seconds.
        self.flags(service_down_time=86400)
        self.model = model.Model(HOSTS)
        self._guests_wait = {}
        self._failing_guests = {}
        self._live_migrations = 0
        self._watch_live_migrations()
        self._keep_xml()
        self.useFixture(fixtures.MonkeyPatch(base.FAKE_MIGRATE,
                                             self._migrate_guest))
        self.useFixture(fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain.abortJob', self._abort_guest))
        self.useFixture(fixtures.MonkeyPatch(
            DRIVER + 'migrate_disk_and_power_off', _power_off))
        for name, host in HOSTS.items():
            self.start_host(
                name, cpus=12, cells=len(host.cells),
                dedicated=_text(host.dedicated), shared=_text(host.shared),
                ratio=float(host.ratio), mix=host.mix,
                memory_mb=host.memory_mb, aggregate={'priority_mix': 'true'})
        self.image_id = self.image()
        self.flavors = {}
        for kind in kinds.KINDS.values():
            if kind.flavor not in self.flavors:
                self.flavors[kind.flavor] = self._create_flavor(
                    vcpu=kind.vcpus, memory_mb=kind.memory_mb, disk=1,
                    ephemeral=0, extra_spec=kind.extra_specs or None)

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

    def _watch_live_migrations(self):
        """Count those that run: their last steps do not show in the API."""
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

    def flavor_of(self, kind):
        """Return the id of the flavor of a kind."""
        return self.flavors[kinds.KINDS[kind].flavor]

    # The cloud as it is

    def all_servers(self):
        """Return all servers as the API shows them."""
        return self.api.get_servers()

    def connection(self, host):
        """Return the fake libvirt of a host."""
        return self.computes[host].driver._host.get_connection()

    def domains(self, host):
        """Return the guests of a host: dict, UUID -> fake domain."""
        return {domain.UUIDString(): domain
                for domain in list(self.connection(host)._vms.values())}

    def compute_node(self, host):
        """Return the compute node of a host from the database."""
        with self.record(host) as node:
            return node

    def tracked_node(self, host):
        """Return the compute node that the tracker of a host keeps."""
        return self.computes[host].manager.rt.compute_nodes[host]

    def tracked_report(self, host):
        """Return the report as the tracker of a host would make it now."""
        tracker = self.computes[host].manager.rt
        return tracker.priority_report(tracker.compute_nodes[host])

    def cells(self, node):
        """Return the NUMA cells of a compute node."""
        return objects.NUMATopology.obj_from_db_obj(node.numa_topology).cells

    def migration_of(self, uuid):
        """Return the UUID of the newest migration of a server."""
        return migrations.newest(self.api, uuid).get('uuid')

    # Operations

    def act(self, server, leaving=None, **action):
        """Ask for an action and wait until the server rests.

        :param leaving: status that the server must have left by then; not all
            actions have a task state
        :returns: the server as the API shows it, and the error of the API or
            None
        """
        error = None
        try:
            self.api.post_server_action(server.uuid, action)
        except client.OpenStackApiException as refused:
            error = str(refused)
        return self.settle(server.uuid, None if error else leaving), error

    def settle(self, uuid, leaving=None):
        """Wait until a server and its newest migration rest; return it."""
        shown = {}

        def rests():
            is_waiting = uuid not in self._guests_wait and self._guests_wait
            is_over = is_waiting or not self._live_migrations
            shown.update(self.api.get_server(uuid))
            return (is_over and shown['OS-EXT-STS:task_state'] is None and
                    shown['status'] not in ('BUILD', leaving) and
                    migrations.newest_is_settled(self.api, uuid))

        self.wait(rests, uuid)
        return shown

    def built(self, uuid):
        """Wait until a server is built or refused; return it."""
        shown = {}

        def is_built():
            shown.update(self.settle(uuid))
            # Nova writes the fault after the status.
            return shown['status'] != 'ERROR' or 'fault' in shown

        self.wait(is_built, uuid)
        return shown

    def wait(self, check, what):
        """Wait until a check returns a true value."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not check():
            if time.monotonic() > deadline:
                raise NotSettled(what)
            time.sleep(0.02)

    def wait_for_migration(self, uuid, status, before):
        """Wait until a new migration has a status, or failed; return it.

        :param before: the migration that was the newest one
        """
        found = {}

        def has_status():
            found.update(migrations.newest(self.api, uuid))
            return (found.get('id') != before.get('id') and
                    found['status'] in (status, 'error', 'failed'))

        self.wait(has_status, (uuid, status))
        return found

    def wait_until_gone(self, uuid):
        """Wait until a server is deleted."""
        def is_gone():
            try:
                self.api.get_server(uuid)
            except client.OpenStackApiNotFoundException:
                return True
            return False

        self.wait(is_gone, uuid)

    # Hosts

    def force_down(self, name, is_down):
        """Force the service of a host down, or take that back."""
        self._force_down(name, is_down)

    def reap(self, host):
        """Let a host remove the guests of deleted instances."""
        cell = self.host_mappings[host].cell_mapping
        with self.host_conf(host), context.target_cell(
                context.get_admin_context(), cell) as cctxt:
            self.computes[host].manager._cleanup_running_deleted_instances(
                cctxt)

    # Faults

    @contextlib.contextmanager
    def failing(self, name, error):
        """Let a method raise an error, which takes a ``reason``."""
        def fail(*args, **kwargs):
            raise error(reason='the fuzz made it fail')

        with fixtures.MonkeyPatch(name, fail):
            yield

    def no_guest_starts(self):
        """Return a context in which libvirt starts no guest."""
        return self.failing(DRIVER + 'spawn',
                            exception.InstanceDeployFailure)

    def no_disk_moves(self):
        """Return a context in which no host gives a disk away."""
        return self.failing(DRIVER + 'migrate_disk_and_power_off', _rollback)

    def failing_guest(self, uuid, raises):
        """Let the next live migration of a guest fail in libvirt.

        :param raises: whether the call fails as well, as that of libvirt
            does, or the job alone, as Nova's own tests have it
        """
        self._failing_guests[uuid] = raises

    @contextlib.contextmanager
    def waiting_guest(self, uuid):
        """Let the live migration of a guest run until the context ends.

        It yields a function that tells whether libvirt was told to abort.
        """
        event = self._guests_wait[uuid] = threading.Event()
        try:
            yield event.is_set
        finally:
            self._guests_wait.pop(uuid).set()

    def forget_jobs(self):
        """Let the guests forget how their last migration ended."""
        self._failing_guests.clear()
        for host in self.model.hosts:
            for domain in self.domains(host).values():
                domain._job_type = fakelibvirt.VIR_DOMAIN_JOB_NONE

    def _migrate_guest(self, domain, destination, params, flags):
        uuid = domain.UUIDString()
        waits = self._guests_wait.get(uuid)
        if waits:
            waits.wait(PATIENCE_SECONDS)
        raises = domain._job_type == fakelibvirt.VIR_DOMAIN_JOB_CANCELLED
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
        self._guests_wait[domain.UUIDString()].set()


def _rollback(reason):
    return exception.InstanceFaultRollback(
        exception.ResizeError(reason=reason))


def _power_off(compute, context, instance, *args, **kwargs):
    driver.LibvirtDriver.power_off(compute, instance)
    return '{}'
