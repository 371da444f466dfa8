# SPDX-License-Identifier: Apache-2.0

"""Move instances of a Fleet to greedily chosen destinations."""

from __future__ import annotations

from collections import abc

from nova_prio.model.planner import fleet as fleet_module

#: Which destination to prefer: that with the most room, as PriorityWeighter,
#: that with the least room, or the first one.
PREFERENCES = SPREAD, PACK, FIRST = 'spread', 'pack', 'first'
_ALL_WAYS = (*fleet_module.WAYS, fleet_module.EVACUATE)

Cost = tuple[int, ...]


def calculate_cost(moves: abc.Iterable[tuple[str, str]]) -> Cost:
    """Return the cost of moves: a smaller tuple is a better plan.

    Fewest moves come first, then live before cold before shelve, then low
    priority before ordinary before high priority.

    :param moves: (way, class) of each move
    """
    listed = list(moves)
    ways = [way for way, _ in listed]
    classes = [class_name for _, class_name in listed]
    return (len(listed), ways.count(fleet_module.SHELVE),
            ways.count(fleet_module.COLD), classes.count('high'),
            classes.count('ordinary'))


class Watch:
    """Find the hosts whose usage has changed.

    :param hosts: names of the hosts that matter
    """

    def __init__(self, fleet: fleet_module.Fleet,
                 hosts: abc.Collection[str]) -> None:
        self._fleet = fleet
        self._hosts = hosts
        self._position = -1

    def pop_changed(self) -> abc.Iterable[str]:
        """Return the hosts that have changed since the last call, or all."""
        position, changes = self._position, self._fleet.changes
        self._position = len(changes)
        if position == len(changes):
            return ()
        if position < 0:
            return list(self._hosts)
        return dict.fromkeys(
            host for host in changes[position:] if host in self._hosts)


class Search:
    """Moves of the instances of a fleet; they remain in the log of the fleet.

    :param ways: the allowed ways
    :param closed: hosts that take no instance
    :raises ValueError: if a way is unknown
    """

    def __init__(self, fleet: fleet_module.Fleet, ways: abc.Collection[str],
                 closed: abc.Container[str] = ()) -> None:
        self.fleet = fleet
        self.open_hosts = [
            name for name in fleet.hosts if name not in closed]
        if unknown := set(ways).difference(_ALL_WAYS):
            raise ValueError("The way is '%s'; allowed are %s." % (
                min(unknown), ', '.join(fleet_module.WAYS)))
        self._ways = [way for way in _ALL_WAYS if way in ways]
        self._positions = {
            name: number for number, name in enumerate(self.open_hosts)}
        # Number of a shape -> open hosts that fit.
        self._destinations: dict[int, tuple[
            Watch, dict[str, fleet_module.Fit]]] = {}
        # Host -> kind -> UUIDs of the guests.
        self._kinds: dict[str, dict[abc.Hashable, list[str]]] = {}
        self._kinds_watch = self.watch()
        # (number of a shape, ways) -> whether such an instance can leave, at
        # this number of changes.
        self._leaving: dict[tuple[int, frozenset[str]], bool] = {}
        self._leaving_at = -1

    def calculate_cost(self, moves: abc.Iterable[fleet_module.Move]) -> Cost:
        """Return the cost of moves, as of :func:`calculate_cost`."""
        return calculate_cost(
            (move.way, self.get_class(move.uuid)) for move in moves)

    def get_class(self, uuid: str) -> str:
        """Return the class of an instance."""
        return self.fleet.instances[uuid].needs.class_name

    def list_ways(self, uuid: str) -> list[str]:
        """Return the ways by which an instance may move, the best first."""
        ways = self.fleet.instances[uuid].ways
        return [way for way in self._ways
                if way in ways or way == fleet_module.EVACUATE]

    def list_movable(self) -> list[str]:
        """Return the instances that may move from their host."""
        return [uuid for uuid in self.fleet.instances
                if self.list_ways(uuid) and self.fleet.get_place(uuid).host]

    def watch(self) -> Watch:
        """Return a Watch of the open hosts."""
        return Watch(self.fleet, self._positions)

    def find_destinations(self, instance: fleet_module.Instance,
                          ) -> dict[str, fleet_module.Fit]:
        """Return the open hosts with the resources for an instance now.

        Server groups are not considered. The order of the hosts is arbitrary.
        """
        shape = self.fleet.get_shape(instance)
        if shape not in self._destinations:
            self._destinations[shape] = self.watch(), {}
        watch, found = self._destinations[shape]
        for host in watch.pop_changed():
            fit = self.fleet.fit(instance, host)
            if fit is None:
                found.pop(host, None)
            else:
                found[host] = fit
        return found

    def expect_way(self, uuid: str) -> str:
        """Return the way by which an instance would move now."""
        ways = self.list_ways(uuid)
        instance = self.fleet.instances[uuid]
        return ways[0] if self.find_destinations(instance) else ways[-1]

    def group_movable(self, host: str) -> dict[abc.Hashable, list[str]]:
        """Return the guests of a host that can leave now: kind -> UUIDs.

        Guests of one kind are interchangeable.
        """
        for changed in self._kinds_watch.pop_changed():
            self._kinds.pop(changed, None)
        if host not in self._kinds:
            kinds = self._kinds[host] = {}
            for uuid in self.fleet.list_guests(host):
                instance = self.fleet.instances[uuid]
                kind = (self.fleet.get_shape(instance), instance.group,
                        instance.ways, self.fleet.get_place(uuid).cells)
                kinds.setdefault(kind, []).append(uuid)
        return {kind: uuids for kind, uuids in self._kinds[host].items()
                if self._can_leave(uuids[0])}

    def _can_leave(self, uuid: str) -> bool:
        """Return whether an instance can be shelved, or fits on a host."""
        if self._leaving_at != len(self.fleet.changes):
            self._leaving_at = len(self.fleet.changes)
            self._leaving = {}
        instance = self.fleet.instances[uuid]
        key = self.fleet.get_shape(instance), instance.ways
        if key not in self._leaving:
            ways = self.list_ways(uuid)
            self._leaving[key] = bool(ways) and (
                fleet_module.SHELVE in ways or
                bool(self.find_destinations(instance)))
        return self._leaving[key]

    def move_away(self, uuid: str, preference: str) -> bool:
        """Move an instance to the preferred host, or shelve it.

        :returns: False if the instance can neither be moved nor shelved
        """
        ways = self.list_ways(uuid)
        if not ways:
            return False
        if ways[0] != fleet_module.SHELVE:
            destination = self._choose(uuid, preference)
            if destination is not None:
                self.fleet.move(uuid, ways[0], destination)
                return True
        if fleet_module.SHELVE in ways:
            self.fleet.move(uuid, fleet_module.SHELVE, None)
            return True
        return False

    def _choose(self, uuid: str, preference: str) -> str | None:
        """Return the preferred destination of an instance, or None."""
        fleet, instance = self.fleet, self.fleet.instances[uuid]
        source, policy = fleet.get_place(uuid).host, fleet.get_policy(instance)
        fitting = [(host, fit.room) for host, fit
                   in self.find_destinations(instance).items()
                   if host != source and (
                       policy is None or
                       fleet.count_allowed(instance, host) != 0)]
        # Prefer the first one of equal hosts.
        if preference == FIRST:
            weights = ((-self._positions[host], host) for host, _ in fitting)
            return max(weights, default=(0, None))[-1]
        members = {fleet_module.SOFT_AFFINITY: 1,
                   fleet_module.SOFT_ANTI_AFFINITY: -1}.get(policy or '', 0)
        sign = 1 if preference == SPREAD else -1
        best = max(((
            members and members * fleet.count_members(instance, host),
            sign * vcpus, sign * memory_mb, -self._positions[host], host)
            for host, (vcpus, memory_mb) in fitting), default=None)
        return best[-1] if best else None

    def move_all(self, uuids: abc.Iterable[str],
                 preference: str) -> list[str]:
        """Move instances away; return those that cannot be moved.

        :param uuids: in the order in which they are tried
        """
        left = list(uuids)
        while True:
            remaining = [uuid for uuid in left
                         if not self.move_away(uuid, preference)]
            # A move may allow another one by the policy of a server group.
            if len(remaining) in (0, len(left)):
                return remaining
            left = remaining

    def get_size(self, uuid: str) -> tuple[int, int]:
        """Return the vCPUs and the memory of an instance."""
        request = self.fleet.instances[uuid].needs.request
        return request.vcpus, request.memory_mb
