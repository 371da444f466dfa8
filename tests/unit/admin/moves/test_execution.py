# SPDX-License-Identifier: Apache-2.0

import pytest

from nova_prio.admin.moves import execution
from nova_prio.model.planner import fleet


def move(uuid, source, destination, way=fleet.LIVE):
    return fleet.Move(uuid, way, source, destination)


@pytest.mark.parametrize('moves, ended, done', [
    ([move('1', 'a', 'c'), move('2', 'b', 'd')], [], []),
    # Moves to one destination run in turn, though the first one may fail.
    ([move('1', 'a', 'c'), move('2', 'b', 'c')], [0], []),
    # The first move makes room for the second one.
    ([move('1', 'b', 'c'), move('2', 'a', 'b')], [], [0]),
    # The two are members of a server group.
    ([move('g1', 'a', 'c'), move('g2', 'b', 'd')], [], [0]),
    ([move('1', 'a', 'c'), move('1', 'c', 'd')], [], [0]),
    # A server that is shelved waits for no room.
    ([move('1', 'a', None, fleet.SHELVE),
      move('2', 'a', None, fleet.SHELVE)], [], []),
])
def test_second_move_waits_as_the_plan_says(moves, ended, done):
    first, second = execution.find_predecessors(
        moves, {'g1': 'group', 'g2': 'group', '1': None})
    assert not first.ended and not first.done
    assert (second.ended, second.done) == (set(ended), set(done))


def test_move_waits_for_all_that_leave_its_destination():
    *_, last = execution.find_predecessors(
        [move('1', 'b', 'c'), move('2', 'b', 'd'), move('3', 'a', 'b')], {})
    assert last.done == {0, 1}
