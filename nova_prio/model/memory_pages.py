# SPDX-License-Identifier: Apache-2.0

"""The memory of a host in small pages, and which guests use it.

small pages
    The pages of the smallest size of a host, 4 KiB on x86. Larger pages are
    huge pages. The host sets them aside in pools.

Only guests that request huge pages get memory from the pools, as Nova counts
it. All other guests get small pages. Nova's free memory of a host is the sum
of both kinds, less what is reserved for the host. Therefore::

    free memory in small pages = free memory - memory in unused huge pages

For example, a host has 32 GiB, 30 GiB of it in huge pages. Beside a guest of
1 GiB in small pages, and one of 10 GiB in huge pages, 21 GiB are free. Of
these, 20 GiB are unused huge pages: 1 GiB in small pages is free.
"""

from collections import abc
import typing

#: Page sizes that a guest may request in place of a number of KiB, as in
#: nova/virt/hardware.py. With ANY, Nova uses the largest pages that suffice.
SMALL, ANY = -1, -3

#: What a host lacks that has too few small pages, as a unit.
RESOURCE = 'MB in small pages'

_KIB = 1024  # of one MiB

#: (page size, memory in MB) of each NUMA cell of a guest. The page size is in
#: KiB, one of Nova's constants, or None if the guest requests none. A guest
#: without a NUMA topology has one part.
MemoryParts = tuple[tuple[int | None, int], ...]


class Pages(typing.NamedTuple):
    """The pages of one size of a NUMA cell, and how many a guest uses."""

    size_kb: int
    total: int
    used: int


class SmallPages(typing.NamedTuple):
    """The memory of a host in small pages, which are of ``page_kb`` KiB.

    ``total_mb`` is all memory but the pools of huge pages. ``free_mb`` is what
    no guest has, and what is not reserved for the host; it is negative if too
    much memory is sold.
    """

    page_kb: int
    total_mb: int
    free_mb: int


def calculate_small_pages(memory_mb: int, free_memory_mb: int,
                          pages: abc.Collection[Pages]) -> SmallPages | None:
    """Return the SmallPages of a host, or None if it has no huge pages.

    Small pages are the pages of the smallest size; all larger ones are huge
    pages. Nova's own count of the used small pages is not enough: Nova counts
    only the guests with a NUMA topology there. Therefore subtract the huge
    pages from all memory.

    :param memory_mb: memory of the host, in small and in huge pages
    :param free_memory_mb: memory that no guest has, in small and in huge pages
    :param pages: the pages of each size of each NUMA cell
    """
    page_kb = min([each.size_kb for each in pages], default=0)
    # All huge pages, and those that no guest uses.
    pools_kb = unused_kb = 0
    for each in pages:
        is_huge = each.size_kb > page_kb
        if is_huge:
            pools_kb += each.size_kb * each.total
            unused_kb += each.size_kb * (each.total - each.used)
    if not pools_kb:
        return None
    return SmallPages(
        page_kb=page_kb,
        total_mb=(memory_mb * _KIB - pools_kb) // _KIB,
        free_mb=(free_memory_mb * _KIB - unused_kb) // _KIB)


def calculate_needed(parts: MemoryParts, page_kb: int) -> int:
    """Return the memory in small pages that a guest needs, in MB.

    A guest that requests no page size gets small pages. Parts with ANY, which
    take any page size, are not included: Nova decides about them on each host.

    :param parts: (page size, memory in MB) of each NUMA cell of the guest, as
        requested, or as Nova has fitted them to the host
    :param page_kb: size of the small pages of the host
    """
    return sum(memory_mb for size, memory_mb in parts
               if size in (None, SMALL, page_kb))


def calculate_limit_of_any(parts: MemoryParts,
                           small: SmallPages | None) -> int | None:
    """Return how much of a NUMA cell's small pages a guest may use, in MB.

    If a guest takes any page size (ANY), Nova may give it small pages. All its
    NUMA cells together must then not exceed the free memory in small pages.

    :param parts: (page size, memory in MB) of each NUMA cell of the guest
    :param small: memory of the host in small pages; None if it limits nothing
    :returns: None if there is no such limit
    """
    takes_any_size = any(size == ANY for size, _ in parts)
    if small is None or not takes_any_size:
        return None
    # The limit is the same for all cells, because it is not known which host
    # cell gets which part. Even if all parts get small pages, equal shares do
    # not exceed the free memory, which is negative if too much is sold.
    return max(small.free_mb, 0) // len(parts)
