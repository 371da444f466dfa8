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

"""Numbers of PCPU and VCPU in one flavor, and the mixed policy they ask for.

Pure: extra specs in, extra specs out. Stock Nova knows the mixed CPU policy
by a mask of dedicated vCPUs, and refuses a flavor that names both numbers.
"""

import itertools
import re

from nova_prio import policy

DEDICATED_MASK = 'hw:cpu_dedicated_mask'
REALTIME_MASK = 'hw:cpu_realtime_mask'
# What says in another way which vCPUs are dedicated.
_OTHER_WAYS = (policy.CPU_POLICY, DEDICATED_MASK, REALTIME_MASK)

_OF_GROUP = re.compile(r'(resources|trait)([1-9][0-9]*):(.+)$')


def is_asked_for(extra_specs):
    """Return whether a flavor names numbers of PCPU and of VCPU.

    :param extra_specs: dict, extra spec -> str
    """
    return bool(policy.resources(extra_specs, 'PCPU') and
                policy.resources(extra_specs, 'VCPU'))


def dedicated_vcpus(vcpus, extra_specs, image_properties):
    """Return how many vCPUs are dedicated where a flavor names both numbers.

    :param vcpus: vCPUs of the flavor
    :param extra_specs: dict, extra spec -> str, which name both
    :param image_properties: dict, image property -> str
    :returns: int, or None where one number is zero, so that all vCPUs are of
        one sort
    :raises policy.RequestRefused: where a number is none, the sum is not that
        of the CPUs, or the flavor or image says it in another way as well
    """
    for key, value in _numbers(extra_specs).items():
        if not policy.is_number(value):
            raise policy.RequestRefused(
                "Extra spec %s of the flavor is %s; allowed is a whole "
                "number from 0 on." % (key, policy.quoted(value)))
    pcpus = policy.total(policy.resources(extra_specs, 'PCPU'))
    shared = policy.total(policy.resources(extra_specs, 'VCPU'))
    isolated = _isolates_emulator(extra_specs)
    if pcpus + shared != vcpus + isolated:
        raise policy.RequestRefused(
            "Extra specs resources:PCPU and resources:VCPU of the flavor are "
            "%d and %d; allowed are numbers that add up to its %d vCPUs%s."
            % (pcpus, shared, vcpus,
               ' and one for the isolated emulator threads' * isolated))
    if not pcpus or not shared:
        return None
    if pcpus == isolated:
        raise policy.RequestRefused(
            "Extra spec resources:PCPU of the flavor is '1', which the "
            "isolated emulator threads take; allowed is a number from 2 on.")
    for key in _OTHER_WAYS:
        if key in extra_specs:
            raise policy.RequestRefused(
                "Extra spec %s of the flavor is %s; beside resources:PCPU "
                "and resources:VCPU allowed is none."
                % (key, policy.quoted(extra_specs[key])))
    for key, value in policy.misread(extra_specs).items():
        raise policy.RequestRefused(
            "Extra spec %s of the flavor is %s; beside resources:PCPU and "
            "resources:VCPU allowed are groups with a number from 1 on."
            % (key, policy.quoted(value)))
    _check_image(image_properties, policy.is_realtime(extra_specs))
    return pcpus - isolated


def spread(nodes, dedicated):
    """Return which vCPUs are dedicated, as a sorted list.

    The shared vCPUs are dealt to the NUMA nodes of the guest one by one, as
    long as a node has room, and come first on each; the others are dedicated.

    :param nodes: list of the sets of vCPUs of each NUMA node of the guest
    :param dedicated: how many vCPUs are dedicated
    """
    # The first vCPU of every node, the second of every node, ...
    turns = itertools.chain.from_iterable(
        itertools.zip_longest(*(sorted(node) for node in nodes)))
    dealt = [cpu for cpu in turns if cpu is not None]
    return sorted(dealt[len(dealt) - dedicated:])


def check_emulator_threads(extra_specs, first_node, dedicated):
    """Check that there is a place for isolated emulator threads.

    Nova takes their CPU beside the dedicated vCPUs of the guest's first NUMA
    node, and finds no host where that node has none
    (nova.virt.hardware._pack_instance_onto_cores).

    :param extra_specs: dict, extra spec -> str
    :param first_node: set of the vCPUs of that node
    :param dedicated: the dedicated vCPUs
    :raises policy.RequestRefused: where there is none
    """
    if _isolates_emulator(extra_specs) and first_node.isdisjoint(dedicated):
        raise policy.RequestRefused(
            "Extra spec hw:emulator_threads_policy of the flavor is "
            "'isolate', but resources:PCPU leaves NUMA node 0 of the guest "
            "without a dedicated vCPU; allowed is 'share', or a larger "
            "resources:PCPU.")


def fold(extra_specs, mask):
    """Return the extra specs with the mixed policy in place of the numbers.

    Nova asks Placement for the CPUs of a mixed instance outside all numbered
    groups. Traits of a group that asked for nothing else follow its CPUs.

    :param extra_specs: dict, extra spec -> str, which name both numbers
    :param mask: the dedicated vCPUs, as str; of a real-time flavor they are
        the real-time ones
    :returns: a new dict
    :raises policy.RequestRefused: where a trait of a group contradicts that of
        the flavor
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
            raise policy.RequestRefused(
                "Extra spec %s of the flavor is %s; with %s = %s allowed "
                "is the same or none."
                % (key, policy.quoted(value), trait,
                   policy.quoted(folded[trait])))
    folded[policy.CPU_POLICY] = 'mixed'
    folded[REALTIME_MASK if policy.is_realtime(extra_specs)
           else DEDICATED_MASK] = mask
    return folded


def _isolates_emulator(extra_specs):
    return extra_specs.get('hw:emulator_threads_policy') == 'isolate'


def _numbers(extra_specs):
    """Return the extra specs that name numbers of CPUs: dict, key -> str."""
    return {**policy.resources(extra_specs, 'PCPU'),
            **policy.resources(extra_specs, 'VCPU')}


def _groups_with_resources(extra_specs):
    """Return the numbers of the groups that ask for resources: set of str."""
    found = map(_OF_GROUP.match, extra_specs)
    return {each.group(2) for each in found
            if each and each.group(1) == 'resources'}


def _check_image(properties, realtime):
    image_policy = properties.get('hw_cpu_policy')
    if image_policy not in (None, 'mixed'):
        raise policy.RequestRefused(
            "Image property hw_cpu_policy is %s; with resources:PCPU and "
            "resources:VCPU of the flavor allowed is 'mixed' or none."
            % policy.quoted(image_policy))
    mask = properties.get('hw_cpu_realtime_mask')
    # It has no effect on a flavor that is not real-time.
    if realtime and mask is not None:
        raise policy.RequestRefused(
            "Image property hw_cpu_realtime_mask is %s; with resources:PCPU "
            "and resources:VCPU of the flavor allowed is none."
            % policy.quoted(mask))
