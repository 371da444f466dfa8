# SPDX-License-Identifier: Apache-2.0

"""The usage of the instances of a host, by class.

The class of an instance is its priority, or ordinary. Floating vCPUs are those
that are not pinned to a CPU.
"""

import collections
from collections import abc
import typing

from nova_prio.model import cpu_capacity


class Usage(typing.NamedTuple):
    """The usage of one instance on a host."""

    demand: cpu_capacity.Demand
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
    def amounts(self) -> tuple[cpu_capacity.Demand, int, int, int]:
        """All but the NUMA cells, which a move may change."""
        return self.demand, self.vcpu, self.memory_mb, self.ram_mb

    @property
    def is_low(self) -> bool:
        """Whether the instance has low priority."""
        return self.demand.priority == cpu_capacity.LOW


class Totals:
    """The sums of some usages.

    ``low_shared`` are the floating vCPUs of the low-priority instances, and
    ``ordinary_shared`` those of all other instances. ``has_priority`` tells
    whether one of the instances has a priority. ``low_by_cell`` is dict, NUMA
    cell -> floating vCPUs of its low-priority guests. ``vcpu`` and
    ``memory_mb`` are amounts in Placement, and ``ram_mb`` is the memory of the
    guests, in MB. ``largest_vcpu`` is the largest VCPU of one of the
    instances, 0 if there is none.
    """

    def __init__(self, usages: abc.Iterable[Usage]) -> None:
        """Add up the usages of instances on a host.

        ``vcpu`` and ``memory_mb`` are allocated in Placement as VCPU and
        MEMORY_MB, where the flavor may set them with extra specs such as
        ``resources:VCPU``. ``ram_mb`` is the memory of the guests. ``shared``
        vCPUs are those that are not pinned.
        """
        self.low_shared = self.ordinary_shared = 0
        self.vcpu = self.memory_mb = self.ram_mb = self.largest_vcpu = 0
        self.has_priority = False
        self.low_by_cell: collections.Counter[int] = collections.Counter()
        for usage in usages:
            if usage.is_low:
                self.low_shared += usage.demand.shared
                self.low_by_cell.update(usage.shared_by_cell)
            else:
                self.ordinary_shared += usage.demand.shared
            if usage.demand.priority:
                self.has_priority = True
            self.vcpu += usage.vcpu
            self.memory_mb += usage.memory_mb
            self.ram_mb += usage.ram_mb
            self.largest_vcpu = max(self.largest_vcpu, usage.vcpu)


def find_users(usages: abc.Iterable[tuple[str, Usage]],
               rows: abc.Collection[str]) -> dict[tuple[str, str], int]:
    """Return the vCPUs that each instance has in some rows.

    A row is a number of vCPUs that a host may sell.

    :param usages: (UUID of an instance, its Usage); an instance that is
        resized on the host has two
    :param rows: names of rows, fields of ``cpu_capacity.Rows``
    :returns: dict, (UUID, name of the row) -> vCPUs, without zeros
    """
    users: collections.Counter[tuple[str, str]] = collections.Counter()
    for uuid, used in usages:
        needed = cpu_capacity.calculate_needed_rows(used.demand)
        for name in rows:
            users[uuid, name] += getattr(needed, name)
    # The plus sign leaves out what is 0.
    return dict(+users)
