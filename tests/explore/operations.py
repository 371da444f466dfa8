# SPDX-License-Identifier: Apache-2.0

"""The operations that are explored.

Each is a generator: it prepares a server, yields it, and goes on with the
operation itself, up to its end.
"""

import fixtures

from tests.explore import cloud as explored_cloud
from tests.functional import base
from tests.fuzz import faults

SOURCE, DESTINATION = explored_cloud.ExploredCloud.HOSTS
#: Stands for a server that the operation creates.
NEW = {'id': None}


class Operations:
    """The operations on one kind of instance.

    :param cloud: cloud.ExploredCloud
    :param kind: kinds.Kind
    """

    def __init__(self, cloud, kind):
        self._cloud = cloud
        self._kind = kind
        cloud.flags(shelved_offload_time=0, allow_resize_to_same_host=False)

    def _boot(self):
        flavor = self._cloud.flavor_of(self._kind.flavor)
        return self._cloud.boot(flavor, host=SOURCE)

    def _act(self, server, **action):
        self._cloud.act(server, **action)

    # Creates and deletes

    def create(self):
        yield NEW
        server = self._cloud.post_server(self._kind.flavor, SOURCE)
        self._cloud.wait_until_rest(server)

    def create_rescheduled(self):
        """The build fails on the first host."""
        yield NEW
        with self._cloud.failing_once(
                faults.DRIVER + 'spawn', explored_cloud.BUILD_ERROR):
            server = self._cloud.post_server(self._kind.flavor)
            self._cloud.wait_until_rest(server)

    def create_failing(self):
        """The build fails on each host."""
        yield NEW
        with self._cloud.no_guest_starts():
            server = self._cloud.post_server(self._kind.flavor)
            self._cloud.wait_until_rest(server)

    def delete(self):
        server = self._boot()
        yield server
        self._cloud.delete_server(server)

    def delete_locally(self):
        """The host of the server is down."""
        server = self._boot()
        self._cloud.host_down(SOURCE)
        yield server
        self._cloud.delete_server(server)

    # Cold moves

    def migrate(self):
        server = self._boot()
        yield server
        self._act(server, migrate=None)

    def fail_to_migrate(self):
        server = self._boot()
        yield server
        with self._cloud.no_disk_moves():
            self._act(server, migrate=None)

    def fail_to_finish(self):
        """The guest of a cold migration does not start."""
        server = self._boot()
        yield server
        with self._failing_to_finish():
            self._act(server, migrate=None)

    def _failing_to_finish(self):
        return self._cloud.failing(
            faults.DRIVER + 'finish_migration', explored_cloud.BUILD_ERROR)

    def _boot_migrated(self):
        server = self._boot()
        self._act(server, migrate=None)
        return server

    def confirm(self):
        server = self._boot_migrated()
        yield server
        self._act(server, confirmResize=None)

    def revert(self):
        server = self._boot_migrated()
        yield server
        self._act(server, revertResize=None)

    def delete_migrated(self):
        server = self._boot_migrated()
        yield server
        self._cloud.delete_server(server)

    def _resize(self, server):
        flavor = self._cloud.flavor_of(self._kind.resized)
        self._act(server, resize={'flavorRef': flavor})

    def resize(self):
        server = self._boot()
        yield server
        self._resize(server)

    def _boot_resized(self):
        server = self._boot()
        self._resize(server)
        return server

    def confirm_resize(self):
        server = self._boot_resized()
        yield server
        self._act(server, confirmResize=None)

    def revert_resize(self):
        server = self._boot_resized()
        yield server
        self._act(server, revertResize=None)

    def _stay(self):
        """Let resizes stay on the source host."""
        self._cloud.flags(allow_resize_to_same_host=True)
        self._cloud.host_disable(DESTINATION)

    def resize_on_host(self):
        server = self._boot()
        self._stay()
        yield server
        self._resize(server)

    def confirm_on_host(self):
        self._stay()
        server = self._boot_resized()
        yield server
        self._act(server, confirmResize=None)

    def revert_on_host(self):
        self._stay()
        server = self._boot_resized()
        yield server
        self._act(server, revertResize=None)

    # Resizes that fail

    def _reset(self, server):
        self._act(server, **{'os-resetState': {'state': 'active'}})

    def _resize_alike(self, server):
        """Resize to another flavor of the same size."""
        flavor = self._kind.flavor
        self._act(server, resize={'flavorRef': self._cloud.flavor_of(
            flavor._replace(extra_specs={
                **flavor.extra_specs, 'quota:cpu_shares': '100'}))})

    def fail_to_resize(self):
        """The guest does not start before a next resize: it lacks CPUs.

        Delete it then: a disturbance may have taken the room for this resize,
        and nothing tells what the host must keep for such a guest.
        """
        server = self._boot()
        yield server
        with self._failing_to_finish():
            self._resize(server)
        self._reset(server)
        self._reboot_hard(server)
        self._reset(server)
        self._resize_alike(server)
        self._cloud.delete_server(server)

    def fail_to_resize_on_host(self):
        """The record has the new CPUs until the guest starts."""
        server = self._boot()
        self._stay()
        yield server
        with self._failing_to_finish():
            self._resize_alike(server)
        self._reset(server)
        self._reboot_hard(server)

    # An open cold migration whose nova-compute was killed, and another move

    def _boot_with_killed_move(self):
        server = self._boot()
        step = base.leave_unfinished('resize_migrating', 'migrating')
        with fixtures.MonkeyPatch(
                'nova.compute.manager.ComputeManager._resize_instance', step):
            self._cloud.request(server, migrate={'host': DESTINATION})
            self._cloud.wait_for_migration(server, None, 'migrating')
        self._reset(server)
        self._cloud.was_killed = True
        return server

    def evacuate_after_killed_move(self):
        server = self._boot_with_killed_move()
        self._cloud.host_down(SOURCE)
        yield server
        self._act(server, evacuate={'host': DESTINATION})

    def shelve_after_killed_move(self):
        server = self._boot_with_killed_move()
        yield server
        self._act(server, shelve=None)
        self._act(server, unshelve=None)

    def migrate_live_after_killed_move(self):
        server = self._boot_with_killed_move()
        yield server
        self._migrate_live(server)

    # Live migrations

    def _migrate_live(self, server):
        self._act(server, **_LIVE)

    def migrate_live(self):
        server = self._boot()
        yield server
        self._migrate_live(server)

    def _fail_stage(self, stage):
        server = self._boot()
        yield server
        with self._cloud.failing(*faults.FAILURES[stage]):
            self._migrate_live(server)

    def fail_check(self):
        yield from self._fail_stage('check')

    def fail_last_check(self):
        yield from self._fail_stage('last-check')

    def fail_pre_migration(self):
        yield from self._fail_stage('pre-migration')

    def _fail_in_libvirt(self, raises):
        server = self._boot()
        self._cloud.fail_next_migration(server['id'], raises=raises)
        yield server
        self._migrate_live(server)

    def fail_job(self):
        yield from self._fail_in_libvirt(raises=False)

    def fail_call(self):
        yield from self._fail_in_libvirt(raises=True)

    def abort(self):
        """The live migration is aborted when it runs."""
        server = self._boot()
        yield server
        with self._cloud.hold_migration(server['id']):
            self._cloud.request(server, **_LIVE)
            found = self._cloud.wait_for_migration(server, None, 'running')
            if found:
                self._cloud.abort_migration(server, found)
        self._cloud.wait_until_rest(server)

    def abort_queued(self):
        """The live migration is aborted while it waits for another one."""
        server, first = self._boot(), self._cloud.boot(
            self._cloud.flavor_of(explored_cloud.SMALL), host=SOURCE)
        with self._cloud.hold_migration(first['id']):
            self._cloud.request(first, **_LIVE)
            self._cloud.wait_for_migration(first, None, 'running')
            yield server
            self._cloud.request(server, **_LIVE)
            found = self._cloud.wait_for_migration(server, None, 'queued')
            if found:
                self._cloud.abort_migration(server, found)
                self._cloud.wait_for_migration(server, None, 'cancelled')
        self._cloud.wait_until_rest(first)
        self._cloud.wait_until_rest(server)

    # Evacuations

    def _boot_on_dead_host(self):
        server = self._boot()
        self._cloud.host_down(SOURCE)
        return server

    def evacuate(self):
        server = self._boot_on_dead_host()
        yield server
        self._act(server, evacuate={'host': DESTINATION})

    def fail_to_evacuate(self):
        server = self._boot_on_dead_host()
        yield server
        with self._cloud.no_guest_starts():
            self._act(server, evacuate={'host': DESTINATION})

    # Moves after a move that has failed

    def _boot_with_failed_move(self):
        """The migration context of a live migration stays."""
        server = self._boot()
        with self._cloud.failing(*faults.FAILURES['last-check']):
            self._migrate_live(server)
        return server

    def migrate_again(self):
        server = self._boot_with_failed_move()
        self._cloud.update_host(DESTINATION)
        yield server
        self._act(server, migrate=None)

    def migrate_live_again(self):
        server = self._boot_with_failed_move()
        yield server
        self._migrate_live(server)

    def rebuild_after_failed_move(self):
        server = self._boot_with_failed_move()
        yield server
        self._act(server, rebuild={'imageRef': self._cloud.image_id})

    def shelve_after_failed_move(self):
        server = self._boot_with_failed_move()
        yield server
        self._act(server, shelve=None)

    def unshelve_after_failed_move(self):
        server = self._boot_with_failed_move()
        self._act(server, shelve=None)
        yield server
        self._act(server, unshelve=None)

    # Shelving, and starts on the host

    def shelve(self):
        server = self._boot()
        yield server
        self._act(server, shelve=None)

    def unshelve(self):
        server = self._boot()
        self._act(server, shelve=None)
        yield server
        self._act(server, unshelve=None)

    def fail_to_unshelve(self):
        server = self._boot()
        self._act(server, shelve=None)
        yield server
        with self._cloud.no_guest_starts():
            self._act(server, unshelve=None)

    def rebuild(self):
        server = self._boot()
        yield server
        self._act(server, rebuild={'imageRef': self._cloud.image_id})

    def rescue(self):
        server = self._boot()
        yield server
        self._act(server, rescue={})
        self._act(server, unrescue=None)

    def suspend(self):
        server = self._boot()
        yield server
        self._act(server, suspend=None)
        self._act(server, resume=None)

    def stop(self):
        server = self._boot()
        yield server
        self._act(server, **{'os-stop': None})
        self._act(server, **{'os-start': None})

    def reboot(self):
        server = self._boot()
        yield server
        self._reboot_hard(server)

    def _reboot_hard(self, server):
        self._act(server, reboot={'type': 'HARD'})


_LIVE = {'os-migrateLive': {'host': DESTINATION, 'block_migration': 'auto'}}


def list_names():
    """Return the names of all operations, a list."""
    return [name for name in vars(Operations) if not name.startswith('_')]
