# SPDX-License-Identifier: Apache-2.0

"""Play the cases of the explorer."""

import contextlib
import functools
import itertools
import sys
import time
import traceback
from unittest import mock

from nova_prio.objects import migration_states
from tests.explore import cases
from tests.explore import cells
from tests.explore import cloud as explored_cloud
from tests.explore import disturbances
from tests.explore import kinds
from tests.explore import operations
from tests.explore import results

# As in production. After the operation, this time seems to have passed.
_QUIET_SECONDS = migration_states.QUIET_SECONDS
_CLOUDS = {'': explored_cloud.ExploredCloud,
           kinds.WITHOUT_MIX: explored_cloud.ExploredCloudWithoutMix,
           kinds.BETWEEN_CELLS: cells.ExploredCloudWithCells}
#: A server is created on each host after every so many cases of a cloud.
_ADMITTING = 10


def print_line(text):
    """Print a line; no fixture captures it."""
    print(text, file=sys.__stdout__, flush=True)


class Explorer:
    """Plays cases in clouds that it starts.

    ``reached`` is the list of the points that the last case has reached, in
    their order. It is empty if the case has a violation.

    :param state: ``results.State`` for the results
    :param cases_per_cloud: number of cases after which a cloud is replaced
    """

    def __init__(self, state, cases_per_cloud=1):
        self._state = state
        self._cases_per_cloud = cases_per_cloud
        self._left = 0
        self._cloud = None
        self._stack = contextlib.ExitStack()
        self.reached = []

    def close(self):
        """End the cloud."""
        self._stack.close()
        self._cloud = None

    def list_points(self, operation, kind):
        """Return the points of an operation on a kind, a list of names.

        It is empty if the operation fails without a disturbance.
        """
        points = self._state.points
        if (operation, kind) not in points:
            self.play(cases.Triple(operation, kind, cases.NOTHING), None)
            self._state.add_points(operation, kind, self.reached)
        return points[operation, kind]

    def list_similar_points(self, operation, kind):
        """Return the points of an operation on any kind, a list of names."""
        known = [points for (name, _), points in self._state.points.items()
                 if name == operation and points]
        return known[0] if known else self.list_points(operation, kind)

    def play_case(self, case):
        """Play a case; return its result.

        A case that was not reached is played again: ``reached`` then tells
        its points.

        :param case: its name, see ``cases.parse``
        """
        if self._state.results.get(case) == results.NOT_REACHED:
            self._state.forget(case)
        triple, point = cases.parse(case)
        if triple.disturbance == cases.SWEEP:
            self.play_sweep(triple.operation, triple.kind, int(point))
        else:
            self.play(triple, point)
        return self._state.results[case]

    def sweep(self, operation, kind):
        """Sweep an operation until each disturbance has had its turn."""
        first = 0
        while first < len(cases.order_disturbances(operation, kind)):
            played = self.play_sweep(operation, kind, first)
            if not played:
                return
            first += played

    def play_sweep(self, operation, kind, first):
        """Play an operation with a disturbance at each of its points.

        :param first: index of the disturbance at the first point
        :returns: number of the disturbances that were played
        """
        names = cases.order_disturbances(operation, kind)
        turns = itertools.chain(names[first:], itertools.cycle(names))
        stops = []

        def choose(point):
            stops.append((next(turns), point))
            return stops[-1][0]

        case = '%s:%s:%s:%d' % (operation, kind, cases.SWEEP, first)
        state = self._state
        if case not in state.results or case not in state.stops:
            result = self._keep(case, choose)
            state.add_stops(case, stops)
            if result != results.CLEAN:
                print_line('\n'.join(map(' at '.join, stops)))
        return len(state.stops[case])

    def play_drawn(self, drawn):
        """Play single stops.

        :param drawn: list of (Triple, number from 0 to 1), see ``cases.draw``
        """
        # Another cloud takes a long time to start.
        by_cloud = sorted(
            drawn, key=lambda each: kinds.get_suffix(each[0].kind))
        for triple, fraction in by_cloud:
            points = self.list_similar_points(triple.operation, triple.kind)
            if points:
                self.play(triple, points[int(fraction * len(points))])

    def play(self, triple, point):
        """Play a single stop unless there is a result.

        :param point: name of the point, or None to find the points
        """
        case = '%s:%s' % (triple, point)
        if case in self._state.results and point is not None:
            return
        self._keep(case, lambda reached: (
            triple.disturbance if reached == point else None))

    def _keep(self, case, choose):
        """Play a case; keep, print and return its result.

        :param choose: function that takes the name of a point, and returns the
            name of the disturbance to play there, or None
        """
        operation, kind, disturbance, point = case.split(':')
        self._prepare(kind)
        started = time.monotonic()
        result = results.CLEAN
        self.reached = []
        try:
            was_reached = self._play(operation, kind, disturbance, choose)
            if not was_reached and disturbance != cases.NOTHING:
                result = results.NOT_REACHED
            self.reached = list(self._cloud.points.reached)
            self._cloud.clean_up()
        except Exception as error:
            result = '%s: %s' % (type(error).__name__, error)
            print_line(traceback.format_exc(limit=-3))
            # The next case must not suffer.
            self._left = 0
        self._state.add(case, result)
        print_line('%5.1f s %s %s' % (
            time.monotonic() - started, case, result))
        return result

    def _prepare(self, kind):
        """Start a cloud if there is none, or none for this kind."""
        wanted = _CLOUDS[kinds.get_suffix(kind)]
        if self._left <= 0 or type(self._cloud) is not wanted:
            self.close()
            self._cloud = self._stack.enter_context(wanted.running())
            self._left = self._cases_per_cloud
        self._left -= 1

    def _play(self, operation, kind, disturbance, choose):
        """Play a case; return whether its point was reached."""
        cloud = self._cloud
        flavors = kinds.get(kind)
        steps = getattr(operations.Operations(cloud, flavors), operation)()
        server = next(steps)
        played = disturbances.Disturbances(cloud, flavors, server)

        def get_disturbance(point):
            name = choose(point)
            return name and functools.partial(_disturb, cloud, played, name)

        victim = disturbances.get_victim(disturbance)
        cloud.points.begin(get_disturbance,
                           victim and (lambda: cloud.kill(victim)))
        with mock.patch.object(migration_states, 'QUIET_SECONDS',
                               _QUIET_SECONDS):
            for _ in steps:
                pass
            was_reached = cloud.points.end()
        cloud.assert_sound()
        cloud.undo()
        if disturbance == 'return_source':
            # If the source was up before the guest had left, Nova ends the
            # guest at the next start.
            cloud.restart_compute_service(operations.SOURCE)
        if cloud.was_killed:
            cloud.recover()
        elif disturbance.startswith(('delete_it', 'return_source')):
            cloud.repair_allocations()
        cloud.assert_exact()
        cloud.assert_sound()
        if self._left % _ADMITTING == 0:
            cloud.assert_admits()
        return was_reached


def _disturb(cloud, played, name):
    """Play a disturbance.

    :param played: disturbances.Disturbances
    """
    getattr(played, name)()
    cloud.assert_sound()
