# SPDX-License-Identifier: Apache-2.0

"""The operations of the fuzz, of users and operators, and faults.

An operation is a method. Its arguments are text, so that a sequence can be
printed and played again. It calls the cloud, waits for the end, compares the
outcome with the admission of the model, and updates the model.
"""

from tests.fuzz import base
from tests.fuzz import faults
from tests.fuzz import hosts
from tests.fuzz import moves
from tests.fuzz import servers

REQUESTS = base.REQUESTS
ANY = base.ANY
MAX_SERVERS = 18
#: Requests with the flavors for the resize of a server with a hint.
_AFTER_HINT = ('ordinary-1', 'ordinary-2', 'high-1', 'low-1', 'low-3')


class Operations(servers.ServerOperations, moves.MoveOperations,
                 hosts.HostOperations):
    """Plays operations on a cloud and its model."""

    def possible(self, name):
        """Return dict, operation -> list of possible arguments.

        :param name: name for a new server
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
        on_down_host = [server.name for server in self._servers.values()
                        if server.host in self._model.down and
                        server.status in ('ACTIVE', 'SHUTOFF') and
                        len(server.usages) == 1]
        has_space = len(self._servers) < MAX_SERVERS
        new = [(name, request, host)
               for request in REQUESTS for host in (*up, ANY)]
        return {
            'create': new if has_space else [],
            'create_many': [(*each, number) for each in new
                            for number in ('2', '3')] if has_space else [],
            'fail_create': new,
            'delete': names(
                'ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED', 'VERIFY_RESIZE',
                'SHELVED', 'SHELVED_OFFLOADED'),
            'delete_on_down_host': on_down_host,
            'resize': [(server, request, where)
                       for server in names('ACTIVE', 'SHUTOFF')
                       for request in self._flavors_for(server)
                       for where in ('elsewhere', ANY)],
            'migrate': to_hosts('ACTIVE', 'SHUTOFF'),
            'fail_migrate': to_hosts('ACTIVE', 'SHUTOFF'),
            'confirm': names('VERIFY_RESIZE'),
            'revert': names('VERIFY_RESIZE'),
            'live_migrate': live,
            'fail_live_migrate': [
                (*each, failure) for each in live
                for failure in (*faults.FAILURES, 'job', 'libvirt')],
            'abort_running': live,
            'abort_queued': on_source,
            'evacuate': [
                (server, host)
                for server in on_down_host for host in (*up, ANY)
                if self._servers[server].status == 'ACTIVE' or
                self._others_fit(self._servers[server], host)],
            'fail_evacuate': [
                server for server in on_down_host
                if self._servers[server].status == 'ACTIVE'],
            'shelve': active,
            'shelve_and_offload': active,
            'offload': names('SHELVED'),
            'unshelve': names('SHELVED', 'SHELVED_OFFLOADED'),
            'fail_unshelve': names('SHELVED_OFFLOADED'),
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
        request = self._servers[server].request
        wanted = _AFTER_HINT if REQUESTS[request].hint else [
            name for name in REQUESTS if REQUESTS[name].hint is None]
        return [name for name in wanted
                if REQUESTS[name].flavor != REQUESTS[request].flavor]
