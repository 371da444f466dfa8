# SPDX-License-Identifier: Apache-2.0

"""The VCPU and memory inventories of a host with the priority driver.

If the CPU sets shrink, the inventories must keep just enough capacity for the
present allocations. Otherwise Placement refuses to move an instance that is
larger than ``max_unit`` or, up to release 13, that leaves an oversold host.
Rows and mix hosts are explained in :mod:`nova_prio.model.cpu_capacity`.
"""

import typing

import os_resource_classes as orc

from nova_prio.model import cpu_capacity
from nova_prio.model import usage

#: Resource class -> inventory in the format of Placement.
Inventories = dict[str, dict[str, typing.Any]]


def build_priority_inventories(
        nova_inventories: Inventories, cpus: cpu_capacity.HostCPUs,
        totals: usage.Totals) -> Inventories:
    """Return the inventories that the driver reports, a new dict.

    On a mix host, which has ``cpu_priority_mix_enable``, the total of VCPU is
    all CPUs. Some of them are reserved, so that Placement sells no more vCPUs
    than low-priority instances may have in all. The limit max_unit is
    the number of floating CPUs, where low-priority instances may run: these
    are all shared and dedicated CPUs. Placement cannot tell low-priority from
    ordinary instances. The filter and the claim refuse an ordinary instance
    with more shared vCPUs than the host has shared CPUs. A mix host never
    overcommits memory: Placement must not sell what the filter and the claim
    refuse.

    On other hosts, the inventories are those of Nova's driver, but for VCPU.

    If the present allocations need more VCPU, it grows: on a mix host always,
    on another host only if it has a priority instance. Other hosts with only
    ordinary instances report the same as in stock Nova.

    :param nova_inventories: inventories of Nova's driver, dict, resource class
        -> dict, field -> value
    :param cpus: the CPU sets, the allocation ratio, and mix or not
    :param totals: sums of the present instances
    """
    inventories = dict(nova_inventories)
    if orc.VCPU in nova_inventories and (cpus.mix or totals.has_priority):
        vcpu = dict(nova_inventories[orc.VCPU])
        if cpus.mix:
            # Placement sells (total - reserved) times the ratio. This must
            # be at least what the host may sell, and what it has sold. The
            # number ``low`` limits all vCPUs that are not pinned.
            vcpus_to_admit = max(cpus.sellable.low, totals.vcpu)
            unreserved = cpu_capacity.calculate_placement_units(
                cpus.ratio, vcpus_to_admit)
            total = max(len(cpus.shared) + len(cpus.dedicated), unreserved)
            vcpu.update(total=total, reserved=total - unreserved,
                        max_unit=len(cpus.floating))
        else:
            vcpu['total'] = _calculate_total(vcpu, totals.vcpu)
        vcpu['max_unit'] = max(vcpu['max_unit'], totals.largest_vcpu)
        inventories[orc.VCPU] = vcpu
    if cpus.mix and orc.MEMORY_MB in nova_inventories:
        memory = dict(nova_inventories[orc.MEMORY_MB])
        memory['allocation_ratio'] = min(memory['allocation_ratio'], 1.0)
        memory['total'] = _calculate_total(memory, totals.memory_mb)
        inventories[orc.MEMORY_MB] = memory
    return inventories


def _calculate_total(inventory: dict[str, typing.Any], used: int) -> int:
    """Return the total of an inventory, raised if its usage needs more.

    :param inventory: dict, field -> value, of one resource class
    :param used: allocated amount of this resource class
    """
    units = cpu_capacity.calculate_placement_units(
        cpu_capacity.parse_ratio(inventory['allocation_ratio']), used)
    return max(inventory['total'], units + inventory['reserved'])


def build_cpu_inventories(cpus: cpu_capacity.HostCPUs,
                          present: Inventories) -> Inventories:
    """Return the CPU inventories that Nova's driver reports, a new dict.

    Nova reserves no CPUs if CPU sets are configured, and keeps the allocation
    ratio in Placement. If a CPU set is empty, its resource class is missing.

    :param present: inventories of the host in Placement, whose values are kept
        except for the number of CPUs
    :returns: dict, resource class -> dict, field -> value
    """
    inventories: Inventories = {}
    for name, numbers, ratio in (
            (orc.PCPU, cpus.dedicated, 1.0),
            (orc.VCPU, cpus.shared, float(cpus.ratio))):
        if numbers:
            inventory = {'reserved': 0, 'min_unit': 1, 'step_size': 1,
                         'allocation_ratio': ratio}
            inventory.update(present.get(name, {}))
            inventory.update(total=len(numbers), max_unit=len(numbers))
            inventories[name] = inventory
    return inventories
