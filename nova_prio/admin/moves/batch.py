# SPDX-License-Identifier: Apache-2.0

"""Choose the next hosts of an aggregate for maintenance.

The high-priority guests of any host may have to be evacuated during the
maintenance, so the hosts that stay enabled must keep room for them.
"""

from __future__ import annotations

from collections import abc
import dataclasses
import typing

from nova_prio.model import aggregate_metadata
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan as planner

if typing.TYPE_CHECKING:
    from nova_prio.admin.moves import drain as drain_module


def choose_batch(drain: drain_module.Drain, aggregate: str,
                 done: abc.Container[str], begun: abc.Container[str],
                 number: int) -> str:
    """Select the next hosts of an aggregate that can be drained at once.

    Prefer the hosts whose drain has begun, then those with the fewest guests.
    Take fewer hosts, or none, if an instance of them would fit on no host, or
    if the hosts that stay enabled would have no room for the high-priority
    guests of one of them that fails. A single host may have an instance that
    fits on no host: its drain tells the operator what to do.

    :param drain: after its ``refresh``; this sets its ``hosts``, also to none
    :param done: names of the hosts that were drained before
    :param begun: names of the hosts whose drain has begun
    :param number: maximum number of hosts
    :returns: why the hosts are fewer than wanted, a sentence, or ''
    """
    # The hosts with their instances, in the form of the planner.
    fleet = drain.cloud.make_fleet()
    members = drain.cloud.list_members(aggregate)
    waiting = sorted(
        (name for name in members if name not in done),
        key=lambda name: (name not in begun, len(fleet.list_guests(name))))
    # Why the first and largest number of hosts is too large.
    problem = ''
    for size in range(min(number, len(waiting)), 0, -1):
        drain.select(waiting[:size])
        # A sentence, or '' if the hosts that stay enabled have enough room.
        missing = find_missing_room(drain, members)
        # A miss is an instance without a move in the plan. Leave out those
        # that may not be moved in any way: fewer hosts do not help them.
        misfits = [miss.instance.uuid for miss in drain.plan.misses
                   if miss.instance.ways]
        if not missing and (size == 1 or not misfits):
            return problem
        if not problem:
            problem = missing
            if not missing:
                problem = 'Instance %s would fit on no host.' % (
                    drain.cloud.format_instance(misfits[0]))
    drain.select([])
    return problem


def find_missing_room(drain: drain_module.Drain,
                      members: abc.Collection[str]) -> str:
    """Return what the enabled hosts would lack after a drain.

    After the moves, the high-priority guests of the largest enabled host must
    fit on the other enabled hosts, if it fails. The largest host is the one
    whose high-priority guests have the most pinned vCPUs.

    :param members: names of the hosts of which the largest one is taken
    :returns: a sentence, or '' if the guests fit
    """
    # The hosts as they are during the drain.
    hosts = []
    for host in drain.cloud.hosts:
        if host.name in drain.hosts:
            host = dataclasses.replace(host, is_enabled=False)
        hosts.append(host)
    fleet = drain.cloud._replace(hosts=tuple(hosts)).make_fleet()
    for move in drain.plan.moves:
        place: planner_fleet.Place | None = planner_fleet.NOWHERE
        if move.destination:
            place = fleet.find_place(
                fleet.instances[move.uuid], move.destination)
        # Each move of a plan is feasible after those before it.
        assert place is not None
        # plan_loss undoes all moves that fleet.move() has logged. put() logs
        # none, so that the instance stays there.
        fleet.put(move.uuid, place)
    # Name of an enabled host -> pinned vCPUs of its high-priority guests.
    sizes = {name: _count_pinned(fleet, name) for name in members
             if fleet.hosts[name].host.is_enabled}
    if not sizes:
        if len(members) > 1:
            return 'No other host of the aggregate would stay enabled.'
        return ''
    largest = max(sizes, key=sizes.__getitem__)
    # Only its high-priority guests have to be evacuated.
    for uuid in fleet.list_guests(largest):
        if fleet.instances[uuid].needs.class_name != cpu_capacity.HIGH:
            fleet.remove(uuid)
    # A miss is a guest that fits on no other host.
    misses = planner.plan_loss(fleet, largest).misses
    if not misses:
        return ''
    return (
        'If host %s failed meanwhile, %d of the high-priority guests that it '
        'would have then would not fit on the other enabled hosts: one more '
        'host would need %s.' % (
            largest, len(misses), planner.calculate_addition(misses)))


def _count_pinned(fleet: planner_fleet.Fleet, host: str) -> int:
    """Return the pinned vCPUs of the high-priority guests of a host."""
    number = 0
    for uuid in fleet.list_guests(host):
        needs = fleet.instances[uuid].needs
        if needs.class_name == cpu_capacity.HIGH:
            # The high row is the number of pinned vCPUs. With the mixed CPU
            # policy, the guest has others too.
            number += needs.request.needed_rows.high
    return number


def list_warnings(drain: drain_module.Drain) -> abc.Iterator[str]:
    """Yield a sentence for each aggregate that would lack room after a drain.

    :func:`find_missing_room` says what room. The aggregates are those of the
    drained hosts that allow priorities.
    """
    names = set()
    for host in drain.cloud.hosts:
        for aggregate in host.aggregates:
            if (host.name in drain.hosts and
                    aggregate_metadata.allows_priority(aggregate)):
                names.add(aggregate.name)
    for name in sorted(names):
        missing = find_missing_room(drain, drain.cloud.list_members(name))
        if missing:
            yield 'Aggregate %s: %s' % (name, missing)
