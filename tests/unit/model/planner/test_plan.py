# SPDX-License-Identifier: Apache-2.0

import pytest

from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages
from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import plan
from tests.unit.model.planner import fleets

HIGH = dict(priority='high', dedicated=4)
LOW = dict(priority='low', shared=4)
ORDINARY = dict(shared=4)


def instance(uuid, host, needs, ways=fleets.ALL_WAYS, group=None):
    return fleet_module.Instance(uuid, fleets.make_needs(**needs), host,
                                 frozenset(ways), group)


def make(hosts, *instances, groups=None):
    """Return a Fleet.

    :param hosts: dict, name -> arguments of ``make_host``
    """
    return fleets.make_fleet(
        [fleets.make_host(name, **more) for name, more in hosts.items()],
        [instance(*each) for each in instances], groups)


def get_moves(found):
    return [(move.uuid, move.way, move.destination) for move in found.moves]


def test_drain_moves_low_before_ordinary_before_high():
    # The example of cpu_capacity.py: the third host has room for all.
    fleet = make({'a': {}, 'b': dict(is_enabled=False), 'c': {}},
                 ('high', 'a', HIGH), ('plain', 'a', ORDINARY),
                 ('low', 'a', LOW))
    found = plan.plan_drain(fleet, ['a'])
    assert [(uuid, 'live', 'c') for uuid in ('low', 'plain', 'high')] == (
        get_moves(found))
    assert not found.misses


def test_drain_prefers_live_to_cold_to_shelve():
    fleet = make({'a': {}, 'b': {}}, ('shelve', 'a', LOW, ['shelve']),
                 ('cold', 'a', LOW, ['cold', 'shelve']),
                 ('live', 'a', LOW, ['live', 'cold']))
    assert [('live', 'live', 'b'), ('cold', 'cold', 'b'),
            ('shelve', 'shelve', None)] == get_moves(
        plan.plan_drain(fleet, ['a']))


def test_way_that_is_not_allowed_is_not_used():
    fleet = make({'a': {}, 'b': dict(shared=1, dedicated=0, mix=False)},
                 ('i', 'a', LOW))
    assert [('i', 'shelve', None)] == get_moves(plan.plan_drain(fleet, ['a']))
    found = plan.plan_drain(fleet, ['a'], ['live', 'cold'])
    assert () == found.moves
    assert [('i', 'b')] == [
        (miss.instance.uuid, miss.host) for miss in found.misses]


def test_instance_without_ways_is_left():
    fleet = make({'a': {}, 'b': {}}, ('i', 'a', LOW, []))
    miss, = plan.plan_drain(fleet, ['a']).misses
    assert ('no allowed way to move the instance', None) == (
        miss.reason, miss.host)


def test_drain_of_all_hosts_has_no_destination():
    fleet = make({'a': {}}, ('i', 'a', LOW, ['live']))
    miss, = plan.plan_drain(fleet, ['a']).misses
    assert 'no other hosts' == miss.reason


def test_closest_miss_has_the_smallest_shortage():
    # 8 - 6 = 2 and 8 - 5 = 3 dedicated CPUs are free; 4 are needed.
    fleet = make({'a': {}, 'b': dict(used=(6, 0, 0)),
                  'c': dict(used=(5, 0, 0)),
                  'd': dict(dedicated=0, mix=False)},
                 ('i', 'a', HIGH, ['live']))
    found = plan.plan_drain(fleet, ['a'])
    miss, = found.misses
    assert 'c' == miss.host
    assert 'the high row has 3 of 8 vCPUs free, 4 are needed' == miss.reason
    assert [('high row', 1)] == [
        (each.resource, each.missing) for each in miss.obstacles]


def test_drain_moves_another_guest_to_make_room():
    # Only b may take the instance of the rack, and only c has room.
    fleet = make({'a': {}, 'b': dict(aggregates=[fleets.PRIORITY,
                                                 fleets.RACK]), 'c': {}},
                 ('in', 'a', dict(HIGH, aggregates=frozenset(['rack'])),
                  ['live']),
                 ('x', 'b', HIGH, ['live']), ('y', 'b', HIGH, []))
    assert [('x', 'live', 'c'), ('in', 'live', 'b')] == get_moves(
        plan.plan_drain(fleet, ['a']))


def test_member_of_affinity_group_follows_or_stays():
    groups = {'g': fleet_module.Group('affinity')}
    fleet = make({'a': {}, 'b': {}, 'c': {}},
                 ('i', 'a', LOW, ['live'], 'g'),
                 ('j', 'b', LOW, ['live'], 'g'), groups=groups)
    assert [('i', 'live', 'b')] == get_moves(plan.plan_drain(fleet, ['a']))
    miss, = plan.plan_drain(fleet, ['a', 'b']).misses[:1]
    assert ('server group g has the policy affinity; its members on the host: '
            '0' == miss.reason)


def test_members_of_anti_affinity_group_stay_apart():
    groups = {'g': fleet_module.Group('anti-affinity')}
    fleet = make({'a': {}, 'b': {}, 'c': {}},
                 ('i', 'a', LOW, ['live'], 'g'),
                 ('j', 'b', LOW, ['live'], 'g'), groups=groups)
    assert [('i', 'live', 'c')] == get_moves(plan.plan_drain(fleet, ['a']))
    miss, = plan.plan_drain(fleet, ['a', 'c']).misses
    assert ('server group g has the policy anti-affinity; its members on the '
            'host: 1' == miss.reason)


def test_soft_policy_is_a_preference():
    groups = {'g': fleet_module.Group('soft-anti-affinity')}
    hosts = {'a': {}, 'b': {}, 'c': dict(used=(0, 8, 0))}
    fleet = make(hosts, ('i', 'a', LOW, ['live'], 'g'),
                 ('j', 'b', LOW, ['live'], 'g'), groups=groups)
    assert [('i', 'live', 'c')] == get_moves(plan.plan_drain(fleet, ['a']))
    fleet = make(dict(hosts, c=dict(used=(0, 16, 0))),
                 ('i', 'a', LOW, ['live'], 'g'),
                 ('j', 'b', LOW, ['live'], 'g'), groups=groups)
    assert [('i', 'live', 'b')] == get_moves(plan.plan_drain(fleet, ['a']))


def make_wanted(needs, **more):
    return instance('wanted', None, dict(needs, **more), ())


def test_room_that_exists_needs_no_move():
    fleet = make({'a': {}, 'b': {}}, ('i', 'a', HIGH))
    found = plan.plan_room(fleet, make_wanted(HIGH), 3)
    assert ((), ()) == (found.moves, found.misses)
    assert ['a', 'b', 'b'] == sorted(found.hosts)


@pytest.mark.parametrize('guests, moved', [
    (('high', 'plain', 'low'), 'low'), (('high', 'plain'), 'plain')])
def test_room_moves_low_before_ordinary_before_high(guests, moved):
    # Each guest uses 4 of the 16 vCPUs in the low row, which is full.
    needs = {'low': LOW, 'plain': ORDINARY,
             'high': dict(priority='high', dedicated=4, shared=4)}
    fleet = make({'a': dict(used=(0, 16 - 4 * len(guests), 0),
                            aggregates=[fleets.PRIORITY, fleets.RACK]),
                  'b': {}},
                 *((name, 'a', needs[name], ['live']) for name in guests))
    wanted = make_wanted(LOW, aggregates=frozenset(['rack']))
    assert [(moved, 'live', 'b')] == get_moves(
        plan.plan_room(fleet, wanted, 1))


def test_low_guests_make_no_room_in_the_high_row():
    fleet = make({'a': dict(used=(5, 0, 0))}, ('low', 'a', LOW))
    found = plan.plan_room(fleet, make_wanted(HIGH), 1)
    assert () == found.moves
    assert ('the high row has 3 of 8 vCPUs free, 4 are needed' ==
            found.misses[0].reason)


def test_preemption_frees_memory():
    fleet = make({'a': dict(memory_mb=10)},
                 ('low', 'a', dict(LOW, memory_mb=8), ['shelve']))
    found = plan.plan_room(fleet, make_wanted(HIGH, memory_mb=4), 1)
    assert [('low', 'shelve', None)] == get_moves(found)
    assert ('a',) == found.hosts


def test_small_pages_limit_a_drain_and_closest_miss():
    small = dict(small_pages=memory_pages.SmallPages(4, 100, 5))
    guests = [fleet_module.Instance(
        uuid, fleets.make_needs('low', shared=1, memory_mb=4), host='a',
        ways=fleets.LIVE) for uuid in 'xy']
    fleet = fleets.make_fleet(
        [fleets.make_host('a'), fleets.make_host('b', report=small)], guests)
    found = plan.plan_drain(fleet, ['a'])
    assert ['x'] == [move.uuid for move in found.moves]
    miss, = found.misses
    assert ('y', 'b', [('MB in small pages', 3)]) == (
        miss.instance.uuid, miss.host, [
            (each.resource, each.missing) for each in miss.obstacles])


def test_guest_that_can_be_shelved_leaves_the_room_to_another():
    # Host b has memory for one of the guests of a.
    fleet = make({'a': {}, 'b': dict(memory_mb=500)},
                 ('low', 'a', dict(LOW, memory_mb=500)),
                 ('plain', 'a', dict(ORDINARY, memory_mb=500), ['live']))
    found = plan.plan_room(fleet, make_wanted(HIGH, memory_mb=1000), 1)
    assert {('low', 'shelve', None), ('plain', 'live', 'b')} == set(
        get_moves(found))


def test_room_within_an_aggregate():
    fleet = make({'a': dict(aggregates=[fleets.PRIORITY, fleets.RACK]),
                  'b': {}}, ('i', 'a', HIGH), ('j', 'a', HIGH))
    wanted = make_wanted(HIGH, aggregates=frozenset(['rack']))
    found = plan.plan_room(fleet, wanted, 1)
    assert [('i', 'live', 'b')] == get_moves(found)
    assert ('a',) == found.hosts


def test_miss_of_room_is_that_of_one_more_instance():
    fleet = make({'a': {}})
    found = plan.plan_room(fleet, make_wanted(HIGH), 3)
    assert ('a', 'a') == found.hosts
    assert ('the high row has 0 of 8 vCPUs free, 4 are needed' ==
            found.misses[0].reason)


def test_loss_evacuates_all_guests_that_fit():
    fleet = make({'a': {}, 'b': dict(used=(4, 4, 0))},
                 ('i', 'a', HIGH, []), ('j', 'a', HIGH, []),
                 ('k', 'a', dict(LOW, memory_mb=5, disk_gb=2), []),
                 ('other', 'b', LOW))
    found = plan.plan_loss(fleet, 'a')
    assert {'evacuate'} == {move.way for move in found.moves}
    assert 2 == len(found.moves)
    assert plan.Addition(cpu_capacity.Rows(4, 0, 0), 1, 0) == (
        plan.calculate_addition(found.misses))
    assert plan.Addition(cpu_capacity.Rows(0, 0, 0), 0, 0) == (
        plan.calculate_addition([]))
