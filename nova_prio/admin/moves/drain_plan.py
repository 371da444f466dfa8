# SPDX-License-Identifier: Apache-2.0

"""Plan to drain hosts with the least harm to the guests."""

from __future__ import annotations

from collections import abc
import dataclasses
import typing

from nova_prio.admin.fleet import cloud as fleet_cloud
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan as planner

#: Ways that the operator may allow. A cold migration restarts a running guest,
#: and shelving ends it.
OPTIONAL_WAYS = planner_fleet.WAYS[1:]
#: Number of failed moves after which an instance is left.
MAX_REFUSALS = 3


class Refusal(typing.NamedTuple):
    """A move that Nova refused, or that failed; ``reason`` is a clause."""

    move: planner_fleet.Move
    reason: str


Refusals = abc.Mapping[str, abc.Sequence[Refusal]]


def plan_drain(cloud: fleet_cloud.CloudFleet, hosts: abc.Collection[str],
               allowed: abc.Container[str] = (),
               refusals: Refusals | None = None) -> planner.Plan:
    """Return a plan that drains hosts.

    Live-migrate the running instances and cold-migrate the stopped ones. An
    instance that does not fit anywhere is moved by the allowed ways, one after
    the other.

    :param hosts: names of the hosts
    :param allowed: those of OPTIONAL_WAYS that the operator allows
    :param refusals: UUID -> refused moves; their destinations are not planned
        again for the same way
    """
    refusals = refusals or {}
    given = {each.uuid: each for each in cloud.instances}
    instances = {
        uuid: _restrict(each, _get_best_ways(each), refusals.get(uuid, ()))
        for uuid, each in given.items()}
    while True:
        plan = planner.plan_drain(cloud._replace(
            instances=tuple(instances.values())).make_fleet(), hosts)
        changed = False
        for miss in plan.misses:
            uuid = miss.instance.uuid
            ways = _add_way(given[uuid].ways, miss.instance.ways, allowed)
            if ways != miss.instance.ways:
                instance = _restrict(
                    given[uuid], ways, refusals.get(uuid, ()))
                changed |= instance != instances[uuid]
                instances[uuid] = instance
        if not changed:
            return plan


def _get_best_ways(instance: planner_fleet.Instance) -> frozenset[str]:
    """Return the ways to move an instance without harm to its guest."""
    for way in planner_fleet.LIVE, planner_fleet.COLD:
        if way in instance.ways:
            return frozenset([way])
    return frozenset()


def _add_way(possible: abc.Container[str], ways: frozenset[str],
             allowed: abc.Container[str]) -> frozenset[str]:
    """Return the ways with the next allowed way, or the same ways."""
    for way in OPTIONAL_WAYS:
        if way in possible and way in allowed and way not in ways:
            # An instance that cannot be live-migrated is not tried again.
            return ways.difference([planner_fleet.LIVE]).union([way])
    return ways


def _restrict(instance: planner_fleet.Instance, ways: frozenset[str],
              refusals: abc.Sequence[Refusal]) -> planner_fleet.Instance:
    """Return an instance with fewer ways and destinations."""
    if len(refusals) >= MAX_REFUSALS:
        return dataclasses.replace(instance, ways=frozenset())
    hosts = frozenset(
        each.move.destination for each in refusals
        if each.move.destination and each.move.way in ways)
    return dataclasses.replace(
        instance, ways=ways,
        needs=dataclasses.replace(instance.needs, refused_hosts=hosts))
