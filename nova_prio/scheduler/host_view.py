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

import functools

from nova_prio import capacity
from nova_prio.objects import host_report
from nova_prio import priority_hosts


def report_of(host_state):
    """Return the report of a host; the same text is read once.

    :param host_state: nova.scheduler.host_manager.HostState
    :returns: an object with ``mix``, ``floating_cpus``, ``vcpus_used``,
        ``sellable`` and ``used`` of the HostReport, which requests share; or
        None where the host runs another driver or was not updated yet
    :raises nova_prio.objects.host_report.UnreadableReport: where there is one
        that cannot be read
    """
    stats = getattr(host_state, 'stats', None)
    text = stats.get(host_report.STATS_KEY) if stats else None
    return None if text is None else _read(text)


@functools.lru_cache(maxsize=32768)
def _read(text):
    return _Frozen(host_report.HostReport.from_stats(
        {host_report.STATS_KEY: text}))


class _Frozen:
    """The fields of a report as plain attributes, which are read faster."""

    __slots__ = ('mix', 'floating_cpus', 'vcpus_used', 'sellable', 'used')

    def __init__(self, report):
        for name in self.__slots__:
            setattr(self, name, getattr(report, name))


def is_marked(host_state):
    """Return whether a host is in an aggregate for priority instances."""
    for aggregate in host_state.aggregates:
        if priority_hosts.is_marked(aggregate):
            return True
    return False


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
        return capacity.room(report.sellable, report.used)
    return capacity.room(report.sellable, [
        used + placed * drawn
        for used, drawn in zip(report.used, request.drawn)])
