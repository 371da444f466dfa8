# SPDX-License-Identifier: Apache-2.0

"""The allocation candidates of a request, and the decision about it.

The rows of Placement are the free amounts of each resource class of each
provider.
"""

from __future__ import annotations

import collections
from collections import abc
import dataclasses
import typing

from nova.scheduler import utils

from nova_prio.admin.explain import answers as explain_answers
from nova_prio.placement import allocations
from nova_prio.placement import refused_providers
from nova_prio.scheduler import request_view

if typing.TYPE_CHECKING:
    from nova import objects
    from nova.scheduler.client import report
    from nova.scheduler import host_manager

    from nova_prio.model import admission

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


#: The candidates of a request for which Placement was not asked.
NO_CANDIDATES = Candidates(of_provider={}, free={}, is_complete=True)


@dataclasses.dataclass(eq=False)
class Decision:
    """The decision about one request.

    ``names`` is UUID of a compute node -> its name in an answer. ``answers``
    is such a name -> Answer. ``passing`` are the states of the hosts that
    pass. ``request`` is what Placement is asked for, None before it is asked,
    and ``placement`` is its answer.
    """

    spec: objects.RequestSpec
    names: abc.Mapping[str, str]
    answers: dict[str, explain_answers.Answer] = dataclasses.field(
        default_factory=dict)
    passing: list[host_manager.HostState] = dataclasses.field(
        default_factory=list)
    request: utils.ResourceRequest | None = None
    placement: Candidates = NO_CANDIDATES

    def get_answer(self, uuid: str) -> explain_answers.Answer:
        """Return the answer about the node with a UUID."""
        return self.answers[self.names[uuid]]

    def add(self, uuid: str, result: str,
            reason: str = '') -> explain_answers.Answer:
        """Add and return the answer about the node with a UUID."""
        name = self.names[uuid]
        answer = explain_answers.Answer(
            host=name, result=result, reason=reason)
        self.answers[name] = answer
        return answer

    def refuse(self, state: host_manager.HostState, result: str,
               refusal: admission.Refusal) -> explain_answers.Answer:
        """Add and return the answer about a host with a Refusal."""
        answer = self.add(state.uuid, result, '%s: %s' % (
            refusal.reason, refusal.detail))
        answer.set_missing(explain_answers.get_missing(
            state, request_view.read_request(self.spec), refusal))
        # Moves may free a NUMA cell.
        answer.is_curable |= refusal.reason == 'numa_topology'
        return answer


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
    offered = answer['allocation_requests']
    of_provider: dict[str, list[Candidate]] = collections.defaultdict(list)
    free: Rows = {}
    for candidate in offered:
        for uuid in candidate['allocations']:
            of_provider[uuid].append(candidate)
    for uuid, summary in answer['provider_summaries'].items():
        of_provider.setdefault(uuid, [])
        for name, amounts in summary['resources'].items():
            free[uuid, name] = amounts['capacity'] - amounts['used']
    is_complete = request._limit is None or len(offered) < request._limit
    return Candidates(of_provider=dict(of_provider), free=free,
                      is_complete=is_complete)


def answer_not_offered(
        client: report.SchedulerReportClient, decision: Decision,
        uuids: abc.Iterable[str], aggregate_names: abc.Mapping[str, str],
) -> None:
    """Answer for the hosts that Placement does not offer.

    :param uuids: UUIDs of these hosts
    :param aggregate_names: UUID of an aggregate -> its name
    """
    request = decision.request
    assert request is not None
    nothing_found = 'no reason found'
    if not decision.placement.is_complete:
        nothing_found = (
            'left out, because [scheduler] max_placement_results is %s'
            % request._limit)
    found = refused_providers.find_obstacles(
        client, request, uuids, aggregate_names)
    for uuid, of_host in found.items():
        restrictions = [each for each in of_host if each.is_restriction]
        result = explain_answers.PLACEMENT
        if restrictions:
            result = explain_answers.REQUEST_FILTER
        texts = [each.text for each in restrictions or of_host]
        answer = decision.add(
            uuid, result, '; '.join(texts) or nothing_found)
        # If the host has other obstacles, no amount makes it fit.
        if all(each.missing for each in of_host):
            answer.set_missing({each.resource: each.missing
                                for each in of_host if each.resource})


def select(offered: list[Candidate], free: Rows) -> list[Candidate]:
    """Return the candidates that fit on the free amounts.

    :param offered: allocation requests of Placement
    :param free: (UUID of a provider, resource class) -> free amount
    """
    fitting = []
    for candidate in offered:
        amounts = _get_amounts(candidate)
        if all(amounts[key] <= free[key] for key in amounts):
            fitting.append(candidate)
    return fitting


def take(candidate: Candidate, free: Rows) -> None:
    """Subtract a candidate from the free amounts.

    :param candidate: an allocation request of Placement
    :param free: as of :func:`select`
    """
    for key, amount in _get_amounts(candidate).items():
        free[key] -= amount


def _get_amounts(candidate: Candidate) -> Rows:
    """Return the amounts of a candidate, with the keys of ``Rows``."""
    found = {}
    for uuid, allocation in candidate['allocations'].items():
        for name, amount in allocation['resources'].items():
            found[uuid, name] = amount
    return found
