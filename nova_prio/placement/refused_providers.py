# SPDX-License-Identifier: Apache-2.0

"""The providers that Placement does not offer, read with few requests.

Placement has no request for the inventories, usages and traits of many
providers. The summaries of allocation candidates have the capacities, the
usages and the traits of all providers with a free unit of a resource class.
Only the limits for one instance, such as ``max_unit``, are missing there.
"""

from __future__ import annotations

from collections import abc
import math
import typing

import os_resource_classes as orc
import os_traits

from nova_prio.model import provider_rows
from nova_prio.placement import allocations
from nova_prio.placement import obstacles

if typing.TYPE_CHECKING:
    from nova.scheduler.client import report
    from nova.scheduler import utils

#: Provider as a dict with the keys that ``obstacles.find_obstacles`` reads.
_Provider = dict[str, typing.Any]

#: Resource classes of which most hosts have a free unit.
_COMMON_CLASSES = (orc.MEMORY_MB, orc.VCPU, orc.PCPU, orc.DISK_GB)
#: Number of providers that are read one by one, with four requests each. A
#: request takes some milliseconds.
_FEW = 20
#: The microversion with root providers and all resources in summaries, and
#: with request groups.
CANDIDATES_VERSION = '1.36'


def find_obstacles(
        client: report.SchedulerReportClient, request: utils.ResourceRequest,
        uuids: abc.Iterable[str], aggregate_names: abc.Mapping[str, str],
) -> dict[str, list[obstacles.Obstacle]]:
    """Return the reasons why Placement does not offer providers.

    :param uuids: UUIDs of the root providers that Placement does not offer
    :returns: UUID -> obstacles, an empty list if none is found
    :raises nova_prio.placement.allocations.PlacementRefused: if Placement
        refuses a request
    """
    missing = set(uuids)
    if not missing:
        return {}
    providers = _read_summaries(client, missing)
    # The summaries lack a provider without a free unit of any common resource
    # class, and the last few, which are read faster one by one.
    for uuid in missing.difference(providers):
        providers[uuid] = _read_provider(client, uuid)
    _add_aggregates(client, request, providers)
    # Resource classes that other providers share with hosts, as DISK_GB.
    shared = _read_shared_classes(client)
    found = {}
    for uuid, provider in providers.items():
        found[uuid] = _find_own(request, provider, aggregate_names, shared)
    # A provider without an obstacle may have a limit for one instance, such as
    # max_unit, which the summaries lack. Read the first such providers one by
    # one. For all others, which would take too long, only ask Placement
    # whether the limits allow the request.
    unexplained = sorted(uuid for uuid, each in found.items() if not each)
    for uuid in unexplained[:_FEW]:
        provider = _read_provider(client, uuid)
        provider['aggregates'] = providers[uuid]['aggregates']
        found[uuid] = _find_own(request, provider, aggregate_names, shared)
    others = {uuid: providers[uuid] for uuid in unexplained[_FEW:]}
    if others:
        found.update(_find_limit_obstacles(client, request, others))
    return found


def _read_summaries(client: report.SchedulerReportClient,
                    wanted: set[str]) -> dict[str, _Provider]:
    """Return most of the wanted providers, read with few requests.

    The caller must read the others one by one. They are few, or they have no
    free unit of any common resource class.

    :param wanted: UUIDs of root providers
    :returns: UUID -> provider
    """
    found: dict[str, _Provider] = {}
    # Summaries have no limits for one instance: assume none.
    limits = {'max_unit': math.inf}
    for name in _COMMON_CLASSES:
        missing = wanted.difference(found)
        if len(missing) <= _FEW:
            # To read so few one by one takes less time than the next query.
            break
        # UUID of a provider -> dict with its root, traits and resources.
        summaries = allocations.get_json(
            client, '/allocation_candidates?resources=%s:1' % name,
            CANDIDATES_VERSION)['provider_summaries']
        new = {uuid: _make_provider(uuid, summaries[uuid]['traits'])
               for uuid in missing.intersection(summaries)}
        for summary in summaries.values():
            root = new.get(summary['root_provider_uuid'])
            if root is None:
                continue
            for resource, amounts in summary['resources'].items():
                _add_inventory(root, resource, amounts['capacity'],
                               amounts['used'], limits)
        found.update(new)
    return found


def _read_provider(client: report.SchedulerReportClient,
                   uuid: str) -> _Provider:
    """Return one root provider, with the resources of its nested providers.

    If it does not exist, the result has no traits and no resources.
    """
    tree = allocations.get_json(
        client, '/resource_providers?in_tree=' + uuid)['resource_providers']
    provider = _make_provider(uuid, traits=[])
    if tree:
        provider['traits'] = allocations.read_provider(client, uuid, 'traits')
    for each in tree:
        usages = allocations.read_provider(client, each['uuid'], 'usages')
        inventories = allocations.read_provider(
            client, each['uuid'], 'inventories')
        for name, inventory in inventories.items():
            _add_inventory(
                provider, name, provider_rows.get_capacity(inventory),
                usages[name], inventory)
    return provider


def _make_provider(uuid: str, traits: list[str]) -> _Provider:
    """Return a provider without resources and aggregates."""
    return {'uuid': uuid, 'traits': traits, 'aggregates': [],
            'inventories': {}, 'usages': {}}


def _add_inventory(root: _Provider, name: str, capacity: int, used: int,
                   limits: abc.Mapping[str, typing.Any]) -> None:
    """Add an inventory of a root provider, or of a provider nested in it.

    The sum of several inventories keeps the limits of the first.

    :param name: resource class
    :param capacity: (total - reserved) * allocation ratio
    :param limits: limits for one instance, such as ``max_unit``
    """
    if name not in root['inventories']:
        # The capacity already contains the reserved amount and the ratio.
        root['inventories'][name] = dict(
            limits, total=0, reserved=0, allocation_ratio=1)
    root['inventories'][name]['total'] += capacity
    root['usages'][name] = root['usages'].get(name, 0) + used


def _add_aggregates(client: report.SchedulerReportClient,
                    request: utils.ResourceRequest,
                    providers: abc.Mapping[str, _Provider]) -> None:
    """Write into each provider in which aggregates of the request it is.

    :param providers: UUID -> provider
    """
    group = request.get_request_group(None)
    named = set(group.forbidden_aggregates)
    for alternatives in group.aggregates:
        named.update(alternatives)
    # One query for all aggregates would not say in which of them a provider
    # is.
    for aggregate in named:
        answer = allocations.get_json(
            client, '/resource_providers?member_of=' + aggregate)
        for member in answer['resource_providers']:
            if member['uuid'] in providers:
                providers[member['uuid']]['aggregates'].append(aggregate)


def _read_shared_classes(client: report.SchedulerReportClient) -> set[str]:
    """Return the resource classes that providers share with hosts."""
    shared: set[str] = set()
    for sharer in allocations.list_providers(
            client, os_traits.MISC_SHARES_VIA_AGGREGATE):
        shared.update(allocations.read_provider(
            client, sharer['uuid'], 'inventories'))
    return shared


def _find_own(request: utils.ResourceRequest, provider: _Provider,
              aggregate_names: abc.Mapping[str, str],
              shared: set[str]) -> list[obstacles.Obstacle]:
    """Return the obstacles of a provider.

    Leave out a resource class that the provider itself lacks but another
    provider shares with hosts: the sharing provider may serve this host. If
    this is the only obstacle, no sharing provider serves the host: Placement
    would offer the host otherwise.

    :param aggregate_names: UUID of an aggregate -> its name
    :param shared: resource classes that other providers share with hosts
    """
    own: list[obstacles.Obstacle] = []
    of_sharers: list[obstacles.Obstacle] = []
    for each in obstacles.find_obstacles(request, provider, aggregate_names):
        # The resource is None if the obstacle is no shortage. Then it is
        # neither in the inventories nor in ``shared``.
        lacks_class = each.resource not in provider['inventories']
        if lacks_class and each.resource in shared:
            of_sharers.append(obstacles.Obstacle(
                'no provider shares the needed %s with the host'
                % each.resource, each.resource))
        else:
            own.append(each)
    if own:
        return own
    return of_sharers


def _find_limit_obstacles(
        client: report.SchedulerReportClient, request: utils.ResourceRequest,
        providers: abc.Mapping[str, _Provider],
) -> dict[str, list[obstacles.Obstacle]]:
    """Return the obstacles by the limits for one instance.

    The limits are max_unit, min_unit and step_size.

    :param providers: UUID -> provider, each with enough free resources
    :returns: UUID -> obstacles
    """
    found: dict[str, list[obstacles.Obstacle]] = {
        uuid: [] for uuid in providers}
    for name, amount in request.merged_resources().items():
        # The providers whose limits allow the amount. A nested provider may
        # have the resources of the host: take its root.
        answer = allocations.get_json(
            client, '/resource_providers?resources=%s:%d' % (name, amount))
        fitting = {provider['root_provider_uuid']
                   for provider in answer['resource_providers']}
        for uuid in found.keys() - fitting:
            if name not in providers[uuid]['inventories']:
                # A provider outside of the host shares this resource class.
                continue
            found[uuid].append(obstacles.Obstacle(
                '%d %s needed, not allowed for one instance (max_unit, '
                'min_unit or step_size)' % (amount, name), name))
    return found
