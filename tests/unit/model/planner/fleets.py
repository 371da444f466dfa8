# SPDX-License-Identifier: Apache-2.0

"""Small fleets, made by hand or drawn at random, and their invariants."""

import collections
import decimal
import types

from hypothesis import strategies as st

from nova_prio.model import cpu_capacity
from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import resources
from nova_prio.virt import demand

PRIORITY = types.SimpleNamespace(
    name='priority', metadata={'priority_mix': 'true'})
RACK = types.SimpleNamespace(name='rack', metadata={})
NO_ORDINARY = types.SimpleNamespace(
    name='no_ordinary', metadata={'priority_ordinary': 'false'})

LIVE = frozenset([fleet_module.LIVE])
ALL_WAYS = frozenset(fleet_module.WAYS)


def make_cpus(dedicated, shared, ratio=2, mix=True):
    return cpu_capacity.HostCPUs(
        frozenset(range(dedicated)),
        frozenset(range(dedicated, dedicated + shared)),
        decimal.Decimal(ratio), mix)


def make_report(cpus, used=(0, 0, 0), **more):
    return types.SimpleNamespace(**{
        'mix': cpus.mix, 'floating_cpus': len(cpus.floating),
        'shared_cpus': len(cpus.shared), 'sellable': cpus.sellable,
        'used_or_blocked': cpu_capacity.Rows(*used), 'partition_problem': '',
        'blocked': frozenset(), 'blocked_by': '', 'problem': '',
        'small_pages': None, **more})


def make_needs(priority=None, dedicated=0, shared=0, memory_mb=1,
               has_cells=False, whole_cores=False, page_size=None, **more):
    """Return Needs; with ``has_cells``, the guest has one NUMA cell."""
    need = cpu_capacity.Demand(priority, dedicated, shared)
    rows = cpu_capacity.calculate_needed_rows(need)
    cells = (resources.GuestCell(rows, memory_mb),) if has_cells else ()
    return resources.Needs(
        demand.ResourceRequest(
            need, priority, rows, dedicated + shared, memory_mb,
            ((page_size, memory_mb),), whole_cores),
        cells=cells, **more)


def make_host(name, dedicated=8, shared=4, memory_mb=1000, cells=0,
              aggregates=(PRIORITY,), ratio=2, mix=True, used=(0, 0, 0),
              report=(), **more):
    """Return a Host with the example's 8 dedicated and 4 shared CPUs.

    Each of the NUMA cells has an equal part of the CPUs and of the memory.
    """
    cpus = make_cpus(dedicated, shared, ratio, mix)
    return resources.Host(
        name, make_report(cpus, used, **dict(report)), memory_mb,
        cells=cells * (resources.Cell(
            make_cpus(dedicated // (cells or 1), shared // (cells or 1),
                      ratio, mix), cpu_capacity.Rows(0, 0, 0),
            memory_mb // (cells or 1)),),
        aggregates=tuple(aggregates), **more)


def make_fleet(hosts, instances, groups=None):
    """Return a Fleet of empty hosts to which instances are added.

    :param instances: list of Instance; an instance that fits on its host uses
        the cells that Nova would choose
    """
    fleet = fleet_module.Fleet(hosts, (), groups)
    for each in instances:
        fleet.add(fleet_module.Instance(
            each.uuid, each.needs, ways=each.ways, group=each.group))
        if each.host is not None:
            place = fleet.find_place(each, each.host)
            cells = place.cells if place else tuple(
                range(len(each.needs.cells)))
            fleet.put(each.uuid, fleet_module.Place(each.host, cells))
    return fleet


SIZES = (('high', 2, 0), ('high', 4, 0), ('high', 2, 2), ('low', 0, 1),
         ('low', 0, 4), (None, 0, 1), (None, 0, 2), (None, 2, 0))
#: Server groups that instances may be in.
GROUPS = {'together': fleet_module.Group('affinity'),
          'apart': fleet_module.Group('anti-affinity'),
          'pairs': fleet_module.Group('anti-affinity', 2),
          'spread': fleet_module.Group('soft-anti-affinity')}


@st.composite
def draw_needs(draw, has_cells, is_new=False):
    size = draw(st.sampled_from(SIZES))
    return make_needs(
        *size, memory_mb=draw(st.integers(1, 3)),
        has_cells=has_cells and (size[1] > 0 or draw(st.booleans())),
        disk_gb=draw(st.integers(0, 2)), is_new=is_new,
        aggregates=frozenset(draw(st.sampled_from(
            [(), (), (), ('rack',), ('priority',)]))))


@st.composite
def draw_hosts(draw, number, has_cells):
    def draw_one(*values):
        return draw(st.sampled_from(values))

    return [make_host(
        'host%d' % index, draw_one(0, 4, 8), draw_one(2, 4),
        draw(st.integers(4, 12)), cells=2 if has_cells else 0,
        ratio=draw_one(1, 2), mix=draw_one(True, False),
        free_disk_gb=draw_one(None, 4), overcommit_mb=draw_one(0, 2),
        is_enabled=draw_one(True, True, True, False),
        aggregates=draw_one([PRIORITY], [PRIORITY, RACK],
                            [PRIORITY, NO_ORDINARY], [RACK]))
            for index in range(number)]


@st.composite
def draw_fleet(draw, most_hosts=4, most_instances=8, ways=None,
               has_cells=None):
    """Return a Fleet whose instances mostly fit on their hosts."""
    if has_cells is None:
        has_cells = draw(st.booleans())
    hosts = draw(draw_hosts(draw(st.integers(2, most_hosts)), has_cells))
    fleet = fleet_module.Fleet(hosts, (), GROUPS)
    for number in range(draw(st.integers(1, most_instances))):
        instance = fleet_module.Instance(
            'i%d' % number, draw(draw_needs(has_cells)),
            ways=frozenset(draw(st.sets(st.sampled_from(
                fleet_module.WAYS)))) if ways is None else ways,
            group=draw(st.sampled_from([None, None, None, *GROUPS])))
        fleet.add(instance)
        places = list(filter(None, (
            fleet.find_place(instance, host.name) for host in hosts)))
        if places:
            fleet.put(instance.uuid, draw(st.sampled_from(places)))
        elif draw(st.booleans()):
            # An oversold host, as after a change of the CPU sets.
            fleet.put(instance.uuid, fleet_module.Place(
                hosts[0].name, tuple(range(len(instance.needs.cells)))))
    return fleet


def find_violations(fleet):
    """Return the (host, limit) that the instances of a fleet violate.

    Everything is added up again from the places of the instances, so this
    uses no usage that the fleet counts.
    """
    found = set()
    guests = collections.defaultdict(list)
    for uuid, instance in fleet.instances.items():
        guests[fleet.get_place(uuid).host].append(instance)
    for name, fit in fleet.hosts.items():
        host, listed = fit.host, guests[name]
        used = _add(host.report.used_or_blocked, [
            each.needs.request.needed_rows for each in listed])
        found.update((name, row) for row in cpu_capacity.find_oversold_rows(
            host.report.sellable, used))
        memory_mb = host.free_memory_mb - sum(
            each.needs.request.memory_mb for each in listed)
        overcommit_mb = 0 if host.report.mix else host.overcommit_mb
        if memory_mb + overcommit_mb < 0:
            found.add((name, 'memory'))
        if host.free_disk_gb is not None and host.free_disk_gb < sum(
                each.needs.disk_gb for each in listed):
            found.add((name, 'disk'))
        for index, cell in enumerate(host.cells):
            of_cell = [
                guest for each in listed for place, guest in zip(
                    fleet.get_place(each.uuid).cells, each.needs.cells)
                if place == index]
            used = _add(cell.used, [guest.rows for guest in of_cell])
            found.update(
                ('%s cell %d' % (name, index), row) for row in
                cpu_capacity.find_oversold_rows(cell.cpus.sellable, used))
            if cell.free_memory_mb + cell.overcommit_mb < sum(
                    guest.memory_mb for guest in of_cell):
                found.add(('%s cell %d' % (name, index), 'memory'))
        groups = collections.Counter(each.group for each in listed)
        found.update(
            (name, group) for group, policy in fleet.groups.items()
            if policy.policy == 'anti-affinity' and
            groups[group] > policy.max_per_host)
    return found


def _add(base, rows):
    return cpu_capacity.Rows(*map(sum, zip(base, *rows)))
