# SPDX-License-Identifier: Apache-2.0

"""Shorten and order the moves of a plan; each stays feasible at its turn."""

from __future__ import annotations

from collections import abc

from nova_prio.model.planner import fleet as fleet_module


def replay(fleet: fleet_module.Fleet,
           moves: abc.Iterable[fleet_module.Move]) -> bool:
    """Make moves in their order, up to the first that is not feasible.

    :param fleet: the planned state of all hosts, which the moves change. An
        earlier plan must have been taken back from it.
    :returns: whether all moves were made
    """
    for move in moves:
        was_made = _make(fleet, move)
        if not was_made:
            return False
    return True


def _make(fleet: fleet_module.Fleet, move: fleet_module.Move) -> bool:
    """Make a move, if it is feasible; return whether it is."""
    # This is so if an earlier move of the instance was left out or delayed.
    if fleet.get_place(move.uuid).host != move.source:
        return False
    # A shelved instance has no destination, and needs no place.
    if move.destination is not None:
        instance = fleet.instances[move.uuid]
        if fleet.find_place(instance, move.destination) is None:
            return False
    fleet.move(move.uuid, move.way, move.destination)
    return True


def merge(fleet: fleet_module.Fleet) -> list[fleet_module.Move]:
    """Replace the moves of a fleet by fewer: one move for each instance.

    The planner may have moved an instance again. Its two moves become one, at
    the place of the second in the list, if all moves are then still feasible
    in their order. A third move is merged in the same way: with the merged one
    or, if the first two could not be merged, with the first.

    :param fleet: the planned state of all hosts. Its ``log`` has the moves
        that were made. They are taken back, and the returned moves are made
        instead.
    """
    moves = list(fleet.log)
    # Take all moves back: a replay begins with the first one.
    fleet.rollback(0)
    # UUID of an instance -> its first move, or the merged one.
    first: dict[str, fleet_module.Move] = {}
    for move in list(moves):
        earlier = first.setdefault(move.uuid, move)
        if earlier is move:
            # This is the first move of the instance.
            continue
        merged = move._replace(source=earlier.source)
        # If the second move goes back to the source of the first, both go.
        is_round_trip = merged.source == merged.destination
        replacement = [] if is_round_trip else [merged]
        # The moves with the merged one, if any, in place of the two.
        shorter = []
        for each in moves:
            if each is move:
                shorter += replacement
            elif each is not earlier:
                shorter.append(each)
        if replay(fleet, shorter):
            moves = shorter
            if is_round_trip:
                del first[move.uuid]
            else:
                first[move.uuid] = merged
        fleet.rollback(0)
    replay(fleet, moves)
    return moves


def arrange(fleet: fleet_module.Fleet, moves: list[fleet_module.Move],
            is_reached: abc.Callable[[], bool] | None = None,
            ) -> list[fleet_module.Move]:
    """Return the moves in the preferred order, if this order is feasible.

    Prefer live migration before cold migration before shelving, then low
    priority before no priority before high priority.

    :param fleet: the state of all hosts before the first move. The moves are
        tried on it, and taken back.
    :param is_reached: function that tells whether the state after the moves is
        the goal; None if each order reaches the goal
    :returns: ``moves`` itself if the preferred order is not feasible
    """
    # Move -> (position of its way, position of the class of the instance).
    ranks = {}
    for move in moves:
        class_name = fleet.instances[move.uuid].needs.class_name
        ranks[move] = (fleet_module.ALL_WAYS.index(move.way),
                       fleet_module.CLASSES.index(class_name))
    waiting = sorted(moves, key=ranks.__getitem__)
    try:
        while waiting:
            # Make the first move that is feasible now.
            made = next((move for move in waiting if _make(fleet, move)), None)
            if made is None:
                return moves
            waiting.remove(made)
        if is_reached is None or is_reached():
            return list(fleet.log)
        return moves
    finally:
        fleet.rollback(0)
