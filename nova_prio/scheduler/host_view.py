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

from nova_prio import capacity
from nova_prio import demand
from nova_prio.objects import host_report
from nova_prio import priority_hosts


def report_of(host_state):
    """Return the report of a host.

    :param host_state: nova.scheduler.host_manager.HostState
    :returns: HostReport, or None where the host runs another driver or was
        not updated yet
    :raises nova_prio.objects.host_report.UnreadableReport: where there is one
        that cannot be read
    """
    return host_report.HostReport.from_stats(
        getattr(host_state, 'stats', None))


def is_marked(host_state):
    """Return whether a host is in an aggregate for priority instances."""
    return any(priority_hosts.is_marked(aggregate)
               for aggregate in host_state.aggregates)


def room(host_state, report, request, vcpus):
    """Return the ``capacity.Rows`` that are left for a request.

    Counts what this very request has consumed: a request for several
    instances is scheduled on host states that were read once, and Nova counts
    each placed instance only in the total of vCPUs and in the NUMA topology.

    :param host_state: nova.scheduler.host_manager.HostState
    :param report: HostReport of that host
    :param request: ``capacity.Demand`` of one instance of the request
    :param vcpus: vCPUs of one instance of the request
    """
    placed = max(host_state.vcpus_used - report.vcpus_used, 0) // vcpus
    consumed = capacity.drawn(request)
    high_used = (demand.pinned_cpus(host_state.numa_topology)
                 if host_state.numa_topology else report.high_used)
    return capacity.room(report.sellable, capacity.Rows(
        high=high_used,
        low=report.low_used + placed * consumed.low,
        ordinary=report.ordinary_used + placed * consumed.ordinary))
