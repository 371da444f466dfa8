# SPDX-License-Identifier: Apache-2.0

"""The allocation candidates of a request, and copies of Placement's rows."""

from __future__ import annotations

import collections
from collections import abc
import types
import typing

from nova.scheduler import utils

from nova_prio.admin.explain import answers
from nova_prio.placement import allocations
from nova_prio.placement import obstacles
from nova_prio.placement import refused_providers

if typing.TYPE_CHECKING:
    from nova import objects
    from nova.scheduler.client import report
    from nova.scheduler import host_manager

#: An allocation request as Placement returns it.
Candidate = dict[str, typing.Any]
#: (UUID of a provider, resource class) -> free amount.
Rows = dict[tuple[str, str], int]


class Candidates(typing.NamedTuple):
    """What Placement offers for a request.

    ``of_provider`` are the allocation requests with a provider: UUID -> list,
    which is empty if all allocations are on other providers. ``free`` are the
    rows of all providers. ``is_complete`` tells whether Placement may have
    returned all candidates.
    """

    of_provider: dict[str, list[Candidate]]
    free: Rows
    is_complete: bool


class Decision(typing.NamedTuple):
    """The decision about one request.

    ``answers`` is name of a host -> Answer. ``passing`` are the states of the
    hosts that pass. ``offered`` is UUID of a provider -> allocation requests,
    and ``free`` are the rows of Placement.
    """

    spec: objects.RequestSpec
    request: utils.ResourceRequest | None = None
    answers: abc.Mapping[str, answers.Answer] = types.MappingProxyType({})
    passing: abc.Sequence[host_manager.HostState] = ()
    offered: abc.Mapping[str, list[Candidate]] = (
        types.MappingProxyType({}))
    free: Rows = {}


def read(client: report.SchedulerReportClient,
         request: utils.ResourceRequest) -> Candidates:
    """Ask Placement for the candidates of a request.

    nova-scheduler with PriorityFilter never asks for VCPU in place of PCPU: it
    would not start with the option that allows this.

    :raises nova_prio.placement.allocations.RequestInvalid: if the request
        contradicts itself, or names what Placement does not know
    :raises nova_prio.placement.allocations.PlacementRefused: if Placement
        fails
    """
    answer = allocations.get_json(
        client, '/allocation_candidates?' + request.to_querystring(),
        refused_providers.CANDIDATES_VERSION)
    of_provider: dict[str, list[Candidate]] = collections.defaultdict(list)
    free: Rows = {}
    for candidate in answer['allocation_requests']:
        for uuid in candidate['allocations']:
            of_provider[uuid].append(candidate)
    for uuid, summary in answer['provider_summaries'].items():
        of_provider.setdefault(uuid, [])
        for name, amounts in summary['resources'].items():
            free[uuid, name] = amounts['capacity'] - amounts['used']
    number = len(answer['allocation_requests'])
    return Candidates(dict(of_provider), free,
                      request._limit is None or number < request._limit)


def answer_not_offered(
        client: report.SchedulerReportClient, request: utils.ResourceRequest,
        uuids: abc.Iterable[str], aggregate_names: abc.Mapping[str, str],
        is_complete: bool,
        add: abc.Callable[[str, str, str], answers.Answer]) -> None:
    """Answer for the hosts that Placement does not offer.

    :param aggregate_names: UUID of an aggregate -> its name
    :param is_complete: as of Candidates
    :param add: function, UUID of a host, result and reason -> new answer
    """
    found = refused_providers.find_obstacles(
        client, request, uuids, aggregate_names)
    for uuid, of_host in found.items():
        restrictions = [each for each in of_host if each.is_restriction]
        if restrictions:
            add(uuid, answers.REQUEST_FILTER, _join(restrictions))
        elif of_host:
            answer = add(uuid, answers.PLACEMENT, _join(of_host))
            # If the host has other obstacles, no amount makes it fit.
            if all(each.missing for each in of_host):
                answer.set_missing({each.resource: each.missing
                                    for each in of_host if each.resource})
        else:
            add(uuid, answers.PLACEMENT, 'no reason found' if is_complete else
                'left out, because [scheduler] max_placement_results is %s'
                % request._limit)


def _join(found: abc.Iterable[obstacles.Obstacle]) -> str:
    """Return the texts of obstacles."""
    return '; '.join(each.text for each in found)


def select(offered: list[Candidate], free: Rows) -> list[Candidate]:
    """Return the candidates that fit on the free amounts."""
    return [each for each in offered if all(
        amount <= free[uuid, name]
        for uuid, name, amount in _list_amounts(each))]


def take(candidate: Candidate, free: Rows) -> None:
    """Subtract a candidate from the free amounts."""
    for uuid, name, amount in _list_amounts(candidate):
        free[uuid, name] -= amount


def _list_amounts(candidate: Candidate) -> list[tuple[str, str, int]]:
    """Return (UUID of a provider, resource class, amount) of a candidate."""
    found = []
    for uuid, allocation in candidate['allocations'].items():
        for name, amount in allocation['resources'].items():
            found.append((uuid, name, amount))
    return found
