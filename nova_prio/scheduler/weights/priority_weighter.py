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

"""The scheduler weigher that prefers hosts with room in the right row."""

import nova.conf
from nova.scheduler import utils
from nova.scheduler.weights import cpu

from nova_prio import capacity
from nova_prio import demand
from nova_prio.objects import host_report
from nova_prio.scheduler import host_view

CONF = nova.conf.CONF


class PriorityWeighter(cpu.CPUWeigher):
    """Weighs a host by the CPUs left in the row that the request draws from.

    High-priority instances by the high row, low-priority ones by the low row
    of the host's report; a missing or unreadable report weighs zero. Ordinary
    instances as Nova's CPU weigher, whose place it takes. With a negative
    ``[nova_prio] priority_weight_multiplier`` instances stack.
    """

    minval = 0

    def weight_multiplier(self, host_state):
        """Return the multiplier: of the host's aggregates, or the option."""
        return utils.get_weight_multiplier(
            host_state, 'priority_weight_multiplier',
            CONF.nova_prio.priority_weight_multiplier)

    def _weigh_object(self, host_state, weight_properties):
        request = demand.of(weight_properties.flavor,
                            weight_properties.numa_topology)
        if request.priority is None:
            return super()._weigh_object(host_state, weight_properties)
        try:
            report = host_view.report_of(host_state)
        except host_report.UnreadableReport:
            report = None
        if report is None:
            return 0.0
        left = host_view.room(host_state, report, request,
                              weight_properties.flavor.vcpus)
        return float(left.high if request.priority == capacity.HIGH
                     else left.low)
