# SPDX-License-Identifier: Apache-2.0

"""Numbers of PCPU and VCPU in one flavor, and the mixed policy they ask for.

Extra specs in, extra specs out: dicts, extra spec -> str. Stock Nova takes the
mixed CPU policy with a mask of dedicated vCPUs, and refuses a flavor that
names both numbers. A request that contradicts itself raises
policy.RequestRefused.
"""

import itertools
import re

from nova_prio.model import flavor_specs

DEDICATED_MASK = 'hw:cpu_dedicated_mask'
REALTIME_MASK = 'hw:cpu_realtime_mask'
_EMULATOR = 'hw:emulator_threads_policy'

_OF_GROUP = re.compile(r'(resources|trait)([1-9][0-9]*):(.+)$')


def names_both_classes(extra_specs):
    """Return whether a flavor names numbers of PCPU and of VCPU."""
    return bool(flavor_specs.select_pinning_requests(extra_specs, 'PCPU') and
                flavor_specs.select_pinning_requests(extra_specs, 'VCPU'))


def count_dedicated_vcpus(vcpus, extra_specs, image_properties):
    """Return the number of dedicated vCPUs of a flavor with both numbers.

    :param vcpus: vCPUs of the flavor
    :param image_properties: dict, image property -> str
    :returns: int, or None if one number is zero, so that all vCPUs are of one
        sort
    """
    for key, value in _numbers(extra_specs).items():
        if not flavor_specs.is_number(value):
            _refuse_flavor(key, value, 'allowed is a whole number from 0 on')
    pcpus = flavor_specs.sum_amounts(
        flavor_specs.select_pinning_requests(extra_specs, 'PCPU'))
    shared = flavor_specs.sum_amounts(
        flavor_specs.select_pinning_requests(extra_specs, 'VCPU'))
    isolated = extra_specs.get(_EMULATOR) == 'isolate'
    if pcpus + shared != vcpus + isolated:
        raise flavor_specs.RequestRefused(
            "Extra specs resources:PCPU and resources:VCPU of the flavor are "
            "%d and %d; allowed are numbers that add up to its %d vCPUs%s."
            % (pcpus, shared, vcpus,
               ' and one for the isolated emulator threads' * isolated))
    if not pcpus or not shared:
        return None
    if pcpus == isolated:
        raise flavor_specs.RequestRefused(
            "Extra spec resources:PCPU of the flavor is '1', which the "
            "isolated emulator threads take; allowed is a number from 2 on.")
    beside = 'beside resources:PCPU and resources:VCPU allowed '
    for key in (flavor_specs.CPU_POLICY, DEDICATED_MASK, REALTIME_MASK):
        if key in extra_specs:
            _refuse_flavor(key, extra_specs[key], beside + 'is none')
    for key, value in flavor_specs.find_misread_requests(extra_specs).items():
        _refuse_flavor(key, value,
                       beside + 'are groups with a number from 1 on')
    image_policy = image_properties.get('hw_cpu_policy')
    if image_policy not in (None, 'mixed'):
        _refuse_image('hw_cpu_policy', image_policy, "'mixed' or none")
    mask = image_properties.get('hw_cpu_realtime_mask')
    # It has no effect on a flavor that is not real-time.
    if mask is not None and flavor_specs.is_realtime(extra_specs):
        _refuse_image('hw_cpu_realtime_mask', mask, 'none')
    return pcpus - isolated


def spread_dedicated_vcpus(nodes, dedicated):
    """Return the dedicated vCPUs, as a sorted list.

    The shared vCPUs are dealt to the NUMA nodes of the guest one by one, as
    long as a node has room, and come first on each. The others are dedicated.

    :param nodes: list of the sets of vCPUs of each NUMA node of the guest
    :param dedicated: number of dedicated vCPUs
    """
    # The first vCPU of every node, the second of every node, ...
    turns = itertools.chain.from_iterable(
        itertools.zip_longest(*(sorted(node) for node in nodes)))
    dealt = [cpu for cpu in turns if cpu is not None]
    return sorted(dealt[len(dealt) - dedicated:])


def check_emulator_threads(extra_specs, first_node, dedicated):
    """Check that there is a place for isolated emulator threads.

    Nova takes their CPU beside the dedicated vCPUs of the guest's first NUMA
    node. If that node has none, Nova finds no host
    (nova.virt.hardware._pack_instance_onto_cores).

    :param first_node: set of the vCPUs of that node
    :param dedicated: the dedicated vCPUs
    """
    if (extra_specs.get(_EMULATOR) == 'isolate' and
            first_node.isdisjoint(dedicated)):
        raise flavor_specs.RequestRefused(
            "Extra spec hw:emulator_threads_policy of the flavor is "
            "'isolate', but resources:PCPU leaves NUMA node 0 of the guest "
            "without a dedicated vCPU; allowed is 'share', or a larger "
            "resources:PCPU.")


def fold_to_mixed_policy(extra_specs, mask):
    """Return the extra specs with the mixed policy in place of the numbers.

    Nova asks Placement for the CPUs of a mixed instance outside all numbered
    groups. If a group asked for nothing else, its traits follow its CPUs.

    :param mask: the dedicated vCPUs, as str. In a real-time flavor they are
        the real-time vCPUs.
    :returns: a new dict
    """
    numbers = _numbers(extra_specs)
    folded = {key: value for key, value in extra_specs.items()
              if key not in numbers}
    emptied = _groups_with_resources(numbers) - _groups_with_resources(folded)
    for key in list(folded):
        found = _OF_GROUP.match(key)
        if not found or found.group(2) not in emptied:
            continue
        trait = 'trait:' + found.group(3)
        value = folded.pop(key)
        if folded.setdefault(trait, value) != value:
            _refuse_flavor(key, value, 'with %s = %s allowed is the same or '
                           'none' % (trait, flavor_specs.quote(folded[trait])))
    folded[flavor_specs.CPU_POLICY] = 'mixed'
    folded[REALTIME_MASK if flavor_specs.is_realtime(extra_specs)
           else DEDICATED_MASK] = mask
    return folded


def _numbers(extra_specs):
    """Return the extra specs that name numbers of CPUs: dict, key -> str."""
    return {**flavor_specs.select_pinning_requests(extra_specs, 'PCPU'),
            **flavor_specs.select_pinning_requests(extra_specs, 'VCPU')}


def _groups_with_resources(extra_specs):
    """Return the numbers of the groups that ask for resources: set of str."""
    found = map(_OF_GROUP.match, extra_specs)
    return {each.group(2) for each in found
            if each and each.group(1) == 'resources'}


def _refuse_flavor(key, value, allowed):
    raise flavor_specs.RequestRefused(
        flavor_specs.format_flavor_fault(key, value, allowed))


def _refuse_image(name, value, allowed):
    raise flavor_specs.RequestRefused(flavor_specs.format_fault(
        'Image property %s' % name, value, 'with resources:PCPU and '
        'resources:VCPU of the flavor allowed is %s' % allowed))
