# SPDX-License-Identifier: Apache-2.0

"""The cases that a change must pass: two halves, which can run together."""

import pathlib
import unittest

from tests.explore import cases
from tests.explore import explorer
from tests.explore import results

_LISTED = pathlib.Path(__file__).with_name('short.txt')
_DRAWN = 12
_SEED = '4711'
#: Drawn from these, which need no dead host and no call that fails late.
_DRAWN_FROM = ('migrate', 'revert', 'resize_on_host', 'shelve')
_CASES_PER_CLOUD = 100


class Short(unittest.TestCase):
    """The listed cases, and some drawn ones."""

    def play(self, half):
        """Play every second case.

        :param half: 0 or 1
        """
        state = results.State()
        player = explorer.Explorer(state, _CASES_PER_CLOUD)
        self.addCleanup(player.close)
        listed = _LISTED.read_text().split()
        for case in listed[half::2]:
            player.play_case(case)
        drawn = cases.draw(cases.list_triples(_DRAWN_FROM), _DRAWN, _SEED)
        player.play_drawn(drawn[half::2])
        explorer.print_line(state.format_coverage())
        self.assertEqual([], state.list_violations())

    def test_first_half(self):
        self.play(0)

    def test_second_half(self):
        self.play(1)
