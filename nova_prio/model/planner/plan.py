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

import collections
from collections import abc
import dataclasses
import typing

from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages
from nova_prio.model.planner import arrange
from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import fleet_room
from nova_prio.model.planner import greedy
from nova_prio.model.planner import host_fit
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
    obstacles: tuple[host_fit.HostObstacle, ...] = ()


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

    rows: cpu_capacity.Rows
    memory_mb: int
    disk_gb: int

    def __str__(self) -> str:
        """Return the amounts that are not zero as a text."""
        amounts = {'high vCPUs': self.rows.high, 'low vCPUs': self.rows.low,
                   'ordinary vCPUs': self.rows.ordinary,
                   'MB of memory': self.memory_mb, 'GB of disk': self.disk_gb}
        return ', '.join('%d %s' % (amount, unit)
                         for unit, amount in amounts.items() if amount)


def plan_drain(fleet: fleet_module.Fleet, hosts: abc.Collection[str],
               ways: abc.Collection[str] = fleet_module.WAYS) -> Plan:
    """Return the moves after which hosts have no instances.

    :param fleet: the state of all hosts before the first move; it is the same
        after the call
    :param hosts: names of the hosts to empty, which take no instances
    :param ways: the allowed ways to move instances, such as live and cold
    :returns: the Plan, whose ``misses`` are the instances that stay
    """
    # ``of_search`` moves instances, to hosts that are not closed.
    of_search = search.Search(fleet, ways, closed=frozenset(hosts))
    uuids = _list_guests(fleet, hosts)
    # Other instances may move to make room. After a loss, only the guests of
    # the lost host are moved.
    can_displace = fleet_module.EVACUATE not in ways
    try:
        # Find the moves. The fleet is then as before, without the moves.
        moves = greedy.move_all(of_search, uuids, can_displace)
        # Make them in the preferred order: live before cold before shelve,
        # then low priority before ordinary before high priority.
        arrange.replay(fleet, arrange.arrange(fleet, moves))
        # The instances that are still on the hosts.
        misses = tuple(_describe_miss(of_search, fleet.instances[uuid])
                       for uuid in _list_guests(fleet, hosts))
        return Plan(tuple(fleet.log), misses)
    finally:
        fleet.rollback(0)


def plan_loss(fleet: fleet_module.Fleet, host: str) -> Plan:
    """Return the evacuations after the loss of a host.

    No other instances are moved.
    """
    return plan_drain(fleet, [host], [fleet_module.EVACUATE])


def _list_guests(fleet: fleet_module.Fleet,
                 hosts: abc.Iterable[str]) -> list[str]:
    """Return the UUIDs of the instances on hosts."""
    uuids: list[str] = []
    for host in hosts:
        uuids += fleet.list_guests(host)
    return uuids


def calculate_addition(misses: abc.Iterable[Miss]) -> Addition:
    """Return what one more host needs to take all instances without a move.

    It is the sum of their needs, so it is exact for the given misses. Another
    plan might leave smaller instances without a move.

    :param misses: one for each instance for which there is no move
    """
    # The vCPUs by kind: high are the pinned ones, low all shared ones, and
    # ordinary, which are also among low, those without low priority.
    rows = cpu_capacity.Rows(high=0, low=0, ordinary=0)
    memory_mb = disk_gb = 0
    for miss in misses:
        needs = miss.instance.needs
        rows = cpu_capacity.add_rows(rows, needs.request.needed_rows, times=1)
        memory_mb += needs.request.memory_mb
        disk_gb += needs.disk_gb
    return Addition(rows=rows, memory_mb=memory_mb, disk_gb=disk_gb)


def plan_room(fleet: fleet_module.Fleet, wanted: fleet_module.Instance,
              number: int,
              ways: abc.Collection[str] = fleet_module.WAYS) -> Plan:
    """Return the moves after which equal new instances fit.

    Low-priority instances use no dedicated CPUs: if only they may move, no
    more pinned instances will fit.

    :param fleet: the state of all hosts before the first move; it is the same
        after the call
    :param wanted: one of the instances, which is not in the fleet and on no
        host. Its needs may name the aggregate whose hosts it must use.
    :param number: how many instances must fit, 1 or more
    :param ways: the allowed ways to move instances, such as live and cold
    """
    fleet.add(wanted)
    # ``of_search`` moves instances. ``of_room`` decides with it which guests
    # to move away, so that the wanted instances fit.
    of_search = search.Search(fleet, ways)
    of_room = fleet_room.Room(of_search, wanted, number=number)
    try:
        moves: list[fleet_module.Move] = []
        if not of_room.is_sufficient():
            moves = greedy.make_room(of_search, of_room)
        # Until here, the moves are found, but the fleet is as before. Make the
        # moves in the preferred order, live before cold before shelve, if the
        # instances then fit.
        ordered = arrange.arrange(
            fleet, moves, is_reached=of_room.is_sufficient)
        arrange.replay(fleet, ordered)
        hosts = of_room.list_hosts()
        misses: tuple[Miss, ...] = ()
        if len(hosts) < number:
            misses = (_describe_next(of_search, wanted, hosts),)
        return Plan(moves=tuple(fleet.log), misses=misses, hosts=tuple(hosts))
    finally:
        fleet.rollback(0)
        fleet.remove(wanted.uuid)


def _describe_next(of_search: search.Search, wanted: fleet_module.Instance,
                   hosts: list[str]) -> Miss:
    """Return why one more wanted instance does not fit.

    The Miss names the host with the smallest shortage. To find it, put the
    other wanted instances on their hosts, and remove them again.

    :param wanted: one of the wanted instances, which are equal
    :param hosts: the hosts on which the others fit, one for each
    """
    fleet = of_search.fleet
    # Make up UUIDs for the others. They differ from all UUIDs of instances,
    # which contain no space.
    uuids = ['%s %d' % (wanted.uuid, number) for number in range(len(hosts))]
    for uuid, host in zip(uuids, hosts):
        fleet.add(dataclasses.replace(wanted, uuid=uuid))
        place = fleet.find_place(wanted, host)
        assert place is not None
        fleet.put(uuid, place)
    miss = _describe_miss(of_search, wanted)
    for uuid in uuids:
        fleet.remove(uuid)
    return miss


def _describe_miss(of_search: search.Search,
                   instance: fleet_module.Instance) -> Miss:
    """Return why an instance has no move in the present state.

    The Miss names the host with the smallest shortage, if there is a host that
    takes instances.
    """
    fleet = of_search.fleet
    # A wanted instance is on no host yet, and needs no way to be moved.
    if (fleet.get_place(instance.uuid).host and
            not of_search.list_ways(instance.uuid)):
        return Miss(instance, 'no allowed way to move the instance')
    # (the shortage as a sortable key, name of the host, its obstacles)
    answers = []
    for name in of_search.open_hosts:
        found = fleet.find_obstacles(instance, name)
        answers.append((_measure_shortage(found), name, found))
    if not answers:
        return Miss(instance, 'no other hosts')
    _, host, obstacles = min(answers)
    reason = '; '.join(each.text for each in obstacles)
    return Miss(instance=instance, reason=reason, host=host,
                obstacles=obstacles)


def _measure_shortage(
        obstacles: abc.Iterable[host_fit.HostObstacle]) -> tuple[int, ...]:
    """Return a sortable key: it is smallest for the host closest to a fit.

    :param obstacles: the reasons why an instance does not fit on one host
    :returns: (number of obstacles that no move can remove, missing vCPUs of
        all kinds, missing MB of memory, missing GB of disk)
    """
    # Name of the resource -> missing amount.
    missing: collections.Counter[str] = collections.Counter()
    permanent = 0
    for each in obstacles:
        if each.resource is None:
            permanent += 1
        else:
            # A host has at most one obstacle for each resource.
            missing[each.resource] = each.missing
    memory_mb = (missing.pop('MEMORY_MB', 0) +
                 missing.pop(memory_pages.RESOURCE, 0))
    disk_gb = missing.pop('DISK_GB', 0)
    # All other resources are counted in vCPUs.
    missing_vcpus = missing.total()
    return permanent, missing_vcpus, memory_mb, disk_gb
