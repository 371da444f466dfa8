# SPDX-License-Identifier: Apache-2.0

"""Stop each operation at each of its points, and disturb it there.

A case is OPERATION:KIND:DISTURBANCE:POINT. The points of an operation are
found by a run without a disturbance. What must hold is in
:mod:`tests.functional.oracle`.

A sweep plays an operation once, with another disturbance at each of its
points. A single stop is one case. By default, the selected operations are
swept, and the disturbances that end an operation are single stops at drawn
points.
"""

import os
import random
import unittest

from tests.explore import cases
from tests.explore import explorer

#: Patterns of the cases, or one case: see ``cases.list_triples``.
CASE = 'NOVA_PRIO_EXPLORE_CASE'
#: Number of the single stops to draw from the selected cases.
CASES = 'NOVA_PRIO_EXPLORE_CASES'
SEED = 'NOVA_PRIO_EXPLORE_SEED'
#: "NUMBER/COUNT": play every COUNTth of the triples or drawn cases.
SHARD = 'NOVA_PRIO_EXPLORE_SHARD'
#: File with the results; cases with a result there are not played again.
STATE = 'NOVA_PRIO_EXPLORE_STATE'
#: Number of cases in one cloud.
CLOUD = 'NOVA_PRIO_EXPLORE_CLOUD'


class Explore(unittest.TestCase):
    """The cases that the variables of the environment select."""

    def test_hosts_stay_right(self):
        state = cases.State(os.environ.get(STATE))
        selected = _get(CASE, '*')
        number = int(_get(CASES, '0'))
        player = explorer.Explorer(state, int(_get(CLOUD, '20')))
        self.addCleanup(player.close)
        try:
            if selected.count(':') == 3:
                player.play_case(selected)
            else:
                self._play_selected(player, selected, number)
        finally:
            explorer.print_line(state.format_coverage())
        self.assertEqual([], state.list_violations())

    def _play_selected(self, player, patterns, number):
        """Play single stops, or sweep.

        :param number: number of the single stops to draw, or 0 to sweep
        """
        triples = cases.list_triples(patterns)
        self.assertTrue(triples, '%s=%s selects no case' % (CASE, patterns))
        shard, count = cases.parse_shard(_get(SHARD, '0/1'))
        seed = _get(SEED, str(random.randrange(10 ** 6)))
        explorer.print_line('%s=%s' % (SEED, seed))
        drawn = (cases.draw(triples, number, seed) if number else
                 cases.draw_ending(triples, seed))
        if not number:
            for operation, kind in cases.list_sweeps(triples)[shard::count]:
                player.sweep(operation, kind)
        player.play_drawn(drawn[shard::count])


def _get(name, default):
    return os.environ.get(name) or default
