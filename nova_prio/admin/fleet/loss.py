# SPDX-License-Identifier: Apache-2.0

"""Whether the guests of a host fit on the other hosts if the host is lost."""

from __future__ import annotations

import collections
from collections import abc
import typing

from nova_prio.admin.fleet import fleet_instances
from nova_prio.admin.moves import verdicts as verdicts_module
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan

if typing.TYPE_CHECKING:
    from nova_prio.admin.fleet import cloud_fleet


class Loss(typing.NamedTuple):
    """The guests of a host of an aggregate after the loss of the host.

    ``guests`` is class -> number of guests of the host, and ``fitting`` those
    that fit on the other hosts of the aggregate. ``addition`` are the
    resources that one more host must have for the other guests. No addition
    helps ``bound``, the number of guests whose affinity forbids Nova to
    evacuate them one by one, nor ``not_evacuable``, the number of those that
    nova-api does not evacuate in their state. ``is_largest`` tells whether the
    host has the most high-priority vCPUs of the aggregate or, if these are
    equal, the most vCPUs.
    """

    aggregate: str
    host: str
    is_largest: bool
    guests: abc.Mapping[str, int]
    fitting: abc.Mapping[str, int]
    addition: plan.Addition
    bound: int
    not_evacuable: int

    @property
    def is_survivable(self) -> bool:
        """Whether all guests fit."""
        return self.guests == self.fitting


def list_losses(
        cloud: cloud_fleet.CloudFleet,
        members: abc.Mapping[str, abc.Collection[str]],
        verdicts: verdicts_module.Verdicts,
) -> abc.Iterator[Loss]:
    """Yield the loss of each host of aggregates, the largest host first.

    :param members: name of an aggregate -> names of its hosts to lose; those
        that are not in ``cloud`` are omitted. The other hosts of the aggregate
        take guests too.
    :param verdicts: tell which hosts the code of nova-scheduler refuses for a
        guest
    """
    lost: set[str] = set()
    for names in members.values():
        lost.update(names)
    everywhere = frozenset(host.name for host in cloud.hosts)
    # UUIDs of the guests that nova-api does not evacuate in their state.
    not_evacuable = set()
    # UUID of a guest -> names of the hosts that it may not use.
    refused = {}
    for each in cloud.instances:
        if each.host not in lost:
            continue
        if cloud.details[each.uuid].vm_state in fleet_instances.EVACUABLE:
            # The hosts that refuse it even after moves of other guests.
            refused[each.uuid] = verdicts.find_refusing(each.uuid)
        else:
            refused[each.uuid] = everywhere
            not_evacuable.add(each.uuid)
    for aggregate, names in members.items():
        hosts = set(cloud.list_members(aggregate))
        fleet = cloud.make_fleet(hosts, refused)
        largest = _find_largest(fleet)
        ordered = sorted(fleet.hosts.keys() & names)
        if largest in ordered:
            ordered.remove(largest)
            ordered.insert(0, largest)
        for name in ordered:
            evacuations = plan.plan_loss(fleet, name)
            all_refused = dict(refused)
            # If the code of nova-scheduler refuses an evacuation, its host is
            # added to all_refused. Plan again without it.
            while verdicts.add_refused_hosts(evacuations, all_refused):
                evacuations = plan.plan_loss(
                    cloud.make_fleet(hosts, all_refused), name)
            # The fleet is still as before: a plan does not change it.
            yield _make_loss(
                fleet, evacuations.misses, not_evacuable, aggregate=aggregate,
                host=name, is_largest=name == largest)


def _find_largest(fleet: planner_fleet.Fleet) -> str:
    """Return the name of the host with the most pinned vCPUs.

    If these are equal, all vCPUs decide.

    :returns: '' if the fleet has no hosts
    """
    sizes = {}
    for name in fleet.hosts:
        used = fleet.get_usage(name).used
        # The high row counts the pinned vCPUs, and the low row all others.
        sizes[name] = used.high, used.high + used.low
    return max(sizes, key=sizes.__getitem__, default='')


def _make_loss(fleet: planner_fleet.Fleet, misses: abc.Sequence[plan.Miss],
               not_evacuable: abc.Container[str], aggregate: str, host: str,
               is_largest: bool) -> Loss:
    """Return the Loss of a host.

    :param fleet: the hosts of the aggregate and their guests, before the loss
    :param misses: one for each guest that fits on no other host
    :param not_evacuable: UUIDs of the guests that nova-api does not evacuate
    :param aggregate: name of the aggregate
    :param host: name of the lost host
    :param is_largest: whether no host of the aggregate has more pinned vCPUs
        in use
    """
    # Class, such as 'high' or 'ordinary' -> number of guests of the host.
    all_guests = collections.Counter(
        fleet.instances[uuid].needs.class_name
        for uuid in fleet.list_guests(host))
    fitting = all_guests - collections.Counter(
        miss.instance.needs.class_name for miss in misses)
    evacuable = [miss for miss in misses
                 if miss.instance.uuid not in not_evacuable]
    # Nova evacuates a member of an affinity group only to hosts with members.
    # One more host is of no use to such guests, which are called bound.
    addable = [miss for miss in evacuable if fleet.get_policy(
        miss.instance) != planner_fleet.AFFINITY]
    bound = len(evacuable) - len(addable)
    # The CPUs, memory and disk that one more host must have.
    addition = plan.calculate_addition(addable)
    if fleet.hosts[host].host.free_disk_gb is None:
        # The guests have their disks on shared storage, not on their host.
        addition = addition._replace(disk_gb=0)
    return Loss(
        aggregate=aggregate, host=host, is_largest=is_largest,
        guests=all_guests, fitting=fitting, addition=addition, bound=bound,
        not_evacuable=len(misses) - len(evacuable))
