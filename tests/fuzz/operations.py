# SPDX-License-Identifier: Apache-2.0

"""The operations of the fuzz: what users and operators do, and what fails.

An operation is a method; its arguments are text, so that a sequence can be
printed and played again. It asks the cloud, waits until the operation has
ended, compares the outcome with the admission of the model, and tells the
model the outcome.
"""

from tests.fuzz import base
from tests.fuzz import faults
from tests.fuzz import hosts
from tests.fuzz import moves
from tests.fuzz import servers

KINDS = base.KINDS
ANY = base.ANY
MOST_SERVERS = 18
#: Kinds whose flavor a server with a hint may ask for in a resize.
_AFTER_HINT = ('ordinary-1', 'ordinary-2', 'high-1', 'low-1', 'low-3')


class Operations(servers.ServerOperations, moves.MoveOperations,
                 hosts.HostOperations):
    """Plays operations on a cloud and its model."""

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
                for how in (*faults.FAILURES, 'job', 'libvirt')],
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
