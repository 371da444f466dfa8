# SPDX-License-Identifier: Apache-2.0

"""Find plans by greedy choices with repair, from several rules the best."""

from __future__ import annotations

import typing

from nova_prio.model.planner import arrange
from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import room
from nova_prio.model.planner import search


def make_room(of_search: search.Search,
              of_room: room.Room) -> list[fleet_module.Move]:
    """Return the better of two greedy plans; the most instances first."""
    fleet, found = of_search.fleet, []
    for extend in of_room.extend, of_room.extend_simply:
        while extend():
            pass
        count, moves = of_room.count(), list(fleet.log)
        merged = arrange.merge(fleet)
        if of_room.count() == count:
            moves = merged
        found.append((-count, of_search.calculate_cost(moves), moves))
        fleet.rollback(0)
    return min(found, key=lambda each: each[:2])[2]


def move_all(of_search: search.Search, uuids: list[str], bound: search.Cost,
             can_displace: bool) -> list[fleet_module.Move]:
    """Return the best plan of three greedy ones with repair.

    :param bound: cost of a plan that cannot be better
    :param can_displace: whether other instances may move
    """
    fleet, found = of_search.fleet, []
    for preference in search.PREFERENCES:
        # As many instances as possible fit if the largest comes first.
        order = uuids if preference == search.FIRST else sorted(
            uuids, key=of_search.get_size, reverse=True)
        left = of_search.move_all(order, preference)
        if left and can_displace:
            left = _repair(of_search, left)
        moves = arrange.merge(fleet)
        cost = of_search.calculate_cost(moves)
        found.append((len(left), cost, moves))
        fleet.rollback(0)
        if not left and cost == bound:
            break
    return min(found, key=lambda each: each[:2])[2]


def _repair(of_search: search.Search, left: list[str]) -> list[str]:
    """Make room for the instances that fit nowhere; return the others."""
    fleet, remaining = of_search.fleet, []
    # Instances with the same needs and group share a Room.
    rooms: dict[typing.Any, room.Room] = {}
    hopeless = set()
    for uuid in left:
        instance = fleet.instances[uuid]
        key = fleet.get_shape(instance), instance.group
        # An earlier repair may have made enough room.
        if of_search.move_away(uuid, search.PACK):
            continue
        if of_search.list_ways(uuid) and key not in hopeless:
            if key not in rooms:
                rooms[key] = room.Room(of_search, instance, 1)
            if rooms[key].extend() and of_search.move_away(uuid, search.PACK):
                continue
            hopeless.add(key)
        remaining.append(uuid)
    return remaining
