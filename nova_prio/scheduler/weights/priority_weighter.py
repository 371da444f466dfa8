# SPDX-License-Identifier: Apache-2.0

"""The scheduler weigher for the row that the instance draws from.

A row is a number of vCPUs that a host may sell, and how many of them are used.
The high row has the dedicated vCPUs, the low row the shared vCPUs of a host
(:mod:`nova_prio.model.cpu_capacity`).
"""

from nova.scheduler.weights import cpu

from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs
from nova_prio.objects import host_report
from nova_prio.scheduler import failures
from nova_prio.scheduler import request_view
from nova_prio.scheduler import state_view
from nova_prio.scheduler.weights import multipliers

MULTIPLIER = 'priority_weight_multiplier'


class PriorityWeighter(multipliers.AggregateMultiplier, cpu.CPUWeigher):
    """Weigh a host by the free CPUs of the row that the instance draws from.

    Enable this weigher in place of Nova's CPU weigher. It weighs a
    high-priority instance by the high row in the report of the host, a
    low-priority instance by the low row, and an ordinary instance as Nova's
    CPU weigher does.

    The multiplier is ``priority_weight_multiplier``, of the host's aggregates
    or of ``[nova_prio]``. If it is negative, instances stack: the host with
    the fewest free CPUs wins. If it is zero, the weigher has no effect.

    A host weighs zero if its report is missing or cannot be read. It also
    weighs zero after an exception, which is logged at ERROR.
    """

    minval = 0
    multiplier_name = MULTIPLIER

    def weigh_objects(self, weighed_obj_list, weight_properties):
        """Return the weights of the hosts, a list in the same order.

        After an exception, which is logged, all weigh zero for an instance
        with a priority. Nova weighs the hosts for any other instance.
        """
        try:
            # The multipliers in aggregate metadata may have changed since the
            # last request.
            self._forget_aggregates()
            request = request_view.read_request(weight_properties)
            if request.priority:
                return [self._get_free_cpus(weighed.obj, request)
                        for weighed in weighed_obj_list]
        except Exception:
            failures.log_failure(
                type(self).__name__,
                'all hosts weigh zero for a priority instance')
            if flavor_specs.EXTRA_SPEC in weight_properties.flavor.extra_specs:
                return [0.0] * len(weighed_obj_list)
        return super().weigh_objects(weighed_obj_list, weight_properties)

    def _weigh_object(self, host_state, weight_properties):
        """Return Nova's weight, or zero if the host was not updated yet."""
        if host_state.cpu_allocation_ratio is None:
            return 0.0
        try:
            return super()._weigh_object(host_state, weight_properties)
        except Exception:
            return self._log_and_get_zero(host_state)

    def _get_free_cpus(self, host_state, request):
        """Return the remaining vCPUs for a priority, or zero without a report.

        nova-compute reports the vCPUs that its host may sell and has sold.

        :param request: ``request_view.SchedulingRequest`` with a priority
        """
        try:
            report = state_view.get_report(host_state)
            if report is None:
                return 0.0
            # The remaining pinned vCPUs are ``high``, and the remaining shared
            # vCPUs are ``low``.
            remaining = state_view.get_remaining(host_state, report, request)
            if request.priority == cpu_capacity.HIGH:
                return float(remaining.high)
            return float(remaining.low)
        except host_report.UnreadableReport:
            # PriorityFilter refuses this host, and logs the reason.
            return 0.0
        except Exception:
            return self._log_and_get_zero(host_state)
