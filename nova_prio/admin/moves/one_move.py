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
#: nova-compute of the source has then updated its resources, without the
#: server. If it does not end the migration, its periodic task updates them.
MAX_WAITS = 30

# Answers of the API that tell about the server, and not about the move: it is
# deleted, or in another state.
_NOT_FOUND_OR_CONFLICT = http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT

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
    # Whether Nova has accepted the request by which the move ends.
    _is_finishing: bool = False
    _requests_left: int = MAX_REQUESTS
    _waits_left: int = MAX_WAITS

    def start(self) -> None:
        """Send the request, if the server is as planned; else end the move.

        :raises APIRefused: if the credentials do not allow the move
        """
        move = self.move
        # Read the services first: if the user may not, this raises an error.
        # From such a user, Nova hides the servers of other projects, so that
        # they would seem deleted below.
        is_up = self.servers.is_up(move.source)
        server = self._read()
        if server is None:
            # The server is deleted, and _read has ended the move.
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
        else:
            # False if the operator limits the moves to the hosts of an
            # aggregate, and none of these fits. True if the destination is
            # known, or if Nova chooses it.
            has_destination = self._choose_destination()
            if has_destination:
                self._request()
            else:
                self._end(REFUSED, 'no host of the aggregate fits')

    @property
    def _has_open_destination(self) -> bool:
        """Whether the destination of a migration is not known yet."""
        return self.move.destination is None and self.move.way != fleet.SHELVE

    def _choose_destination(self) -> bool:
        """Let ``choose`` set the destination; return false if no host fits.

        Return true if there is nothing to choose: if Nova chooses, the plan
        names the destination, or the server is shelved.
        """
        if self.choose is None or not self._has_open_destination:
            return True
        self.move = self.move._replace(
            destination=self.choose(self.move.uuid))
        return self.move.destination is not None

    def _request(self) -> None:
        """Send the request; end the move if Nova refuses it.

        :raises APIRefused: if the credentials do not allow the move
        """
        move = self.move
        # The ID of the request that Nova recorded last. If the answer is lost,
        # a newer ID shows that Nova accepted this request.
        self._last_request = self.servers.find_last_request(
            move.uuid, move.way)
        self.state = RUNNING
        try:
            self.servers.start(move)
            self._is_accepted = True
        except nova_client.APIRefused as error:
            if error.status in _NOT_FOUND_OR_CONFLICT:
                # The server was deleted, or its state has changed meanwhile.
                self._end(SKIPPED, str(error))
            elif error.status == http.HTTPStatus.BAD_REQUEST:
                # No host fits, or not the destination.
                self._end(REFUSED, str(error))
            else:
                raise

    def follow(self) -> None:
        """Read the server, and end the move if Nova has ended it.

        If a nova-compute of the move is down, Nova never ends the move:
        ``_end_if_down`` sets its state to STUCK then.
        """
        server = self._read()
        if server is None:
            # The server is deleted, and _read has ended the move.
            return
        move = self.move
        # Without a destination, Nova may have chosen any host.
        is_destination = move.destination is None or (
            server.host == move.destination)
        has_arrived = server.host != move.source and is_destination
        if not self._is_accepted and not self._was_accepted(server):
            # The API did not answer the request. Send it again, or give up.
            self._requests_left -= 1
            if self._requests_left:
                self.state = WAITING
            else:
                self._end(REFUSED, "Nova's API failed %d times"
                          % MAX_REQUESTS)
        elif server.task_state:
            self._end_if_down()
        elif server.status == 'VERIFY_RESIZE' and has_arrived:
            self._finish(self.servers.confirm)
        elif server.status == 'SHELVED' and move.way == fleet.SHELVE:
            self._finish(self.servers.offload)
        elif server.status == 'SHELVED_OFFLOADED' and server.host is not None:
            # Nova writes this state a moment before it removes the host.
            self._end_if_down()
        elif server.host == move.source:
            # Name the host that Nova had chosen: the operator sees where the
            # migration failed, and the next plan does not use this host.
            self._note_destination()
            self._end(REFUSED, self.servers.find_failure(
                move.uuid, move.way))
        elif self._waits_left and move.way == fleet.LIVE and (
                self.servers.is_migrating(move.uuid)):
            # The server has arrived, but Nova has not ended the migration on
            # the source. The source counts the server until then, so that the
            # next move may find no room there.
            self._waits_left -= 1
        else:
            self._end_elsewhere(server)

    def _note_destination(self) -> None:
        """Set the destination of a failed migration, if Nova has chosen it."""
        if self._has_open_destination:
            host = self.servers.find_destination(self.move.uuid)
            if host != self.move.source:
                self.move = self.move._replace(destination=host)

    def _was_accepted(self, server: servers_module.ServerState) -> bool:
        """Return whether Nova accepted a request whose answer was lost.

        The server shows it, or Nova has recorded a new request.
        """
        move = self.move
        return (server.task_state is not None or
                server.host != move.source or
                self.servers.find_last_request(move.uuid, move.way) !=
                self._last_request)

    def _finish(self, request: abc.Callable[[str], None]) -> None:
        """Send the request by which an accepted move ends, once.

        If Nova refuses it, the next call sends it again. If a nova-compute of
        the move is down, set the state of the move to STUCK instead.

        :param request: function that sends it, called with the UUID of the
            server
        """
        self._end_if_down()
        # The request was sent already, or the line above has ended the move.
        if self._is_finishing or self.state != RUNNING:
            return
        try:
            request(self.move.uuid)
            self._is_finishing = True
        except nova_client.APIRefused as error:
            # Somebody else did it, or Nova cannot do it yet.
            if (error.status != http.HTTPStatus.BAD_REQUEST and
                    error.status not in _NOT_FOUND_OR_CONFLICT):
                raise

    def _end_if_down(self) -> None:
        """Set the state STUCK if the nova-compute of one of the hosts is down.

        The hosts are the source and the destination. Nova would never end the
        move.
        """
        destination = self.move.destination
        if self._has_open_destination and (
                self.servers.is_migrating(self.move.uuid)):
            # The host that Nova has chosen, or None before it has.
            destination = self.servers.find_destination(self.move.uuid)
        for host in self.move.source, destination:
            if host is not None and not self.servers.is_up(host):
                self._end(STUCK, _describe_down(host))

    def _end_elsewhere(self, server: servers_module.ServerState) -> None:
        """End the move of a server that has left its source host.

        The move is done, unless the server is on another host than planned.
        """
        # If the move names no host, Nova has chosen the present one.
        if self._has_open_destination and server.host is not None:
            self.move = self.move._replace(destination=server.host)
        # Both are None if the server was to be shelved, and is on no host.
        if server.host == self.move.destination:
            reason = ''
            if self.state != RUNNING:
                reason = 'it was there already'
            self._end(DONE, reason)
        elif server.host is None:
            # For example, its owner has shelved it meanwhile.
            self._end(DONE, 'it is on no host')
        else:
            self._end(SURPRISE, 'it is on host %s' % server.host)

    def _read(self) -> servers_module.ServerState | None:
        """Return the server; if it does not exist, end the move.

        :returns: None if the server does not exist
        """
        server = self.servers.read(self.move.uuid)
        if server is None:
            self._end(DONE, 'its owner deleted it')
        return server

    def _end(self, state: str, reason: str) -> None:
        """Set the last state of the move."""
        self.state, self.reason = state, reason


def describe(move: fleet.Move) -> str:
    """Return a phrase for a move, such as "live migration from c1 to c2"."""
    text = '%s migration from %s' % (move.way, move.source)
    if move.way == fleet.SHELVE:
        text = 'shelving from %s' % move.source
    if move.destination is not None:
        text += ' to %s' % move.destination
    return text


def _describe_down(host: str) -> str:
    """Return a clause that says that a host is down."""
    return 'the nova-compute of %s is down' % host
