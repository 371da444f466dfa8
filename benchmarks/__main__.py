# SPDX-License-Identifier: Apache-2.0

"""Measure and write bench.json: ``python -m benchmarks``.

Each part of the benchmark measures stock Nova and nova_prio in turn, in one
process. The command writes the figures of a part as soon as the part has been
measured. At the end, it prints a table of the figures and the allowed figures.
The exit status is 0 unless the answers of Nova and nova_prio differ.
"""

import argparse
import functools
import importlib.metadata
import json
import logging
import math
import pathlib
import platform

# This module must import Nova's test code before any other module of Nova.
from nova_prio_scenario import cloud  # noqa: F401, I100, I202

from nova import config
from nova import objects

from benchmarks import audit
from benchmarks import cost_table
from benchmarks import end_to_end
from benchmarks import filters
from benchmarks import fold
from benchmarks import groups
from benchmarks import hosts
from benchmarks import parts
from benchmarks import planner
from benchmarks import recount
from benchmarks import request_filter
from benchmarks import request_specs
from benchmarks import scale
from benchmarks import tables
from nova_prio.compat import hooks

SIZES = (100, 1000, 10000)
#: Number of hosts that is enough to measure the time per host.
ENOUGH_HOSTS = 1000


class Bench:
    """The hosts and the size of one run.

    ``sizes`` are the numbers of hosts, ascending; ``repeats`` is how often
    each side is measured.
    """

    def __init__(self, sizes, repeats):
        self.sizes = sorted(set(sizes))
        self.repeats = repeats
        self.size = min(ENOUGH_HOSTS, self.sizes[-1])

    @functools.cached_property
    def states(self):
        """The HostStates, as many as the largest size."""
        return [hosts.host(number) for number in range(self.sizes[-1])]

    @functools.cache
    def states_for(self, options):
        """Return HostStates with options.

        :param options: tuple of (name, value), keyword arguments of
            ``hosts.host``
        """
        return [hosts.host(number, **dict(options))
                for number in range(self.size)]

    def measure_sizes(self, measure):
        """Return the figures of each number of hosts.

        A small number of hosts is measured more often, because short times
        vary more.

        :param measure: (list of HostState, repeats) -> dict of figures
        :returns: dict with the figures of the largest number of hosts, and
            'sizes', a dict, number of hosts as str -> figures
        """
        found = {str(size): measure(
            self.states[:size],
            self.repeats * max(1, ENOUGH_HOSTS // size))
            for size in self.sizes}
        return {**found[str(self.sizes[-1])], 'sizes': found}


def _filters(bench):
    high, low, ordinary = (
        request_specs.high(), request_specs.low(), request_specs.ordinary())
    found = bench.measure_sizes(lambda *of_size: {
        **filters.pinned(high, *of_size),
        **filters.floating(low, *of_size),
        **filters.floating(ordinary, *of_size)})
    for request in request_specs.other_pinned():
        found.update(filters.pinned(
            request, bench.states_for(tuple(sorted(request.hosts.items()))),
            bench.repeats))
    return found


def _weigher(bench):
    low = request_specs.low()
    return bench.measure_sizes(
        lambda *of_size: filters.weigher(low, *of_size))


def _parts(bench):
    high = request_specs.high()
    return parts.measure_times(
        high, bench.states_for(tuple(sorted(high.hosts.items()))),
        bench.repeats)


def _memory(bench):
    return parts.measure_memory(min(200, bench.size))


def _fold(bench):
    # A repeat takes milliseconds.
    return fold.measure(repeats=3 * bench.repeats)


def _groups(bench):
    return groups.measure(bench.states, bench.repeats)


def _audit(bench):
    # One run of the audit takes about half a minute.
    return audit.measure(bench.size, max(1, bench.repeats // 2))


def _request_filter(bench):
    return request_filter.measure(
        min(3 * ENOUGH_HOSTS, bench.sizes[-1]), bench.repeats)


def _end_to_end(bench):
    # One request takes some seconds.
    repeats = max(1, bench.repeats // 2)
    if bench.size < ENOUGH_HOSTS:
        return end_to_end.measure(
            bench.size, repeats, limits=(20,), instances=(1,))
    found = {}
    for size in bench.sizes:
        if size >= ENOUGH_HOSTS:
            found.update(end_to_end.measure(size, repeats))
    return found


def _recount(bench):
    numbers = recount.GUESTS
    if bench.size < ENOUGH_HOSTS:
        numbers = (2,)
    return recount.measure(bench.repeats, numbers)


def _scale(bench):
    # One run of an audit takes some seconds.
    return scale.measure(max(20, bench.size // 4), max(1, bench.repeats // 2))


def _planner(bench):
    # One run takes some seconds.
    return planner.measure(bench.size, max(1, bench.repeats // 2))


#: Name of each part of the benchmark -> (Bench) -> dict of figures.
PARTS = {'filters': _filters, 'weigher': _weigher, 'parts': _parts,
         'memory': _memory, 'fold': _fold, 'groups': _groups,
         'request_filter': _request_filter, 'planner': _planner,
         'audit': _audit, 'recount': _recount,
         'end_to_end': _end_to_end, 'scale': _scale}


def growth(found):
    """Return how the time of nova_prio grows up to the largest size.

    ``over`` is the time per host at the largest size, divided by the time per
    host at a smaller size. The time for all hosts is proportional to their
    number to the power of ``exponent``; 1 means linear growth.

    :param found: dict of figures; may lack parts that were not measured
    """
    largest = max(found['sizes'], key=int, default=None)

    def per_host(key, size):
        suffix = '' if key.startswith(('filter', 'weigher')) else '_' + size
        return found['sizes'][size].get(key + suffix + '.ours_us')

    grown = {}
    for key in ('filter.high.feasible', 'filter.high.full', 'low', 'ordinary',
                'weigher'):
        for size in sorted(set(found['sizes']) - {largest}, key=int):
            if per_host(key, size) is None:
                continue
            over = per_host(key, largest) / per_host(key, size)
            grown['growth.%s.over_%s' % (key, size)] = over
            # Keep the exponent of the smallest size, the widest interval.
            grown.setdefault(
                'growth.%s.exponent' % key,
                1 + math.log(over) / math.log(int(largest) / int(size)))
    return grown


def _parse_parts(text):
    """Return the names of parts in an argument, in the order of PARTS."""
    names = text.split(',')
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        raise argparse.ArgumentTypeError(
            'there is no part %s; choose from %s' % (
                ', '.join(unknown), ', '.join(PARTS)))
    return [name for name in PARTS if name in names]


def main():
    """Measure, write the figures, and print a table of figures and limits."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--output', type=pathlib.Path,
                        default=pathlib.Path('bench.json'))
    parser.add_argument('--only', type=_parse_parts, default=list(PARTS),
                        metavar='PART[,PART...]',
                        help='parts to measure: ' + ', '.join(PARTS))
    parser.add_argument('--sizes', type=int, nargs='+', default=SIZES,
                        help='numbers of hosts')
    parser.add_argument('--repeats', type=int, default=5,
                        help='measurements of each side; ten times as many '
                        'at 100 hosts, three times as many of recounts, half '
                        'as many of the audit')
    arguments = parser.parse_args()
    # Nova logs more than nova_prio, which would distort the comparison.
    logging.disable(logging.INFO)
    config.parse_args(['bench', '--config-file', '/dev/null'])
    objects.register_all()
    conf = hooks.register_options()
    conf.set_override('disable_fallback_pcpu_query', True, group='workarounds')
    bench = Bench(arguments.sizes, arguments.repeats)
    found = {
        'nova': importlib.metadata.version('nova'),
        'python': platform.python_version(),
        'repeats': arguments.repeats,
        'ratio': 'ours_us / stock_us',
        'sizes': {},
        'missing': list(PARTS),
    }
    for name in arguments.only:
        figures = PARTS[name](bench)
        for size, of_size in figures.pop('sizes', {}).items():
            found['sizes'].setdefault(size, {}).update(of_size)
        found.update(figures)
        found.update(growth(found))
        found['missing'].remove(name)
        arguments.output.write_text(json.dumps(found, indent=2) + '\n')
        print('%s: measured' % name, flush=True)
    for table in (tables.figures, tables.requests, tables.computes,
                  cost_table.costs):
        print(tables.as_text(table(found)), end='\n\n')


if __name__ == '__main__':
    main()
