# SPDX-License-Identifier: Apache-2.0

"""Rewrite flavors with resources:PCPU and resources:VCPU to the mixed policy.

Stock Nova refuses a flavor that requests both resource classes. Instead, Nova
has the mixed CPU policy with a mask of dedicated vCPUs. If a request
contradicts itself, the functions raise flavor_specs.RequestRefused.

``extra_specs`` is always dict, name of the extra spec -> value.
"""

from collections import abc
import re
import typing

from nova_prio.model import flavor_specs

DEDICATED_MASK = 'hw:cpu_dedicated_mask'
REALTIME_MASK = 'hw:cpu_realtime_mask'
EMULATOR = 'hw:emulator_threads_policy'
_BESIDE = 'with resources:PCPU and resources:VCPU'

#: Extra spec of a numbered request group of Placement.
_GROUP_KEY = re.compile(
    r'(?P<kind>resources|trait)(?P<group>[1-9][0-9]*):(?P<class_or_trait>.+)$')


def requests_pcpu_and_vcpu(extra_specs: abc.Mapping[str, str]) -> bool:
    """Return whether a flavor requests both PCPU and VCPU, even 0 of them.

    :param extra_specs: dict, name of the extra spec -> value
    """
    return bool(
        flavor_specs.select_pinning_requests(extra_specs, 'PCPU') and
        flavor_specs.select_pinning_requests(extra_specs, 'VCPU'))


def count_dedicated_vcpus(
        vcpus: int, extra_specs: abc.Mapping[str, str],
        image_properties: typing.Any) -> int | None:
    """Return the number of dedicated vCPUs of a flavor with PCPU and VCPU.

    :param vcpus: number of vCPUs of the flavor
    :param extra_specs: dict, name of the extra spec -> value
    :param image_properties: a nova.objects.ImageMetaProps, or a dict
    :returns: None if the flavor requests 0 PCPU or 0 VCPU
    :raises RequestRefused: if the requests contradict each other, the vCPUs,
        or what else flavor and image say about pinning
    """
    # The name and value of each extra spec such as resources:PCPU.
    requests = flavor_specs.select_pinning_requests(
        extra_specs, 'PCPU', 'VCPU')
    for key, value in requests.items():
        if not flavor_specs.is_number(value):
            flavor_specs.refuse_flavor(
                key, value, 'allowed is a whole number from 0 on')
    pcpus = flavor_specs.sum_amounts(
        flavor_specs.select_pinning_requests(extra_specs, 'PCPU'))
    shared = flavor_specs.sum_amounts(requests) - pcpus
    # Isolated emulator threads take one PCPU, which is no vCPU.
    isolated = 1 if extra_specs.get(EMULATOR) == 'isolate' else 0
    if pcpus + shared != vcpus + isolated:
        more = ''
        if isolated:
            more = ' and one for the isolated emulator threads'
        raise flavor_specs.RequestRefused(
            "Extra specs resources:PCPU and resources:VCPU of the flavor are "
            "%d and %d; allowed are numbers that add up to its %d vCPUs%s."
            % (pcpus, shared, vcpus, more))
    if not pcpus or not shared:
        return None
    if pcpus == isolated:
        raise flavor_specs.RequestRefused(
            "Extra spec resources:PCPU of the flavor is '1', which the "
            "isolated emulator threads take; allowed is a number from 2 on.")
    # The mixed policy and its mask are written later, from the requests.
    for key in (flavor_specs.CPU_POLICY, DEDICATED_MASK, REALTIME_MASK):
        if key in extra_specs:
            flavor_specs.refuse_flavor(
                key, extra_specs[key], '%s no value is allowed' % _BESIDE)
    # Nova does not see the requests of all groups when it decides on pinning.
    for key, value in flavor_specs.find_misread_requests(extra_specs).items():
        flavor_specs.refuse_flavor(
            key, value,
            '%s only groups with a number from 1 on are allowed' % _BESIDE)
    policy = image_properties.get('hw_cpu_policy')
    if policy not in (None, 'mixed'):
        flavor_specs.refuse_image(
            'hw_cpu_policy', policy,
            "%s of the flavor only 'mixed' or no value is allowed" % _BESIDE)
    mask = image_properties.get('hw_cpu_realtime_mask')
    # Without real-time in the flavor, this mask has no effect.
    if mask is not None and flavor_specs.is_realtime(extra_specs):
        flavor_specs.refuse_image(
            'hw_cpu_realtime_mask', mask,
            '%s of the flavor no value is allowed' % _BESIDE)
    return pcpus - isolated


def choose_dedicated_vcpus(nodes: abc.Iterable[abc.Set[int]],
                           dedicated: int) -> list[int]:
    """Choose the dedicated vCPUs, and return them sorted.

    The shared vCPUs are spread evenly over the NUMA nodes of the guest, and
    are the first vCPUs of each node. The other vCPUs are dedicated.

    :param nodes: vCPUs of each NUMA node of the guest
    :param dedicated: number of dedicated vCPUs
    """
    # (position of a vCPU in its node, number of the node, the vCPU)
    ranked = []
    for number, node in enumerate(nodes):
        for position, vcpu in enumerate(sorted(node)):
            ranked.append((position, number, vcpu))
    # The first vCPU of every node, then the second of every node, ...
    ranked.sort()
    shared_count = len(ranked) - dedicated
    return sorted(vcpu for _, _, vcpu in ranked[shared_count:])


def check_emulator_threads(extra_specs: abc.Mapping[str, str],
                           first_node: abc.Set[int],
                           dedicated: abc.Iterable[int]) -> None:
    """Refuse a flavor whose isolated emulator threads can get no CPU.

    Nova pins the emulator threads beside the dedicated vCPUs of the first NUMA
    node of the guest. If that node has no dedicated vCPU, Nova finds no host
    (nova.virt.hardware._pack_instance_onto_cores).

    :param first_node: vCPUs of the first NUMA node
    :param dedicated: all dedicated vCPUs of the guest
    """
    if (extra_specs.get(EMULATOR) == 'isolate' and
            first_node.isdisjoint(dedicated)):
        raise flavor_specs.RequestRefused(
            "Extra spec hw:emulator_threads_policy of the flavor is "
            "'isolate', but resources:PCPU leaves NUMA node 0 of the guest "
            "without a dedicated vCPU; allowed is 'share', or a larger "
            "resources:PCPU.")


def fold_to_mixed_policy(extra_specs: abc.Mapping[str, str],
                         mask: str) -> dict[str, str]:
    """Return the extra specs with the mixed policy for PCPU and VCPU requests.

    nova-api stores the result with an instance. Nova requests the CPUs of a
    mixed instance outside all numbered groups (``resources1:PCPU`` is in group
    1). If a group requested only CPUs, its traits are requested outside all
    groups, too.

    :param extra_specs: dict, name of the extra spec -> value
    :param mask: the dedicated vCPUs; in a real-time flavor, these are the
        real-time vCPUs
    :returns: a new dict
    :raises RequestRefused: if a trait of a group has another value outside
    """
    # The name and value of each extra spec such as resources1:PCPU.
    requests = flavor_specs.select_pinning_requests(
        extra_specs, 'PCPU', 'VCPU')
    specs = {key: value for key, value in extra_specs.items()
             if key not in requests}
    # The numbers of the groups that request nothing else than CPUs, as texts.
    emptied_groups = (_find_groups_with_resources(requests) -
                      _find_groups_with_resources(specs))
    for key in list(specs):
        match = _GROUP_KEY.match(key)
        if not match or match['group'] not in emptied_groups:
            continue
        # Without resources, the group has only traits.
        trait = 'trait:' + match['class_or_trait']
        value = specs.pop(key)
        value_outside = specs.setdefault(trait, value)
        if value_outside != value:
            flavor_specs.refuse_flavor(
                key, value, 'with %s = %s only the same or no value is allowed'
                % (trait, flavor_specs.quote(value_outside)))
    mask_key = (REALTIME_MASK if flavor_specs.is_realtime(extra_specs)
                else DEDICATED_MASK)
    specs[flavor_specs.CPU_POLICY] = 'mixed'
    specs[mask_key] = mask
    return specs


def _find_groups_with_resources(extra_specs: abc.Iterable[str]) -> set[str]:
    """Return the numbers of the groups that request resources.

    :param extra_specs: names of extra specs, such as ``resources1:PCPU``
    :returns: set of texts, such as '1'
    """
    groups = set()
    for key in extra_specs:
        match = _GROUP_KEY.match(key)
        if match and match['kind'] == 'resources':
            groups.add(match['group'])
    return groups
