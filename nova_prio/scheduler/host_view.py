# SPDX-License-Identifier: Apache-2.0

"""A host as one request sees it."""

import decimal
import functools
import typing

from nova_prio.model import capacity
from nova_prio.objects import host_report
from nova_prio.virt import numa

_UNREAD = object()

#: Number of reports that a scheduler process keeps: one for each host of a
#: large site. An entry of a host with two NUMA cells takes 1.6 KiB, its text
#: included, and one of a host with eight cells and CPUs that are blocked
#: 2.4 KiB: at most 10 MiB in all. To read a report again takes about 0.05 ms.
MOST_REPORTS = 4096


class ReportView(typing.NamedTuple):
    """Attributes of a HostReport as plain values, which are read faster."""

    mix: bool
    floating_cpus: int
    shared_cpus: int
    vcpus_used: int
    ratio: decimal.Decimal
    low_by_cell: dict
    sellable: capacity.Rows
    taken: capacity.Rows
    room: capacity.Rows
    partition_problem: str
    blocked: frozenset
    blocked_by: str
    problem: str


def get_report(host_state):
    """Return the report of a host; the same text is read once.

    A host state belongs to one request, and keeps the report for the weigher.

    :returns: a Report, which requests share, or None if the host runs another
        driver or was not updated yet
    :raises host_report.UnreadableReport: if there is one that cannot be read
    """
    report = getattr(host_state, 'priority_report', _UNREAD)
    if report is _UNREAD:
        stats = getattr(host_state, 'stats', None)
        text = stats.get(host_report.STATS_KEY) if stats else None
        report = None if text is None else _read(text)
        host_state.priority_report = report
    return report


@functools.lru_cache(maxsize=MOST_REPORTS)
def _read(text):
    report = host_report.HostReport.from_stats({host_report.STATS_KEY: text})
    values = {name: getattr(report, name) for name in ReportView._fields}
    # The dict of the object refers to the object, which is larger than all
    # the rest.
    values['low_by_cell'] = dict(report.low_by_cell)
    return ReportView(**values)


def get_remaining(host_state, report, request):
    """Return the ``capacity.Rows`` that are left for a request.

    A request for several instances is scheduled on host states that were read
    once. Nova adds the vCPUs of each placed instance to ``vcpus_used``; the
    vCPUs that exceed the report are those of this request.
    """
    placed = (host_state.vcpus_used - report.vcpus_used) // request.vcpus
    if placed <= 0:
        return report.room
    return capacity.calculate_remaining(report.sellable, [
        taken + placed * drawn
        for taken, drawn in zip(report.taken, request.needed_rows)])


def show_for_request(host_state, report, request):
    """Show the NUMA topology of a host as the class of a request may use it.

    Nova adds the instances of a request to the topology in the host state.
    Each request has its own host states. Therefore do it once.
    """
    if not getattr(host_state, 'shows_priority_class', False):
        host_state.numa_topology = numa.limit_to_class(
            host_state.numa_topology, report, request.demand)
        host_state.shows_priority_class = True
