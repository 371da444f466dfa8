# SPDX-License-Identifier: Apache-2.0

"""Tests of the searches, and of the order of the moves, one by one."""

import pytest

from nova_prio.model.planner import arrange
from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import plan
from tests.unit.model.planner import fleets
from tests.unit.model.planner import test_plan

#: The whole high row of a host.
FULL = dict(priority='high', dedicated=8)


def test_last_member_of_affinity_group_is_shelved():
    groups = {'g': fleet_module.Group('affinity')}
    low = dict(test_plan.LOW)
    fleet = test_plan.make({'a': dict(dedicated=4), 'b': {}},
                           ('i', 'a', low, ['shelve'], 'g'), groups=groups)
    wanted = test_plan.instance('wanted', None, FULL, (), 'g')
    found = plan.plan_room(fleet, wanted, 1)
    assert [('i', 'shelve', None)] == test_plan.get_moves(found)
    assert ('b',) == found.hosts


def test_two_moves_of_an_instance_become_one():
    fleet = test_plan.make({'a': {}, 'b': {}, 'c': {}}, ('i', 'a', FULL))
    fleet.move('i', 'live', 'b')
    fleet.move('i', 'live', 'c')
    assert [('i', 'live', 'a', 'c')] == arrange.merge(fleet)


def test_round_trips_are_left_out():
    fleet = test_plan.make({'a': {}, 'b': {}, 'c': {}}, ('i', 'a', FULL))
    for host in 'b', 'a', 'c', 'b':
        fleet.move('i', 'live', host)
    assert [('i', 'live', 'a', 'b')] == arrange.merge(fleet)
    assert 'b' == fleet.get_place('i').host


def test_two_moves_become_none():
    fleet = test_plan.make({'a': {}, 'b': {}}, ('i', 'a', FULL))
    for host in 'b', 'a':
        fleet.move('i', 'live', host)
    assert [] == arrange.merge(fleet)


def test_two_moves_stay_if_one_is_not_feasible():
    # j needs the room of i on a, and i that of j on c.
    fleet = test_plan.make({'a': {}, 'b': {}, 'c': {}},
                           ('i', 'a', FULL), ('j', 'c', FULL))
    moves = [('i', 'b'), ('j', 'a'), ('i', 'c')]
    for uuid, host in moves:
        fleet.move(uuid, 'live', host)
    assert moves == [(move.uuid, move.destination)
                     for move in arrange.merge(fleet)]


def test_order_is_kept_if_the_preferred_order_misses_the_goal():
    fleet = test_plan.make({'a': {}, 'b': {}}, ('high', 'a', test_plan.HIGH),
                           ('low', 'a', test_plan.LOW))
    moves = [fleet_module.Move(uuid, 'live', 'a', 'b')
             for uuid in ('high', 'low')]
    assert moves[::-1] == arrange.arrange(fleet, moves)
    assert moves == arrange.arrange(fleet, moves, lambda: False)
    assert [] == fleet.log


def test_move_waits_until_it_is_feasible():
    # The low row of b has room for one of the two until x leaves.
    fleet = test_plan.make(
        {'a': {}, 'b': dict(used=(0, 8, 0)), 'c': {}},
        ('x', 'b', dict(priority='high', dedicated=4, shared=4)),
        ('low', 'a', test_plan.LOW), ('low2', 'a', test_plan.LOW))
    moves = [fleet_module.Move('x', 'live', 'b', 'c'),
             fleet_module.Move('low', 'live', 'a', 'b'),
             fleet_module.Move('low2', 'live', 'a', 'b')]
    assert [moves[1], moves[0], moves[2]] == arrange.arrange(fleet, moves)


@pytest.mark.parametrize('first', ['a', 'z'])
def test_guest_that_fits_on_its_own_host_only_is_not_shelved(first):
    """g would have to be shelved, and h can be live-migrated to d."""
    small = dict(priority='high', dedicated=2)
    bound = dict(small, aggregates=frozenset(['rack']))
    fleet = test_plan.make(
        {first: dict(aggregates=[fleets.PRIORITY, fleets.RACK]), 'c': {},
         'd': dict(dedicated=4)},
        ('g', first, bound), ('h', 'c', small))
    found = plan.plan_room(fleet, test_plan.make_wanted(FULL), 1)
    assert [('h', 'live', 'd')] == test_plan.get_moves(found)
