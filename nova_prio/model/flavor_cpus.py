# SPDX-License-Identifier: Apache-2.0

"""The CPUs of an instance, read from its flavor without Nova.

Nova also reads the image: an image can pin an ordinary instance whose flavor
has no CPU policy. :mod:`nova_prio.virt.demand` reads the NUMA topology, which
is exact, but only Nova's databases have the topology.
"""

from collections import abc

from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs
from nova_prio.model import mixed_cpus

#: Class of the instances without a priority in force.
ORDINARY = 'ordinary'
CLASSES = cpu_capacity.PRIORITIES + (ORDINARY,)


def get_class(extra_specs: abc.Mapping[str, str]) -> str:
    """Return the class of an instance, one of CLASSES.

    :param extra_specs: those of the embedded flavor
    """
    return flavor_specs.get_priority(extra_specs) or ORDINARY


def add_policy(extra_specs: abc.Mapping[str, str]) -> dict[str, str]:
    """Return the extra specs with the CPU policy that belongs to the priority.

    nova-api writes it into the copy of the flavor that an instance has. The
    flavor must be one that nova-api accepts.

    :param extra_specs: those of a flavor as it is offered to users
    """
    specs = dict(extra_specs)
    if mixed_cpus.requests_pcpu_and_vcpu(specs):
        # Requests such as resources:PCPU decide on pinning, and Nova refuses
        # a policy beside them.
        return specs
    priority = specs.get(flavor_specs.EXTRA_SPEC)
    # If a flavor requests PCPU alone, Nova pins all vCPUs without a policy.
    requests_pcpu = bool(flavor_specs.select_pinning_requests(specs, 'PCPU'))
    if priority == cpu_capacity.LOW:
        specs.setdefault(flavor_specs.CPU_POLICY, 'shared')
    elif priority == cpu_capacity.HIGH and not requests_pcpu:
        specs.setdefault(flavor_specs.CPU_POLICY, 'dedicated')
    return specs


def get_demand(vcpus: int,
               extra_specs: abc.Mapping[str, str]) -> cpu_capacity.Demand:
    """Return the CPUs that an instance of a flavor needs.

    :param vcpus: number of vCPUs of the flavor
    :param extra_specs: those of the flavor that an instance has. For a flavor
        as it is offered to users, pass the result of :func:`add_policy`, which
        adds the CPU policy of its priority.
    :raises ValueError: if the mask of dedicated vCPUs cannot be read
    """
    policy = extra_specs.get(flavor_specs.CPU_POLICY)
    # The numbers of the extra specs resources:PCPU and resources:VCPU.
    requested_pcpus = flavor_specs.sum_amounts(
        flavor_specs.select_pinning_requests(extra_specs, 'PCPU'))
    requested_vcpus = flavor_specs.sum_amounts(
        flavor_specs.select_pinning_requests(extra_specs, 'VCPU'))
    if policy is None and requested_pcpus:
        # Without a policy, Nova pins an instance that requests PCPU.
        policy = 'dedicated'
    if policy == 'mixed':
        dedicated = len(_read_mask(vcpus, extra_specs))
    elif policy == 'dedicated':
        # A flavor that also requests VCPU stands for the mixed policy: only
        # the other vCPUs are dedicated.
        dedicated = max(vcpus - requested_vcpus, 0)
    else:
        dedicated = 0
    # An isolated emulator thread has a dedicated CPU beside the vCPUs.
    isolated = 0
    if dedicated and extra_specs.get(mixed_cpus.EMULATOR) == 'isolate':
        isolated = 1
    return cpu_capacity.Demand(
        flavor_specs.get_priority(extra_specs),
        dedicated=dedicated + isolated, shared=vcpus - dedicated)


def get_placement_request(vcpus: int, memory_mb: int, disk_gb: int,
                          extra_specs: abc.Mapping[str, str],
                          ) -> dict[str, int]:
    """Return the resources that Nova requests for an instance of a flavor.

    :param disk_gb: size of all disks of the flavor, in GB
    :param extra_specs: those of the flavor that an instance has. For a flavor
        as it is offered to users, pass the result of :func:`add_policy`, which
        adds the CPU policy of its priority.
    :returns: dict, resource class -> amount, without amounts of 0
    :raises ValueError: if the mask of dedicated vCPUs cannot be read
    """
    demand = get_demand(vcpus, extra_specs)
    amounts = {'PCPU': demand.dedicated, 'VCPU': demand.shared,
               'MEMORY_MB': memory_mb, 'DISK_GB': disk_gb}
    # An extra spec such as resources:DISK_GB overrides the amount.
    request = {name: flavor_specs.get_placement_amount(
        extra_specs, name, amount) for name, amount in amounts.items()}
    return {name: amount for name, amount in request.items() if amount}


def _read_mask(vcpus: int, extra_specs: abc.Mapping[str, str]) -> set[int]:
    """Return the dedicated vCPUs of the mixed policy, as Nova reads them.

    A mask is a text such as ``1-3`` or ``^0``, parts separated by commas.

    :param vcpus: number of vCPUs of the flavor
    :param extra_specs: those of the flavor that an instance has
    :raises ValueError: if the mask cannot be read
    """
    mask = extra_specs.get(mixed_cpus.DEDICATED_MASK) or extra_specs.get(
        mixed_cpus.REALTIME_MASK, '')
    included: set[int] = set()
    excluded: set[int] = set()
    parts = [part.strip() for part in mask.split(',') if part.strip()]
    if not parts:
        # Nova skips empty parts, but refuses a mask of empty parts only.
        parts = ['']
    for part in parts:
        target = excluded if part.startswith('^') else included
        first, dash, last = part.removeprefix('^').partition('-')
        if not dash:
            last = first
        try:
            vcpu_range = range(int(first), int(last) + 1)
        except ValueError:
            # The part is no number and no range of numbers.
            vcpu_range = range(0)
        # Nova also refuses a range that ends before its start.
        if not vcpu_range:
            raise ValueError(
                'The mask of dedicated vCPUs is %s; allowed is a CPU set such '
                'as 1-3 or ^0.' % flavor_specs.quote(mask))
        target.update(vcpu_range)
    # A mask such as ^0 excludes from all vCPUs, and 1-3,^2 from 1-3.
    if mask.lstrip().startswith('^'):
        included.update(range(vcpus))
    return (included - excluded).intersection(range(vcpus))
