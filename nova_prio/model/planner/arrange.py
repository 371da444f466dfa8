# SPDX-License-Identifier: Apache-2.0

"""Shorten and order the moves of a plan; each stays feasible at its turn."""

from __future__ import annotations

from collections import abc

from nova_prio.model.planner import fleet as fleet_module


def replay(fleet: fleet_module.Fleet,
           moves: abc.Iterable[fleet_module.Move]) -> bool:
    """Make moves; return False at the first move that is not feasible."""
    for move in moves:
        if not _is_feasible(fleet, move):
            return False
        fleet.move(move.uuid, move.way, move.destination)
    return True


def _is_feasible(fleet: fleet_module.Fleet, move: fleet_module.Move) -> bool:
    """Return whether a move is feasible in the present state."""
    return fleet.get_place(move.uuid).host == move.source and (
        move.destination is None or fleet.find_place(
            fleet.instances[move.uuid], move.destination) is not None)


def merge(fleet: fleet_module.Fleet) -> list[fleet_module.Move]:
    """Return the moves in the log; merge several moves of one instance.

    A repair may move an instance again. If the moves are still feasible, only
    its last move remains.
    """
    moves, length = list(fleet.log), len(fleet.log)
    fleet.rollback(0)
    first: dict[str, fleet_module.Move] = {}
    for move in list(moves):
        earlier = first.setdefault(move.uuid, move)
        if earlier is move:
            continue
        merged = move._replace(source=earlier.source)
        shorter = [merged if each is move else each for each in moves
                   if each is not earlier]
        if merged.source != merged.destination and replay(fleet, shorter):
            moves = shorter
            first[move.uuid] = merged
        fleet.rollback(0)
    assert len(moves) <= length
    replay(fleet, moves)
    return moves


def arrange(fleet: fleet_module.Fleet, moves: list[fleet_module.Move],
            is_reached: abc.Callable[[], bool] = lambda: True,
            ) -> list[fleet_module.Move]:
    """Return the moves in the preferred order, if this order is feasible.

    Prefer live before cold before shelve, then the order of the classes.

    :param fleet: before the first move
    :param is_reached: whether the state after the moves is the goal
    """
    ways = [*fleet_module.WAYS, fleet_module.EVACUATE]
    waiting = sorted(moves, key=lambda move: (
        ways.index(move.way), fleet.get_rank(move.uuid)[0]))
    try:
        while waiting:
            feasible = next((move for move in waiting
                             if _is_feasible(fleet, move)), None)
            if feasible is None:
                return moves
            fleet.move(feasible.uuid, feasible.way, feasible.destination)
            waiting.remove(feasible)
        return list(fleet.log) if is_reached() else moves
    finally:
        fleet.rollback(0)
