# SPDX-License-Identifier: Apache-2.0

"""Operations on servers that do not move them."""

import contextlib

from nova.tests.functional.api import client

from tests.fuzz import base
from tests.fuzz import model

REQUESTS = base.REQUESTS


class ServerOperations(base.Operations):
    """Create, delete, shelve, and operations on the host of a server."""

    def create(self, name, request, host):
        """Create a server.

        :param host: name of a host, or ANY
        """
        self._create(name, request, host, 1)

    def create_many(self, name, request, host, number):
        """Create several servers with one API request."""
        self._create(name, request, host, int(number))

    def fail_create(self, name, request, host):
        """Create a server that fails to start on each host."""
        with self._cloud.no_guest_starts():
            for shown in self._post(name, request, host, 1):
                self._discard(shown)
                if shown['status'] != 'ERROR':
                    raise base.UnexpectedOutcome(shown['status'])

    def _create(self, name, request, host, number):
        counts = [self._model.count_fitting(each, request, number)
                  for each in self._hosts(host)]
        shown = self._post(name, request, host, number)
        found = [each['status'] for each in shown]
        for count, each in enumerate(shown):
            if each['status'] == 'ACTIVE':
                self._add(name if number == 1 else '%s.%d' % (name, count),
                          request, each)
            else:
                self._discard(each)
        expected = 'ACTIVE' if sum(counts) >= number else 'ERROR'
        if found != number * [expected]:
            raise base.UnexpectedOutcome('%s instead of %s: %s' % (
                found, expected, [self._model.refusal(each, request)
                                  for each in self._hosts(host)]))

    def _post(self, name, request, host, number):
        """Create servers; return them when they are built or refused."""
        body = {'server': {
            'name': name, 'imageRef': self._cloud.image_id,
            'flavorRef': self._cloud.flavor_of(request), 'networks': 'none',
            'min_count': number, 'max_count': number}}
        if host != base.ANY:
            body['server']['host'] = host
        if REQUESTS[request].hint:
            body['os:scheduler_hints'] = {'priority': REQUESTS[request].hint}
        before = {each['id'] for each in self._cloud.all_servers()}
        with contextlib.suppress(client.OpenStackApiException):
            self._cloud.api.post_server(body)
        return [self._cloud.wait_until_built(uuid) for uuid in sorted(
            {each['id'] for each in self._cloud.all_servers()} - before)]

    def _add(self, name, request, shown):
        self._servers[name] = model.Server(
            name, shown['id'], request,
            usages=[model.Usage(shown['OS-EXT-SRV-ATTR:host'], request)])

    def _discard(self, shown):
        self._cloud.api.delete_server(shown['id'])
        self._cloud.wait_until_deleted(shown['id'])

    def delete(self, name):
        """Delete a server."""
        with self._leaving(self._servers[name]):
            server = self._servers.pop(name)
            self._cloud.api.delete_server(server.uuid)
            self._cloud.wait_until_deleted(server.uuid)

    def delete_on_down_host(self, name):
        """Delete a server on a host that is down; its guest runs on."""
        self._model.orphans |= {
            (usage.host, self._servers[name].uuid)
            for usage in self._servers[name].usages}
        self.delete(name)

    def shelve(self, name):
        """Shelve a server without offloading it."""
        self._shelve(name, -1, 'SHELVED')

    def shelve_and_offload(self, name):
        """Shelve and offload a server."""
        with self._leaving(self._servers[name]):
            self._shelve(name, 0, 'SHELVED_OFFLOADED')

    def _shelve(self, name, offload_time, status):
        self._cloud.flags(shelved_offload_time=offload_time)
        self._change(name, status, shelve=None)

    def offload(self, name):
        """Offload a shelved server."""
        with self._leaving(self._servers[name]):
            self._change(name, 'SHELVED_OFFLOADED', shelveOffload=None)

    def unshelve(self, name):
        """Unshelve a server on its host, or on any host if it is offloaded."""
        server = self._servers[name]
        if server.status == 'SHELVED':
            self._change(name, 'ACTIVE', unshelve=None)
            return
        fits = self._model.fitting_hosts(server.request, self._model.up)
        shown, error = self._cloud.act(server, unshelve=None)
        if shown['status'] == 'ACTIVE':
            server.status = 'ACTIVE'
            server.usages = [model.Usage(
                shown['OS-EXT-SRV-ATTR:host'], server.request)]
        self._expect(
            shown, 'ACTIVE' if fits else 'SHELVED_OFFLOADED', error)

    def fail_unshelve(self, name):
        """Unshelve a server that fails to start."""
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
