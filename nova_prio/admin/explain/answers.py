# SPDX-License-Identifier: Apache-2.0

"""The decision of nova-scheduler about each host, with its reason.

Nova decides in this order: request filters, Placement, filters, weighers. Of
the filters and weighers, only those of this package are evaluated.
"""

from __future__ import annotations

import collections
from collections import abc
import dataclasses
import typing

from nova import context as nova_context
from nova import exception
from nova import objects
from nova.scheduler import host_manager
from nova.scheduler import request_filter
from nova.scheduler import utils
from nova.scheduler import weights

from nova_prio.admin import host_inventory
from nova_prio.model import admission
from nova_prio.model import reasons
from nova_prio.placement import allocations
from nova_prio.placement import obstacles
from nova_prio.placement import refused_providers
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler import host_view
from nova_prio.scheduler import request_view
from nova_prio.scheduler.weights import priority_weighter

if typing.TYPE_CHECKING:
    from nova.scheduler.client import report

#: Results: where the request ends on a host, in the order of Nova.
CELL, REQUEST_FILTER, PLACEMENT = 'cell', 'request filter', 'Placement'
PRIORITY_FILTER, COMPUTE, PASSES = 'PriorityFilter', 'nova-compute', 'passes'

#: Reasons of PriorityFilter for which nova-compute also refuses.
_CLAIM_REASONS = {*reasons.FILTER_AND_CLAIM, 'numa_topology'}


@dataclasses.dataclass
class Answer:
    """The decision about one host.

    ``result`` is one of the constants of this module. ``missing`` is a dict,
    row or resource class -> missing amount; it is empty if the host passes,
    or refuses for another reason than a shortage. ``rank`` and ``weight`` are
    those of PriorityWeighter, if the host passes.
    """

    host: str
    result: str
    reason: str = ''
    missing: dict[str, int] = dataclasses.field(default_factory=dict)
    rank: int | None = None
    weight: float | None = None


class Answers(typing.NamedTuple):
    """The answers of all hosts, and the UUIDs of the cells without answer."""

    hosts: list[Answer]
    silent_cells: list[str]


class _Node(typing.NamedTuple):
    """A compute node, and the UUID of its cell."""

    record: objects.ComputeNode
    cell_uuid: str

    @property
    def host(self) -> str:
        """The name of the compute host."""
        return self.record.host


def answer(context: nova_context.RequestContext,
           client: report.SchedulerReportClient,
           spec: objects.RequestSpec) -> Answers:
    """Return the decision about each host.

    The request filter of this package must be installed in Nova.

    :param spec: the request, which Nova's request filters write to
    :raises nova_prio.placement.allocations.PlacementRefused: if Placement
        refuses a request
    """
    nodes, silent_cells = _read_nodes(context)
    disabled = {cell.uuid for cell in objects.CellMappingList.get_all(context)
                if cell.disabled}
    answers = [Answer(node.host, CELL, 'its cell is disabled')
               for node in nodes if node.cell_uuid in disabled]
    nodes = [node for node in nodes if node.cell_uuid not in disabled]
    answers += _answer_enabled(context, client, spec, nodes)
    return Answers(sorted(answers, key=_get_position), silent_cells)


def _get_position(each: Answer) -> tuple[typing.Any, ...]:
    """Return a key that sorts passing hosts first, then the closest ones."""
    return (each.result != PASSES, each.rank or 0, not each.missing,
            sum(each.missing.values()), each.host)


def find_closest(answers: abc.Iterable[Answer]) -> Answer | None:
    """Return the refused host with the smallest shortage, or None."""
    short = [each for each in answers if each.missing]
    # A lack of memory or disk is usually a larger number than one of vCPUs.
    return min(short, key=_get_position, default=None)


def _read_nodes(context: nova_context.RequestContext,
                ) -> tuple[list[_Node], list[str]]:
    """Return all compute nodes, and the cells that do not answer."""
    answers, silent_cells = host_inventory.read_cells(
        context, objects.ComputeNodeList.get_all)
    return [_Node(record, cell) for cell, records in answers.items()
            for record in records], silent_cells


def _answer_enabled(context: nova_context.RequestContext,
                    client: report.SchedulerReportClient,
                    spec: objects.RequestSpec,
                    nodes: list[_Node]) -> abc.Iterator[Answer]:
    """Yield the answers of hosts in enabled cells."""
    try:
        request_filter.process_reqspec(context, spec)
    except exception.RequestFilterFailed as error:
        reason = host_inventory.format_first_line(error)
        yield from (Answer(node.host, REQUEST_FILTER, reason)
                    for node in nodes)
        return
    is_forced = bool(spec.force_hosts or spec.force_nodes)
    named = []
    for node in nodes:
        if _is_named(node.record, spec):
            named.append(node)
        else:
            yield Answer(node.host, PLACEMENT,
                         'the request names another host')
    # Otherwise Nova looks up the host with a HostManager.
    spec.reset_forced_destinations()
    request = utils.resources_from_request_spec(context, spec, None)
    if is_forced and len(named) == 1:
        request.get_request_group(None).in_tree = named[0].record.uuid
    elif is_forced:
        request._limit = None
    candidates = allocations.get_json(
        client, '/allocation_candidates?' + request.to_querystring(),
        refused_providers.CANDIDATES_VERSION)
    offered = candidates['provider_summaries']
    aggregates = objects.AggregateList.get_all(context)
    yield from _answer_not_offered(
        client, request, [node for node in named
                          if node.record.uuid not in offered],
        {aggregate.uuid: aggregate.name for aggregate in aggregates},
        has_all=len(candidates['allocation_requests']) != request._limit)
    yield from _filter_and_weigh(spec, _make_host_states(
        [node for node in named if node.record.uuid in offered], aggregates,
        candidates['allocation_requests']), is_forced)


def _is_named(record: objects.ComputeNode, spec: objects.RequestSpec) -> bool:
    """Return whether a request may use a node; false if it forces others."""
    return all(
        not forced or name.lower() in map(str.lower, forced)
        for name, forced in ((record.host, spec.force_hosts),
                             (record.hypervisor_hostname, spec.force_nodes)))


def _answer_not_offered(client: report.SchedulerReportClient,
                        request: utils.ResourceRequest, nodes: list[_Node],
                        aggregate_names: dict[str, str], has_all: bool,
                        ) -> abc.Iterator[Answer]:
    """Yield the answers of hosts that Placement does not offer.

    :param has_all: whether Placement may have returned all candidates
    """
    found = refused_providers.find_obstacles(
        client, request, [node.record.uuid for node in nodes],
        aggregate_names)
    for node in nodes:
        of_host = found[node.record.uuid]
        restrictions = [each for each in of_host if each.is_restriction]
        if restrictions:
            yield Answer(node.host, REQUEST_FILTER, _join(restrictions))
        elif of_host:
            # If the host has other obstacles, no amount would make it fit.
            is_short = all(each.missing for each in of_host)
            yield Answer(node.host, PLACEMENT, _join(of_host), {
                each.resource: each.missing for each in of_host
                if each.resource} if is_short else {})
        else:
            yield Answer(node.host, PLACEMENT, 'no reason found' if has_all
                         else 'left out, because [scheduler] '
                         'max_placement_results is %s' % request._limit)


def _join(found: abc.Iterable[obstacles.Obstacle]) -> str:
    """Return the texts of obstacles."""
    return '; '.join(each.text for each in found)


def _make_host_states(nodes: list[_Node],
                      aggregates: abc.Iterable[objects.Aggregate],
                      requests: list[dict[str, typing.Any]],
                      ) -> list[host_manager.HostState]:
    """Return the host states of nodes, as nova-scheduler makes them.

    :param requests: allocation requests of Placement
    """
    of_host = host_inventory.group_by_host(aggregates)
    of_provider = collections.defaultdict(list)
    for each in requests:
        for uuid in each['allocations']:
            of_provider[uuid].append(each)
    states = []
    for node in nodes:
        state = host_manager.HostState(
            node.host, node.record.hypervisor_hostname, node.cell_uuid)
        state.update(node.record, {}, of_host[node.host], {})
        state.allocation_candidates = list(of_provider[node.record.uuid])
        states.append(state)
    return states


def _filter_and_weigh(spec: objects.RequestSpec,
                      states: list[host_manager.HostState],
                      is_forced: bool) -> abc.Iterator[Answer]:
    """Yield the answers of hosts that Placement offers.

    :param is_forced: whether the request forces a host, so that Nova calls no
        filter
    """
    request = request_view.read_request(spec)
    the_filter = priority_filter.PriorityFilter()
    passing = []
    for state in states:
        refusal = the_filter.find_refusal(state, request, spec)
        if refusal and is_forced and refusal.reason not in _CLAIM_REASONS:
            refusal = None
        if refusal:
            yield Answer(
                state.host, COMPUTE if is_forced else PRIORITY_FILTER,
                '%s: %s' % (refusal.reason, refusal.detail),
                _get_missing(state, request, refusal))
        elif not state.allocation_candidates:
            yield Answer(state.host, PLACEMENT,
                         'all its allocations are on other providers')
        else:
            passing.append(state)
    weigher = priority_weighter.PriorityWeighter()
    scores = weigher.weigh_objects(
        [weights.WeighedHost(state, 0.0) for state in passing], spec)
    weighed = sorted(
        ((score * weigher.weight_multiplier(state), state.host)
         for score, state in zip(scores, passing)),
        key=lambda pair: (-pair[0], pair[1]))
    for rank, (weight, host) in enumerate(weighed, start=1):
        yield Answer(host, PASSES, rank=rank, weight=weight)


def _get_missing(state: host_manager.HostState,
                 request: request_view.SchedulingRequest,
                 refusal: admission.Refusal) -> dict[str, int]:
    """Return the missing vCPUs of each row, and memory, of a refused host.

    :returns: empty if there is another reason than a shortage
    """
    view = host_view.get_report(state) if refusal.needed else None
    if view is None:
        return {}
    limits = {**view.sellable._asdict(), 'memory': state.total_usable_ram_mb}
    missing = {}
    for each in admission.find_refusals(
            view, request, host_view.get_remaining(state, view, request),
            state.free_ram_mb):
        row = each.reason.removesuffix('_capacity')
        if row not in limits:
            return {}
        assert each.needed is not None and each.available is not None
        # More than the host has can never be free.
        if each.needed > limits[row]:
            return {}
        missing['MEMORY_MB' if row == 'memory' else row + ' row'] = (
            each.needed - each.available)
    return missing
