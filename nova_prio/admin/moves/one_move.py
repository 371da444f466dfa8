# SPDX-License-Identifier: Apache-2.0

"""Follow the move of one server from its request to its end."""

from __future__ import annotations

from collections import abc
import http

from nova_prio.admin.moves import servers as servers_module
from nova_prio.admin import nova_client
from nova_prio.model.planner import fleet

#: States of a move. The first two can change.
WAITING, RUNNING = 'planned', 'running'
DONE = 'done'
#: The server was deleted, or its owner is changing it.
SKIPPED = 'skipped'
#: Nova refused the move, or it failed: the server is on its source host.
REFUSED = 'refused'
#: The nova-compute of its source or destination is down.
STUCK = 'stuck'
#: The server is on another host than planned.
SURPRISE = 'surprise'

#: Maximum number of requests for a move that the API fails to accept. After
#: that, the move must not delay the others.
MAX_REQUESTS = 3
#: Maximum number of waits until the source has ended a live migration. The
#: source has then recounted. If it does not end the migration, its periodic
#: task recounts.
MAX_WAITS = 30

# Answers of the API that tell about the server, and not about the move.
_ABOUT_SERVER = http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT

#: Function, UUID of a server -> name of a host, or None if none fits.
Choose = abc.Callable[[str], str | None]


class OneMove:
    """A move of a plan, and its state.

    A migration without a destination goes to the host that Nova chooses, which
    is the destination of ``move`` then. ``reason`` is a clause, or ''. All
    methods raise APIUnavailable if the API does not answer; they may then be
    called again.

    :param choose: names the destination of a migration without one, or None to
        let Nova choose it
    """

    def __init__(self, servers: servers_module.Servers,
                 move: fleet.Move, choose: Choose | None = None) -> None:
        self.move = move
        self._choose = choose
        self.state = WAITING
        self.reason = ''
        self._servers = servers
        # Whether Nova has answered the request.
        self._is_accepted = False
        # The ID of the last request before this move.
        self._last_request: str | None = None
        self._is_finishing = False
        self._requests_left = MAX_REQUESTS
        self._waits_left = MAX_WAITS

    def start(self) -> None:
        """Send the request, if the server is as planned.

        :raises APIRefused: if the credentials do not allow the move
        """
        move = self.move
        # Nova hides the servers of other projects from a user who may not
        # read services. Without this request, they would seem deleted.
        is_up = self._servers.is_up(move.source)
        server = self._read()
        if server is None:
            return
        if server.host != move.source:
            self._end_elsewhere(server)
        elif server.task_state:
            self._end(SKIPPED, 'its owner is changing it: the task is "%s"'
                      % server.task_state)
        elif server.status not in servers_module.ALLOWED_STATUS[move.way]:
            self._end(SKIPPED, 'its status is %s' % server.status)
        elif not is_up:
            self._end(STUCK, _describe_down(move.source))
        elif move.destination and not self._servers.is_up(move.destination):
            self._end(REFUSED, _describe_down(move.destination))
        elif self._choose_destination():
            self._request()
        else:
            self._end(REFUSED, 'no host of the aggregate fits')

    def _choose_destination(self) -> bool:
        """Name the destination, if this is wanted; return whether one fits."""
        move = self.move
        if (self._choose is None or move.destination or
                move.way == fleet.SHELVE):
            return True
        self.move = move._replace(destination=self._choose(move.uuid))
        return self.move.destination is not None

    def _request(self) -> None:
        """Send the request."""
        move = self.move
        self._last_request = self._servers.find_last_request(
            move.uuid, move.way)
        self.state = RUNNING
        try:
            self._servers.start(move)
            self._is_accepted = True
        except nova_client.APIRefused as error:
            if error.status in _ABOUT_SERVER:
                self._end(SKIPPED, str(error))
            elif error.status == http.HTTPStatus.BAD_REQUEST:
                self._end(REFUSED, str(error))
            else:
                raise

    def follow(self) -> None:
        """Read the server, and end the move if Nova has ended it."""
        server = self._read()
        if server is None:
            return
        move = self.move
        if not self._is_accepted and not self._was_accepted(server):
            self._requests_left -= 1
            if self._requests_left:
                self.state = WAITING
            else:
                self._end(REFUSED, "Nova's API failed %d times"
                          % MAX_REQUESTS)
        elif server.task_state:
            self._end_if_down()
        elif (server.status == 'VERIFY_RESIZE' and
              server.host != move.source and
              server.host == (move.destination or server.host)):
            self._finish(self._servers.confirm)
        elif server.status == 'SHELVED' and move.way == fleet.SHELVE:
            self._finish(self._servers.offload)
        elif server.host == move.source:
            self._note_destination()
            self._end(REFUSED, self._servers.find_failure(
                move.uuid, move.way))
        elif self._waits_left and move.way == fleet.LIVE and (
                self._servers.is_migrating(move.uuid)):
            # Until its recount, the source has no room for another instance.
            self._waits_left -= 1
        else:
            self._end_elsewhere(server)

    def _note_destination(self) -> None:
        """Note the host on which a migration failed, if Nova has chosen it."""
        move = self.move
        if move.destination is None and move.way != fleet.SHELVE:
            host = self._servers.find_destination(move.uuid)
            if host != move.source:
                self.move = move._replace(destination=host)

    def _was_accepted(self, server: servers_module.Server) -> bool:
        """Return whether Nova accepted a request without an answer."""
        move = self.move
        return (server.task_state is not None or
                server.host != move.source or
                self._servers.find_last_request(move.uuid, move.way) !=
                self._last_request)

    def _finish(self, request: abc.Callable[[str], None]) -> None:
        """Send the request by which an accepted move ends."""
        self._end_if_down()
        if self._is_finishing or self.state != RUNNING:
            return
        try:
            request(self.move.uuid)
            self._is_finishing = True
        except nova_client.APIRefused as error:
            # Somebody else did it, or Nova cannot do it yet.
            if error.status not in (http.HTTPStatus.BAD_REQUEST,
                                    *_ABOUT_SERVER):
                raise

    def _end_if_down(self) -> None:
        """End the move if one of its hosts is down: Nova would never do it."""
        destination = self.move.destination or (
            self._servers.find_open_destination(self.move.uuid)
            if self.move.way != fleet.SHELVE else None)
        for host in self.move.source, destination:
            if host is not None and not self._servers.is_up(host):
                self._end(STUCK, _describe_down(host))

    def _end_elsewhere(self, server: servers_module.Server) -> None:
        """End the move of a server that has left its source host."""
        if (self.move.destination is None and server.host is not None and
                self.move.way != fleet.SHELVE):
            self.move = self.move._replace(destination=server.host)
        if server.host == self.move.destination:
            self._end(DONE, '' if self.state == RUNNING else
                      'it was there already')
        elif server.host is None:
            self._end(DONE, 'it is on no host')
        else:
            self._end(SURPRISE, 'it is on host %s' % server.host)

    def _read(self) -> servers_module.Server | None:
        """Return the server; if it does not exist, end the move."""
        server = self._servers.read(self.move.uuid)
        if server is None:
            self._end(DONE, 'its owner deleted it')
        return server

    def _end(self, state: str, reason: str = '') -> None:
        """Set the last state of the move."""
        self.state, self.reason = state, reason


def describe(move: fleet.Move) -> str:
    """Return a phrase for a move."""
    name = 'shelving' if move.way == fleet.SHELVE else (
        '%s migration' % move.way)
    return '%s from %s%s' % (name, move.source, '' if move.destination is None
                             else ' to %s' % move.destination)


def _describe_down(host: str) -> str:
    """Return the reason if a host is down."""
    return 'the nova-compute of %s is down' % host
