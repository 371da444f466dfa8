# SPDX-License-Identifier: Apache-2.0

"""The decision about one host, with its reason and its shortage."""

from __future__ import annotations

from collections import abc
import dataclasses
import typing

from nova.scheduler.weights import compute as weights_compute
import os_resource_classes as orc

from nova_prio.model import admission
from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler import request_view
from nova_prio.scheduler import state_view

if typing.TYPE_CHECKING:
    from nova import objects
    from nova.scheduler import host_manager
    from nova.scheduler import weights

#: Results: where the request ends on a host, in the order of Nova. The result
#: of a filter is its name.
CELL, REQUEST_FILTER, PLACEMENT = 'cell', 'request filter', 'Placement'
SCHEDULER, COMPUTE, PASSES = 'nova-scheduler', 'nova-compute', 'passes'
PRIORITY_FILTER = 'PriorityFilter'

#: What the planner of moves can free: rows, small pages and resource classes.
#: ``nova_prio.model.cpu_capacity`` explains rows, numbers of vCPUs that a host
#: may sell, and ``nova_prio.model.memory_pages`` explains small pages.
MOVABLE = {row + ' row' for row in cpu_capacity.Rows._fields}.union(
    [memory_pages.RESOURCE, orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB])

# Reason of PriorityFilter that is a shortage -> what is missing.
_RESOURCES = {
    'memory': orc.MEMORY_MB, 'small_pages': memory_pages.RESOURCE,
    'high_capacity': 'high row', 'low_capacity': 'low row',
    'ordinary_capacity': 'ordinary row'}


@dataclasses.dataclass(eq=False)
class Answer:
    """The decision about one compute node.

    ``host`` is the name of the host or, if it has several nodes, host and node
    with a colon between them, as in a request. ``result`` is one of the
    constants of this module, or the name of a filter. ``missing`` is a dict,
    name of a resource, such as 'high row' -> missing amount; it is empty if
    the host passes, or refuses for another reason than a shortage. If the host
    passes, ``rank`` is that of the weighers of this package, ``weight`` that
    of PriorityWeighter, and ``low_supply`` is the CPU time for each
    low-priority vCPU, as a number of CPUs, if the request has low priority and
    the host has measured it.
    ``may_fit_after_moves`` tells whether the host passes, or may do so when
    other instances have moved away.
    """

    host: str
    result: str
    reason: str = ''
    missing: dict[str, int] = dataclasses.field(default_factory=dict)
    rank: int | None = None
    weight: float | None = None
    low_supply: float | None = None
    may_fit_after_moves: bool = False

    def set_missing(self, missing: dict[str, int]) -> None:
        """Set the missing amounts of a host that is only short of them.

        The host may fit after moves of other instances if these can free all
        that is missing: vCPUs, memory and disk, but no other resources.

        :param missing: name of a resource, such as 'DISK_GB' -> missing
            amount; empty for a host that has another problem
        """
        self.missing = missing
        self.may_fit_after_moves = (
            bool(missing) and MOVABLE.issuperset(missing))


def describe_failed_builds(weighers: abc.Iterable[weights.BaseHostWeigher],
                           state: host_manager.HostState) -> str:
    """Return a clause if Nova avoids a host for its failed builds, or ''.

    BuildFailureWeigher subtracts the failed builds from the weight of the
    host, unless the operator has disabled this weigher.

    :param weighers: the enabled weighers
    :param state: of a host that passes all filters
    """
    for weigher in weighers:
        if (isinstance(weigher, weights_compute.BuildFailureWeigher) and
                state.failed_builds and weigher.weight_multiplier(state) < 0):
            return ('failed builds here since the last success: %d; Nova '
                    'prefers hosts with fewer' % state.failed_builds)
    return ''


def get_position(answer: Answer) -> tuple[typing.Any, ...]:
    """Return a key that sorts passing hosts first, then the closest ones.

    Passing hosts have the order of their ranks. Of the others, those with a
    shortage come first. ``missing`` of these is name of a resource -> missing
    amount. Sort by the sum of the amounts, although their units differ: memory
    and disk are large numbers, so a host that lacks only vCPUs is closer.
    """
    # A refused host has no rank.
    is_refused = answer.result != PASSES
    has_no_shortage = not answer.missing
    shortage = sum(answer.missing.values())
    return (is_refused, answer.rank or 0, has_no_shortage, shortage,
            answer.host)


def find_closest(answers: abc.Iterable[Answer]) -> Answer | None:
    """Return the refused host with the smallest shortage, or None.

    :returns: None if no host refuses for a shortage
    """
    short = [each for each in answers if each.missing]
    # Of these, get_position puts the one with the smallest sum of its missing
    # amounts first. Memory and disk are larger numbers than vCPUs, so that a
    # host that only lacks some vCPUs is closer.
    return min(short, key=get_position, default=None)


def find_refusal(state: host_manager.HostState, spec: objects.RequestSpec,
                 ) -> admission.Refusal | None:
    """Return the Refusal of a host by PriorityFilter, None if it passes."""
    return priority_filter.PriorityFilter().find_refusal(
        state, request_view.read_request(spec), spec)


def get_missing(state: host_manager.HostState,
                request: request_view.SchedulingRequest,
                refusal: admission.Refusal) -> dict[str, int]:
    """Return the vCPUs and memory that a host lacks if PriorityFilter refuses.

    A host has three limits of vCPUs, the rows: high for pinned vCPUs, low for
    all shared vCPUs, and ordinary for shared vCPUs without low priority.

    Memory may be missing in total, or in small pages, which are those outside
    of the pools of huge pages.

    :param refusal: the first reason of the filter
    :returns: name of a resource, such as 'high row' or 'MEMORY_MB' -> missing
        amount; empty if the host has another reason than a shortage, or if it
        lacks more than can ever be free
    """
    # Only the reasons that are a shortage have a needed amount.
    if not refusal.needed:
        return {}
    report = state_view.get_report(state)
    if report is None:
        return {}
    # Name of a resource -> amount that the empty host would have.
    limits = {orc.MEMORY_MB: state.total_usable_ram_mb}
    small_pages = state_view.get_small_pages(state, report)
    if small_pages is not None:
        limits[memory_pages.RESOURCE] = small_pages.total_mb
    for row, vcpus in report.sellable._asdict().items():
        limits[row + ' row'] = vcpus
    remaining = state_view.get_remaining(state, report, request)
    missing = {}
    for each in admission.find_refusals(
            report, request, remaining, state.free_ram_mb, small_pages):
        resource = _RESOURCES.get(each.reason)
        if resource is None:
            # This further reason is no shortage: no amount makes the host fit.
            return {}
        assert each.needed is not None and each.available is not None
        # Even the empty host would have too little.
        if each.needed > limits[resource]:
            return {}
        missing[resource] = each.needed - each.available
    return missing
