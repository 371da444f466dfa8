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

"""The scheduler filter for priority instances and for their hosts."""

from nova.scheduler.filters import numa_topology_filter
from oslo_log import log as logging

from nova_prio import capacity
from nova_prio import demand
from nova_prio.objects import host_report
from nova_prio.scheduler import host_view

LOG = logging.getLogger(__name__)

#: Reasons of a refusal, as they stand in the log.
NO_REPORT = 'no_report'
UNREADABLE_REPORT = 'unreadable_report'
NOT_A_PRIORITY_HOST = 'not_a_priority_host'
TOO_MANY_VCPUS = 'too_many_vcpus'
NO_PCPU_CANDIDATE = 'no_pcpu_candidate'
NUMA_TOPOLOGY = 'numa_topology'
CAPACITY = {'high': 'high_capacity', 'low': 'low_capacity',
            'ordinary': 'ordinary_capacity'}


class PriorityFilter(numa_topology_filter.NUMATopologyFilter):
    """Passes the hosts that have room for the class of the instance.

    Takes the place of NUMATopologyFilter and answers as it does for ordinary
    instances on hosts without ``cpu_priority_mix_enable``. It reads the
    folded priority from the flavor of the request, the report of the host
    from its stats, and ``priority_mix`` (or ``priority``) from the metadata
    of the host's aggregates. A priority instance is refused where the report
    is missing or unreadable, or where no aggregate is marked.
    """

    def host_passes(self, host_state, spec_obj):
        """Return whether the host can take the instance.

        :param host_state: nova.scheduler.host_manager.HostState
        :param spec_obj: nova.objects.RequestSpec, never written to
        """
        refusal = self._refusal(host_state, spec_obj)
        if refusal is None and not super().host_passes(host_state, spec_obj):
            refusal = _Refusal(
                NUMA_TOPOLOGY,
                'the NUMA topology of the instance does not fit on the host')
        if refusal is None:
            return True
        LOG.debug(
            'Host %(host)s, node %(node)s refused: %(reason)s: %(detail)s '
            '(needed %(needed)s, available %(available)s).',
            {'host': host_state.host, 'node': host_state.nodename,
             'reason': refusal.reason, 'detail': refusal.detail,
             'needed': refusal.needed, 'available': refusal.available},
            instance_uuid=spec_obj.instance_uuid)
        return False

    def _refusal(self, host_state, spec_obj):
        request = demand.of(spec_obj.flavor, spec_obj.numa_topology)
        try:
            report = host_view.report_of(host_state)
        except host_report.UnreadableReport as error:
            return request.priority and _Refusal(UNREADABLE_REPORT, str(error))
        if request.priority is None and (report is None or not report.mix):
            return None
        if report is None:
            return _Refusal(NO_REPORT, 'the host reports no priority CPUs')
        if request.priority and not host_view.is_marked(host_state):
            return _Refusal(NOT_A_PRIORITY_HOST,
                            'no aggregate of the host has priority_mix=true')
        return (self._capacity_refusal(host_state, spec_obj, report, request)
                or self._candidate_refusal(host_state, request))

    @staticmethod
    def _capacity_refusal(host_state, spec_obj, report, request):
        vcpus = spec_obj.flavor.vcpus
        if request.priority == capacity.LOW and vcpus > report.floating_cpus:
            return _Refusal(
                TOO_MANY_VCPUS,
                'the instance has more vCPUs than the host has CPUs to float '
                'on', vcpus, report.floating_cpus)
        left = host_view.room(host_state, report, request, vcpus)
        for shortage in capacity.shortages(request, left):
            return _Refusal(
                CAPACITY[shortage.row],
                'the %s row has %d of %d CPUs left, %d are needed'
                % (shortage.row, shortage.available,
                   getattr(report.sellable, shortage.row), shortage.needed),
                shortage.needed, shortage.available)
        return None

    def _candidate_refusal(self, host_state, request):
        if not request.dedicated:
            return None
        good = self.filter_candidates(
            host_state,
            lambda candidate: request.dedicated == sum(
                allocation['resources'].get('PCPU', 0)
                for allocation in candidate['allocations'].values()))
        if good:
            return None
        return _Refusal(
            NO_PCPU_CANDIDATE,
            'no allocation candidate of the host holds as many PCPU as the '
            'instance has dedicated CPUs', request.dedicated)


class _Refusal:
    """Why a host is refused: a reason of the list above and the numbers."""

    def __init__(self, reason, detail, needed=None, available=None):
        self.reason = reason
        self.detail = detail
        self.needed = needed
        self.available = available
