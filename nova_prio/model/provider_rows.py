# SPDX-License-Identifier: Apache-2.0

"""The rows of a host, from its record in Placement.

Placement counts the dedicated vCPUs of all instances as PCPU, and the shared
vCPUs as VCPU. So PCPU is the high row and VCPU is the low row. The low row may
be too large, by less than the allocation ratio
(:func:`nova_prio.model.inventory.build_priority_inventories`). Placement does
not tell the class of an instance, so there is no ordinary row.
"""

from __future__ import annotations

from collections import abc
import typing

#: Row -> resource class.
CLASS_OF_ROW = {'high': 'PCPU', 'low': 'VCPU'}

#: Resource class -> field -> number, in the format of Placement.
Inventories = abc.Mapping[str, abc.Mapping[str, typing.Any]]


class Row(typing.NamedTuple):
    """The vCPUs of one row: sold, to sell in all, and left to sell.

    A row is a number of vCPUs that a host may sell. ``left`` is 0 if more are
    sold.
    """

    sold: int
    sellable: int
    left: int

    @property
    def is_oversold(self) -> bool:
        """Whether more vCPUs are sold than the row may sell."""
        return self.sold > self.sellable

    @property
    def sold_percent(self) -> float:
        """The sold part of the vCPUs of the row, from 0 to 100."""
        # A row that may sell nothing is full if anything is sold.
        if self.sellable <= 0:
            return 100 if self.sold else 0
        return round(min(self.sold / self.sellable, 1) * 100, 1)

    def add(self, other: Row) -> Row:
        """Return the sum of two rows."""
        return Row(sold=self.sold + other.sold,
                   sellable=self.sellable + other.sellable,
                   left=self.left + other.left)


def get_row(name: str, inventories: Inventories,
            usages: abc.Mapping[str, int]) -> Row:
    """Return how many vCPUs of a kind a host has sold and may sell.

    Placement counts dedicated vCPUs as PCPU, and shared ones as VCPU.

    :param name: 'high' for dedicated vCPUs, 'low' for shared ones
    :param inventories: dict, resource class -> field -> number, of the
        resource provider
    :param usages: dict, resource class -> used amount of the provider
    """
    resource_class = CLASS_OF_ROW[name]
    sold = usages.get(resource_class, 0)
    sellable = get_capacity(inventories.get(resource_class))
    return Row(sold=sold, sellable=sellable, left=max(sellable - sold, 0))


def count_instances(request: abc.Mapping[str, int], inventories: Inventories,
                    usages: abc.Mapping[str, int]) -> int | None:
    """Return how many equal instances Placement would put on a host.

    None fits if an amount breaks a rule of its inventory, such as
    ``max_unit``. If the host has no inventory of DISK_GB, its disk is not
    considered: it may be an inventory of another resource provider.

    :param request: dict, resource class -> amount, of one instance; at least
        one amount
    :param inventories: dict, resource class -> field -> number
    :param usages: dict, resource class -> used amount of the provider
    :returns: None if the instances need nothing of this host
    """
    counts = []
    for resource_class, amount in request.items():
        inventory = inventories.get(resource_class)
        if inventory is None:
            if resource_class == 'DISK_GB':
                continue
            return 0
        if (amount % inventory['step_size'] or
                not inventory['min_unit'] <= amount <= inventory['max_unit']):
            return 0
        left = get_capacity(inventory) - usages.get(resource_class, 0)
        counts.append(max(left, 0) // amount)
    return min(counts, default=None)


def get_capacity(inventory: abc.Mapping[str, typing.Any] | None) -> int:
    """Return the amount that Placement allocates, 0 without an inventory.

    As in Placement, this is floating point, rounded down.

    :param inventory: dict, field -> value, of one resource class; None if the
        provider has no such inventory
    """
    if inventory is None:
        return 0
    return int((inventory['total'] - inventory['reserved']) *
               inventory['allocation_ratio'])
