# SPDX-License-Identifier: Apache-2.0

"""Move instances of a Fleet to greedily chosen destinations.

The way of a move is how Nova moves the instance, one of ``fleet.ALL_WAYS``.
"""

from __future__ import annotations

from collections import abc

from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import resources

#: Which destination to prefer: that with the most room, as PriorityWeighter,
#: that with the least room, or the first one.
SPREAD, PACK, FIRST = 'spread', 'pack', 'first'
#: Preference -> factor of the room of a destination.
PREFERENCES = {SPREAD: 1, PACK: -1, FIRST: 0}
#: Policy of a server group -> factor of the members on a destination.
_MEMBER_FACTORS = {fleet_module.SOFT_AFFINITY: 1,
                   fleet_module.SOFT_ANTI_AFFINITY: -1}

Cost = tuple[int, ...]
#: Name of a host -> its room, the result of ``HostFit.measure_room``.
Destinations = dict[str, tuple[int, int]]


class Search:
    """Moves of the instances of a fleet; they remain in the log of the fleet.

    ``open_hosts`` is the name of each host that takes instances -> its
    position in the fleet.

    :param ways: the allowed ways
    :param closed: hosts that take no instance
    """

    def __init__(self, fleet: fleet_module.Fleet, ways: abc.Collection[str],
                 closed: abc.Container[str] = ()) -> None:
        self.fleet = fleet
        self._ways = [way for way in fleet_module.ALL_WAYS if way in ways]
        self.open_hosts = {name: number for number, name
                           in enumerate(fleet.hosts) if name not in closed}
        # Needs -> (number of the changes of the fleet that the destinations
        # consider, destinations).
        self._destinations: dict[resources.Needs, tuple[
            int, Destinations]] = {}

    def calculate_cost(self, moves: abc.Iterable[tuple[str, str]]) -> Cost:
        """Return the cost of moves: a smaller tuple is a better plan.

        Fewest moves come first, then live before cold before shelve, then low
        priority before ordinary before high priority.

        :param moves: (UUID, way) of each move
        """
        ways, classes = [], []
        for uuid, way in moves:
            ways.append(way)
            classes.append(self.fleet.instances[uuid].needs.class_name)
        return (len(ways), ways.count(fleet_module.SHELVE),
                ways.count(fleet_module.COLD), classes.count('high'),
                classes.count('ordinary'))

    def list_ways(self, uuid: str) -> list[str]:
        """Return the ways by which an instance may move, the best first."""
        ways = self.fleet.instances[uuid].ways
        return [way for way in self._ways
                if way in ways or way == fleet_module.EVACUATE]

    def find_changed(self, position: int) -> tuple[int, abc.Iterable[str]]:
        """Return the open hosts whose usage has changed.

        :param position: number of changes that the caller has considered
        :returns: (number of all changes, names of the hosts)
        """
        changes = self.fleet.changes
        if position == len(changes):
            return position, ()
        return len(changes), dict.fromkeys(
            host for host in changes[position:] if host in self.open_hosts)

    def find_destinations(self, instance: fleet_module.Instance,
                          ) -> Destinations:
        """Return the open hosts with the resources for an instance now.

        Server groups are not considered. The order of the hosts is arbitrary.
        """
        # The fleet begins with a change of each host, so that position 0
        # stands for all hosts.
        position, found = self._destinations.get(instance.needs, (0, {}))
        position, changed = self.find_changed(position)
        for host in changed:
            found.pop(host, None)
            of_host = self.fleet.hosts[host]
            if of_host.choose_cells(instance.needs) is not None:
                found[host] = of_host.measure_room(instance.needs)
        if changed:
            self._destinations[instance.needs] = position, found
        return found

    def expect_way(self, uuid: str) -> str:
        """Return the way by which an instance would move now."""
        ways = self.list_ways(uuid)
        instance = self.fleet.instances[uuid]
        return ways[0] if self.find_destinations(instance) else ways[-1]

    def group_guests(self, host: str) -> list[list[str]]:
        """Return the UUIDs of the guests of a host.

        :returns: a list for each kind of guests; those of one kind are
            interchangeable
        """
        kinds: dict[abc.Hashable, list[str]] = {}
        for uuid in self.fleet.list_guests(host):
            instance = self.fleet.instances[uuid]
            kind = (instance.needs, instance.group, instance.ways,
                    self.fleet.get_place(uuid).cells)
            kinds.setdefault(kind, []).append(uuid)
        return list(kinds.values())

    def can_leave(self, uuid: str) -> bool:
        """Return whether an instance can be shelved, or fits on a host."""
        ways = self.list_ways(uuid)
        return fleet_module.SHELVE in ways or bool(
            ways and self.find_destinations(self.fleet.instances[uuid]))

    def move_away(self, uuid: str, preference: str) -> bool:
        """Move an instance to the preferred host, or shelve it.

        :param preference: one of PREFERENCES
        :returns: False if the instance can neither be moved nor shelved
        """
        for way in self.list_ways(uuid):
            destination = None
            if way != fleet_module.SHELVE:
                destination = self._choose(uuid, preference)
                if destination is None:
                    continue
            self.fleet.move(uuid, way, destination)
            return True
        return False

    def _choose(self, uuid: str, preference: str) -> str | None:
        """Return the preferred destination of an instance, or None."""
        fleet, instance = self.fleet, self.fleet.instances[uuid]
        source, policy = fleet.get_place(uuid).host, fleet.get_policy(instance)
        room_factor = PREFERENCES[preference]
        member_factor = 0
        if policy and preference != FIRST:
            member_factor = _MEMBER_FACTORS.get(policy, 0)
        weights = []
        for host, room in self.find_destinations(instance).items():
            if host == source or (
                    policy and fleet.count_allowed(instance, host) == 0):
                continue
            members = 0
            if member_factor:
                members = member_factor * fleet.count_members(instance, host)
            vcpus, memory_mb = room
            # Prefer the first one of equal hosts.
            weights.append((members, room_factor * vcpus,
                            room_factor * memory_mb, -self.open_hosts[host],
                            host))
        return max(weights)[-1] if weights else None

    def move_all(self, uuids: abc.Iterable[str],
                 preference: str) -> list[str]:
        """Move instances away; return those that cannot be moved.

        :param uuids: in the order in which they are tried
        """
        left = list(uuids)
        while True:
            remaining = [uuid for uuid in left
                         if not self.move_away(uuid, preference)]
            # A move may allow another one by the policy of a server group: try
            # the others again until nothing changes.
            if not remaining or len(remaining) == len(left):
                return remaining
            left = remaining

    def get_size(self, uuid: str) -> tuple[int, int]:
        """Return the vCPUs and the memory of an instance."""
        request = self.fleet.instances[uuid].needs.request
        return request.vcpus, request.memory_mb
