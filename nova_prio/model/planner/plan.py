# SPDX-License-Identifier: Apache-2.0

"""Plan moves: drain hosts, make room for instances, or survive a loss.

A plan is a list of moves that run one after the other. Each move is feasible
at its turn: the destination has the rows, the memory, the disk and the NUMA
cells, is in the aggregates, and has the members that the server group allows.
The order of preference is:

#. fewest moves
#. live before cold before shelve
#. low priority before ordinary before high priority

To shelve an instance is one move, so it is preferred to two live migrations.
If that is not wanted, call a function first with fewer ``ways``.

Optimal packing is NP-hard, so plans are greedy with repair: they may have too
many moves, or miss a solution. A drain tries three rules to choose
destinations. If an instance fits nowhere, the planner moves guests of one open
host away, which must fit elsewhere at once: one guest, then two, then any
number. It does not search longer chains. A plan never has more moves than if
each instance went to the first host that fits, or, for room, than if the first
host that can be emptied far enough were emptied guest by guest. The latter
holds up to 300 such hosts.

:mod:`host_fit` lists the resources that are not considered.
"""

from __future__ import annotations

from collections import abc
import dataclasses
import typing

from nova_prio.model import capacity
from nova_prio.model.planner import arrange
from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import greedy
from nova_prio.model.planner import host_fit
from nova_prio.model.planner import room
from nova_prio.model.planner import search


class Miss(typing.NamedTuple):
    """An instance for which there is no move, and the closest miss.

    ``host`` is the host with the smallest shortage, and ``obstacles`` are its
    reasons. ``host`` is None if the instance may not be moved, or if no host
    is open; ``reason`` is a clause for both cases.
    """

    instance: fleet_module.Instance
    reason: str
    host: str | None = None
    obstacles: tuple[host_fit.Obstacle, ...] = ()


class Plan(typing.NamedTuple):
    """An ordered list of moves, and what it does not achieve.

    If there are no ``misses``, the plan reaches the goal. ``hosts`` are the
    hosts that the wanted instances fit on after the moves.

    Moves to the same destination, and of the same server group, must run in
    this order. A move must wait for the earlier moves that leave its
    destination. Other moves may run at the same time.
    """

    moves: tuple[fleet_module.Move, ...]
    misses: tuple[Miss, ...] = ()
    hosts: tuple[str, ...] = ()


class Addition(typing.NamedTuple):
    """Resources that one more host would need."""

    rows: capacity.Rows
    memory_mb: int
    disk_gb: int

    def __str__(self) -> str:
        """Return the amounts that are not zero as a text."""
        return ', '.join(
            '%d %s' % (amount, unit) for amount, unit in (
                *zip(self.rows, ('high vCPUs', 'low vCPUs', 'ordinary vCPUs')),
                (self.memory_mb, 'MB of memory'),
                (self.disk_gb, 'GB of disk')) if amount)


def plan_drain(fleet: fleet_module.Fleet, hosts: abc.Collection[str],
               ways: abc.Collection[str] = fleet_module.WAYS) -> Plan:
    """Return the moves after which hosts have no instances.

    :param fleet: without moves; it is the same after the call
    :param hosts: names of the hosts, which take no instances
    :param ways: the allowed ways
    :raises ValueError: if a host or a way is unknown
    """
    return _empty(fleet, hosts, ways)


def plan_loss(fleet: fleet_module.Fleet, host: str) -> Plan:
    """Return the evacuations after the loss of a host.

    No other instances are moved.

    :raises ValueError: if the host is unknown
    """
    return _empty(fleet, [host], (fleet_module.EVACUATE,))


def calculate_addition(misses: abc.Iterable[Miss]) -> Addition:
    """Return the resources of one more host that takes all missed instances.

    It is the sum of their needs, so it is exact for the given misses. Another
    plan might leave smaller instances.
    """
    needs = [miss.instance.needs for miss in misses]
    rows = [each.request.needed_rows for each in needs]
    return Addition(
        capacity.Rows(*map(sum, zip(*rows))) if rows
        else capacity.Rows(0, 0, 0),
        sum(each.request.memory_mb for each in needs),
        sum(each.disk_gb for each in needs))


def plan_room(fleet: fleet_module.Fleet, wanted: fleet_module.Instance,
              number: int,
              ways: abc.Collection[str] = fleet_module.WAYS) -> Plan:
    """Return the moves after which equal new instances fit.

    Moves make no difference to the high row if only low-priority instances may
    move: they use no dedicated CPUs.

    :param fleet: without moves; it is the same after the call
    :param wanted: one of the instances, which is not in the fleet. To use an
        aggregate only, name it in the needs.
    :param number: how many instances must fit, 1 or more
    :param ways: the allowed ways
    :raises ValueError: if the wanted instance is in the fleet, or if an
        argument is not allowed
    """
    if number < 1:
        raise ValueError('The number of wanted instances is %d; allowed are 1 '
                         'and more.' % number)
    if wanted.uuid in fleet.instances or wanted.host is not None:
        raise ValueError(
            'The wanted instance %s is on a host; allowed is a new instance.'
            % wanted.uuid)
    fleet.add(wanted)
    of_search = search.Search(fleet, ways)
    of_room = room.Room(of_search, wanted, number)

    def is_reached() -> bool:
        """Return whether all wanted instances fit now."""
        return of_room.count() == number

    try:
        moves: list[fleet_module.Move] = []
        if not is_reached():
            moves = greedy.make_room(of_search, of_room)
        arrange.replay(fleet, arrange.arrange(fleet, moves, is_reached))
        hosts = of_room.list_hosts()
        misses = () if len(hosts) == number else (
            _describe_next(of_search, wanted, hosts),)
        return Plan(tuple(fleet.log), misses, tuple(hosts))
    finally:
        fleet.rollback(0)
        fleet.remove(wanted.uuid)


def _describe_next(of_search: search.Search, wanted: fleet_module.Instance,
                   hosts: list[str]) -> Miss:
    """Return the closest miss of one more wanted instance.

    :param hosts: those of the other wanted instances
    """
    fleet = of_search.fleet
    added = []
    for number, host in enumerate(hosts):
        # No UUID has a space.
        uuid = '%s %d' % (wanted.uuid, number)
        fleet.add(dataclasses.replace(wanted, uuid=uuid))
        place = fleet.find_place(wanted, host)
        assert place is not None
        fleet.put(uuid, place)
        added.append(uuid)
    miss = _describe_miss(of_search, wanted)
    for uuid in added:
        fleet.remove(uuid)
    return miss


def _empty(fleet: fleet_module.Fleet, hosts: abc.Collection[str],
           ways: abc.Collection[str]) -> Plan:
    """Return the plan that empties hosts."""
    for name in hosts:
        if name not in fleet.hosts:
            raise ValueError("Host '%s' is not in the fleet; allowed are its "
                             '%d hosts.' % (name, len(fleet.hosts)))
    of_search = search.Search(fleet, ways, frozenset(hosts))
    uuids = [uuid for name in hosts for uuid in fleet.list_guests(name)]
    is_loss = fleet_module.EVACUATE in ways
    bound = search.calculate_cost(
        (each[0] if (each := of_search.list_ways(uuid)) else '',
         of_search.get_class(uuid)) for uuid in uuids)
    try:
        moves = greedy.move_all(of_search, uuids, bound,
                                can_displace=not is_loss)
        arrange.replay(fleet, arrange.arrange(fleet, moves))
        left = [uuid for name in hosts for uuid in fleet.list_guests(name)]
        return Plan(tuple(fleet.log), tuple(
            _describe_miss(of_search, fleet.instances[uuid])
            for uuid in left))
    finally:
        fleet.rollback(0)


def _describe_miss(of_search: search.Search,
                   instance: fleet_module.Instance) -> Miss:
    """Return the closest miss of an instance in the present state."""
    fleet = of_search.fleet
    if (fleet.get_place(instance.uuid).host and
            not of_search.list_ways(instance.uuid)):
        return Miss(instance, 'no allowed way to move the instance')
    answers = [(fleet.find_obstacles(instance, host), host)
               for host in of_search.open_hosts]
    if not answers:
        return Miss(instance, 'no other hosts')

    def measure(answer: tuple[tuple[host_fit.Obstacle, ...], str],
                ) -> tuple[typing.Any, ...]:
        """Return a key by which the closest host is the smallest."""
        obstacles, host = answer
        missing = {each.resource: each.missing for each in obstacles
                   if each.resource}
        memory, disk = missing.pop('MEMORY_MB', 0), missing.pop('DISK_GB', 0)
        return (sum(each.resource is None for each in obstacles),
                sum(missing.values()), memory, disk, host)

    obstacles, host = min(answers, key=measure)
    return Miss(instance, '; '.join(each.text for each in obstacles), host,
                obstacles)
