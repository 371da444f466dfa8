# SPDX-License-Identifier: Apache-2.0

"""The cost of a create on a live cloud: ``python -m benchmarks.live A [B]``.

Of two clouds, one uses nova_prio and the other plain Nova. In half a round,
the benchmark creates small batches of servers without a priority on each cloud
in turn. It also asks nova-scheduler for the hosts of more servers. In the
other half of the round, the clouds change roles. The figure is the difference
within a round. The command writes throughput.json after each half.
``tox -e throughput`` starts the clouds.

If there is only one cloud, it plays both roles with nova_prio. Such a run
shows that the benchmark works, and requires no figure.
"""

import argparse
import functools
import json
import pathlib
import sys
import time

import scipy.stats

from benchmarks import clock
from benchmarks import live_cloud
from benchmarks import live_tables
from benchmarks import tables
from tests.live import layout as layouts

#: Fraction of the fastest and of the slowest turns that do not count. Periodic
#: tasks of Nova slow down some turns.
TRIM = 0.1


def measure(plain, ours, arguments):
    """Return the figures of half a round: two dicts, figure -> seconds.

    :param plain: live_cloud.Cloud that runs plain Nova
    :param ours: live_cloud.Cloud that uses nova_prio
    """
    if plain is not ours:
        plain.start(is_plain=True)
    ours.start(is_plain=False)
    found = {}, {}
    for method, number, turns in (
            ('create', arguments.batch, arguments.batches),
            ('ask', arguments.requests, arguments.turns)):
        for side, each in zip(found, clock.alternate(
                functools.partial(getattr(plain, method), number),
                functools.partial(getattr(ours, method), number), turns)):
            for figure in each[0]:
                side[figure] = scipy.stats.trim_mean(
                    [turn[figure] for turn in each], TRIM)
    return found


def main():
    """Measure, write the figures, and print a table of figures and limits.

    :returns: the exit status: 0 if all figures are within the limits
    """
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.live', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('clouds', type=pathlib.Path, nargs='+',
                        metavar='DIRECTORY',
                        help='directory of a running cloud; one or two')
    parser.add_argument('--output', type=pathlib.Path,
                        default=pathlib.Path('throughput.json'))
    parser.add_argument('--rounds', type=int, default=6)
    parser.add_argument('--batches', type=int, default=12,
                        help='batches of servers per cloud in half a round')
    parser.add_argument('--batch', type=int, default=8,
                        help='servers of a batch')
    parser.add_argument('--turns', type=int, default=20,
                        help='turns of requests per nova-scheduler in half a '
                        'round')
    parser.add_argument('--requests', type=int, default=10,
                        help='requests of a turn')
    parser.add_argument('--tables', type=pathlib.Path, metavar='DIRECTORY',
                        help='also write the table of the guide there')
    arguments = parser.parse_args()
    if len(arguments.clouds) > 2:
        parser.error('%d clouds are given; allowed are one or two.'
                     % len(arguments.clouds))
    try:
        clouds = [live_cloud.Cloud(layouts.Layout.load(directory.absolute()))
                  for directory in arguments.clouds]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    for each in clouds:
        each.prepare()
    has_one_cloud = len(clouds) == 1
    if has_one_cloud:
        clouds *= 2
    found = {'plain': [], 'ours': []}
    for _ in range(2 * arguments.rounds):
        started = time.monotonic()
        for side, figures in zip(found, measure(*clouds, arguments)):
            found[side].append(figures)
        clouds.reverse()
        arguments.output.write_text(json.dumps(found, indent=1) + '\n')
        print('%3.0f s' % (time.monotonic() - started), *(
            '%s %.4f %.4f' % (name, *(found[side][-1][name] for side in found))
            for name in live_tables.FIGURES), flush=True)
    table = live_tables.throughput(found)
    print(tables.as_text(table))
    if arguments.tables:
        tables.write(table, arguments.tables / 'throughput.csv')
    return 0 if has_one_cloud or live_tables.is_reached(table) else 1


if __name__ == '__main__':
    sys.exit(main())
