# SPDX-License-Identifier: Apache-2.0

"""Plan to drain hosts with the least harm to the guests."""

from __future__ import annotations

from collections import abc
import dataclasses
import types
import typing

from nova_prio.admin.fleet import cloud as fleet_cloud
from nova_prio.admin.moves import verdicts as verdicts_module
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan as planner

#: Ways that the operator may allow. A cold migration restarts a running guest,
#: and shelving ends it.
OPTIONAL_WAYS = planner_fleet.WAYS[1:]
#: The stages of a drain; each begins if no instance can leave by those before.
#: Only the planned moves name their destinations.
STAGES = DIRECT, COLD, PLANNED, SHELVE = (
    'direct', planner_fleet.COLD, 'planned', planner_fleet.SHELVE)


class Refusal(typing.NamedTuple):
    """A move that Nova refused, or that failed; ``reason`` is a clause."""

    move: planner_fleet.Move
    reason: str


def plan_drain(cloud: fleet_cloud.CloudFleet, hosts: abc.Collection[str],
               allowed: abc.Container[str] = (),
               refused: verdicts_module.Refused = types.MappingProxyType({}),
               ) -> planner.Plan:
    """Return a plan that drains hosts.

    Live-migrate the running instances and cold-migrate the stopped ones. An
    instance that does not fit anywhere is moved by the allowed ways, one after
    the other.

    :param hosts: names of the hosts
    :param allowed: those of OPTIONAL_WAYS that the operator allows
    :param refused: UUID -> hosts to which the instance is not moved
    """
    given = {each.uuid: each for each in cloud.instances}
    instances = {uuid: dataclasses.replace(each, ways=_get_best_ways(each))
                 for uuid, each in given.items()}
    while True:
        plan = planner.plan_drain(cloud._replace(
            instances=tuple(instances.values())).make_fleet(
                refused=refused), hosts)
        changed = False
        for miss in plan.misses:
            uuid = miss.instance.uuid
            ways = _add_way(given[uuid].ways, miss.instance.ways, allowed)
            if ways != miss.instance.ways:
                changed = True
                instances[uuid] = dataclasses.replace(given[uuid], ways=ways)
        if not changed:
            return plan


def list_moves(stage: str, guests: abc.Iterable[planner_fleet.Instance],
               allowed: abc.Container[str]) -> list[planner_fleet.Move]:
    """Return the moves of a stage, to hosts that Nova chooses.

    :param stage: one of STAGES, but not PLANNED
    :param guests: the instances that must leave
    """
    moves = []
    for each in guests:
        assert each.host is not None
        ways = _get_best_ways(each)
        if stage != DIRECT:
            ways = each.ways.intersection([stage]) - ways
            ways = frozenset(way for way in ways if way in allowed)
        moves += [planner_fleet.Move(each.uuid, way, each.host, None)
                  for way in ways]
    return moves


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
