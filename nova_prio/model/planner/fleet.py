# SPDX-License-Identifier: Apache-2.0

"""The hosts and instances of a cloud, and moves between the hosts.

A Fleet is the state at one point of a plan. A move changes it, and a rollback
restores it.
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
#: Policies of server groups. The soft ones are only preferences.
POLICIES = AFFINITY, ANTI_AFFINITY, SOFT_AFFINITY, SOFT_ANTI_AFFINITY = (
    'affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')
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


class Fit(typing.NamedTuple):
    """The host cells that an instance would use, and the room of the host.

    ``room`` is the result of ``HostFit.measure_room``.
    """

    cells: tuple[int, ...]
    room: tuple[int, int]


class Fleet:
    """The state of all hosts.

    The usage of the hosts includes the instances, and may include more, such
    as in-flight moves. ``log`` has the moves since the beginning. ``changes``
    has the host of each change of a usage, rollbacks included.

    :param groups: name -> server group
    :raises ValueError: if an instance contradicts the hosts or the groups
    """

    def __init__(self, hosts: abc.Iterable[resources.Host],
                 instances: abc.Iterable[Instance],
                 groups: abc.Mapping[str, Group] | None = None) -> None:
        self.hosts = {host.name: host_fit.HostFit(host) for host in hosts}
        self.instances: dict[str, Instance] = {}
        self.groups = groups or {}
        self.log: list[Move] = []
        self.changes: list[str] = []
        self._old_places: list[Place] = []
        self._usages = {
            name: host.initial for name, host in self.hosts.items()}
        # Host -> number of a shape -> answer. A shape is a Needs.
        self._fits: dict[str, dict[int, Fit | None]] = {
            name: {} for name in self.hosts}
        self._shapes: dict[resources.Needs, int] = {}
        self._places: dict[str, Place] = {}
        self._guests: dict[str, set[str]] = {
            name: set() for name in self.hosts}
        # (name of a group, host) -> number of members.
        self._members: collections.Counter[
            tuple[str, str]] = collections.Counter()
        self._group_sizes: collections.Counter[str] = collections.Counter()
        self._shape_of: dict[str, int] = {}
        self._ranks: dict[str, tuple[int, int]] = {}
        for each in instances:
            self.add(each)

    def add(self, instance: Instance) -> None:
        """Add an instance. The usage of its host must include it."""
        self._check_instance(instance)
        uuid = instance.uuid
        self.instances[uuid] = instance
        self._shape_of[uuid] = self._shapes.setdefault(
            instance.needs, len(self._shapes))
        self._ranks[uuid] = (
            CLASSES.index(instance.needs.class_name), len(self._ranks))
        self._places[uuid] = Place(instance.host, instance.cells)
        self._enter(instance, instance.host)

    def remove(self, uuid: str) -> None:
        """Remove an instance; its host no longer has its usage."""
        self.put(uuid, Place(None, ()))
        del self.instances[uuid], self._shape_of[uuid]
        del self._ranks[uuid], self._places[uuid]

    def _check_instance(self, instance: Instance) -> None:
        """Raise ValueError if an instance contradicts hosts or groups."""
        name = 'Instance %s ' % instance.uuid
        if instance.host is not None:
            if instance.host not in self.hosts:
                raise ValueError(name + "is on host '%s'; allowed are the "
                                 'hosts of the fleet.' % instance.host)
            number = len(self.hosts[instance.host].host.cells)
            if (len(instance.cells) != len(instance.needs.cells) or
                    not set(instance.cells).issubset(range(number))):
                raise ValueError(
                    name + 'uses the host cells %s; allowed is one of %d host '
                    'cells for each of its %d guest cells.' % (
                        instance.cells, number, len(instance.needs.cells)))
        if unknown := instance.ways.difference(WAYS):
            raise ValueError(name + "has the way '%s'; allowed are %s." % (
                min(unknown), ', '.join(WAYS)))
        if instance.group is not None:
            if instance.group not in self.groups:
                raise ValueError(name + "is in server group '%s', which is "
                                 'not given.' % instance.group)
            policy = self.groups[instance.group].policy
            if policy not in POLICIES:
                raise ValueError(name + "has the policy '%s'; allowed are %s."
                                 % (policy, ', '.join(POLICIES)))

    def get_shape(self, instance: Instance) -> int:
        """Return a number that instances with equal needs share."""
        return self._shape_of[instance.uuid]

    def get_place(self, uuid: str) -> Place:
        """Return the present place of an instance."""
        return self._places[uuid]

    def get_usage(self, host: str) -> resources.Usage:
        """Return the present usage of a host."""
        return self._usages[host]

    def list_guests(self, host: str) -> list[str]:
        """Return the UUIDs on a host, in the order of CLASSES."""
        return sorted(self._guests[host], key=self._ranks.__getitem__)

    def get_rank(self, uuid: str) -> tuple[int, int]:
        """Return the position of an instance in the order of CLASSES."""
        return self._ranks[uuid]

    def count_members(self, instance: Instance, host: str) -> int:
        """Return how many members of its server group a host has."""
        return self._members[instance.group or '', host]

    def has_members(self, instance: Instance) -> bool:
        """Return whether a member of its server group is on a host."""
        return self._group_sizes[instance.group or ''] > 0

    def get_policy(self, instance: Instance) -> str | None:
        """Return the policy of the server group of an instance, or None."""
        return self.groups[instance.group].policy if instance.group else None

    def count_allowed(self, instance: Instance, host: str,
                      without: abc.Iterable[str] = ()) -> int | None:
        """Return how many members its group allows to add to another host.

        Affinity is as in Nova's filter: a member may use only the hosts with
        members. Therefore Nova never moves a member alone to a new host.

        :param without: UUIDs that do not count on this host
        :returns: None if there is no limit
        """
        policy = self.get_policy(instance)
        if policy == AFFINITY:
            is_allowed = (not self.has_members(instance) or
                          self.count_members(instance, host))
            return None if is_allowed else 0
        if policy == ANTI_AFFINITY:
            assert instance.group is not None
            members = self.count_members(instance, host) - sum(
                self.instances[uuid].group == instance.group
                for uuid in without)
            most = self.groups[instance.group].max_per_host
            return max(most - members, 0)
        return None

    def fit(self, instance: Instance, host: str) -> Fit | None:
        """Return how an instance fits on a host now, None if it does not.

        Server groups are not considered.
        """
        shape = self.get_shape(instance)
        of_host = self._fits[host]
        if shape not in of_host:
            needs, usage = instance.needs, self._usages[host]
            cells = self.hosts[host].choose_cells(needs, usage)
            of_host[shape] = None if cells is None else Fit(
                cells, self.hosts[host].measure_room(needs, usage))
        return of_host[shape]

    def find_obstacles(self, instance: Instance,
                       host: str) -> tuple[host_fit.Obstacle, ...]:
        """Return why an instance may not move to another host now."""
        obstacles = self.hosts[host].find_obstacles(
            instance.needs, self._usages[host])
        if self.count_allowed(instance, host) == 0:
            policy = self.get_policy(instance)
            obstacles.append(host_fit.Obstacle(
                'server group %s has the policy %s and %s on the host' % (
                    instance.group, policy,
                    'no member' if policy == AFFINITY else
                    '%d members' % self.count_members(instance, host))))
        return tuple(obstacles)

    def find_place(self, instance: Instance, host: str) -> Place | None:
        """Return the place of an instance on another host, None if none."""
        fit = self.fit(instance, host)
        if fit is None or self.count_allowed(instance, host) == 0:
            return None
        return Place(host, fit.cells)

    def move(self, uuid: str, way: str, destination: str | None) -> None:
        """Move an instance, which must fit on its destination."""
        old = self._places[uuid]
        place = (self.find_place(self.instances[uuid], destination)
                 if destination else Place(None, ()))
        assert old.host is not None and place is not None
        self.log.append(Move(uuid, way, old.host, destination))
        self._old_places.append(old)
        self.put(uuid, place)

    def rollback(self, length: int) -> None:
        """Undo the moves after the first ``length`` moves of the log."""
        while len(self.log) > length:
            self.put(self.log.pop().uuid, self._old_places.pop())

    def put(self, uuid: str, place: Place) -> None:
        """Change the place of an instance without a check and a log."""
        instance = self.instances[uuid]
        old = self._places[uuid]
        if old.host is not None:
            self._usages[old.host] = self._usages[old.host].add(
                instance.needs, old.cells, sign=-1)
        self._enter(instance, old.host, sign=-1)
        self._places[uuid] = place
        if place.host is not None:
            self._usages[place.host] = self._usages[place.host].add(
                instance.needs, place.cells)
        self._enter(instance, place.host)

    def _enter(self, instance: Instance, host: str | None,
               sign: int = 1) -> None:
        """Register an instance on a host, or with sign -1, the contrary."""
        if host is None:
            return
        self._fits[host].clear()
        self.changes.append(host)
        if sign > 0:
            self._guests[host].add(instance.uuid)
        else:
            self._guests[host].remove(instance.uuid)
        if instance.group is not None:
            self._members[instance.group, host] += sign
            self._group_sizes[instance.group] += sign
