# SPDX-License-Identifier: Apache-2.0

"""Stop each operation at each of its points, and disturb it there.

A case is OPERATION:KIND:DISTURBANCE:POINT. The points of an operation are
found by a run without a disturbance. What must hold is in
tests/functional/oracle.py.

A sweep plays an operation once, with another disturbance at each of its
points. A single stop is one case. By default, the selected operations are
swept, and the disturbances that end an operation are single stops at drawn
points.
"""

import argparse
import os
import pathlib
import random
import re
import signal
import sys
import textwrap

from tests.explore import cases
from tests.explore import disturbances
from tests.explore import explorer
from tests.explore import kinds
from tests.explore import operations
from tests.explore import results

#: Exit status of a process that SIGINT has ended, as a shell shows it.
_INTERRUPTED = 130


def main(arguments=None):
    """Run the command and return its exit status.

    :param arguments: list of str, or None for those of the process
    """
    parser = _make_parser()
    options = parser.parse_intermixed_args(arguments)
    try:
        state = _read_state(options)
        if not options.table:
            for case in options.cases:
                cases.check(case)
            state.forget_violations()
            _choose_seed(state, options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if options.table:
        explorer.print_line(state.format_coverage())
        return 0
    _end_at_interrupt(state)
    return _play(state, options)


def _make_parser():
    parser = argparse.ArgumentParser(
        prog='python -m tests.explore', description=__doc__,
        epilog=_list_names(),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        'cases', metavar='CASE', nargs='*', default=['*'],
        help='a case; or OPERATION:KIND:sweep:NUMBER, a sweep that begins '
             'with this disturbance; or a pattern '
             'OPERATION[:KIND[:DISTURBANCE]], which may have *, ? and [ '
             '(default: *)')
    parser.add_argument(
        '--single-stops', metavar='NUMBER', type=_parse_count,
        help='draw this number of single stops from the patterns, in place '
             'of sweeps')
    parser.add_argument(
        '--seed', help='seed of the drawn points and cases (default: the seed '
                       'in the state, or a random one)')
    parser.add_argument(
        '--shard', metavar='NUMBER/COUNT', type=_parse_shard, default=(0, 1),
        help='play every COUNTth case and sweep, from NUMBER on, which starts '
             'at 0; all shards need the same seed')
    parser.add_argument(
        '--state', metavar='FILE',
        help='keep the results in this file, and play only what has no result '
             'there, or a violation')
    parser.add_argument(
        '--cases-per-cloud', metavar='NUMBER', type=_parse_count, default=20,
        help='start another cloud after this number of cases '
             '(default: %(default)s)')
    parser.add_argument(
        '--table', action='store_true',
        help='print the coverage in the state, and play nothing')
    return parser


def _list_names():
    """Return the names that a CASE may have, for --help."""
    named = {'operations': operations.list_names(),
             'kinds': kinds.list_names(),
             'disturbances': disturbances.list_names()}
    return '\n\n'.join(
        '%s:\n%s' % (title, textwrap.fill(
            ' '.join(names), initial_indent='  ', subsequent_indent='  ',
            break_on_hyphens=False))
        for title, names in named.items())


def _parse_count(text):
    """Return a whole number of at least 1."""
    if not re.fullmatch('[0-9]+', text) or int(text) < 1:
        raise argparse.ArgumentTypeError(
            '"%s" is not a whole number of at least 1' % text)
    return int(text)


def _parse_shard(text):
    """Return the numbers of "NUMBER/COUNT", such as "0/4"."""
    found = re.fullmatch('([0-9]+)/([0-9]+)', text)
    if not found or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(
            '"%s" is not NUMBER/COUNT with a NUMBER from 0 to COUNT - 1, such '
            'as 0/4' % text)
    return int(found[1]), int(found[2])


def _read_state(options):
    """Return the results.State; write nothing."""
    if not options.state:
        if options.table:
            raise ValueError('--table needs --state FILE')
        return results.State()
    path = pathlib.Path(options.state)
    if not path.exists() and (options.table or not path.parent.is_dir()):
        raise ValueError('%s does not exist' % (
            path if options.table else path.parent))
    return results.State(path)


def _choose_seed(state, options):
    """Set the seed of the state unless each CASE is a full case."""
    if all(cases.is_full(case) for case in options.cases):
        return
    state.set_seed(
        options.seed or state.seed or str(random.randrange(10 ** 6)))
    explorer.print_line('--seed %s' % state.seed)


def _end_at_interrupt(state):
    """Let Ctrl-C print the coverage, and end the process at once.

    Code of Nova could catch an exception, and wait for its threads.
    """
    def end(signal_number, frame):
        try:
            explorer.print_line(state.format_coverage())
            explorer.print_line('interrupted')
        finally:
            os._exit(_INTERRUPTED)

    signal.signal(signal.SIGINT, end)


def _play(state, options):
    """Play the selected cases; print the outcome, and return the status."""
    number, count = options.shard
    full = [case for case in dict.fromkeys(options.cases)
            if cases.is_full(case)]
    patterns = [case for case in options.cases if not cases.is_full(case)]
    player = explorer.Explorer(state, options.cases_per_cloud)
    not_reached = {}  # name of a case -> the points that were reached
    try:
        for case in full[number::count]:
            if player.play_case(case) == results.NOT_REACHED:
                not_reached[case] = player.reached
        if patterns:
            _play_selected(player, cases.list_triples(patterns), options,
                           state.seed)
    finally:
        explorer.print_line(state.format_coverage())
        player.close()
    for case, points in not_reached.items():
        explorer.print_line(
            '%s was not reached. This operation of this kind has reached, in '
            'this order:' % case)
        explorer.print_line('\n'.join(points) or 'no point')
    violations = state.list_violations()
    for case in violations:
        explorer.print_line('violation: %s' % case)
    return 1 if violations or not_reached else 0


def _play_selected(player, triples, options, seed):
    """Play single stops, or sweep.

    :param triples: list of cases.Triple
    """
    number, count = options.shard
    if options.single_stops:
        drawn = cases.draw(triples, options.single_stops, seed)
    else:
        drawn = cases.draw_ending(triples, seed)
        for operation, kind in cases.list_sweeps(triples)[number::count]:
            player.sweep(operation, kind)
    player.play_drawn(drawn[number::count])


if __name__ == '__main__':
    sys.exit(main())
