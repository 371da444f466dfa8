# SPDX-License-Identifier: Apache-2.0

"""The cost of a create on a live cloud: ``python -m benchmarks.live A [B]``.

On two clouds, with this package on one of them: servers without a priority are
created in small batches, on either cloud in turn, and nova-scheduler is asked
for hosts of more of them. That is half a round; for the other half, the clouds
change places. What differs within a round is the figure. Writes
throughput.json after each half. ``tox -e throughput`` starts the clouds.

With one cloud, both sides of a round run on that cloud with this package. Such
a run shows that the benchmark works, and requires no figure.
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

#: The part of the turns that is left out at either end: some fall together
#: with the periodic tasks of Nova.
TRIM = 0.1


def measure(plain, ours, arguments):
    """Return the figures of half a round: two dicts, figure -> seconds.

    :param plain: live_cloud.Cloud without this package
    :param ours: the one with it
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
    """Measure, write the figures and print them beside the limits.

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
    is_trial = len(clouds) == 1
    if is_trial:
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
    return 0 if is_trial or live_tables.is_reached(table) else 1


if __name__ == '__main__':
    sys.exit(main())
