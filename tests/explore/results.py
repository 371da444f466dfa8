# SPDX-License-Identifier: Apache-2.0

"""The results of the explorer, which a file can keep, and the coverage."""

import collections
import json
import pathlib

from tests.explore import cases

CLEAN = 'clean'
NOT_REACHED = 'not reached'


class State:
    """The results so far, in a file of one JSON object per line.

    :param path: path of the file, which need not exist, or None to keep the
        results in memory
    :raises ValueError: if a line is not from the explorer
    """

    def __init__(self, path=None):
        self.results = {}  # name of a case -> result
        self.points = {}  # (operation, kind) -> names of its points
        # name of a sweep -> pairs (disturbance, name of its point)
        self.stops = {}
        self.seed = None
        self._path = path
        if path and pathlib.Path(path).exists():
            self._read()

    def _read(self):
        lines = pathlib.Path(self._path).read_bytes().splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                self._read_line(json.loads(line))
            except (AttributeError, KeyError, TypeError, ValueError):
                raise ValueError(
                    'Line %d of %s is not a result of the explorer: delete '
                    'the line, or name another file' % (
                        number, self._path)) from None

    def _read_line(self, found):
        """Keep what a line has.

        :param found: dict, as ``_write`` gets it
        """
        if 'seed' in found:
            self.seed = found['seed']
        elif 'points' in found:
            self.points[found['operation'], found['kind']] = found['points']
        else:
            cases.parse(found['case'])
            if 'stops' in found:
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

    def set_seed(self, seed):
        """Keep the seed of the drawn points, a str."""
        if seed != self.seed:
            self.seed = seed
            self._write(seed=seed)

    def _write(self, **line):
        if self._path:
            with open(self._path, 'a') as lines:
                print(json.dumps(line), file=lines)

    def forget(self, case):
        """Forget a case, so that it is played again.

        The file keeps its lines: the lines of the new result come after them.
        """
        del self.results[case]
        self.stops.pop(case, None)
        triple, _ = cases.parse(case)
        if triple.disturbance == cases.NOTHING:
            # An operation that fails without a disturbance has no points.
            self.points.pop((triple.operation, triple.kind), None)

    def forget_violations(self):
        """Forget the cases with a violation, so that a repair is tried."""
        for case in self.list_violations():
            self.forget(case)

    def list_violations(self):
        """Return the names of the cases with a violation, a list."""
        return [case for case, result in self.results.items()
                if result not in (CLEAN, NOT_REACHED)]

    def format_coverage(self):
        """Return a table: the points of each operation by disturbance."""
        found = collections.defaultdict(collections.Counter)
        for case, result in self.results.items():
            operation, kind, disturbance, point = case.split(':')
            is_violation = result not in (CLEAN, NOT_REACHED)
            if disturbance == cases.NOTHING and not is_violation:
                continue
            for name, _ in self.stops.get(case, [(disturbance, point)]):
                row = found['%s:%s' % (operation, name)]
                row['stops'] += result != NOT_REACHED
                row['not reached'] += result == NOT_REACHED
                row['violations'] += is_violation
                row[kind] += 1
        lines = []
        for name, row in sorted(found.items()):
            numbers = [row.pop(each) for each in (
                'stops', 'not reached', 'violations')]
            lines.append('%-60s %4d stops, %3d not reached, %2d violations '
                         '(%s)' % (name, *numbers, ', '.join(sorted(row))))
        return '\n'.join(lines)
