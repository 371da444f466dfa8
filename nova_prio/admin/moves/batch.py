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
from nova_prio.model import capacity
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan as planner

if typing.TYPE_CHECKING:
    from nova_prio.admin.fleet import cloud as fleet_cloud


class Batch(typing.NamedTuple):
    """The next hosts, and why they are fewer than wanted, a sentence or ''."""

    hosts: tuple[str, ...]
    problem: str


def list_members(cloud: fleet_cloud.CloudFleet, aggregate: str) -> list[str]:
    """Return the names of the hosts of an aggregate."""
    return [host.name for host in cloud.hosts
            if any(each.name == aggregate for each in host.aggregates)]


def choose_batch(cloud: fleet_cloud.CloudFleet, aggregate: str,
                 done: abc.Container[str], begun: abc.Container[str],
                 number: int, make_plan: abc.Callable[
                     [abc.Collection[str]], planner.Plan]) -> Batch:
    """Return the next hosts of an aggregate that can be drained at once.

    Prefer the hosts whose drain has begun, then those with the fewest guests.
    If the hosts that stay enabled would not keep the room, or if an instance
    would fit on no host, take fewer hosts. A single host may have an instance
    that fits on no host: its drain tells the operator what to do.

    :param done: names of the hosts that were drained before
    :param begun: names of the hosts whose drain has begun
    :param number: maximum number of hosts
    :param make_plan: function that plans the drain of hosts
    """
    fleet = cloud.make_fleet()
    members = list_members(cloud, aggregate)
    waiting = sorted(
        (name for name in members if name not in done),
        key=lambda name: (name not in begun, len(fleet.list_guests(name)),
                          name))
    problem = ''
    for size in range(min(number, len(waiting)), 0, -1):
        hosts = tuple(waiting[:size])
        plan = make_plan(hosts)
        missing = find_missing_room(cloud, members, hosts, plan)
        misfits = [miss for miss in plan.misses if miss.instance.ways]
        if not missing and (size == 1 or not misfits):
            return Batch(hosts, problem)
        problem = problem or missing or (
            'Instance %s would fit on no host.' % cloud.format_instance(
                misfits[0].instance.uuid))
    return Batch((), problem)


def find_missing_room(cloud: fleet_cloud.CloudFleet,
                      members: abc.Collection[str],
                      hosts: abc.Collection[str], plan: planner.Plan) -> str:
    """Return what the enabled hosts would lack after a drain.

    After the moves, the high-priority guests of the largest enabled host must
    fit on the other enabled hosts.

    :param members: names of the hosts of which the largest one is taken: the
        one with the most high-priority vCPUs of high-priority guests
    :param hosts: names of the drained hosts
    :param plan: moves that drain these hosts
    :returns: a sentence, or '' if the guests fit
    """
    fleet = cloud._replace(hosts=tuple(
        dataclasses.replace(host, is_enabled=False) if host.name in hosts
        else host for host in cloud.hosts)).make_fleet()
    for move in plan.moves:
        place = fleet.find_place(
            fleet.instances[move.uuid], move.destination,
        ) if move.destination else planner_fleet.Place(None, ())
        assert place is not None
        # The planner undoes the moves in the log.
        fleet.put(move.uuid, place)

    def count_high(name: str) -> int:
        """Return the vCPUs of the high-priority guests of a host."""
        return sum(
            needs.request.needed_rows.high for needs in (
                fleet.instances[uuid].needs for uuid in
                fleet.list_guests(name))
            if needs.class_name == capacity.HIGH)

    largest = max((name for name in members
                   if fleet.hosts[name].host.is_enabled),
                  key=count_high, default=None)
    if largest is None:
        return ('No other host of the aggregate would stay enabled.'
                if len(members) > 1 else '')
    for uuid in fleet.list_guests(largest):
        if fleet.instances[uuid].needs.class_name != capacity.HIGH:
            fleet.remove(uuid)
    misses = planner.plan_loss(fleet, largest).misses
    return misses and (
        'If host %s failed meanwhile, %d of the high-priority guests that it '
        'would have then would not fit on the other enabled hosts: one more '
        'host would need %s.' % (
            largest, len(misses), planner.calculate_addition(misses))) or ''


def list_warnings(cloud: fleet_cloud.CloudFleet, hosts: abc.Collection[str],
                  plan: planner.Plan) -> abc.Iterator[str]:
    """Yield what is missing in each priority aggregate of drained hosts."""
    names = {
        aggregate.name for host in cloud.hosts if host.name in hosts
        for aggregate in host.aggregates
        if aggregate_metadata.allows_priority(aggregate)}
    for name in sorted(names):
        missing = find_missing_room(
            cloud, list_members(cloud, name), hosts, plan)
        if missing:
            yield 'Aggregate %s: %s' % (name, missing)
