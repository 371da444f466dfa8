# SPDX-License-Identifier: Apache-2.0

"""What the hosts of a cloud would gain by mix.

Mix is the option ``cpu_priority_mix_enable``: low-priority instances may also
run on the dedicated CPUs of a host.
"""

from __future__ import annotations

import collections
from collections import abc
import typing

from nova import objects
from nova.objects import fields

from nova_prio.admin.explain import units
from nova_prio.admin.fleet import fleet_instances
from nova_prio.api import flavor_preview
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import gain
from nova_prio.model.planner import resources

if typing.TYPE_CHECKING:
    from nova_prio.admin.fleet import cloud_fleet
    from nova_prio.admin import host_inventory

#: The option that takes all unpinned instances for low-priority ones.
ALL = 'all'


class EmptyHost(typing.NamedTuple):
    """The instances of a flavor that fit on a host without instances.

    ``without_mix`` and ``with_mix`` are their numbers if the option
    cpu_priority_mix_enable of the host is off and on. ``limit`` is a text with
    the names of the resources that limit their number with mix.
    """

    without_mix: int
    with_mix: int
    limit: str


class UnknownLabel(Exception):
    """No instance has the flavor or the project that the text names."""


def make_flavor_needs(flavor: objects.Flavor,
                      hints: dict[str, str]) -> resources.Needs:
    """Return the needs of a new instance of a flavor.

    The needs are its vCPUs, memory, disk and NUMA cells. It may use any host.
    As in nova-api, write the priority that the flavor or a hint requests into
    the copy of the flavor that the instance has.

    :param hints: scheduler hints, name -> value
    :raises nova_prio.model.flavor_specs.RequestRefused: if flavor and hints
        contradict each other
    :raises nova.exception.NovaException: if stock Nova refuses the flavor
    """
    # The copy of the flavor with its priority, and the NUMA topology that it
    # asks for. The image is empty: the flavor alone counts.
    own_flavor, topology = flavor_preview.fit_request(
        flavor, objects.ImageMeta.from_dict({}), hints)
    return fleet_instances.make_needs(
        own_flavor, topology, is_volume_backed=False, aggregates=frozenset())


def find_unusable(names: abc.Iterable[str],
                  hosts: abc.Iterable[host_inventory.HostRecord],
                  ) -> dict[str, str]:
    """Return the hosts for which no forecast can be made.

    :param names: names of the hosts to check
    :param hosts: all hosts of the cloud
    :returns: dict, name of a host -> reason, a clause such as "is down"
    """
    by_name = collections.defaultdict(list)
    for host in hosts:
        by_name[host.name].append(host)
    reasons = {}
    for name in names:
        found = by_name[name]
        if len(found) != 1:
            reasons[name] = 'has %d compute nodes, not one' % len(found)
        elif found[0].node.hypervisor_type == fields.HVType.IRONIC:
            reasons[name] = 'is for bare metal servers'
        elif not found[0].is_up:
            reasons[name] = 'is down'
    return reasons


def measure_empty(cloud: cloud_fleet.CloudFleet,
                  hosts: abc.Iterable[host_inventory.HostRecord],
                  needs: resources.Needs) -> dict[str, EmptyHost]:
    """Return how many instances would fit on each host if it were empty.

    Count once without and once with mix, the option cpu_priority_mix_enable:
    low-priority instances may then also run on the dedicated CPUs.

    :param hosts: each has the report of its nova-compute, which gives the CPU
        sets and the allocation ratio
    :param needs: the vCPUs, memory, disk and NUMA cells of each instance
    :returns: dict, name of a host -> EmptyHost
    """
    records = {host.name: host for host in hosts}
    found = {}
    # ``empty`` is a HostFit, the planner's host to which instances can be
    # added. Give it the CPUs of each configuration, and fill it.
    for name, empty in cloud.list_empty_hosts(records).items():
        cpus_without_mix, cpus_with_mix = records[name].cpus_by_mix
        host = gain.configure(empty, cpus_without_mix)
        _, number_without_mix = host.fill(needs, units.MOST)
        host = gain.configure(empty, cpus_with_mix)
        filled, number_with_mix = host.fill(needs, units.MOST)
        # A text: the resources of which the full host has too little.
        limit = first_fit.find_limit(filled, needs)
        found[name] = EmptyHost(
            without_mix=number_without_mix, with_mix=number_with_mix,
            limit=limit)
    return found


def read_kinds(cloud: cloud_fleet.CloudFleet, hosts: abc.Container[str],
               low: abc.Iterable[str]) -> list[first_fit.Kind]:
    """Count the instances of hosts, by needs with the priority of a forecast.

    The needs are the vCPUs, memory, disk and NUMA cells of an instance. An
    instance with pinned vCPUs gets high priority. One without gets low
    priority if it has it now, or if ``low`` names its flavor or project. All
    others get none.

    :param hosts: names of the hosts
    :param low: names and IDs of flavors, and IDs of projects, or ALL
    :returns: a Kind for each group of instances with equal needs: these needs,
        and the number of the instances
    :raises UnknownLabel: if a text in ``low`` matches none of the instances
    """
    wanted = frozenset(low)
    # The texts in ``low`` that no instance has matched yet.
    unknown = set(wanted)
    unknown.discard(ALL)
    numbers = collections.Counter[resources.Needs]()
    for instance in cloud.instances:
        if instance.host not in hosts:
            continue
        # The name and the ID of its flavor, and the ID of its project.
        labels = cloud.details[instance.uuid].labels
        unknown -= labels
        request = instance.needs.request
        priority = request.priority
        if request.demand.dedicated:
            priority = cpu_capacity.HIGH
        elif ALL in wanted or wanted & labels:
            priority = cpu_capacity.LOW
        numbers[gain.change_priority(instance.needs, priority)] += 1
    if unknown:
        raise UnknownLabel(min(unknown))
    return [first_fit.Kind(needs, number)
            for needs, number in numbers.items()]
