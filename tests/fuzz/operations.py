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

"""The operations of the fuzz: what users and operators do, and what fails.

An operation is a method of :class:`Operations`; its arguments are text, so
that a sequence can be printed and played again. It asks the cloud, waits
until the operation has ended, compares the outcome with the admission of the
model, and tells the model the outcome. ``possible`` lists the arguments that
each operation may have now.
"""

import contextlib

from nova.tests.functional.api import client

from nova_prio.scenario import migrations
from tests.fuzz import cloud as fuzz_cloud
from tests.fuzz import kinds
from tests.fuzz import model

KINDS = kinds.KINDS
ANY = 'any'
MOST_SERVERS = 18
#: Kinds whose flavor a server with a hint may ask for in a resize.
_AFTER_HINT = ('ordinary-1', 'ordinary-2', 'high-1', 'low-1', 'low-3')


class Unexpected(Exception):
    """An outcome that the admission of the model rules out."""


class Operations:
    """Plays operations on a cloud and its model."""

    def __init__(self, cloud):
        self._cloud = cloud
        self._model = cloud.model
        self._servers = cloud.model.servers

    def possible(self, name):
        """Return a dict, operation -> list of arguments that it may have.

        :param name: name of a server that an operation creates
        """
        up = self._model.up
        settled = [server for server in self._servers.values()
                   if server.hosts <= set(up)]

        def names(*statuses):
            return [server.name for server in settled
                    if server.status in statuses]

        def to_hosts(*statuses):
            return [(server, host) for server in names(*statuses)
                    for host in (*up, ANY)
                    if host != self._servers[server].host]

        active = names('ACTIVE')
        live = [(server, host) for server, host in to_hosts('ACTIVE')]
        on_source = [(first, second, host) for first, host in live
                     for second in active
                     if first != second and host != ANY and
                     self._servers[first].host == self._servers[second].host]
        stranded = [server.name for server in self._servers.values()
                    if server.host in self._model.down and
                    server.status in ('ACTIVE', 'SHUTOFF') and
                    len(server.holds) == 1]
        has_space = len(self._servers) < MOST_SERVERS
        new = [(name, kind, host) for kind in KINDS for host in (*up, ANY)]
        return {
            'create': new if has_space else [],
            'create_many': [(*each, number) for each in new
                            for number in ('2', '3')] if has_space else [],
            'create_in_vain': new,
            'delete': names(
                'ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED', 'VERIFY_RESIZE',
                'SHELVED', 'SHELVED_OFFLOADED'),
            'delete_stranded': stranded,
            'resize': [(server, kind, where)
                       for server in names('ACTIVE', 'SHUTOFF')
                       for kind in self._flavors_for(server)
                       for where in ('elsewhere', ANY)],
            'migrate': to_hosts('ACTIVE', 'SHUTOFF'),
            'migrate_in_vain': to_hosts('ACTIVE', 'SHUTOFF'),
            'confirm': names('VERIFY_RESIZE'),
            'revert': names('VERIFY_RESIZE'),
            'live_migrate': live,
            'live_migrate_in_vain': [
                (*each, how) for each in live
                for how in (*fuzz_cloud.FAILURES, 'job', 'libvirt')],
            'abort_running': live,
            'abort_queued': on_source,
            'evacuate': [
                (server, host) for server in stranded for host in (*up, ANY)
                if self._servers[server].status == 'ACTIVE' or
                self._others_fit(self._servers[server], host)],
            'evacuate_in_vain': [
                server for server in stranded
                if self._servers[server].status == 'ACTIVE'],
            'shelve': active,
            'shelve_and_offload': active,
            'offload': names('SHELVED'),
            'unshelve': names('SHELVED', 'SHELVED_OFFLOADED'),
            'unshelve_in_vain': names('SHELVED_OFFLOADED'),
            'rebuild': names('ACTIVE', 'SHUTOFF'),
            'stop': active,
            'start': names('SHUTOFF'),
            'reboot': names('ACTIVE', 'SHUTOFF'),
            'suspend': active,
            'resume': names('SUSPENDED'),
            'pause': active,
            'unpause': names('PAUSED'),
            'restart': up,
            'recount': up,
            'host_down': [] if self._model.down else up,
            'host_up': sorted(self._model.down),
        }

    def _flavors_for(self, server):
        kind = self._servers[server].kind
        wanted = _AFTER_HINT if KINDS[kind].hint else [
            name for name in KINDS if KINDS[name].hint is None]
        return [name for name in wanted
                if KINDS[name].flavor != KINDS[kind].flavor]

    # Create and delete

    def create(self, name, kind, host):
        """Create a server on a host, or on any."""
        self._create(name, kind, host, 1)

    def create_many(self, name, kind, host, number):
        """Create some servers with one request."""
        self._create(name, kind, host, int(number))

    def create_in_vain(self, name, kind, host):
        """Create a server that libvirt starts on no host."""
        with self._cloud.no_guest_starts():
            for shown in self._post(name, kind, host, 1):
                self._discard(shown)
                if shown['status'] != 'ERROR':
                    raise Unexpected(shown['status'])

    def _create(self, name, kind, host, number):
        rooms = [self._model.room_for(each, kind, number)
                 for each in self._hosts(host)]
        shown = self._post(name, kind, host, number)
        found = [each['status'] for each in shown]
        for count, each in enumerate(shown):
            if each['status'] == 'ACTIVE':
                self._add(name if number == 1 else '%s.%d' % (name, count),
                          kind, each)
            else:
                self._discard(each)
        expected = 'ACTIVE' if sum(rooms) >= number else 'ERROR'
        if found != number * [expected]:
            raise Unexpected('%s instead of %s: %s' % (
                found, expected, [self._model.refusal(each, kind)
                                  for each in self._hosts(host)]))

    def _post(self, name, kind, host, number):
        """Ask for servers; return them as they are in the end."""
        body = {'server': {
            'name': name, 'imageRef': self._cloud.image_id,
            'flavorRef': self._cloud.flavor_of(kind), 'networks': 'none',
            'min_count': number, 'max_count': number}}
        if host != ANY:
            body['server']['host'] = host
        if KINDS[kind].hint:
            body['os:scheduler_hints'] = {'priority': KINDS[kind].hint}
        before = {each['id'] for each in self._cloud.all_servers()}
        with contextlib.suppress(client.OpenStackApiException):
            self._cloud.api.post_server(body)
        return [self._cloud.built(uuid) for uuid in sorted(
            {each['id'] for each in self._cloud.all_servers()} - before)]

    def _add(self, name, kind, shown):
        self._servers[name] = model.Server(
            name, shown['id'], kind,
            holds=[model.Hold(shown['OS-EXT-SRV-ATTR:host'], kind)])

    def _discard(self, shown):
        self._cloud.api.delete_server(shown['id'])
        self._cloud.wait_until_gone(shown['id'])

    def _hosts(self, host):
        return self._model.up if host == ANY else [host]

    def delete(self, name):
        """Delete a server."""
        server = self._servers.pop(name)
        self._cloud.api.delete_server(server.uuid)
        self._cloud.wait_until_gone(server.uuid)

    def delete_stranded(self, name):
        """Delete a server whose host is down: its guest runs on there."""
        self._model.orphans |= {
            (hold.host, self._servers[name].uuid)
            for hold in self._servers[name].holds}
        self.delete(name)

    # Resize and cold migration

    def resize(self, name, flavor, where):
        """Resize a server, to another host or to any."""
        server = self._servers[name]
        self._cloud.flags(allow_resize_to_same_host=where == ANY)
        kind = kinds.after_resize(server.kind, flavor)
        hosts = [host for host in self._model.up
                 if where == ANY or host != server.host]
        fits = kind and self._model.fitting(kind, hosts)
        self._move(server, kind, fits, resize={
            'flavorRef': self._cloud.flavor_of(flavor)})

    def migrate(self, name, host):
        """Migrate a server cold."""
        server = self._servers[name]
        self._cloud.flags(allow_resize_to_same_host=False)
        self._move(server, server.kind, self._others_fit(server, host),
                   migrate=_host(host))

    def _others_fit(self, server, host):
        """Return the hosts that a server may move to."""
        return self._model.fitting(server.kind, [
            each for each in self._hosts(host) if each != server.host])

    def _move(self, server, kind, fits, **action):
        before = server.status
        shown, error = self._cloud.act(server, **action)
        if shown['status'] == 'VERIFY_RESIZE':
            server.status = 'VERIFY_RESIZE'
            server.holds.append(
                model.Hold(shown['OS-EXT-SRV-ATTR:host'], kind))
            server.before = before
        self._expect(shown, 'VERIFY_RESIZE' if fits else before, error)

    @staticmethod
    def _expect(shown, status, error=None):
        if shown['status'] != status:
            raise Unexpected('%s instead of %s: %s' % (
                shown['status'], status, error or shown.get('fault')))

    def migrate_in_vain(self, name, host):
        """Migrate a server cold, from a host that cannot move its disks."""
        server = self._servers[name]
        self._cloud.flags(allow_resize_to_same_host=False)
        with self._cloud.no_disk_moves():
            shown, error = self._cloud.act(server, migrate=_host(host))
        # Nova tells the destination nothing: its claim stays until the next
        # recount, as it does in stock Nova.
        for other in self._model.up:
            self._cloud.update_host(other)
        self._expect(shown, server.status, error)

    def confirm(self, name):
        """Confirm a resize or migration."""
        server = self._servers[name]
        shown, error = self._cloud.act(
            server, 'VERIFY_RESIZE', confirmResize=None)
        self._expect(shown, server.before, error)
        server.status = server.before
        del server.holds[0]
        server.kind = server.holds[0].kind

    def revert(self, name):
        """Revert a resize or migration."""
        server = self._servers[name]
        shown, error = self._cloud.act(
            server, 'VERIFY_RESIZE', revertResize=None)
        self._expect(shown, server.before, error)
        server.status = server.before
        del server.holds[1]

    # Live migration

    def live_migrate(self, name, host):
        """Migrate a server while it runs."""
        server = self._servers[name]
        fits = self._others_fit(server, host)
        before = server.host
        shown, error = self._migrate_live(server, host)
        self._learn_host(server, shown)
        self._expect(shown, 'ACTIVE', error)
        if bool(fits) != (server.host != before):
            raise Unexpected('fits %s: %s' % (fits, error))

    def _migrate_live(self, server, host):
        return self._cloud.act(server, **_live(host))

    def _learn_host(self, server, shown):
        host = shown['OS-EXT-SRV-ATTR:host']
        if host != server.host:
            server.holds[-1] = model.Hold(host, server.kind)

    def live_migrate_in_vain(self, name, host, how):
        """Migrate a server live, which fails in a check or in libvirt."""
        server = self._servers[name]
        if how in ('job', 'libvirt'):
            self._cloud.failing_guest(server.uuid, raises=how == 'libvirt')
            failing = contextlib.nullcontext()
        else:
            failing = self._cloud.failing(*fuzz_cloud.FAILURES[how])
        with failing:
            self._migrate_live(server, host)
        self._expect_home(server)

    def _expect_home(self, server):
        """Expect a server where it was, after a migration that failed.

        If the call of libvirt fails, Nova from release 33 on rolls back and
        then gives the instance up all the same: an operator resets its state.
        """
        shown = self._cloud.settle(server.uuid)
        if shown['status'] == 'ERROR':
            shown, _ = self._cloud.act(
                server, **{'os-resetState': {'state': 'active'}})
        if (shown['status'], shown['OS-EXT-SRV-ATTR:host']) != (
                'ACTIVE', server.host):
            raise Unexpected(shown)

    def abort_running(self, name, host):
        """Abort a live migration that runs."""
        server = self._servers[name]
        fits = self._others_fit(server, host)
        with self._cloud.waiting_guest(server.uuid) as is_aborted:
            if not self._begin(server, host, 'running', fits):
                return
            self._abort(server)
            self._cloud.wait(is_aborted, 'abort of ' + name)
        self._expect_home(server)

    def abort_queued(self, name, queued, host):
        """Abort a live migration that waits for another one."""
        first, second = self._servers[name], self._servers[queued]
        fits = self._others_fit(first, host)
        with self._cloud.waiting_guest(first.uuid):
            if not self._begin(first, host, 'running', fits):
                return
            if self._begin(second, host, 'queued',
                           self._fits_beside(first, second, host)):
                self._abort(second)
                self._expect_home(second)
        shown = self._cloud.settle(first.uuid)
        self._learn_host(first, shown)
        if first.host != host:
            raise Unexpected(shown)

    def _fits_beside(self, first, second, host):
        """Return whether a server fits beside one that is on its way.

        If both have a NUMA topology, it depends on the cells that the first
        one gets, which the model does not know yet: None, then.
        """
        if KINDS[first.kind].cells and KINDS[second.kind].cells:
            return None
        arriving = self._model.imagine(host, first.kind)
        return not self._model.refusal(host, second.kind, [arriving])

    def _begin(self, server, host, status, fits):
        """Begin a live migration; return whether it has that status now.

        :param fits: whether it must, or None if that is not known
        """
        error = None
        before = migrations.newest(self._cloud.api, server.uuid)
        try:
            self._cloud.api.post_server_action(server.uuid, _live(host))
        except client.OpenStackApiException as refused:
            error = str(refused)
        if error is None:
            found = self._cloud.wait_for_migration(
                server.uuid, status, before)
            if found['status'] != status:
                error = found['status']
        if error:
            self._expect_home(server)
        if fits is not None and bool(fits) != (error is None):
            raise Unexpected('fits %s: %s' % (fits, error))
        return error is None

    def _abort(self, server):
        migration = migrations.newest(self._cloud.api, server.uuid)
        self._cloud.api.delete_migration(server.uuid, migration['id'])

    # Hosts that are down

    def host_down(self, host):
        """Let a host fail, and force its service down."""
        self._cloud.computes[host].stop()
        self._cloud.force_down(host, True)
        self._model.down.add(host)

    def host_up(self, host):
        """Start a host that was down, with the guests that it had."""
        self._cloud.restart_compute_service(host)
        self._cloud.force_down(host, False)
        self._model.down.remove(host)
        for server in self._servers.values():
            server.holds = [hold for hold in server.holds
                            if not hold.is_left]
        if self._model.orphans:
            # Guests of deleted instances go with Nova's periodic tasks, and
            # until then their CPUs are blocked.
            self._cloud.reap(host)
            self._cloud.update_host(host)
            self._model.orphans.clear()

    def evacuate(self, name, host):
        """Build a server anew elsewhere, since its host is down."""
        server = self._servers[name]
        fits = self._others_fit(server, host)
        shown, error = self._cloud.act(server, evacuate=_host(host) or {})
        arrived = shown['OS-EXT-SRV-ATTR:host']
        if arrived != server.host:
            server.holds[0].is_left = True
            server.holds.append(model.Hold(arrived, server.kind))
            server.status = 'SHUTOFF'
        self._expect_evacuated(server, shown, bool(fits), error)

    def evacuate_in_vain(self, name):
        """Evacuate a server that libvirt starts nowhere else."""
        server = self._servers[name]
        with self._cloud.no_guest_starts():
            shown, error = self._cloud.act(server, evacuate={})
        self._expect_evacuated(server, shown, False, error)

    def _expect_evacuated(self, server, shown, is_evacuated, error):
        """Expect that a server has moved, or is in error as Nova puts it."""
        if shown['status'] == 'ERROR':
            self._cloud.act(server, **{'os-resetState': {'state': 'active'}})
        self._expect(shown, 'SHUTOFF' if is_evacuated else 'ERROR', error)

    # Shelve

    def shelve(self, name):
        """Shelve a server, which stays on its host."""
        self._shelve(name, -1, 'SHELVED')

    def shelve_and_offload(self, name):
        """Shelve a server and take it off its host."""
        self._shelve(name, 0, 'SHELVED_OFFLOADED')

    def _shelve(self, name, offload_time, status):
        self._cloud.flags(shelved_offload_time=offload_time)
        self._change(name, status, shelve=None)

    def offload(self, name):
        """Take a shelved server off its host."""
        self._change(name, 'SHELVED_OFFLOADED', shelveOffload=None)

    def _change(self, name, status, **action):
        """Do what needs no room."""
        server = self._servers[name]
        shown, error = self._cloud.act(server, **action)
        self._expect(shown, status, error)
        server.status = status
        if status == 'SHELVED_OFFLOADED':
            server.holds.clear()

    def unshelve(self, name):
        """Unshelve a server on any host, or on its own if it has one."""
        server = self._servers[name]
        if server.status == 'SHELVED':
            self._change(name, 'ACTIVE', unshelve=None)
            return
        fits = self._model.fitting(server.kind, self._model.up)
        shown, error = self._cloud.act(server, unshelve=None)
        if shown['status'] == 'ACTIVE':
            server.status = 'ACTIVE'
            server.holds = [model.Hold(
                shown['OS-EXT-SRV-ATTR:host'], server.kind)]
        self._expect(
            shown, 'ACTIVE' if fits else 'SHELVED_OFFLOADED', error)

    def unshelve_in_vain(self, name):
        """Unshelve a server that libvirt does not start."""
        server = self._servers[name]
        with self._cloud.no_guest_starts():
            shown, error = self._cloud.act(server, unshelve=None)
        self._expect(shown, 'SHELVED_OFFLOADED', error)

    # On the host

    def rebuild(self, name):
        """Rebuild a server."""
        self._change(name, self._servers[name].status,
                     rebuild={'imageRef': self._cloud.image_id})

    def stop(self, name):
        """Stop a server."""
        self._change(name, 'SHUTOFF', **{'os-stop': None})

    def start(self, name):
        """Start a server."""
        self._change(name, 'ACTIVE', **{'os-start': None})

    def reboot(self, name):
        """Reboot a server hard."""
        self._change(name, 'ACTIVE', reboot={'type': 'HARD'})

    def suspend(self, name):
        """Suspend a server."""
        self._change(name, 'SUSPENDED', suspend=None)

    def resume(self, name):
        """Resume a server."""
        self._change(name, 'ACTIVE', resume=None)

    def pause(self, name):
        """Pause a server."""
        self._change(name, 'PAUSED', pause=None)

    def unpause(self, name):
        """Unpause a server."""
        self._change(name, 'ACTIVE', unpause=None)

    def restart(self, host):
        """Restart a nova-compute."""
        self._cloud.restart_compute_service(host)

    def recount(self, host):
        """Run the periodic task of a host, which must change nothing."""
        before = self._cloud.report(host).to_stats()
        self._cloud.update_host(host)
        after = self._cloud.report(host).to_stats()
        if before != after:
            raise Unexpected('%s became %s' % (before, after))


def _host(host):
    return None if host == ANY else {'host': host}


def _live(host):
    return {'os-migrateLive': {'host': None if host == ANY else host,
                               'block_migration': 'auto'}}
