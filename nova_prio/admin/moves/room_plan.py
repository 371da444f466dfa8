# SPDX-License-Identifier: Apache-2.0

"""Plan the moves after which new instances fit, with the least harm."""

from __future__ import annotations

from collections import abc
import dataclasses
import types
import typing

from nova import objects

from nova_prio.admin.fleet import guests
from nova_prio.api import flavor_preview
from nova_prio.model import capacity
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan as planner

if typing.TYPE_CHECKING:
    from nova_prio.admin.fleet import cloud as fleet_cloud

#: The allowed ways of each attempt, the least harmful first. The planner
#: itself prefers one shelved instance to two live migrations. If it may
#: migrate an instance, it does not shelve it, and may fill another host: the
#: last attempt shelves only.
_ATTEMPTS = [*(planner_fleet.WAYS[:number]
               for number in range(1, len(planner_fleet.WAYS) + 1)),
             (planner_fleet.SHELVE,)]


def plan_room(cloud: fleet_cloud.CloudFleet, flavor: objects.Flavor,
              number: int, aggregate: str | None = None,
              refused: abc.Mapping[str, frozenset[str]] = (
                  types.MappingProxyType({})),
              closed: frozenset[str] = frozenset()) -> planner.Plan:
    """Return the moves after which new instances of a flavor fit.

    Only low-priority instances may be shelved.

    :param flavor: as the operator has created it
    :param number: number of instances, 1 or more
    :param aggregate: name of an aggregate that the instances must use, or None
    :param refused: UUID of an instance -> hosts that Nova refused
    :param closed: hosts that no moves make fit for the new instances
    :raises nova_prio.model.flavor_specs.RequestRefused: if nova-api would
        refuse the flavor
    :raises nova.exception.NovaException: if stock Nova refuses the flavor
    """
    folded, topology = flavor_preview.fit_request(
        flavor, objects.ImageMeta.from_dict({}), {})
    wanted = planner_fleet.Instance('wanted', dataclasses.replace(
        guests.make_needs(
            folded, topology, is_volume_backed=False,
            aggregates=frozenset([aggregate] if aggregate else [])),
        is_new=True, refused_hosts=closed))
    fleet = cloud._replace(instances=tuple(
        map(_forbid_shelving, cloud.instances))).make_fleet(refused=refused)
    plans = []
    for ways in _ATTEMPTS:
        plans.append(planner.plan_room(fleet, wanted, number, ways))
        if not plans[-1].misses:
            break
    return max(plans, key=lambda plan: len(plan.hosts))


def _forbid_shelving(
        instance: planner_fleet.Instance) -> planner_fleet.Instance:
    """Return an instance that may be shelved only if it has low priority."""
    if instance.needs.class_name == capacity.LOW:
        return instance
    return dataclasses.replace(
        instance, ways=instance.ways - {planner_fleet.SHELVE})
