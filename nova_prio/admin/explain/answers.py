# SPDX-License-Identifier: Apache-2.0

"""The decision about one host, with its reason and its shortage."""

from __future__ import annotations

from collections import abc
import dataclasses
import typing

from nova.scheduler import weights
from nova.scheduler.weights import compute as weights_compute
import os_resource_classes as orc

from nova_prio.model import admission
from nova_prio.model import capacity
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler import host_view
from nova_prio.scheduler import request_view
from nova_prio.scheduler.weights import priority_weighter

if typing.TYPE_CHECKING:
    from nova import objects
    from nova.scheduler import host_manager

#: Results: where the request ends on a host, in the order of Nova. The result
#: of a filter is its name.
CELL, REQUEST_FILTER, PLACEMENT = 'cell', 'request filter', 'Placement'
SCHEDULER, COMPUTE, PASSES = 'nova-scheduler', 'nova-compute', 'passes'
PRIORITY_FILTER = 'PriorityFilter'

#: What the planner of moves can free.
MOVABLE = frozenset((
    orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB,
    *(row + ' row' for row in capacity.Rows._fields)))


@dataclasses.dataclass(eq=False)
class Answer:
    """The decision about one compute node.

    ``host`` is the name of the host or, if it has several nodes, host and node
    with a colon between them, as in a request. ``result`` is one of the
    constants of this module, or the name of a filter. ``missing`` is a dict,
    row or resource class -> missing amount; it is empty if the host passes, or
    refuses for another reason than a shortage. ``rank`` and ``weight`` are
    those of PriorityWeighter, if the host passes. ``is_curable`` tells whether
    the host may fit after moves of other instances.
    """

    host: str
    result: str
    reason: str = ''
    missing: dict[str, int] = dataclasses.field(default_factory=dict)
    rank: int | None = None
    weight: float | None = None
    is_curable: bool = False

    def set_missing(self, missing: dict[str, int]) -> None:
        """Set the missing amounts of a host that is only short of them."""
        self.missing = missing
        self.is_curable = bool(missing) and MOVABLE.issuperset(missing)


class Answers:
    """The answers about one request.

    ``of_node`` is UUID of a compute node -> Answer.

    :param names: UUID of a compute node -> its name in an answer
    """

    def __init__(self, names: abc.Mapping[str, str]) -> None:
        self._names = names
        self.of_node: dict[str, Answer] = {}

    def add(self, uuid: str, result: str, reason: str) -> Answer:
        """Add and return the answer about a node with a UUID."""
        answer = Answer(self._names[uuid], result, reason)
        self.of_node[uuid] = answer
        return answer

    def refuse(self, state: host_manager.HostState, spec: objects.RequestSpec,
               result: str, refusal: admission.Refusal) -> Answer:
        """Add and return the answer about a host with a Refusal."""
        answer = self.add(state.uuid, result, '%s: %s' % (
            refusal.reason, refusal.detail))
        answer.set_missing(get_missing(
            state, request_view.read_request(spec), refusal))
        # Moves may free a NUMA cell.
        answer.is_curable |= refusal.reason == 'numa_topology'
        return answer


def weigh(spec: objects.RequestSpec, found: abc.Mapping[str, Answer],
          passing: abc.Sequence[host_manager.HostState]) -> None:
    """Set the rank and the weight of the hosts that pass.

    :param found: UUID of a host -> its answer
    """
    weigher = priority_weighter.PriorityWeighter()
    scores = weigher.weigh_objects(
        [weights.WeighedHost(state, 0.0) for state in passing], spec)
    for score, state in zip(scores, passing):
        found[state.uuid].weight = score * weigher.weight_multiplier(state)
    weighed = sorted(found.values(),
                     key=lambda each: (-(each.weight or 0), each.host))
    for rank, answer in enumerate(weighed, start=1):
        answer.rank = rank


def describe_failed_builds(weighers: abc.Iterable[weights.BaseHostWeigher],
                           state: host_manager.HostState) -> str:
    """Return why Nova prefers other hosts to one that passes, or ''.

    :param weighers: the enabled weighers
    :returns: a clause
    """
    for weigher in weighers:
        if (isinstance(weigher, weights_compute.BuildFailureWeigher) and
                state.failed_builds and weigher.weight_multiplier(state) < 0):
            return ('%d builds have failed here since the last success: Nova '
                    'prefers hosts with fewer' % state.failed_builds)
    return ''


def get_position(each: Answer) -> tuple[typing.Any, ...]:
    """Return a key that sorts passing hosts first, then the closest ones."""
    return (each.result != PASSES, each.rank or 0, not each.missing,
            sum(each.missing.values()), each.host)


def find_closest(answers: abc.Iterable[Answer]) -> Answer | None:
    """Return the refused host with the smallest shortage, or None."""
    short = [each for each in answers if each.missing]
    # A lack of memory or disk is usually a larger number than one of vCPUs.
    return min(short, key=get_position, default=None)


def find_refusal(state: host_manager.HostState, spec: objects.RequestSpec,
                 ) -> admission.Refusal | None:
    """Return why PriorityFilter refuses a host, or None."""
    return priority_filter.PriorityFilter().find_refusal(
        state, request_view.read_request(spec), spec)


def get_missing(state: host_manager.HostState,
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
