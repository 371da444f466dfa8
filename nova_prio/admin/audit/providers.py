# SPDX-License-Identifier: Apache-2.0

"""The traits and the aggregates of all resource providers.

Placement lists the providers with a trait, or in an aggregate, in one request.
Two requests for each host would take half of the time of an audit.
"""

from __future__ import annotations

from collections import abc
import typing

from nova import objects
import os_traits

from nova_prio.model import traits as prio_traits
from nova_prio.placement import allocations

if typing.TYPE_CHECKING:
    from nova.scheduler.client import report

#: Name of a trait, or UUID of an aggregate -> UUIDs of its providers.
_Members = dict[str, frozenset[str]]


class Providers:
    """The traits and aggregates that an audit compares, at one moment.

    The traits are those of this package. The aggregates are the given ones,
    and those in which providers share resources.
    """

    def __init__(self, client: report.SchedulerReportClient,
                 aggregates: abc.Iterable[objects.Aggregate]) -> None:
        """Read Placement.

        :param aggregates: the host aggregates that the audit compares
        :raises nova_prio.placement.allocations.PlacementRefused: if Placement
            cannot be read
        """
        names = sorted(prio_traits.ALL)
        with_trait = _read_traits(
            client, [*names, os_traits.MISC_SHARES_VIA_AGGREGATE])
        # The providers that share resources with others of their aggregates.
        sharers = with_trait.pop(os_traits.MISC_SHARES_VIA_AGGREGATE, ())
        uuids = {each.uuid for each in aggregates}
        for sharer in sharers:
            uuids.update(
                allocations.read_provider(client, sharer, 'aggregates'))
        self._with_trait = with_trait
        self._in_aggregate: _Members = {}
        for uuid in uuids:
            self._in_aggregate[uuid] = _list_uuids(
                allocations.list_members(client, uuid))

    def list_traits(self, provider: str) -> list[str]:
        """Return the traits of this package that a provider has."""
        return _list_keys(self._with_trait, provider)

    def list_aggregates(self, provider: str) -> list[str]:
        """Return the UUIDs of the compared aggregates of a provider."""
        return _list_keys(self._in_aggregate, provider)


def _read_traits(client: report.SchedulerReportClient,
                 names: abc.Sequence[str]) -> _Members:
    """Return the providers with each trait that Placement knows.

    :param names: names of traits
    :returns: name of a trait -> UUIDs of its providers
    """
    url = '/traits?name=in:' + ','.join(names)
    # Placement refuses a query for a trait that it does not know.
    known = allocations.get_json(client, url)['traits']
    return {name: _list_uuids(allocations.list_providers(client, name))
            for name in known}


def _list_uuids(
        providers: abc.Iterable[dict[str, typing.Any]]) -> frozenset[str]:
    """Return the UUIDs of providers, as Placement lists them."""
    return frozenset(each['uuid'] for each in providers)


def _list_keys(members: _Members, provider: str) -> list[str]:
    """Return the traits or the aggregates that a provider has, sorted.

    :param members: trait or aggregate -> UUIDs of its providers
    """
    return sorted(key for key, uuids in members.items() if provider in uuids)
