# SPDX-License-Identifier: Apache-2.0

import types

from nova import objects
from nova.virt import hardware
import pytest

from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages
from nova_prio.virt import demand
from nova_prio.virt import numa
from tests.unit import nova_objects

objects.register_all()

LOW = cpu_capacity.Demand('low', 0, 4)
ORDINARY = cpu_capacity.Demand(None, 0, 4)
MIXED = cpu_capacity.Demand('high', 2, 2)
PINNED = cpu_capacity.Demand('high', 4, 0)


def cell(number, dedicated, shared, used):
    return objects.NUMACell(
        id=number, cpuset=set(shared), pcpuset=set(dedicated),
        memory=1024, memory_usage=0, cpu_usage=used, mempages=[],
        pinned_cpus=set(), siblings=[], socket=0)


def report(ratio='2.0', low_by_cell=None, blocked=()):
    return types.SimpleNamespace(
        mix=True, ratio=cpu_capacity.parse_ratio(ratio),
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


def host_with_pages(used=0):
    """Return a host of 4 GiB, with 1 GiB of huge pages in each of two cells.

    :param used: used pages of 2 MiB of the first cell
    """
    cells = []
    for number in range(2):
        each = nova_objects.numa_cell(number, (), (number,))
        each.mempages.append(objects.NUMAPagesTopology(
            size_kb=2048, total=512, used=0 if number else used, reserved=99))
        cells.append(each)
    return objects.NUMATopology(cells=cells)


def test_small_pages_of_a_host():
    assert (4, 2048, 1024) == numa.get_small_pages(
        host_with_pages(), 4096, 3072)
    assert (4, 2048, 1536) == numa.get_small_pages(
        host_with_pages(256), 4096, 3072)
    assert numa.get_small_pages(None, 4096, 3072) is None


def test_reported_small_pages_contain_what_nova_does_not_count():
    node = objects.ComputeNode(
        memory_mb=4096, free_ram_mb=3072,
        numa_topology=host_with_pages()._to_json())
    flavor = nova_objects.flavor(hw__mem_page_size='2MB')
    huge = hardware.numa_get_constraints(flavor, objects.ImageMeta(
        properties=objects.ImageMetaProps()))
    uncounted = [demand.get_lease_set(each, topology) for each, topology in (
        (nova_objects.flavor(), None), (flavor, huge))]
    assert (4, 2048, 1024) == numa.read_small_pages(node, True, [])
    # The guests have 256 MB each, only one of them in small pages.
    assert (4, 2048, 768) == numa.read_small_pages(node, True, uncounted)
    assert numa.read_small_pages(node, False, uncounted) is None


def test_any_page_size_may_use_free_small_pages_of_each_cell():
    host = host_with_pages()
    host.cells[1].mempages[0].used = 1024 * 1024 - 10
    before = host._to_json()
    small = memory_pages.SmallPages(page_kb=4, total_mb=2048, free_mb=3)
    parts = ((memory_pages.ANY, 100), (memory_pages.ANY, 156))
    limited = numa.limit_small_pages(host, parts, small)
    # 1 MB for each of two guest cells; the second host cell has less.
    assert [[256, 413], [10, 413]] == [
        [each.free for each in cell.mempages] for cell in limited.cells]
    assert before == host._to_json()
    assert host is numa.limit_small_pages(host, ((None, 256),), small)
    assert host is numa.limit_small_pages(host, parts, None)
