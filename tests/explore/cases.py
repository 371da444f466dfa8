# SPDX-License-Identifier: Apache-2.0

"""The cases of the explorer: their names, and the coverage."""

import collections
import fnmatch
import json
import random
import typing

from tests.explore import disturbances
from tests.explore import kinds
from tests.explore import operations

CLEAN = 'clean'
NOT_REACHED = 'not reached'
#: Stands for the disturbance of a run that finds the points.
NOTHING = 'nothing'
#: Stands for the disturbance of a sweep.
SWEEP = 'sweep'
#: Operations with a source host that is down.
_ON_DEAD_HOST = frozenset((
    'delete_locally', 'evacuate', 'fail_to_evacuate'))
#: Operations to or from another cell.
_BETWEEN_CELLS = frozenset((
    'migrate', 'resize', 'confirm', 'confirm_resize', 'revert',
    'revert_resize', 'delete_migrated'))


class Triple(typing.NamedTuple):
    """An operation, a kind of instance and a disturbance, each a name."""

    operation: str
    kind: str
    disturbance: str

    def __str__(self):
        return ':'.join(self)


def list_triples(patterns='*'):
    """Return the Triples that make sense and match a pattern, a list.

    :param patterns: patterns, separated by spaces; each has a glob for each
        part, such as "migrate*:high:*". Parts at the end may be left out
    """
    globs = [(pattern.split(':') + ['*', '*'])[:3]
             for pattern in patterns.split()]
    every = (Triple(operation, kind, disturbance)
             for operation in operations.list_names()
             for kind in kinds.list_names()
             for disturbance in disturbances.list_names())
    return [triple for triple in every if _makes_sense(triple) and any(
        all(map(fnmatch.fnmatchcase, triple, each)) for each in globs)]


def parse(case):
    """Return the Triple and the point of a case.

    :param case: its name, such as "migrate:high:delete_it:Instance.save#3", or
        "migrate:high:sweep:0"
    """
    *triple, point = case.split(':')
    return Triple(*triple), point


def _makes_sense(triple):
    """Return whether a disturbance can change something."""
    if (kinds.get_suffix(triple.kind) == kinds.BETWEEN_CELLS and
            triple.operation not in _BETWEEN_CELLS):
        return False
    is_of_source = 'source' in triple.disturbance
    if triple.operation in _ON_DEAD_HOST:
        return triple.disturbance == 'return_source' or not is_of_source
    return triple.disturbance != 'return_source'


def list_sweeps(triples):
    """Return the pairs (operation, kind) whose sweep plays a Triple."""
    pairs = dict.fromkeys(
        (triple.operation, triple.kind) for triple in triples
        if triple.disturbance not in disturbances.ENDING)
    # Another cloud takes a long time to start.
    return sorted(pairs, key=lambda pair: kinds.get_suffix(pair[1]))


def order_disturbances(operation, kind):
    """Return the names of the disturbances of a sweep, in their order.

    Those that let the operation go on for many points come last, one of each
    host.
    """
    names = [name for name in disturbances.list_names()
             if name not in disturbances.ENDING and
             _makes_sense(Triple(operation, kind, name))]
    generator = random.Random('%s:%s' % (operation, kind))
    generator.shuffle(names)
    far = {}
    for name in names:
        if disturbances.is_far(name):
            far.setdefault('source' in name, name)
    return [name for name in names
            if not disturbances.is_far(name)] + list(far.values())


def draw_ending(triples, seed):
    """Return a drawn case of each Triple that no sweep plays, as ``draw``."""
    return [(triple, random.Random('%s:%s' % (seed, triple)).random())
            for triple in triples
            if triple.disturbance in disturbances.ENDING]


def draw(triples, number, seed):
    """Return randomly drawn pairs (Triple, number from 0 to 1), a list.

    The number tells which of its points to take.
    """
    generator = random.Random(seed)
    return [(generator.choice(triples), generator.random())
            for _ in range(number)]


def parse_shard(text):
    """Return the numbers of "NUMBER/COUNT", such as "0/4"."""
    number, _, count = text.partition('/')
    return int(number), int(count)


class State:
    """The results so far, in a file of one JSON object per line.

    :param path: path of the file, or None to keep the results in memory
    """

    def __init__(self, path=None):
        self.results = {}  # name of a case -> result
        self.points = {}  # (operation, kind) -> names of its points
        # name of a sweep -> pairs (disturbance, name of its point)
        self.stops = {}
        self._path = path
        if path:
            with open(path, 'a+') as lines:
                lines.seek(0)
                for line in lines:
                    found = json.loads(line)
                    if 'points' in found:
                        self.points[found['operation'], found['kind']] = (
                            found['points'])
                    elif 'stops' in found:
                        self.stops[found['case']] = found['stops']
                    else:
                        self.results[found['case']] = found['result']

    def add(self, case, result):
        """Keep the result of a case: CLEAN, NOT_REACHED or a violation."""
        self.results[case] = result
        self._write(case=case, result=result)

    def add_points(self, operation, kind, points):
        """Keep the names of the points of an operation on a kind."""
        self.points[operation, kind] = points
        self._write(operation=operation, kind=kind, points=points)

    def add_stops(self, case, stops):
        """Keep the pairs (disturbance, name of its point) of a sweep."""
        self.stops[case] = stops
        self._write(case=case, stops=stops)

    def _write(self, **line):
        if self._path:
            with open(self._path, 'a') as lines:
                print(json.dumps(line), file=lines)

    def list_violations(self):
        """Return the names of the cases with a violation, a list."""
        return [case for case, result in self.results.items()
                if result not in (CLEAN, NOT_REACHED)]

    def format_coverage(self):
        """Return a table: the points of each operation by disturbance."""
        found = collections.defaultdict(collections.Counter)
        for case, result in self.results.items():
            operation, kind, disturbance, point = case.split(':')
            if disturbance == NOTHING and result == NOT_REACHED:
                continue
            for name, _ in self.stops.get(case, [(disturbance, point)]):
                row = found['%s:%s' % (operation, name)]
                row['stops'] += result != NOT_REACHED
                row['not reached'] += result == NOT_REACHED
                row['violations'] += result not in (CLEAN, NOT_REACHED)
                row[kind] += 1
        lines = []
        for name, row in sorted(found.items()):
            numbers = [row.pop(each) for each in (
                'stops', 'not reached', 'violations')]
            lines.append('%-60s %4d stops, %3d not reached, %2d violations '
                         '(%s)' % (name, *numbers, ', '.join(sorted(row))))
        return '\n'.join(lines)
