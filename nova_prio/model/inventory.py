# SPDX-License-Identifier: Apache-2.0

"""The VCPU and memory inventories of a priority host. Pure.

Placement lets no instance leave that is larger than ``max_unit`` and, up to
its release 13, none that leaves more behind than there is room for. If the
configuration changed while instances were there, the inventory has room for
their allocations, and for no more.
"""

import os_resource_classes as orc

from nova_prio.model import capacity


def build_priority_inventories(stock, cpus, in_use):
    """Return the inventories of a priority host.

    On a mix host, Placement counts all CPUs, with the ratio in force, and
    reserves those that keep it from selling more than the low row. It cannot
    tell low-priority from ordinary instances, nor limit one of them to the
    CPUs of the host while a larger allocation exists: filter and claim do.
    Memory is never oversold further.

    Without mix, the inventories are Nova's, unless instances could not leave.

    :param stock: the inventories that Nova's driver reports, a dict, resource
        class -> dict
    :param cpus: ``capacity.HostCPUs``
    :param in_use: ``usage.UsageLedger`` of the instances on the host
    :returns: a new dict
    """
    found = dict(stock)
    if orc.VCPU in stock:
        vcpu = dict(stock[orc.VCPU])
        if cpus.mix:
            units = capacity.calculate_placement_units(
                cpus.ratio, max(cpus.sellable.low, in_use.vcpu))
            total = max(len(cpus.shared) + len(cpus.dedicated), units)
            vcpu.update(total=total, reserved=total - units,
                        max_unit=len(cpus.floating))
        else:
            vcpu['total'] = _total_to_leave(vcpu, in_use.vcpu)
        vcpu['max_unit'] = max(vcpu['max_unit'], in_use.largest_vcpu)
        found[orc.VCPU] = vcpu
    if cpus.mix and orc.MEMORY_MB in stock:
        memory = dict(stock[orc.MEMORY_MB])
        memory['allocation_ratio'] = min(memory['allocation_ratio'], 1.0)
        memory['total'] = _total_to_leave(memory, in_use.memory_mb)
        found[orc.MEMORY_MB] = memory
    return found


def _total_to_leave(inventory, in_use):
    """Return the total of an inventory, raised to what is in use."""
    units = capacity.calculate_placement_units(
        capacity.parse_ratio(inventory['allocation_ratio']), in_use)
    return max(inventory['total'], units + inventory['reserved'])


def build_cpu_inventories(cpus, there):
    """Return the CPU inventories that Nova's driver reports for CPU sets.

    Nova reserves no CPUs beside CPU sets. It keeps an allocation ratio that
    is in Placement.

    :param cpus: ``capacity.HostCPUs``
    :param there: the inventories in Placement, a dict, resource class -> dict
    :returns: a new dict, without the class of an empty set
    """
    sets = {orc.PCPU: (cpus.dedicated, 1.0),
            orc.VCPU: (cpus.shared, float(cpus.ratio))}
    return {name: {'reserved': 0, 'min_unit': 1, 'step_size': 1,
                   'allocation_ratio': ratio, **there.get(name, {}),
                   'total': len(numbers), 'max_unit': len(numbers)}
            for name, (numbers, ratio) in sets.items() if numbers}
