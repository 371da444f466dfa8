# SPDX-License-Identifier: Apache-2.0

"""The cloud of the fuzz: three different hosts."""

import fractions
import functools
import time

from nova import context
from nova import objects
from nova.tests.functional.api import client

from nova_prio_scenario import migrations
from tests.fuzz import faults
from tests.fuzz import model
from tests.fuzz import requests

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
    """An operation did not end in time."""


def _text(cpus):
    return ','.join(map(str, sorted(cpus)))


class FuzzCloud(faults.FaultyCloud):
    """Three hosts, their model, and the calls of operations and checks."""

    # If RPC casts were calls, a late error would reach the caller. The caller
    # would then release claims that it keeps in a real cloud.
    CAST_AS_CALL = False

    def setUp(self):
        # A service that starts again reports after some seconds. Do not treat
        # it as down until then. Services read this option when they start.
        self.flags(service_down_time=86400)
        super().setUp()
        # Nova disables a compute service after ten failed builds.
        self.flags(consecutive_build_service_disable_threshold=0,
                   group='compute')
        self.flags(max_concurrent_live_migrations=1)
        self.flags(shutdown_timeout=0)
        self.model = model.Model(HOSTS)
        for name, host in HOSTS.items():
            self.start_host(
                name, cpus=12, cells=len(host.cells),
                dedicated=_text(host.dedicated), shared=_text(host.shared),
                ratio=float(host.ratio), mix=host.mix,
                memory_mb=host.memory_mb, aggregate={'priority_mix': 'true'})
        self.image_id = self.image()
        self.flavors = {}
        for request in requests.REQUESTS.values():
            if request.flavor not in self.flavors:
                self.flavors[request.flavor] = self._create_flavor(
                    vcpu=request.vcpus, memory_mb=request.memory_mb, disk=1,
                    ephemeral=0, extra_spec=request.extra_specs or None)

    def flavor_of(self, request):
        """Return the ID of the flavor of a request.

        :param request: name of the request
        """
        return self.flavors[requests.REQUESTS[request].flavor]

    # The state of the cloud

    def all_servers(self):
        """Return all servers as the API shows them."""
        return self.api.get_servers()

    def compute_node(self, host):
        """Return the compute node of a host from the database."""
        with self.record(host) as node:
            return node

    def tracked_node(self, host):
        """Return the compute node in the resource tracker of a host."""
        return self.computes[host].manager.rt.compute_nodes[host]

    def tracked_report(self, host):
        """Return the report that the tracker of a host would write now."""
        tracker = self.computes[host].manager.rt
        return tracker.get_priority_report(tracker.compute_nodes[host])

    def cells(self, node):
        """Return the NUMA cells of a compute node."""
        return objects.NUMATopology.obj_from_db_obj(node.numa_topology).cells

    def migration_of(self, uuid):
        """Return the UUID of the newest migration of a server."""
        return migrations.get_newest(self.api, uuid).get('uuid')

    # Operations

    def act(self, server, leaving=None, **action):
        """Request an action and wait until the server has settled.

        :param leaving: status that the server must have left; needed because
            not all actions have a task state
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
        """Wait until a server and its newest migration have settled.

        :returns: the server as the API shows it
        """
        shown = {}

        def is_settled():
            # Read the server last: an evacuation sets its host at the end.
            if (self.is_migrating_live(uuid) or
                    not migrations.is_settled(self.api, uuid)):
                return False
            shown.update(self.api.get_server(uuid))
            return (shown['OS-EXT-STS:task_state'] is None and
                    shown['status'] not in ('BUILD', leaving))

        self.wait(is_settled, uuid)
        return shown

    def wait_until_built(self, uuid):
        """Wait until a server is built or refused; return it."""
        shown = {}

        def is_built():
            shown.update(self.settle(uuid))
            # Nova writes the fault after the status.
            return shown['status'] != 'ERROR' or 'fault' in shown

        self.wait(is_built, uuid)
        return shown

    def wait(self, check, what):
        """Wait until a check returns a true value.

        :param what: identifies the object in the error
        :raises NotSettled: on timeout
        """
        deadline = time.monotonic() + faults.PATIENCE_SECONDS
        while not check():
            if time.monotonic() > deadline:
                raise NotSettled(what)
            time.sleep(0.02)

    def wait_for_migration(self, uuid, status, before):
        """Wait until a new migration has a status or has failed; return it.

        :param before: the newest migration before the request
        """
        found = {}

        def has_status():
            found.update(migrations.get_newest(self.api, uuid))
            return (found.get('id') != before.get('id') and
                    found['status'] in (status, 'error', 'failed'))

        self.wait(has_status, (uuid, status))
        return found

    def wait_until_deleted(self, uuid):
        """Wait until a server is deleted."""
        def is_gone():
            try:
                self.api.get_server(uuid)
            except client.OpenStackApiNotFoundException:
                return True
            return False

        self.wait(is_gone, uuid)

    def wait_for_watchers(self):
        """Wait until no host has to recount after a live migration.

        Such a recount during the next operation may count an instance twice
        that a revert moves back, as Nova's own recount does.
        """
        for host in self.model.up:
            self.wait(functools.partial(self._is_watcher_idle, host), host)

    def _is_watcher_idle(self, host):
        cell = self.host_mappings[host].cell_mapping
        with context.target_cell(context.get_admin_context(), cell) as cctxt:
            return not self.computes[
                host].manager.rt._watcher._find_ended(cctxt)

    # Hosts

    def force_down(self, name, is_down):
        """Force the nova-compute of a host down, or up again."""
        self._force_down(name, is_down)

    def remove_orphan_guests(self, host):
        """Let a host remove the guests of deleted instances."""
        cell = self.host_mappings[host].cell_mapping
        with self.host_conf(host), context.target_cell(
                context.get_admin_context(), cell) as cctxt:
            self.computes[host].manager._cleanup_running_deleted_instances(
                cctxt)
