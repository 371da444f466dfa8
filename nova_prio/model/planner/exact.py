# SPDX-License-Identifier: Apache-2.0

"""Find the best plan of a small fleet by an exhaustive search."""

from __future__ import annotations

from collections import abc
import heapq
import itertools

from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import search

#: Maximum number of assignments of instances to hosts that are searched.
MAX_STATES = 4096


def is_small(of_search: search.Search, movable: abc.Sequence[str]) -> bool:
    """Return whether an exhaustive search takes less than some seconds.

    :param movable: UUIDs of all instances that may move
    """
    # Each instance may be on its own host, on an open host, or shelved.
    choices = len(of_search.open_hosts) + 2
    return choices ** min(len(movable), MAX_STATES) <= MAX_STATES


def find_best(of_search: search.Search, movable: abc.Sequence[str],
              is_reached: abc.Callable[[], bool],
              ) -> list[fleet_module.Move] | None:
    """Return the moves with the smallest cost, or None if there are none.

    This is Dijkstra's algorithm. A node is a place for each movable instance,
    and an edge is one move. Instances may move more than once.

    :param is_reached: whether the present state of the fleet is the goal
    """
    fleet = of_search.fleet
    start = tuple(map(fleet.get_place, movable))
    numbers = itertools.count()
    # Cost, number that makes the order unique, node, moves to it.
    queue = [(search.calculate_cost(()), next(numbers), start,
              list[fleet_module.Move]())]
    seen = set()
    try:
        while queue:
            cost, _, node, moves = heapq.heappop(queue)
            if node in seen:
                continue
            seen.add(node)
            _set_places(fleet, movable, node)
            if is_reached():
                return moves
            for index, uuid in enumerate(movable):
                for move, place in _list_moves(of_search, uuid):
                    following = (*node[:index], place, *node[index + 1:])
                    step = search.calculate_cost(
                        [(move.way, of_search.get_class(uuid))])
                    heapq.heappush(queue, (
                        tuple(a + b for a, b in zip(cost, step)),
                        next(numbers), following, [*moves, move]))
        return None
    finally:
        _set_places(fleet, movable, start)


def _set_places(fleet: fleet_module.Fleet, movable: abc.Sequence[str],
                node: abc.Iterable[fleet_module.Place]) -> None:
    """Put the instances to the places of a node."""
    for uuid, place in zip(movable, node):
        if fleet.get_place(uuid) != place:
            fleet.put(uuid, place)


def _list_moves(
        of_search: search.Search, uuid: str,
) -> abc.Iterator[tuple[fleet_module.Move, fleet_module.Place]]:
    """Yield the moves of an instance that are feasible now."""
    fleet, instance = of_search.fleet, of_search.fleet.instances[uuid]
    source = fleet.get_place(uuid).host
    if source is None:
        return
    ways = of_search.list_ways(uuid)
    if ways[0] != fleet_module.SHELVE:
        for host in of_search.open_hosts:
            place = fleet.find_place(instance, host)
            if host != source and place is not None:
                yield fleet_module.Move(uuid, ways[0], source, host), place
    if fleet_module.SHELVE in ways:
        yield (fleet_module.Move(uuid, fleet_module.SHELVE, source, None),
               fleet_module.Place(None, ()))
