# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What a host can sell to each class of instance, and what is left of it.

The arithmetic of co-location and nothing else: no Nova, no configuration, no
floating point. Filter, weigher, inventory and reports all ask here. A host
sells in three rows:

``high``
    dedicated vCPUs, pinned one to one on the dedicated CPUs
``low``
    vCPUs of low-priority instances; the shared vCPUs of all others count here
    as well, because they run on the same CPUs
``ordinary``
    shared vCPUs of instances without a priority

Source of the rules: the resource model and the worked example of the
high/low-priority co-location design (12 CPUs, 8 of them dedicated, ratio 2:
two pinned and four floating instances of 4 vCPUs each).
"""

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


def exact_ratio(value):
    """Return an allocation ratio as the decimal that was written.

    :param value: number or its text; 1.1 becomes exactly 11/10
    :returns: ``decimal.Decimal``
    :raises ValueError: where it is no finite number from 0 on
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
    """One whole number of CPUs for each row of a host."""

    high: int
    low: int
    ordinary: int


@dataclasses.dataclass(frozen=True)
class Demand:
    """What one instance takes from a host.

    ``priority`` is 'high', 'low' or None for an ordinary instance;
    ``dedicated`` and ``shared`` are its numbers of dedicated CPUs (an
    isolated emulator thread included) and of floating vCPUs.
    """

    priority: str | None
    dedicated: int
    shared: int


class Shortage(typing.NamedTuple):
    """A row that has not the room that an instance needs."""

    row: str
    needed: int
    available: int


@dataclasses.dataclass(frozen=True)
class HostCPUs:
    """The CPUs of a host and the terms on which it sells them.

    ``dedicated`` and ``shared`` are disjoint frozensets of CPU numbers,
    ``ratio`` the CPU allocation ratio in force as a Decimal, ``mix`` whether
    low-priority instances may float on the dedicated CPUs too.
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
        return sellable(len(self.dedicated), len(self.shared), self.ratio,
                        self.mix)


def sellable(dedicated, shared, ratio, mix):
    """Return the Rows that a host may sell in all.

    The dedicated CPUs add to the low row only what oversubscription gives
    beyond selling them once, since each is promised in full to a pinned
    instance.

    :param dedicated: number of dedicated CPUs
    :param shared: number of shared CPUs
    :param ratio: allocation ratio, a Decimal
    :param mix: whether low-priority instances may float on the former too
    """
    ordinary = shared * ratio
    low = ordinary + dedicated * max(ratio - 1, 0) if mix else ordinary
    return Rows(high=dedicated, low=math.floor(low),
                ordinary=math.floor(ordinary))


def used(pinned, low_shared, ordinary_shared):
    """Return the Rows in use.

    :param pinned: number of dedicated CPUs that are pinned, by whomever
    :param low_shared: vCPUs of the low-priority instances
    :param ordinary_shared: shared vCPUs of all other instances
    """
    return Rows(high=pinned, low=low_shared + ordinary_shared,
                ordinary=ordinary_shared)


def room(sellable, in_use):
    """Return the Rows that are left; never below zero.

    :param sellable: Rows that may be sold in all
    :param in_use: Rows that are sold
    """
    high, low, ordinary = map(operator.sub, sellable, in_use)
    return Rows(max(high, 0), max(low, 0), max(ordinary, 0))


def drawn(demand):
    """Return the Rows that an instance takes room from.

    Dedicated CPUs come from the high row; floating vCPUs from the low row
    and, unless the instance has low priority, from the ordinary row too.

    :param demand: a Demand
    """
    return used(
        demand.dedicated,
        demand.shared if demand.priority == LOW else 0,
        0 if demand.priority == LOW else demand.shared)


def shortages(needs, left):
    """Return what keeps an instance from fitting, as a list of Shortage.

    :param needs: the Rows that the instance draws
    :param left: the Rows that are left on the host
    :returns: list of Shortage, empty where it fits
    """
    if all(map(operator.le, needs, left)):
        return []
    return [Shortage(row, needed, available)
            for row, needed, available in zip(Rows._fields, needs, left)
            if needed > available]


def placement_units(ratio, vcpus):
    """Return how few CPUs of an inventory let Placement admit some vCPUs.

    Placement admits ``int(CPUs * ratio)``, in floating point. With the result
    that is never less than asked for, and more by less than ``max(ratio, 1)``,
    unless it is the largest number that Placement knows.

    :param ratio: allocation ratio, a Decimal above 0
    :param vcpus: int
    """
    def admits(units):
        return int(units * float(ratio)) >= vcpus

    if vcpus <= 0:
        return 0
    units = math.ceil(min(vcpus / ratio, _MOST_UNITS))
    while admits(units - 1):
        units -= 1
    while units < _MOST_UNITS and not admits(units):
        units += 1
    return units
