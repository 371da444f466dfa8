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

"""Measures and writes bench.json: ``python -m benchmarks``.

One run, both sides in turn: the filters and the weighers at each number of
hosts, where their time goes, the fold, the weighers of server groups, and the
audit. Ends with a table of the figures beside what is allowed; its exit status
is 0 unless the answers differ.
"""

import argparse
import importlib.metadata
import json
import logging
import math
import platform

# Its own imports of Nova's have to be the first.
from nova_prio.scenario import cloud  # noqa: F401, I100, I202

from nova import config
from nova import objects

from benchmarks import audit
from benchmarks import filters
from benchmarks import fold
from benchmarks import groups
from benchmarks import hosts
from benchmarks import parts
from benchmarks import request_specs
from benchmarks import tables
from nova_prio import seams

SIZES = (100, 1000, 10000)
#: How many hosts are enough where the time per host is all that is looked at.
ENOUGH_HOSTS = 1000


def at_each_size(states, sizes, repeats):
    """Return dict, number of hosts as str -> figures.

    Fewer hosts are looked at more often: a short time needs it more.

    :param states: list of HostState, as many as the largest size
    """
    high, low, ordinary = (
        request_specs.high(), request_specs.low(), request_specs.ordinary())
    found = {}
    for size in sorted(sizes):
        of_size = states[:size], repeats * max(1, ENOUGH_HOSTS // size)
        found[str(size)] = {
            **filters.pinned(high, *of_size),
            **filters.floating(low, *of_size),
            **filters.floating(ordinary, *of_size),
            **filters.weigher(low, *of_size)}
    return found


def at_one_size(size, repeats):
    """Return the figures of all else, with keys as in the contract."""
    made = {}

    def states_for(request):
        kind = tuple(sorted(request.hosts.items()))
        if kind not in made:
            made[kind] = [hosts.host(number, **request.hosts)
                          for number in range(size)]
        return made[kind]

    found = {}
    for request in request_specs.other_pinned():
        found.update(filters.pinned(request, states_for(request), repeats))
    high = request_specs.high()
    found.update(parts.times(high, states_for(high), repeats))
    found.update(parts.memory())
    return found


def growth(found):
    """Return how our time grows from each number of hosts to the largest.

    ``over`` is the time per host over that with fewer hosts; the time for all
    hosts grows as their number to the power of ``exponent``: 1 is linear.
    """
    largest = max(found['sizes'], key=int)

    def per_host(key, size):
        suffix = '' if key.startswith(('filter', 'weigher')) else '_' + size
        return found['sizes'][size][key + suffix + '.ours_us']

    grown = {}
    for key in ('filter.high.feasible', 'filter.high.full', 'low', 'ordinary',
                'weigher'):
        for size in sorted(set(found['sizes']) - {largest}, key=int):
            over = per_host(key, largest) / per_host(key, size)
            grown['growth.%s.over_%s' % (key, size)] = over
            # The smallest number comes first and says most.
            grown.setdefault(
                'growth.%s.exponent' % key,
                1 + math.log(over) / math.log(int(largest) / int(size)))
    return grown


def main():
    """Measure, write what was found and print it beside what is allowed."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--output', default='bench.json')
    parser.add_argument('--sizes', type=int, nargs='+', default=SIZES,
                        help='numbers of hosts')
    parser.add_argument('--repeats', type=int, default=5,
                        help='how often each side is measured; ten times as '
                        'often at 100 hosts, half as often in the audit')
    arguments = parser.parse_args()
    # Neither side writes to a log, which would cost Nova's side more.
    logging.disable(logging.INFO)
    config.parse_args(['bench', '--config-file', '/dev/null'])
    objects.register_all()
    conf = seams.register_options()
    conf.set_override('disable_fallback_pcpu_query', True, group='workarounds')
    states = [hosts.host(number) for number in range(max(arguments.sizes))]
    found = {
        'nova': importlib.metadata.version('nova'),
        'python': platform.python_version(),
        'repeats': arguments.repeats,
        'ratio': 'ours_us / stock_us',
        'sizes': at_each_size(
            states, arguments.sizes, arguments.repeats),
    }
    found.update(at_one_size(
        min(ENOUGH_HOSTS, max(arguments.sizes)), arguments.repeats))
    found.update(found['sizes'][str(max(arguments.sizes))])
    found.update(growth(found))
    found.update(fold.measure())
    found.update(groups.measure(states, arguments.repeats))
    # A pass of our audit takes about half a minute.
    found.update(audit.measure(min(ENOUGH_HOSTS, max(arguments.sizes)),
                               max(1, arguments.repeats // 2)))
    with open(arguments.output, 'w') as output:
        json.dump(found, output, indent=2)
        output.write('\n')
    print(tables.as_text(tables.figures(found)))


if __name__ == '__main__':
    main()
