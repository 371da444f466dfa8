# SPDX-License-Identifier: Apache-2.0

"""The allocation candidates of a request, and the decision about it."""

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
#: (UUID of a provider, resource class) -> amount.
Amounts = dict[tuple[str, str], int]


class Candidates(typing.NamedTuple):
    """What Placement offers for a request.

    ``by_provider`` is UUID of a provider -> the candidates that allocate from
    it. The list is empty if all allocations are on other providers of its
    tree. ``free`` are the free amounts of all providers. ``is_complete`` tells
    whether Placement may have returned all candidates.
    """

    by_provider: dict[str, list[Candidate]]
    free: Amounts
    is_complete: bool


#: The candidates of a request for which Placement was not asked.
NO_CANDIDATES = Candidates(by_provider={}, free={}, is_complete=True)


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
        """Return the answer about the compute node with a UUID."""
        return self.answers[self.names[uuid]]

    def add(self, uuid: str, result: str,
            reason: str = '') -> explain_answers.Answer:
        """Add and return the answer about the compute node with a UUID.

        :param result: which step refuses the request, such as 'Placement' or
            the name of a filter; 'passes' if none does
        :param reason: a clause, or ''
        """
        name = self.names[uuid]
        answer = explain_answers.Answer(
            host=name, result=result, reason=reason)
        self.answers[name] = answer
        return answer

    def refuse(self, state: host_manager.HostState, result: str,
               refusal: admission.Refusal) -> explain_answers.Answer:
        """Add and return the answer about a host that PriorityFilter refuses.

        The host may fit after moves of other instances if it only lacks
        amounts that moves can free, or a NUMA cell with enough of them.

        :param result: which step refuses; nova-compute refuses for some of
            the reasons of the filter, too
        """
        answer = self.add(state.uuid, result, '%s: %s' % (
            refusal.reason, refusal.detail))
        request = request_view.read_request(self.spec)
        missing = explain_answers.get_missing(state, request, refusal)
        answer.set_missing(missing)
        if refusal.reason == 'numa_topology':
            # This reason names no missing amount.
            answer.may_fit_after_moves = True
        return answer


def read(client: report.SchedulerReportClient,
         request: utils.ResourceRequest) -> Candidates:
    """Ask Placement for the candidates of a request.

    Ask once. Stock Nova may ask again, for VCPU in place of PCPU, but
    nova-scheduler with PriorityFilter does not start unless [workarounds]
    disable_fallback_pcpu_query forbids this.

    :returns: the allocation requests by provider, and the free amounts of each
        resource class of each provider
    :raises nova_prio.placement.allocations.RequestInvalid: if the request
        contradicts itself, or names what Placement does not know
    :raises nova_prio.placement.allocations.PlacementRefused: if Placement
        fails
    """
    answer = allocations.get_json(
        client, '/allocation_candidates?' + request.to_querystring(),
        refused_providers.CANDIDATES_VERSION)
    offered = answer['allocation_requests']
    by_provider: dict[str, list[Candidate]] = collections.defaultdict(list)
    free: Amounts = {}
    for candidate in offered:
        for uuid in candidate['allocations']:
            by_provider[uuid].append(candidate)
    for uuid, summary in answer['provider_summaries'].items():
        # The summaries also have the providers of a tree without allocations.
        by_provider.setdefault(uuid, [])
        for name, amounts in summary['resources'].items():
            free[uuid, name] = amounts['capacity'] - amounts['used']
    # The limit is [scheduler] max_placement_results.
    is_complete = request._limit is None or len(offered) < request._limit
    return Candidates(by_provider=dict(by_provider), free=free,
                      is_complete=is_complete)


def answer_not_offered(
        client: report.SchedulerReportClient, decision: Decision,
        uuids: abc.Iterable[str], aggregate_names: abc.Mapping[str, str],
) -> None:
    """Add the answers about the hosts that Placement does not offer.

    A request filter of nova-scheduler may have required aggregates or traits.
    If a host does not have them, give only these restrictions as the reason.
    The result is then 'request filter', and otherwise 'Placement'.

    :param decision: gets the answers
    :param uuids: UUIDs of the compute nodes of these hosts
    :param aggregate_names: UUID of an aggregate -> its name
    """
    request = decision.request
    assert request is not None
    # The reason for a host without an obstacle.
    nothing_found = 'no reason found'
    if not decision.placement.is_complete:
        nothing_found = (
            'left out, because [scheduler] max_placement_results is %s'
            % request._limit)
    # UUID of a compute node -> its obstacles: the aggregates, traits and
    # amounts of resources that it does not have.
    obstacles_of = refused_providers.find_obstacles(
        client, request, uuids, aggregate_names)
    for uuid, obstacles in obstacles_of.items():
        restrictions = [each for each in obstacles if each.is_restriction]
        if restrictions:
            result, shown = explain_answers.REQUEST_FILTER, restrictions
        else:
            result, shown = explain_answers.PLACEMENT, obstacles
        reason = '; '.join(each.text for each in shown) or nothing_found
        answer = decision.add(uuid, result, reason)
        # ``missing`` is the amount of the resource class ``resource`` that
        # must become free. It is 0 if the obstacle is no shortage, such as a
        # trait: then no move makes the host fit. Only then, the resource may
        # be None.
        is_only_short = bool(obstacles) and all(
            each.missing for each in obstacles)
        if is_only_short:
            # Each resource is set. The test of it is only for the type.
            answer.set_missing({each.resource: each.missing
                                for each in obstacles if each.resource})


def select(offered: list[Candidate],
           free: abc.Mapping[tuple[str, str], int]) -> list[Candidate]:
    """Return the candidates for whose amounts enough is free.

    :param offered: allocation requests of Placement
    :param free: (UUID of a provider, resource class) -> free amount
    """
    fitting = []
    for candidate in offered:
        amounts = _get_amounts(candidate)
        if all(amounts[key] <= free[key] for key in amounts):
            fitting.append(candidate)
    return fitting


def take(candidate: Candidate,
         free: abc.MutableMapping[tuple[str, str], int]) -> None:
    """Subtract the amounts of a candidate from the free amounts.

    :param candidate: an allocation request of Placement
    :param free: (UUID of a provider, resource class) -> free amount, which is
        changed in place
    """
    for key, amount in _get_amounts(candidate).items():
        free[key] -= amount


def _get_amounts(candidate: Candidate) -> Amounts:
    """Return the amounts of a candidate.

    :param candidate: an allocation request of Placement
    :returns: (UUID of a provider, resource class) -> amount
    """
    found = {}
    for uuid, allocation in candidate['allocations'].items():
        for name, amount in allocation['resources'].items():
            found[uuid, name] = amount
    return found
