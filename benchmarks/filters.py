# SPDX-License-Identifier: Apache-2.0

"""Compare filter and weigher with those of Nova that they replace."""

import statistics

from nova.scheduler.filters import numa_topology_filter
from nova.scheduler import weights
from nova.scheduler.weights import cpu

from benchmarks import clock
from benchmarks import hosts
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler.weights import priority_weighter

STOCK_FILTER = numa_topology_filter.NUMATopologyFilter
OUR_FILTER = priority_filter.PriorityFilter
STOCK_WEIGHER = cpu.CPUWeigher
OUR_WEIGHER = priority_weighter.PriorityWeighter


def pinned(request, states, repeats):
    """Return figures of a pinned request on the hosts with room, and full.

    :param request: benchmarks.request_specs.Request
    :param states: list of HostState, every other one full
    :raises SystemExit: if the two filters differ, or a host with room is
        refused or a full one is not
    """
    found = {}
    for kind, of_kind in ('feasible', states[::2]), ('full', states[1::2]):
        def run(filter_class):
            fresh = hosts.as_read_for(request, of_kind)
            seconds, passed = clock.seconds(
                lambda: _filtered(filter_class, fresh, request))
            return seconds, [(
                state.host, state.allocation_candidates,
                state.limits['numa_topology'].obj_to_primitive())
                for state in passed]

        stock, ours = clock.alternate(
            lambda: run(STOCK_FILTER), lambda: run(OUR_FILTER), repeats)
        answers = [answer for _, answer in stock + ours]
        if any(answer != answers[0] for answer in answers):
            raise SystemExit(
                'PriorityFilter and NUMATopologyFilter answer differently for '
                '%s on %s hosts.' % (request.key, kind))
        expected = len(of_kind) if kind == 'feasible' else 0
        if len(answers[0]) != expected:
            raise SystemExit(
                'NUMATopologyFilter passes %d of %d %s hosts for %s, which '
                'should be %d.' % (len(answers[0]), len(of_kind), kind,
                                   request.key, expected))
        found.update(clock.figures(
            'filter.%s.%s' % (request.key, kind),
            *([seconds for seconds, _ in side] for side in (stock, ours)),
            len(of_kind)))
    return found


def floating(request, states, repeats):
    """Return figures of a request without pinned CPUs, filter plus weigher.

    Both sides see all hosts. The answers of the filters must differ: Nova's
    filter passes full hosts too, because the instance has no NUMA topology.

    :param request: benchmarks.request_specs.Request
    :param states: list of HostState, every other one full
    :raises SystemExit: if a host with room is refused or a full one is not
    """
    def run(filter_class, weigher_class, expected):
        fresh = hosts.as_read_for(request, states)
        in_filter, passed = clock.seconds(
            lambda: _filtered(filter_class, fresh, request))
        if [state.host for state in passed] != [
                state.host for state in expected]:
            raise SystemExit(
                '%s passes other hosts than it should for a request of class '
                '%s.' % (filter_class.__name__, request.key))
        in_weigher, _ = clock.seconds(
            lambda: _weighed(weigher_class, fresh, request))
        return in_filter, in_filter + in_weigher

    stock, ours = clock.alternate(
        lambda: run(STOCK_FILTER, STOCK_WEIGHER, states),
        lambda: run(OUR_FILTER, OUR_WEIGHER, states[::2]), repeats)
    both = '%s_%d' % (request.key, len(states))
    in_filters, in_both = (
        [[each[which] for each in side] for side in (stock, ours)]
        for which in (0, 1))
    found = clock.figures('filter.' + request.key, *in_filters, len(states))
    found.update(clock.figures(both, *in_both, len(states)))
    for side in 'stock', 'ours':
        found['%s.%s_seconds' % (both, side)] = (
            found['%s.%s_us' % (both, side)] * len(states) / 1e6)
    found[both + '_seconds'] = found.pop(both + '.ours_seconds')
    return found


def weigher(request, states, repeats):
    """Return figures of the weigher, alone and in Nova's weight handler.

    ``handler_us`` is the time of the handler for hosts that are weighed
    already.

    :param request: benchmarks.request_specs.Request
    :param states: list of HostState
    """
    def alone(weigher_class):
        weighed = [weights.WeighedHost(state, 0.0)
                   for state in hosts.as_read_for(request, states)]
        return clock.seconds(
            lambda: asked_by_handler(
                weigher_class(), weighed, request.spec))[0]

    def handled(weigher_class):
        fresh = hosts.as_read_for(request, states)
        return clock.seconds(
            lambda: _weighed(weigher_class, fresh, request))[0]

    found = {}
    for key, run in ('weigher', alone), ('weigher.in_handler', handled):
        found.update(clock.figures(key, *clock.alternate(
            lambda: run(STOCK_WEIGHER), lambda: run(OUR_WEIGHER), repeats),
            len(states)))
    found['weigher.handler_us'] = statistics.median(
        handled(_NoWeigher) for _ in range(repeats)) / len(states) * 1e6
    return found


def asked_by_handler(host_weigher, weighed, spec):
    """Return the arguments that Nova's weight handler gives a weigher."""
    return (host_weigher.weigh_objects(weighed, spec),
            [host_weigher.weight_multiplier(each.obj) for each in weighed])


class _NoWeigher(weights.BaseHostWeigher):
    """Gives hosts weights that take no time: their places in the list."""

    def _weigh_object(self, host_state, weight_properties):
        raise NotImplementedError()

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return range(len(weighed_obj_list))


def _filtered(filter_class, states, request):
    return list(filter_class().filter_all(states, request.spec))


def _weighed(weigher_class, states, request):
    return weights.HostWeightHandler().get_weighed_objects(
        [weigher_class()], states, request.spec)
