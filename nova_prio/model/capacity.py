# SPDX-License-Identifier: Apache-2.0

"""The CPU capacity of a host for each class of instance.

The arithmetic of co-location, without Nova objects, configuration or floating
point. Filter, weigher, claim, inventory and reports all use it. A host sells
its CPUs in three rows:

``high``
    dedicated vCPUs, pinned one to one on the dedicated CPUs
``low``
    vCPUs of low-priority instances. The shared vCPUs of all other instances
    count here too, because they run on the same CPUs
``ordinary``
    shared vCPUs of instances without a priority

Source of the rules: the resource model and the worked example of the
high/low-priority co-location design (12 CPUs, 8 of them dedicated, ratio 2:
two pinned and four floating instances of 4 vCPUs each).
"""

import bisect
import dataclasses
import decimal
import math
import operator
import typing

HIGH = 'high'
LOW = 'low'
PRIORITIES = (HIGH, LOW)
#: The largest total of an inventory.
_MOST_UNITS = 2 ** 31 - 1


def parse_ratio(value):
    """Return an allocation ratio as the decimal that was written.

    :param value: number or its text; 1.1 becomes exactly 11/10
    :returns: ``decimal.Decimal``
    :raises ValueError: if it is negative or not a finite number
    """
    try:
        ratio = decimal.Decimal(str(value))
    except decimal.InvalidOperation:
        ratio = decimal.Decimal('NaN')
    if not ratio.is_finite() or ratio < 0:
        raise ValueError(
            'allocation ratio %r is not a number from 0 on' % (value,))
    return ratio


class Rows(typing.NamedTuple):
    """A number of CPUs for each row of a host."""

    high: int
    low: int
    ordinary: int


@dataclasses.dataclass(frozen=True)
class Demand:
    """The CPUs that one instance needs.

    ``priority`` is 'high', 'low' or None for an ordinary instance.
    ``dedicated`` is its number of dedicated CPUs, with the one of an isolated
    emulator thread; ``shared`` is its number of floating vCPUs.
    """

    priority: str | None
    dedicated: int
    shared: int


@dataclasses.dataclass(frozen=True)
class HostCPUs:
    """The CPU configuration of a host.

    ``dedicated`` and ``shared`` are disjoint frozensets of CPU numbers.
    ``ratio`` is the CPU allocation ratio in force, as a Decimal. ``mix`` says
    whether low-priority instances also float on the dedicated CPUs.
    """

    dedicated: frozenset
    shared: frozenset
    ratio: decimal.Decimal
    mix: bool

    @property
    def floating(self):
        """The frozenset of CPUs that a low-priority instance may use."""
        return self.shared | self.dedicated if self.mix else self.shared

    @property
    def sellable(self):
        """The Rows that this host may sell in all."""
        return calculate_sellable(len(self.dedicated), len(self.shared), self.ratio,
                                  self.mix)


def calculate_sellable(dedicated, shared, ratio, mix):
    """Return the Rows that a host may sell in all.

    Each dedicated CPU is promised in full to a pinned instance. It therefore
    adds to the low row only what oversubscription gives beyond selling it
    once.

    :param dedicated: number of dedicated CPUs
    :param shared: number of shared CPUs
    :param ratio: allocation ratio, a Decimal
    :param mix: whether low-priority instances float on dedicated CPUs
    """
    ordinary = shared * ratio
    low = ordinary + dedicated * max(ratio - 1, 0) if mix else ordinary
    return Rows(high=dedicated, low=math.floor(low),
                ordinary=math.floor(ordinary))


def calculate_used(pinned, low_shared, ordinary_shared):
    """Return the Rows in use.

    :param pinned: number of dedicated CPUs that any instance is pinned on
    :param low_shared: vCPUs of the low-priority instances
    :param ordinary_shared: shared vCPUs of all other instances
    """
    return Rows(high=pinned, low=low_shared + ordinary_shared,
                ordinary=ordinary_shared)


def calculate_remaining(sellable, in_use):
    """Return the Rows that are left, none of them below zero."""
    high, low, ordinary = map(operator.sub, sellable, in_use)
    return Rows(max(high, 0), max(low, 0), max(ordinary, 0))


def find_oversold_rows(sellable, in_use):
    """Return the names of the rows of which too much is sold, a list.

    :param sellable: Rows that may be sold in all
    :param in_use: Rows that are sold
    """
    return [row for row, most, sold in zip(Rows._fields, sellable, in_use)
            if sold > most]


def calculate_drawn(demand):
    """Return the Rows that an instance with this Demand uses.

    Dedicated CPUs draw from the high row. Floating vCPUs draw from the low
    row and, unless the instance has low priority, from the ordinary row too.
    """
    is_low = demand.priority == LOW
    return calculate_used(demand.dedicated, demand.shared if is_low else 0,
                          0 if is_low else demand.shared)


def find_shortages(needs, left):
    """Return (row, needed, available) of each row that is too full.

    :param needs: the Rows that an instance draws
    :param left: the Rows that are left on the host
    """
    if all(map(operator.le, needs, left)):
        return []
    return [row for row in zip(Rows._fields, needs, left) if row[1] > row[2]]


def calculate_placement_units(ratio, vcpus):
    """Return the least inventory with which Placement admits some vCPUs.

    Placement admits ``int(units * ratio)``, in floating point. With the
    result, Placement admits at least ``vcpus``, and exceeds them by less than
    ``max(ratio, 1)``, unless the result is the largest total of an inventory.

    :param ratio: allocation ratio, a Decimal above 0
    :param vcpus: int
    :raises ValueError: if the ratio is 0 and there are vCPUs to admit
    """
    if vcpus > 0 and not ratio:
        raise ValueError('Placement admits nothing with allocation ratio 0')
    return bisect.bisect_left(range(_MOST_UNITS), vcpus,
                              key=lambda units: units * float(ratio))
