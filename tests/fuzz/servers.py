# SPDX-License-Identifier: Apache-2.0

"""Operations on one server that stays on its host, or has none."""

import contextlib

from nova.tests.functional.api import client

from tests.fuzz import base
from tests.fuzz import model

KINDS = base.KINDS


class ServerOperations(base.Operations):
    """Create, delete, shelve, and all that happens on the host."""

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
                    raise base.Unexpected(shown['status'])

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
            raise base.Unexpected('%s instead of %s: %s' % (
                found, expected, [self._model.refusal(each, kind)
                                  for each in self._hosts(host)]))

    def _post(self, name, kind, host, number):
        """Ask for servers; return them as they are in the end."""
        body = {'server': {
            'name': name, 'imageRef': self._cloud.image_id,
            'flavorRef': self._cloud.flavor_of(kind), 'networks': 'none',
            'min_count': number, 'max_count': number}}
        if host != base.ANY:
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

    def delete(self, name):
        """Delete a server."""
        server = self._servers.pop(name)
        self._cloud.api.delete_server(server.uuid)
        self._cloud.wait_until_gone(server.uuid)

    def delete_stranded(self, name):
        """Delete a server whose host is down, where its guest runs on."""
        self._model.orphans |= {
            (hold.host, self._servers[name].uuid)
            for hold in self._servers[name].holds}
        self.delete(name)

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

    def rebuild(self, name):
        """Rebuild a server."""
        server = self._servers[name]
        # Nova makes a stopped server ACTIVE before it stops it again.
        leaving = 'ACTIVE' if server.status == 'SHUTOFF' else None
        shown, error = self._cloud.act(
            server, leaving, rebuild={'imageRef': self._cloud.image_id})
        self._expect(shown, server.status, error)

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
