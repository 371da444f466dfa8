# SPDX-License-Identifier: Apache-2.0

"""The decision about one host, with its reason and its shortage."""

from __future__ import annotations

from collections import abc
import dataclasses
import typing

from nova.scheduler.weights import compute as weights_compute
import os_resource_classes as orc

from nova_prio.model import admission
from nova_prio.model import capacity
from nova_prio.model import memory_pages
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler import host_view
from nova_prio.scheduler import request_view

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
#: ``nova_prio.model.capacity`` explains rows, numbers of vCPUs that a host may
#: sell, and ``nova_prio.model.memory_pages`` explains small pages.
MOVABLE = {row + ' row' for row in capacity.Rows._fields}.union(
    [memory_pages.RESOURCE, orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB])

# Reason -> what is missing, beside the rows.
_RESOURCES = {'memory': orc.MEMORY_MB, 'small_pages': memory_pages.RESOURCE}


@dataclasses.dataclass(eq=False)
class Answer:
    """The decision about one compute node.

    ``host`` is the name of the host or, if it has several nodes, host and node
    with a colon between them, as in a request. ``result`` is one of the
    constants of this module, or the name of a filter. ``missing`` is a dict,
    name of ``MOVABLE``, such as 'high row' -> missing amount; it is empty if
    the host passes, or refuses for another reason than a shortage. ``rank``
    and ``weight`` are those of PriorityWeighter, if the host passes.
    ``is_curable`` tells whether the host may fit after moves of other
    instances.
    """

    host: str
    result: str
    reason: str = ''
    missing: dict[str, int] = dataclasses.field(default_factory=dict)
    rank: int | None = None
    weight: float | None = None
    is_curable: bool = False

    def set_missing(self, missing: dict[str, int]) -> None:
        """Set the missing amounts of a host that is only short of them.

        :param missing: as the field
        """
        self.missing = missing
        self.is_curable = bool(missing) and MOVABLE.issuperset(missing)


def describe_failed_builds(weighers: abc.Iterable[weights.BaseHostWeigher],
                           state: host_manager.HostState) -> str:
    """Return why Nova prefers other hosts to one that passes, or ''.

    :param weighers: the enabled weighers
    :returns: a clause
    """
    for weigher in weighers:
        if (isinstance(weigher, weights_compute.BuildFailureWeigher) and
                state.failed_builds and weigher.weight_multiplier(state) < 0):
            return ('failed builds here since the last success: %d; Nova '
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
    limits = {orc.MEMORY_MB: state.total_usable_ram_mb}
    small = host_view.get_small_pages(state, view)
    if small is not None:
        limits[memory_pages.RESOURCE] = small.total_mb
    for row, vcpus in view.sellable._asdict().items():
        limits[row + ' row'] = vcpus
    missing = {}
    for each in admission.find_refusals(
            view, request, host_view.get_remaining(state, view, request),
            state.free_ram_mb, small):
        name = _RESOURCES.get(
            each.reason, each.reason.replace('_capacity', ' row'))
        if name not in limits:
            return {}
        assert each.needed is not None and each.available is not None
        # More than the host has can never be free.
        if each.needed > limits[name]:
            return {}
        missing[name] = each.needed - each.available
    return missing
