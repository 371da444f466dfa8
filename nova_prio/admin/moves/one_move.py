# SPDX-License-Identifier: Apache-2.0

"""Follow the move of one server from its request to its end."""

from __future__ import annotations

from collections import abc
import dataclasses
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


@dataclasses.dataclass(eq=False)
class OneMove:
    """A move of a plan, and its state.

    A migration without a destination goes to the host that ``choose`` names or
    that Nova chooses, which is the destination of ``move`` then. ``reason`` is
    a clause, or ''. All methods raise APIUnavailable if the API does not
    answer; they may then be called again.
    """

    servers: servers_module.Servers
    move: fleet.Move
    choose: Choose | None
    state: str = WAITING
    reason: str = ''
    # Whether Nova has answered the request.
    _is_accepted: bool = False
    # The ID of the last request before this move.
    _last_request: str | None = None
    _is_finishing: bool = False
    _requests_left: int = MAX_REQUESTS
    _waits_left: int = MAX_WAITS

    def start(self) -> None:
        """Send the request, if the server is as planned.

        :raises APIRefused: if the credentials do not allow the move
        """
        move = self.move
        # Nova hides the servers of other projects from a user who may not
        # read services. Without this request, they would seem deleted.
        is_up = self.servers.is_up(move.source)
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
        elif move.destination and not self.servers.is_up(move.destination):
            self._end(REFUSED, _describe_down(move.destination))
        elif self._choose_destination():
            self._request()
        else:
            self._end(REFUSED, 'no host of the aggregate fits')

    @property
    def _has_open_destination(self) -> bool:
        """Whether the destination of a migration is not known yet."""
        return self.move.destination is None and self.move.way != fleet.SHELVE

    def _choose_destination(self) -> bool:
        """Name the destination, if this is wanted; return whether one fits."""
        if self.choose is None or not self._has_open_destination:
            return True
        self.move = self.move._replace(
            destination=self.choose(self.move.uuid))
        return self.move.destination is not None

    def _request(self) -> None:
        """Send the request."""
        move = self.move
        self._last_request = self.servers.find_last_request(
            move.uuid, move.way)
        self.state = RUNNING
        try:
            self.servers.start(move)
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
            self._finish(self.servers.confirm)
        elif server.status == 'SHELVED' and move.way == fleet.SHELVE:
            self._finish(self.servers.offload)
        elif server.host == move.source:
            self._note_destination()
            self._end(REFUSED, self.servers.find_failure(
                move.uuid, move.way))
        elif self._waits_left and move.way == fleet.LIVE and (
                self.servers.is_migrating(move.uuid)):
            # Until its recount, the source has no room for another instance.
            self._waits_left -= 1
        else:
            self._end_elsewhere(server)

    def _note_destination(self) -> None:
        """Note the host on which a migration failed, if Nova has chosen it."""
        if self._has_open_destination:
            host = self.servers.find_destination(self.move.uuid)
            if host != self.move.source:
                self.move = self.move._replace(destination=host)

    def _was_accepted(self, server: servers_module.Server) -> bool:
        """Return whether Nova accepted a request without an answer."""
        move = self.move
        return (server.task_state is not None or
                server.host != move.source or
                self.servers.find_last_request(move.uuid, move.way) !=
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
            if (error.status != http.HTTPStatus.BAD_REQUEST and
                    error.status not in _ABOUT_SERVER):
                raise

    def _end_if_down(self) -> None:
        """End the move if one of its hosts is down: Nova would never do it."""
        destination = self.move.destination
        if self._has_open_destination and (
                self.servers.is_migrating(self.move.uuid)):
            destination = self.servers.find_destination(self.move.uuid)
        for host in self.move.source, destination:
            if host is not None and not self.servers.is_up(host):
                self._end(STUCK, _describe_down(host))

    def _end_elsewhere(self, server: servers_module.Server) -> None:
        """End the move of a server that has left its source host."""
        if self._has_open_destination and server.host is not None:
            self.move = self.move._replace(destination=server.host)
        if server.host == self.move.destination:
            reason = ''
            if self.state != RUNNING:
                reason = 'it was there already'
            self._end(DONE, reason)
        elif server.host is None:
            self._end(DONE, 'it is on no host')
        else:
            self._end(SURPRISE, 'it is on host %s' % server.host)

    def _read(self) -> servers_module.Server | None:
        """Return the server; if it does not exist, end the move."""
        server = self.servers.read(self.move.uuid)
        if server is None:
            self._end(DONE, 'its owner deleted it')
        return server

    def _end(self, state: str, reason: str) -> None:
        """Set the last state of the move."""
        self.state, self.reason = state, reason


def describe(move: fleet.Move) -> str:
    """Return a phrase for a move."""
    text = '%s migration from %s' % (move.way, move.source)
    if move.way == fleet.SHELVE:
        text = 'shelving from %s' % move.source
    if move.destination is not None:
        text += ' to %s' % move.destination
    return text


def _describe_down(host: str) -> str:
    """Return the reason if a host is down."""
    return 'the nova-compute of %s is down' % host
