# SPDX-License-Identifier: Apache-2.0

"""Hosts that can take the instances that must leave another host."""

from nova_prio.admin.host import remaining
from nova_prio.admin import host_inventory
from nova_prio.model import admission
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity
from nova_prio.placement import allocations
from nova_prio.placement import traits as prio_traits
from nova_prio.virt import demand


def find_destinations(context, client, view, instances):
    """Return a host for each instance, so that all of them fit together.

    Ask Placement for candidates, and test the report of each candidate. NUMA
    cells and devices are not considered.

    :param instances: list of RemainingInstance
    :returns: dict, UUID -> name of a host; without instances that fit nowhere
    """
    hosts, _ = host_inventory.list_hosts(context)
    hosts = {host.uuid: host for host in hosts if host.name != view.name}
    # UUID of a host -> remaining capacity and memory.
    free = {uuid: (host.report.remaining, host.free_memory_mb)
            for uuid, host in hosts.items() if host.report}
    volume_backed = allocations.find_volume_backed(
        view.context, [each.instance for each in instances if each.instance])
    candidates, destinations = {}, {}
    for each in sorted(instances, reverse=True, key=lambda each:
                       each.instance.vcpus if each.instance else 0):
        if each.instance is None or each.reason in (
                remaining.CREATED, remaining.UNCONFIRMED):
            continue
        request = demand.ResourceRequest.from_flavor(
            each.instance.flavor, each.instance.numa_topology)
        key = request.priority is not None, tuple(sorted(
            allocations.get_expected(
                each.instance, each.uuid in volume_backed).items()))
        if key not in candidates:
            candidates[key] = _list_candidates(client, *key)
        fitting = [uuid for uuid in candidates[key] if uuid in hosts and
                   _can_take(hosts[uuid], free.get(uuid), request)]
        if not fitting:
            continue
        # The emptiest host first, so that as many instances as possible fit.
        best = max(fitting, key=lambda uuid: free.get(uuid, ((0, 0, 0), 0)))
        destinations[each.uuid] = hosts[best].name
        if best in free:
            capacity_left, memory_mb = free[best]
            free[best] = (
                capacity.calculate_remaining(
                    capacity_left, request.needed_rows),
                memory_mb - request.memory_mb)
    return destinations


def _list_candidates(client, has_priority, resources):
    """Return the UUIDs of the hosts that Placement offers, a list."""
    required = '!COMPUTE_STATUS_DISABLED'
    if has_priority:
        required = '%s,%s' % (prio_traits.CPU_PRIORITY, required)
    return list(allocations.get_json(
        client, '/allocation_candidates?resources=%s&required=%s' % (
            ','.join('%s:%d' % each for each in resources), required)
    )['provider_summaries'])


def _can_take(host, free, request):
    """Return whether a host can take an instance, by its report."""
    if request.priority and not any(
            map(aggregate_metadata.is_marked, host.aggregates)):
        return False
    if host.report is None:
        return request.priority is None and not host.problem
    return not any(admission.find_refusals(host.report, request, *free))
