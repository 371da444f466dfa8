# SPDX-License-Identifier: Apache-2.0

"""Decide which moves of a plan may start; pure functions."""

from __future__ import annotations

from collections import abc
import typing

from nova_prio.model.planner import fleet


class Predecessors(typing.NamedTuple):
    """The earlier moves that a move waits for; indexes of the plan.

    The moves of ``ended`` must not be running or waiting. Those of ``done``
    must have succeeded: without them, the move is not feasible.
    """

    ended: frozenset[int]
    done: frozenset[int]


def find_predecessors(moves: abc.Sequence[fleet.Move],
                      groups: abc.Mapping[str, str | None],
                      ) -> list[Predecessors]:
    """Return the Predecessors of each move, by the rules of ``plan.Plan``.

    :param groups: UUID -> name of the server group of an instance, or None
    """
    found = []
    # Destination, server group and UUID -> index of the last move with it.
    last: dict[tuple[str, str], int] = {}
    leaving: dict[str, list[int]] = {}
    for index, move in enumerate(moves):
        ended: set[int] = set()
        done: set[int] = set()
        if move.destination is not None:
            done.update(leaving.get(move.destination, ()))
        for kind, value, needed in (
                ('destination', move.destination, ended),
                ('group', groups.get(move.uuid), done),
                ('instance', move.uuid, done)):
            if value is not None:
                if (kind, value) in last:
                    needed.add(last[kind, value])
                last[kind, value] = index
        leaving.setdefault(move.source, []).append(index)
        found.append(Predecessors(frozenset(ended), frozenset(done)))
    return found
