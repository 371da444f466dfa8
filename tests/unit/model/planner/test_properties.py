# SPDX-License-Identifier: Apache-2.0

import itertools

import hypothesis
from hypothesis import strategies as st

from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import plan
from tests.unit.model.planner import fleets


@st.composite
def draw_wanted(draw, fleet):
    has_cells = any(host.host.cells for host in fleet.hosts.values())
    return fleet_module.Instance(
        'wanted', draw(fleets.draw_needs(has_cells, is_new=True)),
        group=draw(st.sampled_from([None, None, *fleets.GROUPS])))


def check_prefixes(fleet, found, closed=()):
    """Check each state of a plan, and return with all its moves made."""
    broken = fleets.find_violations(fleet)
    for move in found.moves:
        instance = fleet.instances[move.uuid]
        assert fleet.get_place(move.uuid).host == move.source
        assert move.way in instance.ways
        assert move.destination not in closed
        if move.destination is not None:
            host = fleet.hosts[move.destination].host
            assert host.is_enabled
            assert instance.needs.aggregates <= {
                aggregate.name for aggregate in host.aggregates}
            if instance.needs.request.priority:
                assert fleets.PRIORITY in host.aggregates
            if instance.group == 'together':
                assert fleet.count_members(instance, move.destination)
        fleet.move(*move[:2], move.destination)
        now = fleets.find_violations(fleet)
        # A move may not break a limit, nor use more of one that was broken.
        assert now <= broken
        place = fleet.get_place(move.uuid)
        used = {place.host, *(
            '%s cell %d' % (place.host, cell) for cell in place.cells)}
        assert not {limit for owner, limit in now
                    if owner in used and _uses(instance, limit)}
        broken = now


def _uses(instance, limit):
    """Return whether an instance uses the row, memory, disk or group."""
    needs = instance.needs
    return {**needs.request.needed_rows._asdict(), 'disk': needs.disk_gb,
            'memory': 1, instance.group: 1}.get(limit, 0) > 0


@hypothesis.given(st.data())
def test_each_prefix_of_a_drain_keeps_the_limits(data):
    fleet = data.draw(fleets.draw_fleet())
    hosts = data.draw(st.lists(
        st.sampled_from(sorted(fleet.hosts)), min_size=1, max_size=2,
        unique=True))
    before = list(map(fleet.get_place, fleet.instances))
    found = plan.plan_drain(fleet, hosts)
    assert before == list(map(fleet.get_place, fleet.instances))
    assert not fleet.log
    check_prefixes(fleet, found, hosts)
    assert sorted(miss.instance.uuid for miss in found.misses) == sorted(
        uuid for host in hosts for uuid in fleet.list_guests(host))


@hypothesis.given(st.data(), st.integers(1, 3))
def test_each_prefix_of_a_room_plan_keeps_the_limits(data, number):
    fleet = data.draw(fleets.draw_fleet())
    wanted = data.draw(draw_wanted(fleet))
    before = list(map(fleet.get_place, fleet.instances))
    found = plan.plan_room(fleet, wanted, number)
    assert before == list(map(fleet.get_place, fleet.instances))
    check_prefixes(fleet, found)
    broken = fleets.find_violations(fleet)
    for count, host in enumerate(found.hosts):
        instance = fleet_module.Instance(
            'new%d' % count, wanted.needs, group=wanted.group)
        fleet.add(instance)
        place = fleet.find_place(instance, host)
        assert place is not None
        fleet.put(instance.uuid, place)
        assert fleets.find_violations(fleet) <= broken
    assert len(found.hosts) == number or len(found.misses) == 1


def drain_simply(fleet, hosts):
    """Move each guest to the first host that fits; return their number.

    :returns: None if a guest fits nowhere
    """
    number = 0
    for uuid in itertools.chain.from_iterable(map(fleet.list_guests, hosts)):
        if not move_simply(fleet, uuid, hosts):
            return None
        number += 1
    return number


def move_simply(fleet, uuid, closed=()):
    instance, source = fleet.instances[uuid], fleet.get_place(uuid).host
    places = (fleet.find_place(instance, host) for host in fleet.hosts
              if host not in (source, *closed))
    place = next(filter(None, places), None)
    if place is None or not instance.ways & {'live', 'cold'}:
        if 'shelve' not in instance.ways:
            return False
        place = fleet_module.Place(None, ())
    fleet.put(uuid, place)
    return True


def make_room_simply(fleet, wanted, closed=()):
    """Empty the first host that can be emptied far enough.

    :returns: number of moves, None if there is no such host
    """
    if any(fleet.find_place(wanted, host) for host in fleet.hosts):
        return 0
    before = {uuid: fleet.get_place(uuid) for uuid in fleet.instances}
    for host in fleet.hosts:
        number = 0
        for uuid in fleet.list_guests(host):
            number += move_simply(fleet, uuid)
            if any(fleet.find_place(wanted, each) for each in fleet.hosts):
                return number
        for uuid, place in before.items():
            fleet.put(uuid, place)
    return None


@hypothesis.given(st.data())
def test_drain_is_never_longer_than_a_greedy_one(data):
    fleet = data.draw(fleets.draw_fleet())
    found = plan.plan_drain(fleet, ['host0'])
    number = drain_simply(fleet, ['host0'])
    if number is not None:
        assert not found.misses
        assert len(found.moves) <= number


@hypothesis.given(st.data())
def test_room_plan_is_never_longer_than_a_greedy_one(data):
    fleet = data.draw(fleets.draw_fleet())
    wanted = data.draw(draw_wanted(fleet))
    found = plan.plan_room(fleet, wanted, 1)
    fleet.add(wanted)
    number = make_room_simply(fleet, wanted)
    if number is not None:
        assert not found.misses
        assert len(found.moves) <= number
