# SPDX-License-Identifier: Apache-2.0

"""The hosts and instances of a cloud, and moves between the hosts.

A Fleet is the state at one point of a plan. A move changes it, and a rollback
restores it. The way of a move is how Nova moves the instance, such as live.
"""

from __future__ import annotations

import collections
from collections import abc
import dataclasses
import typing

from nova_prio.model import flavor_cpus
from nova_prio.model.planner import host_fit
from nova_prio.model.planner import resources

#: Ways to move an instance, the least harmful first.
WAYS = LIVE, COLD, SHELVE = 'live', 'cold', 'shelve'
#: Way of an instance whose host is lost. It needs no permission.
EVACUATE = 'evacuate'
ALL_WAYS = (LIVE, COLD, SHELVE, EVACUATE)
#: Policies of server groups. The soft ones are only preferences.
AFFINITY, ANTI_AFFINITY = 'affinity', 'anti-affinity'
SOFT_AFFINITY, SOFT_ANTI_AFFINITY = 'soft-affinity', 'soft-anti-affinity'
#: Classes of instances, in the order in which they are moved.
CLASSES = ('low', flavor_cpus.ORDINARY, 'high')


class Group(typing.NamedTuple):
    """A server group; ``max_per_host`` is the rule of anti-affinity."""

    policy: str
    max_per_host: int = 1


@dataclasses.dataclass(frozen=True)
class Instance:
    """An instance.

    ``host`` is None if it is on no host, such as a wanted instance. ``ways``
    are the ways by which it may be moved; an instance without ways is never
    moved. ``cells`` are the indexes of the host cells that its guest cells
    use.
    """

    uuid: str
    needs: resources.Needs
    host: str | None = None
    ways: frozenset[str] = frozenset()
    group: str | None = None
    cells: tuple[int, ...] = ()


class Move(typing.NamedTuple):
    """A move of an instance; ``destination`` is None if it is shelved."""

    uuid: str
    way: str
    source: str
    destination: str | None


class Place(typing.NamedTuple):
    """The host of an instance, or None, and the used cells of the host."""

    host: str | None
    cells: tuple[int, ...]


#: The Place of an instance that is on no host.
NOWHERE = Place(None, ())


class Fleet:
    """The state of all hosts.

    The usage of the hosts includes the instances, and may include more, such
    as in-flight moves. Each instance must be on a host of the fleet, or on
    none, and its server group must be one of ``groups``.

    ``hosts`` is name -> HostFit at this point of the plan. ``log`` has the
    moves since the beginning. ``changes`` has each host, and then the host of
    each change of a usage, rollbacks included.

    :param groups: dict, name -> server group; None if there is none
    """

    def __init__(self, hosts: abc.Iterable[resources.Host],
                 instances: abc.Iterable[Instance],
                 groups: abc.Mapping[str, Group] | None = None) -> None:
        self.hosts = {
            host.name: host_fit.HostFit.from_host(host) for host in hosts}
        self.instances: dict[str, Instance] = {}
        self.groups = groups or {}
        self.log: list[Move] = []
        # Each host counts as changed at first: a reader of the changes that
        # has considered none must calculate all hosts.
        self.changes = list(self.hosts)
        # The place of the instance before each move of the log.
        self._old_places: list[Place] = []
        # UUID -> present place.
        self._places: dict[str, Place] = {}
        # Name of a host -> UUIDs.
        self._guests: dict[str, set[str]] = {
            name: set() for name in self.hosts}
        # Name of a server group -> host -> number of members. The key None is
        # for the instances without a server group; nobody reads it.
        self._members: dict[str | None, collections.Counter[str]] = (
            collections.defaultdict(collections.Counter))
        # UUID -> (position in CLASSES, number of the instance), to sort by.
        self._ranks: dict[str, tuple[int, int]] = {}
        for each in instances:
            self.add(each)

    def add(self, instance: Instance) -> None:
        """Add an instance, whose usage the host has already."""
        uuid = instance.uuid
        self.instances[uuid] = instance
        # Instances are moved in the order of their class, then as added.
        self._ranks[uuid] = (
            CLASSES.index(instance.needs.class_name), len(self._ranks))
        self._places[uuid] = Place(instance.host, instance.cells)
        if instance.host is not None:
            # Note it as a guest of its host, and a member of its server group.
            self._note_guest(instance, instance.host, sign=1)

    def remove(self, uuid: str) -> None:
        """Remove an instance; its host no longer has its usage."""
        self.put(uuid, NOWHERE)
        del self.instances[uuid], self._ranks[uuid], self._places[uuid]

    def get_place(self, uuid: str) -> Place:
        """Return the present place of an instance."""
        return self._places[uuid]

    def get_usage(self, host: str) -> host_fit.HostFit:
        """Return a host with its present usage."""
        return self.hosts[host]

    def list_guests(self, host: str) -> list[str]:
        """Return the UUIDs on a host, in the order of CLASSES."""
        return sorted(self._guests[host], key=self._ranks.__getitem__)

    def count_members(self, instance: Instance, host: str) -> int:
        """Return how many members of its server group a host has.

        The instance must have a server group.
        """
        return self._members[instance.group][host]

    def has_members(self, instance: Instance) -> bool:
        """Return whether a member of its server group is on a host."""
        return any(self._members[instance.group].values())

    def get_policy(self, instance: Instance) -> str | None:
        """Return the policy of the server group of an instance, or None."""
        return self.groups[instance.group].policy if instance.group else None

    def count_allowed(self, instance: Instance, host: str,
                      without: abc.Iterable[str] = ()) -> int | None:
        """Return how many instances like one may be added to another host.

        The policy of the server group of the instance decides. Affinity is as
        in Nova's filter: a member may use only the hosts with members.
        Therefore Nova never moves a member alone to a new host.

        :param host: name of the other host
        :param without: UUIDs of guests of this host that are not counted, as
            if they had left
        :returns: None if there is no limit
        """
        if instance.group is None:
            return None
        group = self.groups[instance.group]
        members = self.count_members(instance, host)
        if (group.policy == AFFINITY and not members and
                self.has_members(instance)):
            # All members are on other hosts.
            return 0
        if group.policy != ANTI_AFFINITY:
            return None
        for uuid in without:
            if self.instances[uuid].group == instance.group:
                members -= 1
        return max(group.max_per_host - members, 0)

    def find_obstacles(self, instance: Instance,
                       host: str) -> tuple[host_fit.HostObstacle, ...]:
        """Return why an instance may not move to another host now.

        :returns: empty if it may
        """
        obstacles = self.hosts[host].find_obstacles(instance.needs)
        if self.count_allowed(instance, host) == 0:
            policy = self.get_policy(instance)
            obstacles.append(host_fit.HostObstacle(
                'server group %s has the policy %s; its members on the host: '
                '%d' % (instance.group, policy,
                        self.count_members(instance, host))))
        return tuple(obstacles)

    def find_place(self, instance: Instance, host: str) -> Place | None:
        """Return the place of an instance on another host, None if none."""
        cells = self.hosts[host].choose_cells(instance.needs)
        if cells is None or self.count_allowed(instance, host) == 0:
            return None
        return Place(host, cells)

    def move(self, uuid: str, way: str, destination: str | None) -> None:
        """Move an instance, which must fit on its destination.

        :param way: how Nova moves it, such as live
        :param destination: name of a host, or None to shelve the instance
        """
        old = self._places[uuid]
        place: Place | None = NOWHERE
        if destination:
            place = self.find_place(self.instances[uuid], destination)
        assert old.host is not None and place is not None
        self.log.append(Move(uuid=uuid, way=way, source=old.host,
                             destination=destination))
        self._old_places.append(old)
        self.put(uuid, place)

    def rollback(self, length: int) -> None:
        """Undo the moves after the first ``length`` moves of the log."""
        while len(self.log) > length:
            self.put(self.log.pop().uuid, self._old_places.pop())

    def put(self, uuid: str, place: Place) -> None:
        """Change the place of an instance without a check and a log.

        :param place: host and NUMA cells; the host may be None
        """
        instance = self.instances[uuid]
        # Take the usage from the present host, and add it to the new one. Then
        # note that the instance has left, or is, among the guests of the host.
        for at, sign in ((self._places[uuid], -1), (place, 1)):
            if at.host is not None:
                self.hosts[at.host] = self.hosts[at.host].add(
                    instance.needs, at.cells, sign)
                self._note_guest(instance, at.host, sign)
        self._places[uuid] = place

    def _note_guest(self, instance: Instance, host: str, sign: int) -> None:
        """Note that an instance has arrived on a host, or has left it.

        This keeps the guests of the host and the members of the server group
        there.

        :param sign: 1; or -1 if the instance leaves the host
        """
        # What the planner has calculated for this host is now out of date
        # (search.Search.find_changed).
        self.changes.append(host)
        if sign > 0:
            self._guests[host].add(instance.uuid)
        else:
            self._guests[host].remove(instance.uuid)
        self._members[instance.group][host] += sign
