# SPDX-License-Identifier: Apache-2.0

"""The scheduler filter for priority instances and priority hosts.

The class of an instance is high priority, low priority or ordinary. On a mix
host, low-priority instances may also run on the dedicated CPUs
(:mod:`nova_prio.model.cpu_capacity`).
"""

from nova.scheduler import filters
from nova.scheduler.filters import numa_topology_filter
from nova.scheduler import utils
from oslo_log import log as logging

from nova_prio.model import admission
from nova_prio.model import flavor_specs
from nova_prio.objects import host_report
from nova_prio.scheduler import failures
from nova_prio.scheduler import request_view
from nova_prio.scheduler import state_view

LOG = logging.getLogger(__name__)

# Nova's own tests replace the class in its module.
_NumaTopologyFilter = numa_topology_filter.NUMATopologyFilter


class PriorityFilter(filters.BaseHostFilter):
    """Pass the hosts that have capacity for the class of the instance.

    Enable this filter in place of NUMATopologyFilter. For an ordinary instance
    on a host without ``cpu_priority_mix_enable``, both give the same answer.

    The filter reads:

    * the priority that nova-api wrote into the flavor
    * the report of the host, in the stats of the compute node
    * ``priority_mix``, ``priority`` and ``priority_ordinary`` in the metadata
      of the host's aggregates, because Placement's mirror may be out of date
    * memory, pages, NUMA topology, allocation ratios and allocation candidates
      of the host, as Nova's filters do

    If data are missing:

    * A host without a report, or in no aggregate with ``priority_mix=true`` or
      ``priority=true``, takes no priority instance.
    * A host whose report cannot be read takes no instance.
    * If a report does not name the small pages of the host, they are no limit.
    * A host without known allocation ratios takes no instance with a NUMA
      topology.

    A host in an aggregate with ``priority_ordinary=false`` takes no new
    ordinary instance, but an ordinary instance may move there. Each refused
    host is logged at DEBUG with the reason.
    """

    # Nova's API refuses a rebuild that would change the NUMA topology.
    RUN_ON_REBUILD = False

    def filter_all(self, filter_obj_list, spec_obj):
        """Yield the hosts that can take the instance."""
        # A rebuild changes neither the host nor the CPUs of the instance.
        if utils.request_is_rebuild(spec_obj):
            yield from filter_obj_list
            return
        request = self._read_request(spec_obj)
        for host_state in filter_obj_list:
            if self._passes(host_state, request, spec_obj):
                yield host_state

    def host_passes(self, host_state, spec_obj):
        """Return whether one host can take the instance."""
        return self._passes(host_state, self._read_request(spec_obj), spec_obj)

    def _read_request(self, spec_obj):
        """Return the SchedulingRequest of a request spec.

        :returns: None after an exception, which is logged
        """
        try:
            return request_view.read_request(spec_obj)
        except Exception:
            failures.log_failure(type(self).__name__,
                                 'all hosts are refused to priority instances')
            return None

    def _passes(self, host_state, request, spec_obj):
        """Return whether a host can take the instance, and log a refusal.

        :param request: SchedulingRequest, which is read from ``spec_obj``;
            None if it could not be read
        """
        if request is None:
            return self._passes_as_in_nova(host_state, spec_obj)
        refusal = self.find_refusal(host_state, request, spec_obj)
        if refusal:
            LOG.debug('Host %(host)s, node %(node)s refused: %(refusal)s.',
                      {'host': host_state.host, 'node': host_state.nodename,
                       'refusal': refusal}, instance_uuid=request.uuid)
        return not refusal

    def find_refusal(self, host_state, request, spec_obj):
        """Return the first Refusal of an instance by a host, or None.

        :param request: ``request_view.SchedulingRequest``
        """
        try:
            return _find_refusal(host_state, request)
        except host_report.UnreadableReport as error:
            # The report names the CPUs that no instance may get, and Nova's
            # filter does not know them: refuse ordinary instances, too.
            return admission.Refusal('unreadable_report', (str(error),))
        except Exception as error:
            failures.log_failure(type(self).__name__,
                                 'the host is refused to priority instances',
                                 host_state)
            # This error must not refuse an instance without a priority that
            # Nova's own filter would accept.
            if self._passes_as_in_nova(host_state, spec_obj):
                return None
            return admission.Refusal(
                'unreadable_host', (type(error).__name__, str(error)))

    def _passes_as_in_nova(self, host_state, spec_obj):
        """Return the answer of Nova's NUMATopologyFilter about a host.

        Refuse the host if the instance has a priority, or after an exception,
        which is logged.
        """
        # nova-api has also written a priority from a hint into this flavor.
        if flavor_specs.EXTRA_SPEC in spec_obj.flavor.extra_specs:
            return False
        try:
            return _NumaTopologyFilter().host_passes(host_state, spec_obj)
        except Exception:
            failures.log_failure(type(self).__name__, 'the host is refused',
                                 host_state)
            return False


def _find_refusal(host_state, request):
    """Return the first Refusal of an instance by a host, or None.

    :param request: ``request_view.SchedulingRequest``
    """
    # The CPUs of the host and what it has sold; None without our driver.
    report = state_view.get_report(host_state)
    # Each check returns a Refusal, or None if the host passes.
    return (_check_aggregates(host_state, report, request) or
            _check_capacity(host_state, report, request) or
            _check_topology(host_state, report, request))


def _check_aggregates(host_state, report, request):
    """Return the Refusal of a host by its report and aggregates, or None.

    :param report: ``capacity_report.CapacityReport``, or None
    :param request: ``request_view.SchedulingRequest``
    """
    if request.priority is None:
        # An existing ordinary instance may move to a host that excludes
        # ordinary instances.
        excludes_ordinary = any(request.excludes_ordinary(aggregate)
                                for aggregate in host_state.aggregates)
        if excludes_ordinary and request.is_new:
            return admission.Refusal('not_for_ordinary')
    elif report is None:
        return admission.Refusal('no_report')
    elif not any(request.allows_priority(aggregate)
                 for aggregate in host_state.aggregates):
        return admission.Refusal('not_a_priority_host')
    return None


def _check_capacity(host_state, report, request):
    """Return the Refusal of a host without capacity, or None.

    From the host state, remove the allocation candidates with another amount
    of PCPU than the instance has dedicated CPUs.

    :param report: ``capacity_report.CapacityReport``; None only for an
        ordinary instance, because :func:`_check_aggregates` refuses the host
        to others. Its ``mix`` is the host's option
        ``cpu_priority_mix_enable``.
    :param request: ``request_view.SchedulingRequest``. Its ``priority`` is
        'high', 'low', or None for an ordinary instance.
    """
    # If the option is false, Nova itself limits ordinary instances.
    if request.priority is None and (report is None or not report.mix):
        return None
    remaining = state_view.get_remaining(host_state, report, request)
    # The memory that is not set aside for huge pages, or None. free_ram_mb
    # also counts unused huge pages, which other guests cannot use.
    small_pages = state_view.get_small_pages(host_state, report)
    refusals = admission.find_refusals(
        report, request, remaining, host_state.free_ram_mb, small_pages)
    first_refusal = next(refusals, None)
    if first_refusal:
        return first_refusal
    dedicated = request.demand.dedicated
    if not dedicated:
        return None
    # If nova-scheduler may fall back to VCPU (disable_fallback_pcpu_query),
    # Placement may offer VCPU instead of PCPU.
    host_state.allocation_candidates = [
        candidate for candidate in host_state.allocation_candidates
        if _count_pcpus(candidate) == dedicated]
    if host_state.allocation_candidates:
        return None
    return admission.Refusal('no_pcpu_candidate', needed=dedicated)


def _count_pcpus(candidate):
    """Return the amount of PCPU in an allocation candidate.

    :param candidate: dict of Placement; ``allocations`` is a dict, UUID of a
        resource provider -> its resources
    """
    return sum(allocation['resources'].get('PCPU', 0)
               for allocation in candidate['allocations'].values())


def _check_topology(host_state, report, request):
    """Return the Refusal if the guest NUMA topology does not fit, or None.

    As Nova's NUMATopologyFilter does, this changes the limits and the
    allocation candidates of the host state. If the priority decides which CPUs
    the instance may use, it also changes the NUMA topology there.

    :param report: ``capacity_report.CapacityReport``, or None without our
        driver. Its ``mix`` is the host's option ``cpu_priority_mix_enable``.
    :param request: ``request_view.SchedulingRequest``. Its ``priority`` is
        'high', 'low', or None for an ordinary instance.
    """
    # A guest may require threads without a NUMA topology.
    if request.requires_threads:
        topology = host_state.numa_topology
        if topology and not topology.has_threads:
            return admission.Refusal('no_threads')
    if request.numa_fit is None:
        # The guest has no NUMA topology.
        return None
    topology = host_state.numa_topology
    if not topology:
        return admission.Refusal('no_numa_topology')
    cpu_ratio = host_state.cpu_allocation_ratio
    # If the option is false, an ordinary instance is placed as by stock Nova.
    # In all other cases, the priority decides what the instance may use.
    if report is not None and (report.mix or request.priority):
        if request.source_cell_uuid not in (None, host_state.cell_uuid):
            # If an instance moves to another cell of Nova, Nova does not apply
            # the migration context of the claim. The guest would start
            # unpinned, on the shared CPUs.
            return admission.Refusal('other_cell')
        # In the topology of the host state, leave only the CPUs and vCPUs that
        # an instance of this priority, or without one, may use.
        state_view.limit_host_state(host_state, report, request)
        if report.mix:
            # The remaining vCPUs in this topology are right only with the
            # ratio by which they were calculated.
            cpu_ratio = float(report.ratio)
    if cpu_ratio is None or host_state.ram_allocation_ratio is None:
        return admission.Refusal('no_ratio')
    if not request.numa_fit.fit_host(
            host_state, request.demand.dedicated, cpu_ratio):
        return admission.Refusal('numa_topology')
    return None
