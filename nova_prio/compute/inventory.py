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

"""The inventory of a mix host, as Placement is to hold it. Pure."""

from nova_prio import capacity


def vcpu(stock, cpus, largest_shared):
    """Return the VCPU inventory of a mix host.

    Placement counts all CPUs, with the ratio in force, and reserves what
    keeps it from selling more than the low row. It cannot tell low-priority
    from ordinary instances, nor can it limit one of them to the CPUs there
    are while a larger allocation exists: filter and claim do.

    :param stock: the VCPU inventory that Nova's driver reports, a dict
    :param cpus: ``capacity.HostCPUs``
    :param largest_shared: floating vCPUs of the largest instance there is
    :returns: a new dict
    """
    total = len(cpus.shared) + len(cpus.dedicated)
    return dict(
        stock, total=total,
        reserved=capacity.placement_reserved(
            total, cpus.ratio, cpus.sellable.low),
        max_unit=max(len(cpus.floating), largest_shared))


def movable_vcpu(stock, largest_low):
    """Return the VCPU inventory of a host that is no mix host.

    It is Nova's, unless a low-priority instance from times of mix is larger
    than the shared CPUs: Placement would not let it be moved away.

    :param stock: the VCPU inventory that Nova's driver reports, a dict
    :param largest_low: vCPUs of the largest low-priority instance there is
    :returns: a new dict
    """
    return dict(stock, max_unit=max(stock['max_unit'], largest_low))


def memory(stock):
    """Return the MEMORY_MB inventory of a mix host: never oversold.

    :param stock: the MEMORY_MB inventory that Nova's driver reports, a dict
    :returns: a new dict with an allocation ratio of at most 1.0
    """
    return dict(stock, allocation_ratio=min(stock['allocation_ratio'], 1.0))
