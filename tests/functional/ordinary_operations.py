# SPDX-License-Identifier: Apache-2.0

"""Operations on ordinary instances on a recorded cloud."""

import contextlib
import functools
import threading
from unittest import mock

import fixtures
from nova.compute import manager
from nova import context
from nova.tests.functional.api import client

from nova_prio_scenario import migrations
from tests.functional import base
from tests.functional import recorded_cloud
from tests.fuzz import faults

PERIODIC_TASKS = 'periodic tasks'
_QUIET_SECONDS = 0.1
#: Methods of ComputeManager before which hosts recount, if asked to.
_RECOUNTED = (
    'prep_resize', '_terminate_volume_connections', 'finish_resize',
    '_confirm_resize', '_revert_instance_flavor_host_node', 'rebuild_instance',
    '_do_rebuild_instance', 'pre_live_migration', '_do_live_migration',
    '_post_live_migration', 'post_live_migration_at_destination',
    '_rollback_live_migration')
#: Periodic tasks beside that of the resources, without those that work in
#: threads of their own.
_PERIODIC = (
    '_check_instance_build_time', '_cleanup_incomplete_migrations',
    '_cleanup_running_deleted_instances', '_poll_rebooting_instances',
    '_poll_rescued_instances', '_poll_shelved_instances',
    '_poll_unconfirmed_resizes', '_reclaim_queued_deletes',
    '_run_pending_deletes', '_sync_scheduler_instance_info')


class Operations:
    """Operations that end when no service is busy any more.

    :param cloud: ``recorded_cloud.RecordedCloud``
    """

    def __init__(self, cloud):
        self._cloud = cloud
        # Name of a server -> its UUID, those that are deleted included.
        self._uuids = {}
        self._present = []
        # Names of the servers whose newest migration never ends.
        self._unfinished = set()

    @property
    def names(self):
        """Dict, UUID -> name, of all servers and of the image."""
        return {**{uuid: '<%s>' % name for name, uuid in self._uuids.items()},
                self._cloud.image_id: '<image>'}

    def _step(self, *parts):
        self._cloud.recorder.step = ' '.join(map(str, parts))

    def _create(self, name, flavor, host=None, status='ACTIVE'):
        self._step('create', name)
        server = self._cloud.api.post_server({
            'server': self._cloud._build_server(
                name, self._cloud.image_id, flavor, 'none', host=host)})
        self._uuids[name] = server['id']
        self._present.append(name)
        self._settle(name, status)

    def _delete(self, *names):
        for name in names:
            self._step('delete', name)
            self._cloud.api.delete_server(self._uuids[name])
            self._present.remove(name)
            self._rest()
            self._cloud.wait_until_deleted(self._uuids[name])

    def _act(self, name, status='ACTIVE', **action):
        """Ask for an action, which may be refused, and expect a status."""
        self._step(*action, name)
        with contextlib.suppress(client.OpenStackApiException):
            self._cloud.api.post_server_action(self._uuids[name], action)
        self._settle(name, status)

    def _live(self, name, host, status='ACTIVE', arrives=True):
        """Migrate a server live, and expect whether it arrives."""
        self._act(name, status, **{'os-migrateLive': {
            'host': host, 'block_migration': 'auto'}})
        shown = self._cloud.api.get_server(self._uuids[name])
        assert arrives == (host == shown['OS-EXT-SRV-ATTR:host']), shown

    def _fail_to_migrate(self, name, failure):
        """Migrate a server live to the second host, in vain.

        :param failure: a method and its error; or whether the call of libvirt
            fails as well, and not its job alone
        """
        if isinstance(failure, bool):
            self._cloud.fail_next_migration(self._uuids[name], failure)
            self._live(name, 'two', status=None, arrives=False)
            self._reset(name)
        else:
            with self._cloud.failing(*failure):
                self._live(name, 'two', arrives=False)

    def _reset(self, name):
        """Reset what a live migration has left that libvirt ended."""
        self._cloud.reset_jobs()
        self._act(name, **{'os-resetState': {'state': 'active'}})

    def _begin(self, name, status):
        """Begin a live migration and wait until it has a status."""
        self._step('begin to migrate', name)
        uuid = self._uuids[name]
        before = migrations.get_newest(self._cloud.api, uuid)
        self._cloud.api.post_server_action(uuid, {'os-migrateLive': {
            'host': 'two', 'block_migration': 'auto'}})
        found = self._cloud.wait_for_migration(uuid, status, before)
        assert status == found['status'], found
        self._rest()

    def _abort(self, name):
        self._step('abort', name)
        migration = migrations.get_newest(
            self._cloud.api, self._uuids[name])
        self._cloud.api.delete_migration(self._uuids[name], migration['id'])
        self._rest()

    def _stop_during(self, name, action, method, task_state, status):
        """Begin a move that does nothing any more from a method on."""
        self._step('stop during', *action, name)
        is_stopped = threading.Event()

        leave = base.leave_unfinished(task_state, status)

        def stop(*args, **kwargs):
            leave(*args, **kwargs)
            is_stopped.set()

        with mock.patch('nova.compute.manager.ComputeManager.' + method,
                        side_effect=stop):
            self._cloud.api.post_server_action(self._uuids[name], action)
            assert is_stopped.wait(faults.PATIENCE_SECONDS)
            self._rest()
        self._unfinished.add(name)

    @contextlib.contextmanager
    def _only(self, host):
        """Resize on this host: all others are disabled."""
        others = [service['id'] for service in self._cloud.api.get_services(
            binary='nova-compute') if service['host'] != host]
        self._cloud.flags(allow_resize_to_same_host=True)
        self._set_status(others, 'disabled')
        yield
        self._set_status(others, 'enabled')
        self._cloud.flags(allow_resize_to_same_host=False)

    def _set_status(self, services, status):
        self._step(status)
        for service in services:
            self._cloud.api.put_service(service, {'status': status})
        self._rest()

    def _restart(self, host):
        self._step('restart', host)
        self._cloud.restart_compute_service(host)
        self._rest()

    def _run_periodic_tasks(self):
        """Run the periodic tasks of each host that is up."""
        self._step(PERIODIC_TASKS)
        for _ in range(2):
            self._recount(*recorded_cloud.HOSTS)
        for host in self._up(recorded_cloud.HOSTS):
            cell = self._cloud.host_mappings[host].cell_mapping
            with self._cloud.host_conf(host), context.target_cell(
                    context.get_admin_context(), cell) as cctxt:
                for name in _PERIODIC:
                    getattr(self._cloud.computes[host].manager, name)(cctxt)
        self._rest()

    def _up(self, hosts):
        return [host for host in hosts if host not in self._cloud.hosts_down]

    def _recount(self, *hosts):
        for host in self._up(hosts):
            self._cloud.update_host(host)

    def _begin_recounts(self):
        """Let hosts recount in the middle of each move from now on."""
        for name in _RECOUNTED:
            stock = getattr(manager.ComputeManager, name)
            self._cloud.useFixture(fixtures.MonkeyPatch(
                'nova.compute.manager.ComputeManager.' + name,
                self._recounting(stock)))

    def _recounting(self, stock):
        @functools.wraps(stock)
        def method(*args, **kwargs):
            self._recount('one', 'two')
            return stock(*args, **kwargs)

        return method

    def _settle(self, name, status=None):
        """Wait until a server and its newest migration rest.

        :param status: the status that it must have then, None for any
        """
        self._cloud.wait(functools.partial(self._is_settled, name, status),
                         '%s, to be %s' % (name, status))

    def _is_settled(self, name, status):
        uuid = self._uuids[name]
        if not self._is_quiet() or self._cloud.is_migrating_live(uuid) or not (
                name in self._unfinished or
                migrations.is_settled(self._cloud.api, uuid)):
            return False
        shown = self._cloud.api.get_server(uuid)
        return shown['OS-EXT-STS:task_state'] is None and (
            shown['status'] == status or
            not status and shown['status'] != 'BUILD')

    def _rest(self):
        """Wait until no service is busy."""
        self._cloud.wait(self._is_quiet, 'end of all that the services do')

    def _is_quiet(self):
        return self._cloud.recorder.is_quiet(_QUIET_SECONDS)
