# SPDX-License-Identifier: Apache-2.0

"""The CPU capacity of a host, and which vCPUs may use it.

The filter, the weigher, the claim, the inventory and the reports use this
arithmetic. It knows no Nova objects and no options, and it is exact.

dedicated and shared CPUs
    The CPUs in ``[compute] cpu_dedicated_set`` and in ``[compute]
    cpu_shared_set``. The sets are disjoint; d and s are their sizes.
ratio
    The CPU allocation ratio r that is in force on the host.
mix host
    A host with ``cpu_priority_mix_enable``: low-priority instances may also
    run on its dedicated CPUs, in the time that pinned vCPUs leave idle.
floating CPUs
    The CPUs where a low-priority instance may run. On a mix host these are
    the shared and the dedicated CPUs, on other hosts the shared CPUs.
row
    A number of vCPUs that a host may sell, and how many of them are used. A
    row is not a set of CPUs. A host has three rows:

    * high: d vCPUs, used by dedicated vCPUs
    * low: floor(s * r + d * max(r - 1, 0)) vCPUs on a mix host, else
      floor(s * r), used by the shared vCPUs of all instances
    * ordinary: floor(s * r) vCPUs, used by the shared vCPUs of the instances
      that are not of low priority

An instance fits if each row that it uses has enough vCPUs remaining. For
example, a mix host with d = 8, s = 4 and r = 2 sells 8 vCPUs in the high row,
16 in the low row and 8 in the ordinary row. Two high-priority and four
low-priority instances of 4 vCPUs fill the host: an ordinary instance does not
fit beside them, because its shared vCPUs use the low row too.
"""

import bisect
import dataclasses
import decimal
import functools
import math
import typing

HIGH = 'high'
LOW = 'low'
PRIORITIES = (HIGH, LOW)
#: Limits of the arguments of commands.
MOST_CPUS, MOST_RATIO = 4096, 1000
_MAX_TOTAL = 2 ** 31 - 1  # of an inventory in Placement


def parse_ratio(value: str | float | decimal.Decimal) -> decimal.Decimal:
    """Return an allocation ratio as an exact Decimal: 1.1 is 11/10.

    :raises ValueError: if the value is negative or not a finite number
    """
    try:
        ratio = decimal.Decimal(str(value))
        if 0 <= ratio < decimal.Decimal('Infinity'):
            return ratio
    except decimal.InvalidOperation:
        # The value is not a number, or it is NaN, which has no order.
        pass
    raise ValueError(
        'allocation ratio %r must be a number, 0 or larger' % (value,))


class Rows(typing.NamedTuple):
    """A number of vCPUs for each row of a host."""

    high: int
    low: int
    ordinary: int


@dataclasses.dataclass(frozen=True)
class Demand:
    """The CPUs that one instance needs.

    ``priority`` is 'high', 'low' or None for an ordinary instance.
    ``dedicated`` and ``shared`` are numbers of CPUs. ``dedicated`` includes
    the CPU of an isolated emulator thread.
    """

    priority: str | None
    dedicated: int
    shared: int


@dataclasses.dataclass(frozen=True)
class HostCPUs:
    """The CPU configuration of a host.

    ``dedicated`` and ``shared`` are CPU numbers. ``mix`` tells whether the
    host is a mix host.
    """

    dedicated: frozenset[int]
    shared: frozenset[int]
    ratio: decimal.Decimal
    mix: bool

    @functools.cached_property
    def floating(self) -> frozenset[int]:
        """The CPUs where a low-priority instance may run."""
        return self.shared | self.dedicated if self.mix else self.shared

    @functools.cached_property
    def sellable(self) -> Rows:
        """The sellable Rows of this host."""
        return calculate_sellable(
            len(self.dedicated), len(self.shared), self.ratio, self.mix)


def calculate_sellable(dedicated: int, shared: int, ratio: decimal.Decimal,
                       mix: bool) -> Rows:
    """Return the sellable Rows of a host: the vCPUs that each row may sell.

    The high row promises each dedicated CPU in full to a pinned vCPU. The low
    row sells the shared CPUs, and on a mix host also what oversubscription
    adds to the dedicated CPUs, ratio - 1 of each. The ordinary row sells the
    shared CPUs alone.

    :param dedicated: number of dedicated CPUs
    :param shared: number of shared CPUs
    :param ratio: allocation ratio
    :param mix: whether the host is a mix host, whose low-priority instances
        may also run on the dedicated CPUs
    """
    ordinary = shared * ratio
    low = ordinary
    if mix:
        low += dedicated * max(ratio - 1, decimal.Decimal(0))
    return Rows(high=dedicated, low=math.floor(low),
                ordinary=math.floor(ordinary))


def calculate_used(dedicated: int, low_shared: int,
                   other_shared: int) -> Rows:
    """Return the used Rows of a host: the used vCPUs of each row.

    A row is a number of vCPUs that the host may sell. The low row limits all
    vCPUs that are not pinned. The ordinary row limits only those of instances
    without low priority.

    :param dedicated: number of dedicated CPUs with a pinned vCPU
    :param low_shared: vCPUs of low-priority instances
    :param other_shared: shared vCPUs of all other instances
    """
    return Rows(high=dedicated, low=low_shared + other_shared,
                ordinary=other_shared)


def calculate_needed_rows(demand: Demand) -> Rows:
    """Return the vCPUs of each row that an instance with a Demand uses.

    A row is a number of vCPUs that a host may sell. The high row limits
    dedicated vCPUs, the low row all shared vCPUs, and the ordinary row the
    shared vCPUs of instances without low priority.
    """
    low_shared = demand.shared if demand.priority == LOW else 0
    return calculate_used(
        demand.dedicated, low_shared, demand.shared - low_shared)


def calculate_remaining(sellable: Rows, used: Rows) -> Rows:
    """Return the vCPUs of each row that can still be sold, at least 0.

    A row is a number of vCPUs that a host may sell.
    """
    return Rows(high=max(sellable.high - used.high, 0),
                low=max(sellable.low - used.low, 0),
                ordinary=max(sellable.ordinary - used.ordinary, 0))


def calculate_left(sellable: Rows, used: Rows) -> Rows:
    """Return the vCPUs that new instances of each class can have, as Rows.

    A row is a number of vCPUs that a host may sell. The high row limits pinned
    vCPUs, the low row all shared vCPUs, and the ordinary row the shared vCPUs
    of instances without low priority. The vCPUs of an ordinary instance count
    in the low and in the ordinary row, so it can have the smaller remainder of
    the two.
    """
    remaining = calculate_remaining(sellable, used)
    return remaining._replace(
        ordinary=min(remaining.low, remaining.ordinary))


def add_rows(rows: Rows, more: Rows, times: int) -> Rows:
    """Return ``rows`` plus a multiple of ``more``, row by row.

    :param times: the multiplier of ``more``; negative to subtract
    """
    return Rows(high=rows.high + times * more.high,
                low=rows.low + times * more.low,
                ordinary=rows.ordinary + times * more.ordinary)


def find_shortages(needed: Rows,
                   available: Rows) -> list[tuple[str, int, int]]:
    """Return the rows that are too small for an instance.

    A row is a number of vCPUs that a host may sell.

    :returns: (name of the row, its needed vCPUs, its available vCPUs) of each
    """
    return [(name, wanted, free) for name, wanted, free
            in zip(Rows._fields, needed, available) if wanted > free]


def find_oversold_rows(sellable: Rows, used: Rows) -> list[str]:
    """Return the names of the rows with more used than sellable vCPUs."""
    # The used vCPUs are those needed, and the sellable ones those available.
    return [name for name, _, _ in find_shortages(used, sellable)]


def calculate_placement_units(ratio: decimal.Decimal, vcpus: int) -> int:
    """Return the smallest inventory with which Placement admits ``vcpus``.

    Placement admits ``int(units * ratio)`` vCPUs, in floating point. A
    bisection finds the units. The result never exceeds the largest total that
    Placement allows.

    :param ratio: allocation ratio
    :param vcpus: number of vCPUs that Placement must admit
    :returns: units of the inventory: its total minus its reserved amount
    :raises ValueError: if the ratio is 0 and there are vCPUs to admit
    """
    if vcpus > 0 and not ratio:
        raise ValueError('Placement admits nothing with allocation ratio 0')
    return bisect.bisect_left(range(_MAX_TOTAL), float(vcpus),
                              key=lambda units: units * float(ratio))
