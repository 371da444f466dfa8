# SPDX-License-Identifier: Apache-2.0

"""Run the moves of a plan."""

from __future__ import annotations

from collections import abc
import time
import typing

from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import servers as servers_module
from nova_prio.admin import nova_client
from nova_prio.model.planner import fleet

#: Interval of reading the servers that move.
INTERVAL_SECONDS = 2

#: Function that takes a sentence about each change, and whether the change is
#: that an instance has left its host.
Observer = abc.Callable[[str, bool], None]


class Predecessors(typing.NamedTuple):
    """The earlier moves that a move waits for; indexes of the plan.

    The moves of ``ended`` must not be running or waiting. Those of ``done``
    must have succeeded: without them, the move is not feasible.
    """

    ended: set[int]
    done: set[int]


def find_predecessors(moves: abc.Sequence[fleet.Move],
                      groups: abc.Mapping[str, str | None],
                      ) -> list[Predecessors]:
    """Return which earlier moves each move waits for.

    A move needs the success (``done``) of earlier moves of its instance or its
    server group, and of those that make room on its destination. An earlier
    move to its destination must be over (``ended``). If that move fails, it
    only leaves more room there.

    :param groups: UUID of an instance -> its server group, or None
    :returns: one for each move; ``done`` and ``ended`` are indexes of moves
    """
    found = []
    for index, move in enumerate(moves):
        before = Predecessors(ended=set(), done=set())
        group = groups.get(move.uuid)
        for number, earlier in enumerate(moves[:index]):
            is_same_instance = earlier.uuid == move.uuid
            makes_room = earlier.source == move.destination
            is_same_group = (
                group is not None and group == groups.get(earlier.uuid))
            if is_same_instance or makes_room or is_same_group:
                before.done.add(number)
            elif (move.destination is not None and
                    earlier.destination == move.destination):
                before.ended.add(number)
        found.append(before)
    return found


class Execution:
    """The moves of a plan.

    ``moves`` are in the order of the plan. If :meth:`run` ends before the
    moves, for example by an interrupt, Nova goes on with the running moves,
    and a new plan of the present state can continue.

    :param groups: UUID of an instance -> its server group, or None
    :param format_instance: function that adds the name to a UUID
    :param observe: function that takes a sentence about each change
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
        # ``choose`` names the destination of a migration without one when it
        # starts. If it is None, Nova chooses.
        self.moves = [
            one_move.OneMove(servers=servers, move=move, choose=choose)
            for move in moves]
        self._servers = servers
        # For each move, the earlier moves that it waits for, such as those of
        # its server group. ``groups`` is UUID of an instance -> its server
        # group, or None if it has none.
        self._predecessors = find_predecessors(moves, groups)
        # Function that adds the name of an instance to its UUID.
        self._format_instance = format_instance
        # Function that takes a sentence about each change, and whether the
        # change is that an instance has left its host.
        self._observe = observe
        self._concurrency = concurrency
        # Whether Nova's API did not answer last.
        self._is_api_silent = False

    @property
    def surprise(self) -> str | None:
        """A sentence about an instance on another host than planned.

        None if there is no such instance.
        """
        for each in self.moves:
            if each.state == one_move.SURPRISE:
                return self._describe(each)
        return None

    def count(self, state: str) -> int:
        """Return how many moves are in a state."""
        return sum(each.state == state for each in self.moves)

    def run(self, end: float) -> None:
        """Run the moves until none can go on, or until the timeout.

        Also stop at a surprise: if an instance is on another host than
        planned, the later moves may not fit. If Nova's API does not answer, a
        step of a move is tried again later.

        :param end: time of the timeout, as ``time.monotonic`` counts it
        :raises APIRefused: if the credentials do not allow a move
        """
        while True:
            # Read again which hosts are up.
            self._servers.forget_services()
            for each in self.moves:
                if each.state == one_move.RUNNING:
                    self._try(each, each.follow)
            for each in self._list_startable():
                # Count for each move: one that ends at once does not run.
                is_full = self.count(one_move.RUNNING) >= self._concurrency
                if self._must_stop(end) or is_full:
                    break
                self._try(each, each.start)
            has_next = self.count(one_move.RUNNING) or self._list_startable()
            if self._must_stop(end) or not has_next:
                return
            time.sleep(INTERVAL_SECONDS)

    def _must_stop(self, end: float) -> bool:
        """Return whether no more moves may start.

        :param end: time of the timeout, as ``time.monotonic`` counts it
        """
        return bool(self.surprise) or time.monotonic() >= end

    def _list_startable(self) -> list[one_move.OneMove]:
        """Return the waiting moves that need not wait for earlier moves.

        Some of the earlier moves must be done. Others must only have ended.
        """
        # Indexes of the moves that have succeeded, and of those that have not
        # ended.
        done, open_moves = set(), set()
        for index, each in enumerate(self.moves):
            if each.state == one_move.DONE:
                done.add(index)
            elif each.state in (one_move.WAITING, one_move.RUNNING):
                open_moves.add(index)
        found = []
        for each, before in zip(self.moves, self._predecessors):
            may_start = (before.done <= done and
                         before.ended.isdisjoint(open_moves))
            if each.state == one_move.WAITING and may_start:
                found.append(each)
        return found

    def _try(self, move: one_move.OneMove,
             step: abc.Callable[[], None]) -> None:
        """Do a step of a move, and tell the observer about a change.

        If Nova's API does not answer, tell the observer so once, and leave the
        move as it is: the caller tries it again.

        :param step: ``start`` or ``follow`` of the move, which set its state
        """
        before = move.state
        try:
            step()
            self._is_api_silent = False
        except nova_client.APIUnavailable as error:
            if not self._is_api_silent:
                has_left = False
                self._observe('%s. Waiting for it.' % error, has_left)
            self._is_api_silent = True
        if move.state != before:
            has_left = move.state == one_move.DONE
            self._observe(self._describe(move), has_left)

    def _describe(self, move: one_move.OneMove) -> str:
        """Return a sentence about the state of a move."""
        reason = ''
        if move.reason:
            reason = ', because ' + move.reason
        return 'Instance %s: %s: %s%s.' % (
            self._format_instance(move.move.uuid),
            one_move.describe(move.move), move.state, reason)
