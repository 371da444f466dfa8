# SPDX-License-Identifier: Apache-2.0

"""Compare plans of small fleets with all plans that there are.

The search of this module knows rows, memory, disk, aggregates and server
groups. It uses no module of the planner but the classes of the fleet.
"""

import hypothesis
from hypothesis import strategies as st

from nova_prio.model import cpu_capacity
from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import plan
from tests.unit.model.planner import fleets
from tests.unit.model.planner import test_properties

CLASSES = {'high': (0, 0, 0, 1, 0), None: (0, 0, 0, 0, 1),
           'low': (0, 0, 0, 0, 0)}
WAYS = {'live': (1, 0, 0, 0, 0), 'cold': (1, 0, 1, 0, 0),
        'shelve': (1, 1, 0, 0, 0)}


def may_enter(fleet, state, instance, name):
    """Return whether an instance may move to a host.

    :param state: dict, UUID -> name of a host or None
    """
    host, request = fleet.hosts[name].host, instance.needs.request
    names = {each.name for each in host.aggregates}
    guests = [fleet.instances[uuid] for uuid, of in state.items()
              if of == name]
    if (not host.is_enabled or not instance.needs.aggregates <= names or
            request.priority and 'priority' not in names or
            instance.needs.is_new and not request.priority and
            'no_ordinary' in names):
        return False
    group = fleet.groups.get(instance.group)
    members = sum(each.group == instance.group for each in guests)
    if group and group.policy == 'affinity':
        everywhere = sum(fleet.instances[uuid].group == instance.group
                         for uuid, of in state.items() if of is not None)
        if everywhere and not members:
            return False
    if group and group.policy == 'anti-affinity' and (
            members >= group.max_per_host):
        return False
    report, guests = host.report, [*guests, instance]
    sums = [sum(row) for row in zip(*(
        each.needs.request.needed_rows for each in guests))]
    floating = report.shared_cpus if not report.mix else report.floating_cpus
    if (request.priority == 'low' and request.vcpus > floating or
            request.needed_rows.ordinary > report.shared_cpus):
        return False
    if any(used > limit for used, limit, needed in zip(
            sums, report.sellable, request.needed_rows) if needed):
        return False
    free_mb = host.free_memory_mb
    if not report.mix and request.priority != cpu_capacity.HIGH:
        free_mb += host.overcommit_mb
    if free_mb < sum(each.needs.request.memory_mb for each in guests):
        return False
    return (host.free_disk_gb is None or not instance.needs.disk_gb or
            host.free_disk_gb >= sum(each.needs.disk_gb for each in guests))


def find_smallest_cost(fleet, closed, is_reached):
    """Return the smallest cost of all plans, or None if there is none.

    :param is_reached: function of a state
    """
    level = {tuple(fleet.get_place(uuid).host for uuid in fleet.instances):
             (0, 0, 0, 0, 0)}
    seen = set()
    while level:
        costs = [cost for state, cost in level.items()
                 if is_reached(dict(zip(fleet.instances, state)))]
        if costs:
            return min(costs)
        seen.update(level)
        following = {}
        for state, cost in level.items():
            for after, step in list_steps(fleet, state, closed):
                total = tuple(map(sum, zip(cost, *step)))
                if after not in seen:
                    following[after] = min(total, following.get(after, total))
        level = following
    return None


def list_steps(fleet, state, closed):
    """Yield (state after a move, its costs)."""
    hosts = dict(zip(fleet.instances, state))
    for number, (uuid, instance) in enumerate(fleet.instances.items()):
        if state[number] is None:
            continue
        of_class = CLASSES[instance.needs.request.priority]
        way = next((each for each in ('live', 'cold')
                    if each in instance.ways), None)
        targets = [] if way is None else [
            (name, WAYS[way]) for name in fleet.hosts
            if name not in closed and name != state[number] and
            may_enter(fleet, hosts, instance, name)]
        if 'shelve' in instance.ways:
            targets.append((None, WAYS['shelve']))
        for name, of_way in targets:
            yield ((*state[:number], name, *state[number + 1:]),
                   (of_way, of_class))


def get_cost(fleet, found):
    return tuple(map(sum, zip((0, 0, 0, 0, 0), *(
        each for move in found.moves for each in (
            WAYS[move.way],
            CLASSES[fleet.instances[move.uuid].needs.request.priority])))))


def assert_plan_agrees(fleet, found, cost):
    """Assert that a plan is possible, and not better than the best one.

    :param cost: smallest cost of all plans, or None if there is none
    """
    assert found.misses or cost and cost <= get_cost(fleet, found)


@hypothesis.given(fleets.draw_fleet(3, 5, has_cells=False))
def test_drain_agrees_with_all_plans(fleet):
    closed = ['host0']
    cost = find_smallest_cost(
        fleet, closed, lambda state: 'host0' not in state.values())
    found = plan.plan_drain(fleet, closed)
    assert_plan_agrees(fleet, found, cost)


@hypothesis.given(st.data(), st.integers(1, 3))
def test_room_agrees_with_all_plans(data, number):
    fleet = data.draw(fleets.draw_fleet(3, 5, has_cells=False))
    wanted = data.draw(test_properties.draw_wanted(fleet))
    copies = [fleet_module.Instance(
        'new%d' % index, wanted.needs, group=wanted.group)
        for index in range(number)]

    def is_reached(state):
        """Return whether the wanted instances fit; try each first host."""
        for first in fleet.hosts:
            filled = dict(state)
            for each in copies:
                host = next((name for name in (first, *fleet.hosts)
                             if may_enter(fleet, filled, each, name)), None)
                if host is None:
                    break
                fleet.instances[each.uuid] = each
                filled[each.uuid] = host
            for each in copies:
                fleet.instances.pop(each.uuid, None)
            if len(filled) == len(state) + number:
                return True
        return False

    cost = find_smallest_cost(fleet, (), is_reached)
    found = plan.plan_room(fleet, wanted, number)
    assert_plan_agrees(fleet, found, cost)
