# SPDX-License-Identifier: Apache-2.0

"""Stop each operation at each of its points, and disturb it there.

A case is OPERATION:KIND:DISTURBANCE:POINT. The points of an operation are
found by a run without a disturbance. What must hold is in :mod:`oracle`.

A sweep plays a disturbance at each point of an operation, in one cloud. A
single stop is one case in a clean cloud. By default, single stops are drawn.
"""

import os
import random
import unittest

from tests.explore import cases
from tests.explore import explorer

#: Cases to sweep, such as "migrate:high:recount_source:Instance.save#1" or
#: "evacuate:*-nomix:kill_*": a glob for each part.
CASE = 'NOVA_PRIO_EXPLORE_CASE'
#: Number of the single stops to draw from all cases.
CASES = 'NOVA_PRIO_EXPLORE_CASES'
SEED = 'NOVA_PRIO_EXPLORE_SEED'
#: "NUMBER/COUNT": play every COUNTth of the triples or drawn cases.
SHARD = 'NOVA_PRIO_EXPLORE_SHARD'
#: File with the results; cases with a result there are not played again.
STATE = 'NOVA_PRIO_EXPLORE_STATE'
#: Number of cases in one cloud; by default 1 for single stops.
CLOUD = 'NOVA_PRIO_EXPLORE_CLOUD'
_SWEPT_PER_CLOUD = '200'


def _get(name, default):
    return os.environ.get(name) or default


class Explore(unittest.TestCase):
    """The cases that the environment selects."""

    def test_hosts_stay_right(self):
        state = cases.State(os.environ.get(STATE))
        pattern = _get(CASE, '*')
        number = int(_get(CASES, '0'))
        triples = cases.list_triples(pattern)
        self.assertTrue(triples, '%s=%s: no case' % (CASE, pattern))
        shard, count = cases.parse_shard(_get(SHARD, '0/1'))
        player = explorer.Explorer(
            state, int(_get(CLOUD, '1' if number else _SWEPT_PER_CLOUD)))
        self.addCleanup(player.close)
        try:
            if number:
                self._play_drawn(player, triples, number, shard, count)
            else:
                self._sweep(player, triples[shard::count], pattern)
        finally:
            explorer.print_line(state.format_coverage())
        self.assertEqual([], state.list_violations())

    def _sweep(self, player, triples, pattern):
        point = ':'.join(pattern.split(':')[3:])
        for triple in triples:
            names = player.list_points(triple.operation, triple.kind)
            for each in [point] if point else names:
                player.play(triple, each)

    def _play_drawn(self, player, triples, number, shard, count):
        seed = _get(SEED, str(random.randrange(10 ** 6)))
        explorer.print_line('%s=%s' % (SEED, seed))
        drawn = cases.draw(triples, number, seed)
        for triple, fraction in drawn[shard::count]:
            names = player.list_similar_points(
                triple.operation, triple.kind)
            if names:
                player.play(triple, names[int(fraction * len(names))])
