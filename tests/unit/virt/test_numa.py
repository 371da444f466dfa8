# SPDX-License-Identifier: Apache-2.0

import types

from nova import objects
import pytest

from nova_prio.model import capacity
from nova_prio.virt import numa

objects.register_all()

LOW = capacity.Demand('low', 0, 4)
ORDINARY = capacity.Demand(None, 0, 4)
MIXED = capacity.Demand('high', 2, 2)
PINNED = capacity.Demand('high', 4, 0)


def cell(number, dedicated, shared, used):
    return objects.NUMACell(
        id=number, cpuset=set(shared), pcpuset=set(dedicated),
        memory=1024, memory_usage=0, cpu_usage=used, mempages=[],
        pinned_cpus=set(), siblings=[], socket=0)


def report(ratio='2.0', low_by_cell=None, blocked=()):
    return types.SimpleNamespace(
        mix=True, ratio=capacity.parse_ratio(ratio),
        low_by_cell=low_by_cell or {}, hidden=frozenset(blocked))


@pytest.mark.parametrize('demand, ratio, used, low, cpus, remaining', [
    # 2 shared and 4 dedicated CPUs at 2.0: low 2 * 2 + 4 * 1 = 8.
    (LOW, '2.0', 0, 0, 6, 8),
    (LOW, '2.0', 5, 3, 6, 3),
    # Never below zero: the ratio fell, or a set shrank.
    (LOW, '1.0', 5, 5, 6, 0),
    # 2 * 1.5 + 4 * 0.5 = 5.
    (LOW, '1.5', 2, 2, 6, 3),
    # Below 1 the dedicated CPUs add nothing: 2 * 0.5 = 1.
    (LOW, '0.5', 0, 0, 6, 1),
    # Ordinary: 2 * 2 = 4 less the ordinary vCPUs, also in the low row.
    (ORDINARY, '2.0', 5, 3, 2, 2),
    (ORDINARY, '2.0', 7, 7, 2, 1),
    (MIXED, '2.0', 1, 0, 2, 3),
])
def test_cell_is_limited_to_remaining_capacity_of_class(
        demand, ratio, used, low, cpus, remaining):
    host = objects.NUMATopology(cells=[cell(1, range(4), (4, 5), used)])
    before = host._to_json()
    limited, = numa.limit_to_class(
        host, report(ratio, {1: low}), demand).cells
    assert cpus == len(limited.cpuset)
    # As Nova counts: usage + wanted <= CPUs * ratio.
    limit = len(limited.cpuset) * float(ratio)
    usage = limited.cpu_usage + remaining
    assert usage <= limit < usage + 1
    assert {0, 1, 2, 3} == limited.pcpuset
    assert before == host._to_json()


def test_cells_are_limited_separately():
    host = objects.NUMATopology(cells=[
        cell(0, (0, 1), (2, 3), 4), cell(1, (4, 5), (6, 7), 0)])
    first, second = numa.limit_to_class(
        host, report(low_by_cell={0: 4}), LOW).cells
    assert ({0, 1, 2, 3}, {4, 5, 6, 7}) == (first.cpuset, second.cpuset)
    # 2 * 2 + 2 * 1 = 6 are sellable of 8 that Nova counts.
    assert (6, 2) == (first.cpu_usage, second.cpu_usage)


def test_blocked_cpus_count_as_pinned():
    host = objects.NUMATopology(cells=[
        cell(0, range(4), (4, 5), 0), cell(1, range(6, 9), (9,), 0)])
    host.cells[0].pinned_cpus = {0}
    before = host._to_json()
    marked = numa.limit_to_class(
        host, report(blocked=(0, 3, 5, 6)), PINNED).cells
    assert [{0, 3}, {6}] == [each.pinned_cpus for each in marked]
    assert before == host._to_json()


def test_topology_is_the_same_if_nothing_limits_it():
    host = objects.NUMATopology(cells=[cell(0, range(4), (4, 5), 0)])
    assert host is numa.limit_to_class(host, report(), PINNED)
