# SPDX-License-Identifier: Apache-2.0

"""The usage of the instances of a host, by class."""

import collections
from collections import abc
import typing

from nova_prio.model import capacity


class Usage(typing.NamedTuple):
    """The usage of one instance on a host."""

    demand: capacity.Demand
    #: NUMA cell of the host -> floating vCPUs; empty without NUMA topology.
    shared_by_cell: abc.Mapping[int, int]
    #: Amounts in Placement, which the flavor may set with ``resources:``.
    vcpu: int
    memory_mb: int
    #: Memory of the guest, in MB.
    ram_mb: int
    #: (NUMA cell of the host, page size in KiB or None) -> memory in MB.
    memory_by_cell: abc.Mapping[tuple[int, int | None], int]

    @property
    def amounts(self) -> tuple[capacity.Demand, int, int, int]:
        """All but the NUMA cells, which a move may change."""
        return self.demand, self.vcpu, self.memory_mb, self.ram_mb

    @property
    def is_low(self) -> bool:
        """Whether the instance has low priority."""
        return self.demand.priority == capacity.LOW


class Totals:
    """The sums of some usages."""

    def __init__(self, usages: abc.Iterable[Usage]) -> None:
        self._usages = list(usages)

    @property
    def low_shared(self) -> int:
        """Floating vCPUs of the low-priority instances."""
        return sum(usage.demand.shared for usage in self._usages
                   if usage.is_low)

    @property
    def ordinary_shared(self) -> int:
        """Floating vCPUs of all other instances."""
        return sum(usage.demand.shared for usage in self._usages
                   if not usage.is_low)

    @property
    def has_priority(self) -> bool:
        """Whether one of the instances has a priority."""
        return any(usage.demand.priority for usage in self._usages)

    @property
    def low_by_cell(self) -> dict[int, int]:
        """Dict, NUMA cell -> floating vCPUs of its low-priority guests."""
        cells: collections.Counter[int] = collections.Counter()
        for usage in self._usages:
            if usage.is_low:
                cells.update(usage.shared_by_cell)
        return cells

    @property
    def vcpu(self) -> int:
        """VCPU in Placement."""
        return sum(usage.vcpu for usage in self._usages)

    @property
    def memory_mb(self) -> int:
        """MEMORY_MB in Placement."""
        return sum(usage.memory_mb for usage in self._usages)

    @property
    def ram_mb(self) -> int:
        """Memory of the guests, in MB."""
        return sum(usage.ram_mb for usage in self._usages)

    @property
    def largest_vcpu(self) -> int:
        """The largest VCPU of one of these instances; 0 if there is none."""
        return max((usage.vcpu for usage in self._usages), default=0)


def find_users(usages: abc.Iterable[tuple[str, Usage]],
               rows: abc.Iterable[str]) -> dict[tuple[str, str], int]:
    """Return the vCPUs that each instance has in some rows.

    :param usages: (UUID of an instance, its Usage); an instance that is
        resized on the host has two
    :param rows: names of rows, fields of ``capacity.Rows``
    :returns: dict, (UUID, name of the row) -> vCPUs, without zeros
    """
    names = list(rows)
    users: collections.Counter[tuple[str, str]] = collections.Counter()
    for uuid, used in usages:
        needed = capacity.calculate_needed_rows(used.demand)
        for name in names:
            users[uuid, name] += getattr(needed, name)
    return dict(+users)
