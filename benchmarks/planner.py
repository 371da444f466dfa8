# SPDX-License-Identifier: Apache-2.0

"""Measure the planner of moves on a fleet of hosts that are almost full."""

import decimal
import random
import statistics
import types

from benchmarks import clock
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import arrange
from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import plan
from nova_prio.model.planner import resources
from nova_prio.virt import demand

INSTANCES_PER_HOST = 20
#: The larger drain empties one host in DRAINED_OF.
DRAINED_OF = 20
#: Number of wanted instances.
WANTED = 10
_CELL = cpu_capacity.HostCPUs(frozenset(range(24)), frozenset(range(24, 32)),
                              decimal.Decimal(2), mix=True)
_CELL_MEMORY_MB = 140 * 1024
#: Class, dedicated and shared vCPUs, memory in MB; the flavors.
_FLAVORS = (
    ('high', 4, 0, 16384), ('high', 8, 0, 32768), ('high', 2, 2, 8192),
    ('low', 0, 2, 4096), ('low', 0, 4, 8192), (None, 0, 2, 4096),
    (None, 0, 4, 8192))
#: The flavor of the wanted instances. Most hosts must first move guests away.
_WANTED = ('high', 16, 0, 65536)


def measure(size, repeats):
    """Return the seconds of three plans.

    :param size: number of hosts
    :param repeats: number of measurements of each plan
    :raises SystemExit: if a move of a plan is not feasible
    """
    fleet = make_fleet(size)
    names = list(fleet.hosts)
    wanted = fleet_module.Instance('wanted', _make_needs(*_WANTED))
    many = names[:max(1, size // DRAINED_OF)]
    found = {'planner.hosts': size, 'planner.drained': len(many),
             'planner.instances': sum(
                 len(fleet.list_guests(name)) for name in names)}
    for key, make_plan in (
            ('drain_one', lambda: plan.plan_drain(fleet, names[:1])),
            ('drain_many', lambda: plan.plan_drain(fleet, many)),
            ('room', lambda: plan.plan_room(fleet, wanted, WANTED))):
        runs = [clock.seconds(make_plan) for _ in range(repeats)]
        result = runs[0][1]
        if not arrange.replay(fleet, result.moves):
            raise SystemExit('A move of the plan %s is not feasible.' % key)
        fleet.rollback(0)
        found['planner.%s_seconds' % key] = statistics.median(
            seconds for seconds, _ in runs)
        found['planner.%s.moves' % key] = len(result.moves)
        found['planner.%s.misses' % key] = len(result.misses)
    return found


def _make_needs(priority, dedicated, shared, memory_mb):
    """Return the Needs of a flavor; pinned guests have one NUMA cell."""
    need = cpu_capacity.Demand(priority, dedicated, shared)
    rows = cpu_capacity.calculate_needed_rows(need)
    request = demand.ResourceRequest(
        need, priority, rows, dedicated + shared, memory_mb,
        memory_parts=((None, memory_mb),), wants_whole_cores=False)
    cells = (resources.GuestCell(rows, memory_mb),) if dedicated else ()
    return resources.Needs(request, disk_gb=20, cells=cells)


def _make_report():
    """Return the report of a host without instances."""
    cpus = cpu_capacity.HostCPUs(
        frozenset(range(48)), frozenset(range(48, 64)), _CELL.ratio, mix=True)
    return types.SimpleNamespace(
        mix=True, floating_cpus=64, shared_cpus=16, sellable=cpus.sellable,
        used_or_blocked=cpu_capacity.Rows(0, 0, 0), partition_problem='',
        blocked=frozenset(), blocked_by='', problem='', small_pages=None)


def make_fleet(size):
    """Return a Fleet of hosts that are almost full."""
    draw = random.Random(1)
    hosts = [resources.Host(
        'host%d' % number, _make_report(), 2 * _CELL_MEMORY_MB,
        free_disk_gb=1000,
        cells=2 * (resources.Cell(
            _CELL, cpu_capacity.Rows(0, 0, 0), _CELL_MEMORY_MB),),
        aggregates=(types.SimpleNamespace(
            name='all', metadata={'priority_mix': 'true'}),))
        for number in range(size)]
    flavors = [_make_needs(*each) for each in _FLAVORS]
    pinned = [each for each in flavors if each.cells]
    floating = [each for each in flavors if not each.cells]
    fleet = fleet_module.Fleet(hosts, ())
    for host in list(fleet.hosts):
        for number in range(INSTANCES_PER_HOST):
            drawn = draw.choice(pinned if number % 2 else floating)
            for needs in (drawn, *floating):
                instance = fleet_module.Instance(
                    '%s-%d' % (host, number), needs,
                    ways=frozenset([fleet_module.LIVE]))
                fleet.add(instance)
                place = fleet.find_place(instance, host)
                if place:
                    fleet.put(instance.uuid, place)
                    break
                fleet.remove(instance.uuid)
    return fleet
