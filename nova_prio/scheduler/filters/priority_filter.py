# SPDX-License-Identifier: Apache-2.0

"""The scheduler filter for priority instances and for their hosts."""

import logging

from nova.scheduler import filters
from nova.scheduler.filters import numa_topology_filter
from nova.scheduler import utils
from oslo_log import log

from nova_prio.model import admission
from nova_prio.model import flavor_specs
from nova_prio.objects import host_report
from nova_prio.scheduler import failures
from nova_prio.scheduler import host_view
from nova_prio.scheduler import numa_fit
from nova_prio.scheduler import request_view
from nova_prio.virt import numa

LOG = log.getLogger(__name__)

# Nova's own tests replace the name in its module.
_StockFilter = numa_topology_filter.NUMATopologyFilter

_UNFIT = admission.Refusal(
    'numa_topology',
    'the NUMA topology of the instance does not fit on the host')


class PriorityFilter(filters.BaseHostFilter):
    """Passes the hosts that have room for the class of the instance.

    Takes the place of NUMATopologyFilter and answers as it does for ordinary
    instances on hosts without ``cpu_priority_mix_enable``. It reads the
    folded priority from the flavor of the request, the report of the host
    from its stats, and ``priority_mix`` (or ``priority``) from the metadata
    of the host's aggregates. A host with an unreadable report takes nothing.
    A host without a report, or in no marked aggregate, takes no priority
    instance. A host in an aggregate with ``priority_ordinary=false`` takes no
    new ordinary instance. The request filter asks Placement for no such host,
    but Placement's mirror of the aggregates may be out of date.
    """

    # Nova's API refuses a rebuild that would change the NUMA topology.
    RUN_ON_REBUILD = False

    def filter_all(self, filter_obj_list, spec_obj):
        """Yield the hosts that can take the instance."""
        if utils.request_is_rebuild(spec_obj):
            yield from filter_obj_list
            return
        request = self._read(spec_obj)
        for host_state in filter_obj_list:
            if self._passes(host_state, request, spec_obj):
                yield host_state

    def host_passes(self, host_state, spec_obj):
        """Return whether one host can take the instance."""
        return self._passes(host_state, self._read(spec_obj), spec_obj)

    def _read(self, spec_obj):
        """Return the request, or None if it cannot be read."""
        try:
            return request_view.read_request(spec_obj)
        except Exception:
            failures.log_failure(type(self).__name__,
                                 'all hosts are refused to priority instances')
            return None

    def _passes_as_stock(self, host_state, spec_obj):
        """Return the answer of Nova's filter, for ordinary instances only."""
        if flavor_specs.EXTRA_SPEC in spec_obj.flavor.extra_specs:
            return False
        try:
            return _StockFilter().host_passes(host_state, spec_obj)
        except Exception:
            failures.log_failure(type(self).__name__, 'the host is refused',
                                 host_state)
            return False

    def _passes(self, host_state, request, spec_obj):
        if request is None:
            return self._passes_as_stock(host_state, spec_obj)
        try:
            report = host_view.get_report(host_state)
            refusal = (_class_refusal(host_state, report, request) or
                       _topology_refusal(host_state, report, request))
        except host_report.UnreadableReport as error:
            refusal = admission.Refusal('unreadable_report', str(error))
        except Exception as error:
            failures.log_failure(type(self).__name__,
                                 'the host is refused to priority instances',
                                 host_state)
            if self._passes_as_stock(host_state, spec_obj):
                return True
            refusal = admission.Refusal('unreadable_host', '%s: %s' % (
                type(error).__name__, error))
        if refusal is None:
            return True
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug(
                'Host %(host)s, node %(node)s refused: %(refusal)s.',
                {'host': host_state.host, 'node': host_state.nodename,
                 'refusal': refusal},
                instance_uuid=request.uuid)
        return False


def _class_refusal(host_state, report, request):
    """Return the Refusal of a host without room for the class, or None."""
    priority = request.priority
    if priority is None:
        if (any(map(request.keeps_ordinary_off, host_state.aggregates)) and
                request.is_new()):
            return admission.Refusal(
                'not_for_ordinary', 'an aggregate of the host has '
                'priority_ordinary=false, which keeps new ordinary instances '
                'off')
        if report is None or not report.mix:
            return None
    elif report is None:
        return admission.Refusal(
            'no_report', 'the host reports no priority CPUs')
    elif not any(map(request.is_marked, host_state.aggregates)):
        return admission.Refusal(
            'not_a_priority_host',
            'no aggregate of the host has priority_mix=true')
    for refusal in admission.find_refusals(
            report, request, host_view.get_remaining(
                host_state, report, request),
            host_state.free_ram_mb):
        return refusal
    if request.demand.dedicated:
        return _candidate_refusal(host_state, request)
    return None


def _candidate_refusal(host_state, request):
    """Drop candidates that would hold VCPU for a pinned instance."""
    host_state.allocation_candidates = [
        candidate for candidate in host_state.allocation_candidates
        if request.demand.dedicated == sum(
            allocation['resources'].get('PCPU', 0)
            for allocation in candidate['allocations'].values())]
    if host_state.allocation_candidates:
        return None
    return admission.Refusal(
        'no_pcpu_candidate', 'no allocation candidate of the host holds as '
        'many PCPU as the instance has dedicated CPUs',
        request.demand.dedicated)


def _topology_refusal(host_state, report, request):
    """Return the Refusal if the guest NUMA topology does not fit, or None."""
    host_topology = host_state.numa_topology
    if (request.requires_threads and host_topology and
            not host_topology.has_threads):
        return admission.Refusal(
            'no_threads', 'the instance requires thread siblings, and the '
            'host has none')
    if request.topology is None:
        return None
    if not host_topology:
        return admission.Refusal(
            'no_numa_topology', 'the instance has a NUMA topology, and the '
            'host has none')
    cpu_ratio = host_state.cpu_allocation_ratio
    if report is not None and (report.mix or request.priority):
        if request.source_cell not in (None, host_state.cell_uuid):
            # Nova does not apply the migration context that the claim makes:
            # the guest would start unpinned, on the shared CPUs.
            return admission.Refusal(
                'other_cell', 'the host is in another cell than the instance, '
                'and Nova loses the NUMA topology and the pinned CPUs of an '
                'instance that moves to another cell')
        host_view.show_for_request(host_state, report, request)
        host_topology = host_state.numa_topology
        if report.mix:
            cpu_ratio = float(report.ratio)
    if cpu_ratio is None or host_state.ram_allocation_ratio is None:
        return admission.Refusal(
            'no_ratio', 'the allocation ratios of the host are not known yet')
    if not numa_fit.can_fit(host_topology, request):
        return _UNFIT
    limits = numa.make_limits(cpu_ratio, host_state.ram_allocation_ratio,
                              request.network_metadata)
    if request.nova_fit:
        host_state.allocation_candidates = request.nova_fit.candidates(
            host_state, limits)
    elif not numa_fit.fits_plain_cell(host_topology, request):
        return _UNFIT
    if not host_state.allocation_candidates:
        return _UNFIT
    host_state.limits['numa_topology'] = limits
    return None
