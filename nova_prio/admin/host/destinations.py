# SPDX-License-Identifier: Apache-2.0

"""Hosts that can take the instances that must leave another host."""

from __future__ import annotations

from collections import abc
import functools
import typing

from nova_prio.admin.host import remaining
from nova_prio.admin import host_inventory
from nova_prio.model import admission
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity
from nova_prio.model import traits as prio_traits
from nova_prio.placement import allocations
from nova_prio.virt import demand

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report

    from nova_prio.admin.audit import host_view


def find_destinations(
        context: nova_context.RequestContext,
        client: report.SchedulerReportClient, view: host_view.HostView,
        instances: abc.Iterable[remaining.RemainingInstance],
) -> dict[str, str]:
    """Return a host for each instance, so that all instances fit together.

    Ask Placement for candidates, and test the report of each candidate. NUMA
    cells and devices are not considered.

    :param view: of the host that the instances must leave
    :returns: UUID -> name of a host, without the instances that fit on no host
    """
    all_hosts, _ = host_inventory.list_hosts(context)
    hosts = {host.uuid: host for host in all_hosts if host.name != view.name}
    # UUID of a host -> (remaining vCPUs, free memory in MB)
    free: dict[str | None, tuple[capacity.Rows, int]] = {
        uuid: (host.report.remaining, host.free_memory_mb)
        for uuid, host in hosts.items() if host.report}
    # Nova cannot migrate an instance that is being created, or whose resize is
    # not confirmed.
    movable = [each.instance for each in instances if each.instance and
               each.reason not in (remaining.CREATED, remaining.UNCONFIRMED)]
    volume_backed = allocations.find_volume_backed(view.context, movable)
    list_candidates = functools.cache(
        functools.partial(_list_candidates, client))
    destinations: dict[str, str] = {}
    # As many instances as possible fit if the largest instance comes first,
    # and goes to the emptiest host: the one with the most free high-priority
    # vCPUs or, if these are equal, low-priority vCPUs.
    for instance in sorted(movable, key=lambda each: -each.vcpus):
        request = demand.ResourceRequest.from_flavor(
            instance.flavor, instance.numa_topology)
        resources = allocations.get_expected(
            instance, instance.uuid in volume_backed)
        fitting = [
            uuid for uuid in list_candidates(
                request.priority is not None, tuple(sorted(resources.items())))
            if uuid in hosts and
            _can_take(hosts[uuid], free.get(uuid), request)]
        if not fitting:
            continue
        # A host without a report compares less than any other.
        best = max(fitting, key=lambda uuid: free.get(uuid, ()))
        destinations[instance.uuid] = hosts[best].name
        if best in free:
            rows, memory_mb = free[best]
            free[best] = (
                capacity.calculate_remaining(rows, request.needed_rows),
                memory_mb - request.memory_mb)
    return destinations


def _list_candidates(
        client: report.SchedulerReportClient, has_priority: bool,
        resources: tuple[tuple[str, int], ...]) -> list[str]:
    """Return the UUIDs of the hosts that Placement offers.

    :param resources: pairs of resource class and amount
    """
    required = '!COMPUTE_STATUS_DISABLED'
    if has_priority:
        required = '%s,%s' % (prio_traits.CPU_PRIORITY, required)
    return list(allocations.get_json(
        client, '/allocation_candidates?resources=%s&required=%s' % (
            ','.join('%s:%d' % each for each in resources), required)
    )['provider_summaries'])


def _can_take(host: host_inventory.HostCapacity,
              free: tuple[capacity.Rows, int] | None,
              request: demand.ResourceRequest) -> bool:
    """Return whether a host can take an instance.

    :param free: (remaining vCPUs, free memory in MB); None without a report
    """
    if request.priority and not any(
            map(aggregate_metadata.allows_priority, host.aggregates)):
        return False
    if host.report is None:
        # Stock Nova manages a host without a report. If the report cannot be
        # read, ``problem`` is set.
        return request.priority is None and not host.problem
    assert free is not None
    return not any(admission.find_refusals(host.report, request, *free))
