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
    :param closed: names of the hosts that take no instance
    """

    def __init__(self, fleet: fleet_module.Fleet, ways: abc.Collection[str],
                 closed: abc.Container[str] = ()) -> None:
        self.fleet = fleet
        # The allowed ways, such as live, the best first.
        self._ways = [way for way in fleet_module.ALL_WAYS if way in ways]
        # Name of each host that takes instances -> its position in the fleet.
        self.open_hosts = {name: number for number, name
                           in enumerate(fleet.hosts) if name not in closed}
        # Needs of instances -> (number of changes of the fleet, from its
        # beginning, that the destinations consider, destinations). Only the
        # hosts of later changes are checked again.
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
        """Return the ways by which an instance may move, the best first.

        A way is how Nova moves it, such as live. To evacuate an instance needs
        no permission: its host is lost.
        """
        ways = self.fleet.instances[uuid].ways
        return [way for way in self._ways
                if way in ways or way == fleet_module.EVACUATE]

    def find_changed(self, considered: int) -> tuple[int, abc.Iterable[str]]:
        """Return the open hosts whose usage has changed.

        An open host is one that takes instances.

        :param considered: number of changes that the caller has considered
        :returns: (number of all changes, names of the hosts)
        """
        # The name of the host of each change of a usage.
        changes = self.fleet.changes
        if considered == len(changes):
            return considered, ()
        # The keys of a dict are in order, and each host occurs once.
        return len(changes), dict.fromkeys(
            host for host in changes[considered:] if host in self.open_hosts)

    def find_destinations(self, instance: fleet_module.Instance,
                          ) -> Destinations:
        """Return the open hosts with the resources for an instance now.

        An open host is one that takes instances. Server groups are not
        considered. The order of the hosts is arbitrary.

        :returns: dict, name of the host -> (vCPUs, memory in MB) that it has
            left for such instances
        """
        # Take the answer for equal needs, and renew it for the hosts that have
        # changed since. The changes of a fleet begin with each host, so
        # without an answer (0 considered), all hosts have changed.
        considered, found = self._destinations.get(instance.needs, (0, {}))
        considered, changed = self.find_changed(considered)
        for host in changed:
            found.pop(host, None)
            of_host = self.fleet.hosts[host]
            if of_host.choose_cells(instance.needs) is not None:
                found[host] = of_host.measure_room(instance.needs)
        if changed:
            self._destinations[instance.needs] = considered, found
        return found

    def expect_way(self, uuid: str) -> str:
        """Return the way by which an instance would move now.

        If it fits on no other host, it can only be shelved, which is the last
        of its ways.
        """
        ways = self.list_ways(uuid)
        return ways[0] if self._fits_elsewhere(uuid) else ways[-1]

    def group_guests(self, host: str) -> list[list[str]]:
        """Return the UUIDs of the guests of a host, by kind.

        :returns: a list for each kind of guests; those of one kind are
            interchangeable
        """
        # What the guests of a kind have in common -> their UUIDs. In common
        # are the needs, the server group, the ways by which Nova may move a
        # guest, such as live, and the NUMA cells of the host.
        kinds: dict[abc.Hashable, list[str]] = {}
        for uuid in self.fleet.list_guests(host):
            instance = self.fleet.instances[uuid]
            kind = (instance.needs, instance.group, instance.ways,
                    self.fleet.get_place(uuid).cells)
            kinds.setdefault(kind, []).append(uuid)
        return list(kinds.values())

    def can_leave(self, uuid: str) -> bool:
        """Return whether an instance can be shelved, or fits elsewhere."""
        ways = self.list_ways(uuid)
        return fleet_module.SHELVE in ways or bool(
            ways and self._fits_elsewhere(uuid))

    def _fits_elsewhere(self, uuid: str) -> bool:
        """Return whether another host has the resources for an instance."""
        source = self.fleet.get_place(uuid).host
        destinations = self.find_destinations(self.fleet.instances[uuid])
        return any(host != source for host in destinations)

    def move_away(self, uuid: str, preference: str) -> bool:
        """Move an instance to the preferred host, or shelve it.

        Take the best allowed way to move it that is possible, such as live.

        :param preference: which host to prefer, one of PREFERENCES
        :returns: False if the instance can neither be moved nor shelved
        """
        for way in self.list_ways(uuid):
            destination = None
            # To shelve an instance needs no host. All other ways have the same
            # choice of hosts: if one way has none, only shelve is left.
            if way != fleet_module.SHELVE:
                destination = self._choose(uuid, preference)
                if destination is None:
                    continue
            self.fleet.move(uuid, way, destination)
            return True
        return False

    def _choose(self, uuid: str, preference: str) -> str | None:
        """Return the preferred destination of an instance, or None.

        :param preference: which host to prefer, one of PREFERENCES
        """
        fleet, instance = self.fleet, self.fleet.instances[uuid]
        source = fleet.get_place(uuid).host
        # The policy of the server group of the instance, or None.
        policy = fleet.get_policy(instance)
        # 1 prefers a host with much room, -1 one with little, 0 the first one.
        room_factor = PREFERENCES[preference]
        # 1 for soft affinity, -1 for soft anti-affinity, otherwise 0.
        member_factor = 0
        if policy and preference != FIRST:
            member_factor = _MEMBER_FACTORS.get(policy, 0)
        # The host is the last value of each tuple.
        weights = []
        for host, room in self.find_destinations(instance).items():
            is_forbidden = (bool(policy) and
                            fleet.count_allowed(instance, host) == 0)
            if host == source or is_forbidden:
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
        """Move instances away; return the UUIDs of those that cannot be moved.

        :param uuids: in the order in which they are tried
        :param preference: which host to prefer, one of PREFERENCES
        """
        left = list(uuids)
        while True:
            # move_away() moves the instance, if that is possible.
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
