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

"""The VCPU and memory of a priority host, as Placement is to hold them. Pure.

Placement lets no instance leave that is larger than ``max_unit`` and, up to
its release 13, none that leaves more behind than there is room for. Where the
configuration changed while instances were there, the inventory has room for
what is in use, and for no more.
"""

from nova_prio import capacity


def vcpu(stock, cpus, in_use, largest):
    """Return the VCPU inventory of a mix host.

    Placement counts all CPUs, with the ratio in force, and reserves what
    keeps it from selling more than the low row. It cannot tell low-priority
    from ordinary instances, nor can it limit one of them to the CPUs there
    are while a larger allocation exists: filter and claim do.

    :param stock: the VCPU inventory that Nova's driver reports, a dict
    :param cpus: ``capacity.HostCPUs``
    :param in_use: VCPU that Placement holds for all instances
    :param largest: VCPU of the instance that holds most of them
    :returns: a new dict
    """
    units = capacity.placement_units(
        cpus.ratio, max(cpus.sellable.low, in_use))
    total = max(len(cpus.shared) + len(cpus.dedicated), units)
    return dict(stock, total=total, reserved=total - units,
                max_unit=max(len(cpus.floating), largest))


def movable_vcpu(stock, in_use, largest):
    """Return the VCPU inventory of a host that is no mix host.

    It is Nova's, unless what is there from other times could not leave.

    :param stock: the VCPU inventory that Nova's driver reports, a dict
    :param in_use: VCPU that Placement holds for all instances
    :param largest: VCPU of the instance that holds most of them
    :returns: a new dict
    """
    units = capacity.placement_units(
        capacity.exact_ratio(stock['allocation_ratio']), in_use)
    return dict(stock, total=max(stock['total'], units + stock['reserved']),
                max_unit=max(stock['max_unit'], largest))


def memory(stock, in_use):
    """Return the MEMORY_MB inventory of a mix host: never oversold further.

    :param stock: the MEMORY_MB inventory that Nova's driver reports, a dict
    :param in_use: MEMORY_MB that Placement holds for all instances
    :returns: a new dict with an allocation ratio of at most 1.0
    """
    ratio = min(stock['allocation_ratio'], 1.0)
    units = capacity.placement_units(capacity.exact_ratio(ratio), in_use)
    return dict(stock, allocation_ratio=ratio,
                total=max(stock['total'], units + stock['reserved']))
