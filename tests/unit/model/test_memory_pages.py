# SPDX-License-Identifier: Apache-2.0

import hypothesis
from hypothesis import strategies as st
from nova.virt import hardware
import pytest

from nova_prio.model import memory_pages

GIB = 1024


def pages(size_kb, total, used=0):
    return memory_pages.Pages(size_kb, total, used)


def calculate(free_gib, *used_pages, memory_gib=32):
    return memory_pages.calculate_small_pages(
        memory_gib * GIB, free_gib * GIB, used_pages)


@pytest.mark.parametrize('free_gib, used_huge, small_gib', [
    # 32 GiB, 30 of them in pages of 1 GiB.
    (32, 0, 2),
    # 1 GiB in small pages is sold, and then 10 GiB in huge pages.
    (31, 0, 1),
    (21, 10, 1),
    # Eight guests of 2 GiB without huge pages.
    (16, 0, -14),
    # The huge pages are sold, too.
    (-14, 30, -14),
    # The pool was larger when the guests started.
    (0, 31, 1),
])
def test_free_small_pages_are_free_memory_less_unused_huge_pages(
        free_gib, used_huge, small_gib):
    assert memory_pages.SmallPages(4, 2 * GIB, small_gib * GIB) == calculate(
        free_gib, pages(4, 2 * GIB * 256), pages(GIB * GIB, 30, used_huge))


def test_pools_of_all_sizes_and_cells_count():
    # 1 + 2 GiB in pages of 1 GiB, 1 GiB in pages of 2 MiB; 1 GiB is used.
    cells = (pages(4, 0), pages(GIB * GIB, 1, 1), pages(2048, 512),
             pages(4, 0), pages(GIB * GIB, 2), pages(2048, 0))
    assert (4, 28 * GIB, 28 * GIB) == calculate(31, *cells)


def test_small_pages_of_nova_do_not_count():
    """Nova counts only the guests with a NUMA topology there."""
    for total, used in ((2 * GIB * 256, 0), (7, 5)):
        assert 2 * GIB == calculate(
            32, pages(4, total, used), pages(GIB * GIB, 30)).free_mb


def test_part_of_a_mib_is_not_sold():
    # On such a host, the small pages have 64 KiB.
    assert (64, 1023, 1023) == memory_pages.calculate_small_pages(
        1024, 1024, [pages(64, 16000), pages(128, 1)])


@pytest.mark.parametrize('of_host', [
    (), (pages(4, 100),), (pages(4, 100), pages(2048, 0))])
def test_host_without_huge_pages_has_no_limit(of_host):
    assert calculate(0, *of_host) is None


@pytest.mark.parametrize('size, page_kb, needed', [
    (None, 4, 256), (memory_pages.SMALL, 4, 256), (4, 4, 256), (4, 64, 0),
    (64, 64, 256), (64, 4, 0), (2048, 4, 0), (memory_pages.ANY, 4, 0),
    (hardware.MEMPAGES_LARGE, 4, 0)])
def test_needed_small_pages(size, page_kb, needed):
    assert needed == memory_pages.calculate_needed(((size, 256),), page_kb)


def test_cells_in_small_and_in_huge_pages():
    assert 3 == memory_pages.calculate_needed(
        ((None, 1), (4, 2), (2048, 4)), 4)


def test_constants_are_those_of_nova():
    assert (hardware.MEMPAGES_SMALL, hardware.MEMPAGES_ANY) == (
        memory_pages.SMALL, memory_pages.ANY)


@pytest.mark.parametrize('parts, free_mb, limit', [
    (((memory_pages.ANY, 256),), 300, 300),
    (((memory_pages.ANY, 256),), -1, 0),
    # Together, the cells may use 300 MB.
    (((memory_pages.ANY, 200), (memory_pages.ANY, 56)), 301, 150),
    (((None, 256),), 300, None), (((2048, 256),), 300, None)])
def test_limit_of_any(parts, free_mb, limit):
    small = memory_pages.SmallPages(4, 2048, free_mb)
    assert limit == memory_pages.calculate_limit_of_any(parts, small)
    assert memory_pages.calculate_limit_of_any(parts, None) is None


@hypothesis.given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 64)), max_size=20),
    st.integers(0, 20), st.integers(1, 40))
def test_free_small_pages_are_total_less_guests(guests, reserved, pool):
    """The rule of Nova's two numbers is the sum over the guests."""
    huge = sum(gib for is_huge, gib in guests if is_huge)
    small = sum(gib for is_huge, gib in guests if not is_huge)
    found = calculate(
        64 - reserved - huge - small, pages(4, 0),
        pages(GIB * GIB, pool, huge), memory_gib=64)
    assert 64 - pool == found.total_mb / GIB
    assert found.free_mb == found.total_mb - (reserved + small) * GIB
