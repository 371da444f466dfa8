# SPDX-License-Identifier: Apache-2.0

"""The cloud that the explorer disturbs."""

import contextlib
import pkgutil
import re
from unittest import mock
import warnings

import fixtures
from nova import exception
from nova.tests.functional.api import client
from oslo_service import service as oslo_service

from nova_prio.admin.audit import unfinished_migrations
from nova_prio_scenario import migrations
from tests import commands
from tests.explore import kinds
from tests.explore import points
from tests.functional import double_pins

#: Error of a guest that does not start.
BUILD_ERROR = exception.InstanceDeployFailure
#: Flavor of another instance in the same operation.
SMALL = kinds.Flavor(1, {'hw:cpu_priority': 'high'})
_ONE = kinds.Flavor(1)
#: An operation, with a disturbance that blocks it, takes less.
PATIENCE_SECONDS = 60
#: A call to a nova-compute that was killed fails after this time.
_CALL_SECONDS = 30


class ExploredCloud(double_pins.PinnedCloud):
    """Two hosts with neighbours, and the kind of the explored instance."""

    mix = True
    DEDICATED = kinds.DEDICATED

    def setUp(self):
        self.flags(max_concurrent_live_migrations=1)
        # The instance gets CPUs of the cell where its neighbours are.
        self.flags(packing_host_numa_cells_allocation_strategy=True,
                   group='compute')
        super().setUp()
        self.flags(rpc_response_timeout=_CALL_SECONDS,
                   long_rpc_timeout=_CALL_SECONDS)
        # In Nova's tests this warning is an error: the claim of an instance
        # that was deleted meanwhile adds a second row.
        warnings.filterwarnings('ignore', '.*for eagerly-loaded attribute '
                                "'Instance.extra'")
        self._flavors = {}
        self.points = self.useFixture(points.Points())
        self._rivals = {}  # host -> a server that a disturbance has created
        self.neighbours = set()
        high, ordinary = kinds.NEIGHBOURS
        for host, flavor in zip(self.HOSTS, high):
            for each in flavor, ordinary:
                server = self.boot(self.flavor_of(each), host=host)
                self.neighbours.add(server['id'])
        self.image_id = server['image']['id']

    def start_seed_host(self, name, **kwargs):
        """Start a host of two NUMA cells."""
        super().start_seed_host(name, mix=self.mix, **kinds.HOST, **kwargs)

    def flavor_of(self, flavor):
        """Return the ID of a ``kinds.Flavor``."""
        key = repr(flavor)
        if key not in self._flavors:
            self._flavors[key] = self.flavor(
                flavor.vcpus, **flavor.extra_specs)
        return self._flavors[key]

    # Servers

    def list_servers(self):
        """Return the servers but for the neighbours, a list."""
        return [server for server in self.api.get_servers()
                if server['id'] not in self.neighbours]

    def post_server(self, flavor, host=None):
        """Request a server of a ``kinds.Flavor``, on a host or anywhere."""
        az = 'nova:' + host if host else None
        return self.api.post_server({'server': self._build_server(
            flavor_id=self.flavor_of(flavor), networks='none', az=az)})

    def create_rival(self, flavor, host):
        """Create a server, which the host may refuse, beside the operation.

        It stays until the next rival takes its place, or until the end of the
        case.
        """
        self._rivals[host] = self.post_server(flavor, host)
        self.wait_until_built(self._rivals[host])

    def delete_rival(self, host):
        """Delete the last rival on a host, if there is one."""
        rival = self._rivals.pop(host, None)
        if rival:
            self.request_delete(rival)
            self._wait_for_assert(
                lambda: self.assertTrue(self.is_gone(rival)),
                max_retries=600, sleep=0.1)

    def request(self, server, **action):
        """Request an action, which the API may refuse."""
        # A disturbance may have changed the state of the server.
        with contextlib.suppress(client.OpenStackApiException):
            self.api.post_server_action(server['id'], action)

    def act(self, server, **action):
        """Request an action, which may fail, and wait until it has ended."""
        self.request(server, **action)
        self.wait_until_rest(server)

    def request_delete(self, server):
        """Request the delete of a server, which may be deleted already."""
        with contextlib.suppress(client.OpenStackApiException):
            self.api.delete_server(server['id'])

    def is_gone(self, server):
        """Return whether a server was deleted."""
        try:
            self.api.get_server(server['id'])
        except client.OpenStackApiNotFoundException:
            return True
        return False

    def delete_server(self, server):
        """Delete a server, and wait until Nova has done so."""
        self.request_delete(server)
        self.wait_until_rest(server, is_deleted=True)

    def abort_migration(self, server, migration):
        """Request the abort of a live migration, which Nova may refuse."""
        with contextlib.suppress(client.OpenStackApiException):
            self.api.delete_migration(server['id'], migration['id'])

    def wait_until_built(self, server):
        """Wait until a server is built, was refused, or was deleted."""
        def check():
            with contextlib.suppress(client.OpenStackApiNotFoundException):
                self.assertNotEqual(
                    'BUILD', self.api.get_server(server['id'])['status'])

        self._wait_for_assert(check, max_retries=600, sleep=0.1)

    def wait_until_rest(self, server, is_deleted=False):
        """Wait until Nova does nothing more with a server.

        If a nova-compute was killed, the server may keep its task.
        """
        if self.was_killed:
            self.points.wait_until_still(1, PATIENCE_SECONDS)
            return

        def check():
            # Ask the API seldom while Nova works: that takes processor time.
            self.points.wait_until_still(0.1, 1)
            try:
                found = self.api.get_server(server['id'])
            except client.OpenStackApiNotFoundException:
                # A message about it may still be under way.
                self.points.wait_until_still(1, PATIENCE_SECONDS)
                return
            if self.was_killed:
                return
            if _is_left_in_task(found):
                self.request(found, **{'os-resetState': {'state': 'error'}})
            self.assertFalse(
                is_deleted or found['status'] == 'BUILD' or
                found['OS-EXT-STS:task_state'] or
                self.is_migrating_live(server['id']), found)

        self._wait_for_assert(check, max_retries=600, sleep=0)
        # The API does not show the last steps.
        self.points.wait_until_still(0.2, PATIENCE_SECONDS)

    def wait_for_migration(self, server, before, *statuses):
        """Wait until a new migration of a server has a status; return it.

        :param before: ID of the newest migration before
        :returns: the migration, or an empty dict if it never has the status
        """
        for _ in range(100):
            found = migrations.get_newest(self.api, server['id'])
            if found.get('id') != before and found['status'] in (
                    *statuses, 'error', 'failed', 'cancelled', 'completed'):
                return found if found['status'] in statuses else {}
            self.points.wait_until_still(0.1, 0.1)
        return {}

    @contextlib.contextmanager
    def failing_once(self, name, error):
        """Return a context where the first call of a method fails."""
        stock = pkgutil.resolve_name(name)
        calls = []

        def fail_first(*args, **kwargs):
            calls.append(name)
            if len(calls) == 1:
                raise error(reason='the explorer made it fail')
            return stock(*args, **kwargs)

        with fixtures.MonkeyPatch(name, fail_first):
            yield

    # Hosts

    def kill(self, host):
        """Kill the nova-compute of a host, without a word to others."""
        compute = self.computes[host]
        self.was_killed = True
        self.points.kill(compute.manager)
        compute.driver.is_stopping.set()
        compute.driver.register_event_listener(None)
        compute.stop = lambda: None
        for name in 'rpcserver', 'rpcserver_alt':
            server = getattr(compute, name, None)
            if server is not None:
                server.stop()
        oslo_service.Service.stop(compute)

    def restart_killed(self, host):
        """Start the nova-compute of a host that was killed."""
        self.points.forget_locks(self._host_options[host])
        self.restart_compute_service(host)
        self.update_host(host)

    def recover(self):
        """Do what an operator does after a nova-compute was killed."""
        for server in self.api.get_servers():
            newest = migrations.get_newest(self.api, server['id'])
            is_confirmed = (server['status'] == 'VERIFY_RESIZE' and
                            newest['status'] == 'confirmed')
            if (server['OS-EXT-STS:task_state'] or is_confirmed or
                    server['status'] == 'ERROR'):
                state = ('active' if server['OS-EXT-SRV-ATTR:host']
                         else 'error')
                self.request(server, **{'os-resetState': {'state': state}})
        for host in self.HOSTS:
            self.update_host(host)
        # The first audit may revert a move, and the second one then corrects
        # the allocations.
        rows = []
        for _ in range(2):
            with mock.patch.object(
                    unfinished_migrations, '_CONFIRMING_SECONDS', -1):
                rows += commands.run('audit', '--fix')[1]
            self.points.wait_until_still(0.5, PATIENCE_SECONDS)
        for row in rows:
            for action, uuid in re.findall(
                    r'server resize (\w+) (\S+)"', row['Remedy']):
                self.act({'id': uuid}, **{action + 'Resize': None})
        self._start_on_own_hosts()
        self.was_killed = False

    def _start_on_own_hosts(self):
        """Start each guest that has left the host of its server there."""
        hosts = {each.uuid: each.host for each in self.list_instances()}
        for host in self.HOSTS:
            for uuid, domain in self.domains(host).items():
                if hosts.get(uuid, host) != host:
                    domain.destroy()
                    domain.undefine()
                    self.act({'id': uuid}, reboot={'type': 'HARD'})

    def repair_allocations(self):
        """Repair the allocations, as an operator does.

        If a server is deleted during a move, its migration keeps allocations,
        or gives them back to the server. If the source of an evacuation
        returns and the evacuation fails, the server has no allocations, and
        still has its claim on the destination.
        """
        for host in self.HOSTS:
            for _ in range(2):
                self.update_host(host)
        _, rows, _ = commands.run('audit', '--fix')
        found = {row['Finding'] for row in rows}
        self.assertLessEqual(found, {
            'left_allocation', 'missing_allocation', 'unfinished_migration'},
            rows)

    def assert_admits(self):
        """Assert that an ordinary server can be created on each host."""
        for host in self.HOSTS:
            server = self.post_server(_ONE, host)
            self.wait_until_built(server)
            found = self.api.get_server(server['id'])
            self.assertEqual('ACTIVE', found['status'], found.get('fault'))
            self.delete_server(server)

    def undo(self):
        """Undo what a case has done to the hosts."""
        self.return_hosts()
        for host in self.HOSTS:
            if self.get_service(host)['status'] == 'disabled':
                self.host_enable(host)
        self.set_aggregate(has_mix=True)

    def clean_up(self):
        """Delete the servers of a case, and undo what it has changed."""
        self.points.end()
        self.was_killed = False
        self.undo()
        self._rivals.clear()
        for server in self.list_servers():
            self.delete_server(server)
        self.reset_jobs()
        self.end_orphans()
        self.assert_exact()

    def set_aggregate(self, has_mix):
        """Set or remove the metadata of the aggregate of the hosts."""
        aggregate, = self._aggregates.values()
        self.admin_api.post_aggregate_action(aggregate, {'set_metadata': {
            'metadata': {'priority_mix': 'true' if has_mix else None}}})


def _is_left_in_task(server):
    """Return whether Nova has left a failed server in its task.

    The destination of an evacuation does so if the source returned before the
    migration existed, and has set the server to ERROR: only an operator ends
    the task.

    :param server: as the API returns it
    """
    return (server['OS-EXT-STS:vm_state'],
            server['OS-EXT-STS:task_state']) == ('error', 'rebuilding')


class ExploredCloudWithoutMix(ExploredCloud):
    """Hosts where low-priority instances float on the shared CPUs."""

    mix = False
