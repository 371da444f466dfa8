# SPDX-License-Identifier: Apache-2.0

"""Find plans by greedy choices with repair, from several rules the best."""

from __future__ import annotations

from collections import abc
import operator

from nova_prio.model.planner import arrange
from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import fleet_room
from nova_prio.model.planner import search

#: How good a plan is: (what it does not achieve, its cost).
_RANK = operator.itemgetter(0, 1)


def make_room(of_search: search.Search,
              of_room: fleet_room.Room) -> list[fleet_module.Move]:
    """Return the better of two greedy plans that make room for instances.

    That is the plan after which more of the wanted instances fit, or if as
    many fit, the one with the smaller cost. The fleet is the same afterwards.

    :param of_search: moves the instances of the fleet
    :param of_room: counts how many of the wanted instances fit, and decides
        which guests to move away for them
    """
    # (minus the number of wanted instances that fit, cost, moves) of each plan
    fleet, found = of_search.fleet, []
    for extend in of_room.extend, of_room.extend_simply:
        # Each call moves guests away, until no more of the instances can fit.
        while extend():
            pass
        # The number of wanted instances that fit, and the moves made for it.
        count, moves = of_room.count(), list(fleet.log)
        # Several moves of one instance become one. This changes the fleet:
        # less room may remain than after the original moves.
        merged = arrange.merge(fleet)
        if of_room.count() == count:
            moves = merged
        found.append((-count, _calculate_cost(of_search, moves), moves))
        fleet.rollback(0)
    # Compare the first two values of each plan, not the moves.
    _, _, best = min(found, key=_RANK)
    return best


def move_all(of_search: search.Search, uuids: list[str],
             can_displace: bool) -> list[fleet_module.Move]:
    """Return the best of three greedy plans that move instances away.

    The best plan leaves the fewest instances, then has the smallest cost. The
    fleet is the same afterwards.

    :param of_search: moves the instances of the fleet
    :param uuids: UUIDs of the instances, in the preferred order
    :param can_displace: whether other instances may move to make room
    """
    # (number of instances that are left, cost, moves) of each plan
    fleet, found = of_search.fleet, []
    # (UUID, the best allowed way to move it, such as live)
    best_ways = []
    for uuid in uuids:
        ways = of_search.list_ways(uuid)
        if ways:
            best_ways.append((uuid, ways[0]))
    # No plan that moves all of them has a smaller cost: each instance moves
    # once, in the best way.
    bound = of_search.calculate_cost(best_ways)
    # As many instances as possible fit if the largest comes first.
    by_size = sorted(uuids, key=of_search.get_size, reverse=True)
    # Prefer the destination with the most room, that with the least room, or
    # the first one. With the first one, take the instances in the given order:
    # this is the simplest plan, and the best plan is never worse.
    for preference in search.PREFERENCES:
        order = uuids if preference == search.FIRST else by_size
        # UUIDs of the instances that fit nowhere.
        left = of_search.move_all(order, preference)
        if left and can_displace:
            left = _repair(of_search, left)
        moves = arrange.merge(fleet)
        cost = _calculate_cost(of_search, moves)
        found.append((len(left), cost, moves))
        fleet.rollback(0)
        if not left and cost == bound:
            break
    # Compare the first two values of each plan, not the moves.
    _, _, best = min(found, key=_RANK)
    return best


def _calculate_cost(of_search: search.Search,
                    moves: abc.Iterable[fleet_module.Move]) -> search.Cost:
    """Return the cost of moves: a smaller tuple is a better plan."""
    return of_search.calculate_cost((move.uuid, move.way) for move in moves)


def _repair(of_search: search.Search, left: list[str]) -> list[str]:
    """Move instances that fit nowhere, after others have made room for them.

    Each instance goes to the host with the least room that suffices.

    :param left: UUIDs of the instances
    :returns: UUIDs of the instances that still fit nowhere
    """
    fleet, remaining = of_search.fleet, []
    # (needs, server group) -> the Room that equal instances have in common.
    rooms: dict[abc.Hashable, fleet_room.Room] = {}
    # The keys for which no guests can make room.
    hopeless = set()
    for uuid in left:
        instance = fleet.instances[uuid]
        key = instance.needs, instance.group
        # An earlier repair may have made enough room.
        if of_search.move_away(uuid, search.PACK):
            continue
        if of_search.list_ways(uuid) and key not in hopeless:
            # A Room makes room for a number of equal instances: here for one
            # at a time.
            if key not in rooms:
                rooms[key] = fleet_room.Room(of_search, instance, number=1)
            # This moves other guests away.
            has_room = rooms[key].extend()
            if has_room and of_search.move_away(uuid, search.PACK):
                continue
            hopeless.add(key)
        remaining.append(uuid)
    return remaining
