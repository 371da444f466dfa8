# SPDX-License-Identifier: Apache-2.0

"""The scheduler weigher for the CPU time that low-priority guests can get.

This time is the low supply of a host (:mod:`nova_prio.model.low_supply`), the
idle time of its CPUs and the time that its low-priority guests use now.
"""

import statistics

from nova.scheduler import weights

from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs
from nova_prio.objects import host_report
from nova_prio.scheduler import failures
from nova_prio.scheduler import request_view
from nova_prio.scheduler import state_view
from nova_prio.scheduler.weights import multipliers

MULTIPLIER = 'low_supply_weight_multiplier'


class LowSupplyWeigher(multipliers.AggregateMultiplier,
                       weights.BaseHostWeigher):
    """Weigh a host by the CPU time for each of its low-priority vCPUs.

    For a low-priority instance, the weight is the low supply in the report of
    the host, divided by the vCPUs of its low-priority instances, the new one
    included. All hosts weigh zero for other instances.

    The multiplier is ``low_supply_weight_multiplier``, of the host's
    aggregates or of ``[nova_prio]``. If it is negative, low-priority instances
    go where the least CPU time is. If it is zero, the weigher has no effect.

    If the low supply of a host is unknown, the host weighs as much as the mean
    of the others: its nova-compute is too old or could not measure, or its
    report is missing or cannot be read. If no host is known, all weigh zero.
    They also weigh zero after an exception, which is logged at ERROR.
    """

    minval = 0
    multiplier_name = MULTIPLIER

    def weigh_objects(self, weighed_obj_list, weight_properties):
        """Return the weights of the hosts, a list in the same order.

        The weight is the CPU time for each low-priority vCPU of the host. A
        host weighs the mean of the others if its CPU time is unknown. All
        weigh zero for an instance without low priority, and after an
        exception, which is logged.
        """
        zeros = [0.0] * len(weighed_obj_list)
        specs = weight_properties.flavor.extra_specs
        try:
            # The multipliers in aggregate metadata may have changed since the
            # last request.
            self._forget_aggregates()
            # Most requests are not for a low priority: read only those that
            # are. A priority without its CPU policy is not in force, and
            # ``request.priority`` is None.
            if specs.get(flavor_specs.EXTRA_SPEC) != cpu_capacity.LOW:
                return zeros
            request = request_view.read_request(weight_properties)
            if request.priority != cpu_capacity.LOW:
                return zeros
            found = [get_supply_per_vcpu(weighed.obj, request)
                     for weighed in weighed_obj_list]
            known = [supply for supply in found if supply is not None]
            if not known:
                return zeros
            mean = statistics.fmean(known)
            return [mean if supply is None else supply for supply in found]
        except Exception:
            failures.log_failure(type(self).__name__, 'all hosts weigh zero')
            return zeros

    def _weigh_object(self, host_state, weight_properties):
        """Return zero: an unknown host needs other hosts to compare with."""
        return 0.0


def get_supply_per_vcpu(host_state, request):
    """Return the CPUs for each low-priority vCPU, the requested included.

    The low supply in the report of a host is the CPU time that its
    low-priority guests can get.

    Nova schedules all instances of a request on host states that were read
    once, and counts the placed instances in ``vcpus_used``.

    :param request: ``request_view.SchedulingRequest`` of a low priority
    :returns: number of CPUs; None if the low supply of the host is unknown
    """
    try:
        report = state_view.get_report(host_state)
    except host_report.UnreadableReport:
        # PriorityFilter refuses this host, and logs the reason.
        return None
    if report is None or report.low_supply is None:
        return None
    # The vCPUs of the instances of this request that were placed here.
    placed = max(host_state.vcpus_used - report.vcpus_used, 0)
    return report.low_supply.per_vcpu(
        report.low_vcpus + placed + request.vcpus)
