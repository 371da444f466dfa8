# SPDX-License-Identifier: Apache-2.0

"""The state of a host from the point of view of one request.

nova-compute reports the CPUs of its host, and how many vCPUs they may serve,
as a ``capacity_report.CapacityReport`` in the stats of the compute node.
"""

import functools

from nova_prio.model import cpu_capacity
from nova_prio.objects import host_report
from nova_prio.virt import numa

#: Number of reports that a scheduler process keeps, one for each host of a
#: large site. With its text, the report of a host with two NUMA cells takes
#: 1.6 KiB, and that of a host with eight cells and blocked CPUs 2.4 KiB: at
#: most 10 MiB in all. Reading a report takes less than 0.1 ms.
MOST_REPORTS = 4096


def get_report(host_state):
    """Return the CapacityReport of a host, from a cache that requests share.

    nova-compute reports the CPUs of its host, and how many vCPUs it has sold,
    in the stats of the compute node.

    :param host_state: nova.scheduler.host_manager.HostState
    :returns: None if the host runs another driver or was not updated yet
    :raises nova_prio.objects.host_report.UnreadableReport: if the report
        cannot be read
    """
    text = (host_state.stats or {}).get(host_report.STATS_KEY)
    return None if text is None else _read_report(text)


@functools.lru_cache(maxsize=MOST_REPORTS)
def _read_report(text):
    """Return the CapacityReport of a JSON text."""
    return host_report.HostReport.from_stats({host_report.STATS_KEY: text})


def get_remaining(host_state, report, request):
    """Return the remaining capacity for a request, ``cpu_capacity.Rows``.

    Rows are three numbers of vCPUs, one for each limit of a host: for pinned
    vCPUs, for shared vCPUs, and for the shared vCPUs without low priority.

    Nova schedules all instances of a request on host states that were read
    once, and adds the vCPUs of each placed instance to ``vcpus_used``. If
    ``vcpus_used`` is larger than in the report, the difference is the vCPUs of
    the instances of this request that were placed on the host.

    :param report: ``capacity_report.CapacityReport``, with the Rows that the
        host can sell and that are used. Blocked CPUs, on which guests of an
        older configuration or of no instance run, count as used.
    :param request: ``request_view.SchedulingRequest``, with the Rows that one
        instance needs
    """
    new_vcpus = host_state.vcpus_used - report.vcpus_used
    # All instances of a request have the same flavor.
    placed_instances = new_vcpus // request.vcpus
    if placed_instances <= 0:
        return report.remaining
    used = cpu_capacity.add_rows(
        report.used_or_blocked, request.needed_rows, times=placed_instances)
    return cpu_capacity.calculate_remaining(report.sellable, used)


def get_small_pages(host_state, report):
    """Return the memory of a host in small pages, all that is not huge pages.

    Nova adds the placed instances of the request to the numbers of the host
    state, so that the result includes them.

    :param report: ``capacity_report.CapacityReport``
    :returns: ``memory_pages.SmallPages``; None if they limit no request
    """
    # An older nova-compute does not report them, nor does its claim test them.
    if report.small_pages is None:
        return None
    return numa.get_small_pages(
        host_state.numa_topology, host_state.total_usable_ram_mb,
        host_state.free_ram_mb)


def limit_host_state(host_state, report, request):
    """Limit the NUMA topology of a host state to the priority of a request.

    In the new topology, Nova finds only the CPUs and the remaining vCPUs that
    an instance of this priority may use. The class of an instance is its
    priority, or that it has none.

    Each request has its own host states, and Nova adds the placed instances of
    the request to their topologies. Therefore limit the CPUs only once.

    :param report: ``capacity_report.CapacityReport``
    :param request: ``request_view.SchedulingRequest``. Its ``demand`` has the
        priority and the numbers of CPUs of the instance.
    """
    # This function adds the attribute to Nova's host state: it is missing
    # until then.
    if not getattr(host_state, 'is_limited_to_priority', False):
        host_state.numa_topology = numa.limit_to_class(
            host_state.numa_topology, report, request.demand)
        host_state.is_limited_to_priority = True
    # Nova does not count all small pages itself. They are counted again for
    # each instance, because placed instances use some.
    host_state.numa_topology = numa.limit_small_pages(
        host_state.numa_topology, request.memory_parts,
        get_small_pages(host_state, report))
