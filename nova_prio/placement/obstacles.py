# SPDX-License-Identifier: Apache-2.0

"""Why Placement does not offer a resource provider for a request.

Placement does not give these reasons. :func:`find_obstacles` repeats the
checks of ``GET /allocation_candidates`` and ``placement.objects.inventory``
(Placement 16).
"""

from __future__ import annotations

from collections import abc
import typing

from nova_prio.model import provider_rows

if typing.TYPE_CHECKING:
    from nova.scheduler import utils

#: Number of aggregates that a text names.
_MOST_NAMES = 4


class Obstacle(typing.NamedTuple):
    """One reason why a provider is no candidate.

    ``text`` is a clause about the provider. ``resource`` is the resource class
    that is short, or None, and ``missing`` the amount that must become free; 0
    if freeing resources does not help. ``is_restriction`` tells whether a
    request filter of nova-scheduler may have set the restriction.
    """

    text: str
    resource: str | None = None
    missing: int = 0
    is_restriction: bool = False


def find_obstacles(
        request: utils.ResourceRequest,
        provider: abc.Mapping[str, typing.Any],
        aggregate_names: abc.Mapping[str, str]) -> abc.Iterator[Obstacle]:
    """Yield the reasons why a provider is no candidate.

    ``is_restriction`` of an Obstacle is true if a request filter of
    nova-scheduler may have added the unmet requirement to the request. Request
    filters add aggregates, and traits of the root provider.

    :param provider: dict with the answers of Placement: 'uuid'; 'traits' and
        'aggregates', two lists; 'inventories', a dict, resource class ->
        field -> value; and 'usages', a dict, resource class -> used amount.
        The last two include the resources of nested providers.
    :param aggregate_names: UUID of an aggregate -> its name
    """
    # The request group without a suffix, for the provider of the host.
    group = request.get_request_group(None)
    if group.in_tree not in (None, provider['uuid']):
        yield Obstacle('the request names another host')
        return
    yield from _find_trait_obstacles(request, set(provider['traits']))
    aggregates = set(provider['aggregates'])
    # The provider must be in one aggregate of each list.
    for alternatives in group.aggregates:
        if aggregates.isdisjoint(alternatives):
            names = _join_names(alternatives, aggregate_names)
            yield Obstacle('is in no aggregate with %s' % names,
                           is_restriction=True)
    forbidden = group.forbidden_aggregates & aggregates
    if forbidden:
        names = _join_names(forbidden, aggregate_names)
        yield Obstacle('is in the forbidden aggregate %s' % names,
                       is_restriction=True)
    # Nested providers may serve the other groups: compare the sums of all.
    for name, amount in sorted(request.merged_resources().items()):
        yield from _find_shortages(
            name, amount, provider['inventories'].get(name),
            provider['usages'].get(name, 0))


def _join_names(uuids: abc.Iterable[str],
                aggregate_names: abc.Mapping[str, str]) -> str:
    """Return the names of aggregates, the first ones if they are many.

    :param aggregate_names: UUID of an aggregate -> its name
    """
    names = sorted(aggregate_names.get(uuid, uuid) for uuid in uuids)
    more = len(names) - _MOST_NAMES
    if more > 0:
        names = names[:_MOST_NAMES] + ['%d more' % more]
    return ' or '.join(names)


def _find_trait_obstacles(request: utils.ResourceRequest,
                          traits: set[str]) -> abc.Iterator[Obstacle]:
    """Yield the required traits that are missing, then the forbidden ones.

    :param traits: traits of the provider
    """
    group = request.get_request_group(None)
    # Request filters of nova-scheduler restrict the root provider.
    required = request._root_required | group.required_traits
    for trait in sorted(required - traits):
        yield Obstacle('lacks the trait ' + trait,
                       is_restriction=trait in request._root_required)
    forbidden = request._root_forbidden | group.forbidden_traits
    for trait in sorted(forbidden & traits):
        yield Obstacle('has the forbidden trait ' + trait,
                       is_restriction=trait in request._root_forbidden)


def _find_shortages(name: str, amount: int,
                    inventory: abc.Mapping[str, typing.Any] | None,
                    used: int) -> abc.Iterator[Obstacle]:
    """Yield the first check of an inventory that an amount does not pass.

    The obstacle has the ``missing`` amount that must become free, or 0 if
    freeing resources does not help.

    :param name: resource class
    :param inventory: dict of Placement, None if the provider has no inventory
        of the class. ``min_unit`` and ``step_size`` may be absent.
    :param used: amount in use
    """
    needed = '%d %s needed, ' % (amount, name)
    if inventory is None:
        yield Obstacle(needed + 'the host has none', resource=name)
        return
    min_unit = inventory.get('min_unit', 1)
    step_size = inventory.get('step_size', 1)
    capacity = provider_rows.get_capacity(inventory)
    # An oversold provider has more used than capacity.
    free = max(capacity - used, 0)
    if amount > free:
        missing = amount - free
        if amount > capacity:
            # Even an unused provider would have too little.
            missing = 0
        yield Obstacle(needed + '%d free of %d' % (free, capacity),
                       resource=name, missing=missing)
    elif amount > inventory['max_unit']:
        yield Obstacle(needed + '%d at most for one instance'
                       % inventory['max_unit'], resource=name)
    elif amount < min_unit or amount % step_size:
        yield Obstacle(needed + 'at least %d in steps of %d for one instance'
                       % (min_unit, step_size), resource=name)
