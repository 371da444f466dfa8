# SPDX-License-Identifier: Apache-2.0

"""Run the moves of a plan."""

from __future__ import annotations

from collections import abc
import time

from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import order
from nova_prio.admin.moves import servers as servers_module
from nova_prio.admin import nova_client
from nova_prio.model.planner import fleet

#: Interval of reading the servers that move.
INTERVAL_SECONDS = 2

#: Function that takes a sentence about each change, and whether the change is
#: that an instance has left its host.
Observer = abc.Callable[[str, bool], None]


class Execution:
    """The moves of a plan.

    ``moves`` are in the order of the plan. If :meth:`run` ends before the
    moves, for example by an interrupt, Nova goes on with the running moves,
    and a new plan of the present state can continue.

    :param groups: UUID -> name of the server group of an instance, or None
    :param format_instance: function that adds the name to a UUID
    :param concurrency: maximum number of moves at the same time
    :param choose: function, UUID -> destination of a migration without one,
        called when it starts; by default, Nova chooses
    """

    def __init__(self, servers: servers_module.Servers,
                 moves: abc.Sequence[fleet.Move],
                 groups: abc.Mapping[str, str | None],
                 format_instance: abc.Callable[[str], str],
                 observe: Observer,
                 concurrency: int = 1,
                 choose: one_move.Choose | None = None) -> None:
        self.moves = [one_move.OneMove(servers, move, choose)
                      for move in moves]
        self._servers = servers
        self._predecessors = order.find_predecessors(moves, groups)
        self._format_instance = format_instance
        self._observe = observe
        self._concurrency = concurrency
        self._is_silent = False

    @property
    def surprise(self) -> str | None:
        """A sentence about an instance on another host than planned."""
        return next((self._describe(each) for each in self.moves
                     if each.state == one_move.SURPRISE), None)

    def count(self, *states: str) -> int:
        """Return how many moves are in one of some states."""
        return sum(each.state in states for each in self.moves)

    def run(self, end: float) -> None:
        """Run the moves until none can go on, a surprise, or the timeout.

        While Nova's API does not answer, wait.

        :param end: time of the timeout, as ``time.monotonic`` counts it
        :raises APIRefused: if the credentials do not allow a move
        """
        while True:
            self._servers.forget_services()
            for each in self.moves:
                if each.state == one_move.RUNNING:
                    self._try(each, each.follow)
            for each in self._list_startable():
                # A move without an effect leaves room for another one.
                if (self.surprise or time.monotonic() >= end or
                        self.count(one_move.RUNNING) >= self._concurrency):
                    break
                self._try(each, each.start)
            is_over = time.monotonic() >= end
            if self.surprise or is_over or not (
                    self.count(one_move.RUNNING) or self._list_startable()):
                return
            time.sleep(INTERVAL_SECONDS)

    def _list_startable(self) -> list[one_move.OneMove]:
        """Return the waiting moves whose predecessors have made way."""
        return [
            each for each, before in zip(self.moves, self._predecessors)
            if each.state == one_move.WAITING and not any(
                self.moves[index].state in (one_move.WAITING, one_move.RUNNING)
                for index in before.ended) and all(
                self.moves[index].state == one_move.DONE
                for index in before.done)]

    def _try(self, move: one_move.OneMove,
             step: abc.Callable[[], None]) -> None:
        """Do a step of a move, and observe a change."""
        before = move.state
        try:
            step()
            self._is_silent = False
        except nova_client.APIUnavailable as error:
            if not self._is_silent:
                self._observe('%s. Waiting for it.' % error, False)
            self._is_silent = True
        if move.state != before:
            self._observe(self._describe(move), move.state == one_move.DONE)

    def _describe(self, move: one_move.OneMove) -> str:
        """Return a sentence about the state of a move."""
        return 'Instance %s: %s: %s%s.' % (
            self._format_instance(move.move.uuid),
            one_move.describe(move.move), move.state,
            move.reason and ', because ' + move.reason)
