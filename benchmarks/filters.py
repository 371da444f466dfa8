# SPDX-License-Identifier: Apache-2.0

"""Compare filter and weigher with the classes of Nova that they replace."""

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
    """Return the figures of a pinned request, on free and on full hosts.

    :param request: benchmarks.request_specs.Request
    :param states: list of HostState, every other one full
    :raises SystemExit: if the two filters differ, refuse a host with free
        capacity, or pass a full host
    """
    found = {}
    for group, of_group in ('feasible', states[::2]), ('full', states[1::2]):
        def run(filter_class):
            fresh = hosts.copy_for(request, of_group)
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
                '%s on %s hosts.' % (request.key, group))
        expected = len(of_group) if group == 'feasible' else 0
        if len(answers[0]) != expected:
            raise SystemExit(
                'NUMATopologyFilter passes %d of %d %s hosts for %s, expected '
                'are %d.' % (len(answers[0]), len(of_group), group,
                             request.key, expected))
        found.update(clock.figures(
            'filter.%s.%s' % (request.key, group),
            *([seconds for seconds, _ in side] for side in (stock, ours)),
            len(of_group)))
    return found


def floating(request, states, repeats):
    """Return the figures of filter and weigher without pinned CPUs.

    Nova's filter must pass all hosts, also full ones, because the instance has
    no NUMA topology. PriorityFilter must pass only hosts with free capacity.

    :param request: benchmarks.request_specs.Request
    :param states: list of HostState, every other one full
    :raises SystemExit: if a filter passes other hosts
    """
    def run(filter_class, weigher_class, expected):
        fresh = hosts.copy_for(request, states)
        in_filter, passed = clock.seconds(
            lambda: _filtered(filter_class, fresh, request))
        if [state.host for state in passed] != [
                state.host for state in expected]:
            raise SystemExit(
                '%s does not pass the expected hosts for a request of class '
                '%s.' % (filter_class.__name__, request.key))
        in_weigher, _ = clock.seconds(
            lambda: _weighed(weigher_class, passed, request))
        return in_filter, in_filter + in_weigher

    stock, ours = clock.alternate(
        lambda: run(STOCK_FILTER, STOCK_WEIGHER, states),
        lambda: run(OUR_FILTER, OUR_WEIGHER, states[::2]), repeats)
    both = '%s_%d' % (request.key, len(states))
    in_filters, in_both = (
        [[each[index] for each in side] for side in (stock, ours)]
        for index in (0, 1))
    found = clock.figures('filter.' + request.key, *in_filters, len(states))
    found.update(clock.figures(both, *in_both, len(states)))
    for side in 'stock', 'ours':
        found['%s.%s_seconds' % (both, side)] = (
            found['%s.%s_us' % (both, side)] * len(states) / 1e6)
    found[both + '_seconds'] = found.pop(both + '.ours_seconds')
    return found


def weigher(request, states, repeats):
    """Return the figures of the weigher, alone and in Nova's weight handler.

    ``handler_us`` is the time of the handler without the weigher.

    :param request: benchmarks.request_specs.Request
    :param states: list of HostState
    """
    def run_alone(weigher_class):
        weighed = [weights.WeighedHost(state, 0.0)
                   for state in hosts.copy_for(request, states)]
        return clock.seconds(
            lambda: call_as_handler(
                weigher_class(), weighed, request.spec))[0]

    def run_in_handler(weigher_class):
        fresh = hosts.copy_for(request, states)
        return clock.seconds(
            lambda: _weighed(weigher_class, fresh, request))[0]

    found = {}
    for key, run in (('weigher', run_alone),
                     ('weigher.in_handler', run_in_handler)):
        found.update(clock.figures(key, *clock.alternate(
            lambda: run(STOCK_WEIGHER), lambda: run(OUR_WEIGHER), repeats),
            len(states)))
    found['weigher.handler_us'] = statistics.median(
        run_in_handler(_NoWeigher) for _ in range(repeats)) / len(states) * 1e6
    return found


def call_as_handler(host_weigher, weighed, spec):
    """Return (weights, multipliers) of a weigher, as Nova's handler does."""
    return (host_weigher.weigh_objects(weighed, spec),
            [host_weigher.weight_multiplier(each.obj) for each in weighed])


class _NoWeigher(weights.BaseHostWeigher):
    """A weigher that takes no time: the weight of a host is its index."""

    def _weigh_object(self, host_state, weight_properties):
        raise NotImplementedError()

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return range(len(weighed_obj_list))


def _filtered(filter_class, states, request):
    return list(filter_class().filter_all(states, request.spec))


def _weighed(weigher_class, states, request):
    return weights.HostWeightHandler().get_weighed_objects(
        [weigher_class()], states, request.spec)
