# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What the scheduler knows of a host, for one request."""

import decimal
import functools
import typing

from nova_prio import capacity
from nova_prio import numa_view
from nova_prio.objects import host_report

_UNREAD = object()

#: Number of reports that a scheduler process keeps: one for each host of a
#: large site. An entry of a host with two NUMA cells takes 1.6 KiB, its text
#: included, and one of a host with eight cells and CPUs that are blocked
#: 2.4 KiB: at most 10 MiB in all. To read a report again takes about 0.05 ms.
MOST_REPORTS = 4096


def report_of(host_state):
    """Return the report of a host; the same text is read once.

    Filter and weigher ask for it one after the other: a host state belongs to
    one request and keeps it.

    :param host_state: nova.scheduler.host_manager.HostState
    :returns: a Report, which requests share, or None where the host runs
        another driver or was not updated yet
    :raises nova_prio.objects.host_report.UnreadableReport: where there is one
        that cannot be read
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
    return Report.of(host_report.HostReport.from_stats(
        {host_report.STATS_KEY: text}))


class Report(typing.NamedTuple):
    """A HostReport as plain values, which are read faster.

    ``room`` are the Rows that were left when it was made, ``taken`` those
    that no further instance can have, ``blocked`` the dedicated CPUs that
    guests of other times keep, a frozenset; the rest are the fields of the
    same names, ``ratio`` being that of the CPUs as a Decimal.
    """

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

    @classmethod
    def of(cls, report):
        """Return the values of a HostReport."""
        return cls(
            report.mix, report.floating_cpus, report.shared_cpus,
            report.vcpus_used,
            capacity.exact_ratio(report.cpu_allocation_ratio),
            # The dict of the object refers to the object, which is larger
            # than all the rest.
            dict(report.low_by_cell), report.sellable, report.taken,
            report.room, report.partition_problem, report.blocked,
            report.blocked_by, report.problem)


def room(host_state, report, request):
    """Return the ``capacity.Rows`` that are left for a request.

    Counts what this very request has consumed: a request for several
    instances is scheduled on host states that were read once, and Nova counts
    each placed instance in the total of vCPUs.

    :param host_state: nova.scheduler.host_manager.HostState
    :param report: the report of that host
    :param request: nova_prio.scheduler.request_view.Request
    """
    placed = (host_state.vcpus_used - report.vcpus_used) // request.vcpus
    if placed <= 0:
        return report.room
    return capacity.room(report.sellable, [
        taken + placed * drawn
        for taken, drawn in zip(report.taken, request.drawn)])


def show_class(host_state, report, request):
    """Let a host show its NUMA topology as the class of a request sees it.

    Nova counts the instances of a request on the topology that the host state
    holds; each request has host states of its own, so that it is shown once.

    :param host_state: nova.scheduler.host_manager.HostState, written to
    :param report: the Report of that host
    :param request: nova_prio.scheduler.request_view.Request
    """
    if not getattr(host_state, 'shows_priority_class', False):
        topology = host_state.numa_topology
        if report.mix and request.demand.shared:
            topology = numa_view.of(
                topology, report.ratio, report.low_by_cell, request.demand)
        if report.blocked:
            topology = numa_view.without(topology, report.blocked)
        host_state.numa_topology = topology
        host_state.shows_priority_class = True
