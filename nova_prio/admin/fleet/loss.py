# SPDX-License-Identifier: Apache-2.0

"""Whether the guests of a host fit on the other hosts if the host is lost."""

from __future__ import annotations

import collections
from collections import abc
import functools
import typing

from nova_prio.admin.moves import verdicts as verdicts_module
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan

if typing.TYPE_CHECKING:
    from nova_prio.admin.fleet import cloud as fleet_cloud


class Loss(typing.NamedTuple):
    """The guests of a host of an aggregate after the loss of the host.

    ``guests`` is class -> number of guests of the host, and ``fitting`` those
    that fit on the other hosts of the aggregate. ``addition`` are the
    resources that one more host must have for the other guests. No addition
    helps ``bound``, the number of guests whose affinity forbids Nova to
    evacuate them one by one. ``is_largest`` tells whether the host has the
    most high-priority vCPUs of the aggregate or, if these are equal, the most
    vCPUs.
    """

    aggregate: str
    host: str
    is_largest: bool
    guests: abc.Mapping[str, int]
    fitting: abc.Mapping[str, int]
    addition: plan.Addition
    bound: int

    @property
    def is_survivable(self) -> bool:
        """Whether all guests fit."""
        return self.guests == self.fitting


def list_losses(
        cloud: fleet_cloud.CloudFleet,
        members: abc.Mapping[str, abc.Collection[str]],
        verdicts: verdicts_module.Verdicts,
) -> abc.Iterator[Loss]:
    """Yield the loss of each host of aggregates, the largest host first.

    :param members: name of an aggregate -> names of its hosts to lose; those
        that are not in ``cloud`` are omitted. The other hosts of the aggregate
        take guests too.
    """
    lost = frozenset().union(*members.values())
    refused = {each.uuid: verdicts.find_refusing(each.uuid)
               for each in cloud.instances if each.host in lost}
    for aggregate, names in members.items():
        hosts = {host.name for host in cloud.hosts
                 if any(each.name == aggregate for each in host.aggregates)}
        fleet = cloud.make_fleet(hosts, refused)

        def evacuate(name: str, known: verdicts_module.Refused) -> plan.Plan:
            """Return the evacuations after the loss of a host."""
            return plan.plan_loss(
                fleet if known == refused else
                cloud.make_fleet(hosts, known), name)

        def measure(name: str) -> tuple[int, int]:
            """Return the used vCPUs of the high row, and of all rows."""
            used = fleet.get_usage(name).used
            return used.high, used.high + used.low

        largest = max(fleet.hosts, key=measure, default='')
        for name in sorted(fleet.hosts.keys() & names,
                           key=lambda each: (each != largest, each)):
            evacuations = verdicts_module.plan_with(
                verdicts, refused, functools.partial(evacuate, name))
            yield _make_loss(fleet, aggregate, name, name == largest,
                             evacuations.misses)


def _make_loss(fleet: planner_fleet.Fleet, aggregate: str, name: str,
               is_largest: bool, misses: abc.Sequence[plan.Miss]) -> Loss:
    """Return the Loss of a host.

    :param fleet: of the hosts of the aggregate
    :param misses: for the guests that do not fit
    """
    guests = collections.Counter(
        fleet.instances[uuid].needs.class_name
        for uuid in fleet.list_guests(name))
    fitting = guests - collections.Counter(
        miss.instance.needs.class_name for miss in misses)
    addable = [miss for miss in misses if fleet.get_policy(
        miss.instance) != planner_fleet.AFFINITY]
    addition = plan.calculate_addition(addable)
    if fleet.hosts[name].host.free_disk_gb is None:
        addition = addition._replace(disk_gb=0)
    return Loss(aggregate, name, is_largest, guests, fitting, addition,
                len(misses) - len(addable))
