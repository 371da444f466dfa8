# SPDX-License-Identifier: Apache-2.0

"""The priority and the resource requests in the extra specs of a flavor.

nova-api folds the priority of an instance into the flavor: it writes priority
and CPU policy into the copy of the flavor that Nova stores with the instance
(:mod:`nova_prio.api.priority_fold`). A priority is in force only if it is
folded. ``extra_specs`` are dicts, extra spec -> str.
"""

import re
import reprlib

from oslo_utils import strutils

from nova_prio.model import capacity

EXTRA_SPEC = 'hw:cpu_priority'
HINT = 'priority'
CPU_POLICY = 'hw:cpu_policy'
VCPU = 'resources:VCPU'
#: Marks a folded flavor of an instance that was created with the hint.
#: 'hint': the priority came with the hint, and stays if the instance is
#: resized to a flavor without one. 'flavor': a flavor took the priority over.
SOURCE = 'nova_prio:source'

# Nova 31 to 34 read resource requests in two ways. The request to Placement
# has all groups, numbered and named (ResourceRequest.XS_KEYPAT in
# nova.scheduler.utils). The decision on pinning reads numbered groups only,
# and only the beginning of the resource class (_get_vcpu_pcpu_resources in
# nova.virt.hardware).
_PLACEMENT_REQUEST = re.compile(
    r'resources(?:[a-zA-Z0-9_-]{1,64})?:(PCPU|VCPU|MEMORY_MB)$')
_PINNING_REQUEST = re.compile(r'resources(?:[1-9][0-9]*)?:(PCPU|VCPU)')


class RequestRefused(ValueError):
    """A request that contradicts itself; the text is a sentence."""


def format_fault(subject, value, allowed):
    """Return the sentence that refuses a value of a request.

    :param subject: kind and name of the extra spec, image property or hint
    :param allowed: clause that names the allowed values
    """
    return '%s is %s; %s.' % (subject, quote(value), allowed)


def format_flavor_fault(key, value, allowed):
    """Return the sentence that refuses an extra spec of a flavor."""
    return format_fault('Extra spec %s of the flavor' % key, value, allowed)


def quote(value):
    """Return any value of a user as short text on one line, for a log too."""
    return reprlib.repr(value)


def get_priority(extra_specs):
    """Return the priority in force, 'high' or 'low'; None if ordinary."""
    priority = extra_specs.get(EXTRA_SPEC)
    policy = extra_specs.get(CPU_POLICY)
    if priority == capacity.LOW and policy == 'shared':
        return capacity.LOW
    if priority == capacity.HIGH and (
            policy in ('dedicated', 'mixed') or policy is None and sum_amounts(
                select_pinning_requests(extra_specs, 'PCPU'))):
        return capacity.HIGH
    return None


def is_from_hint(extra_specs):
    """Return whether the priority in force came with the hint."""
    return (get_priority(extra_specs) is not None and
            extra_specs.get(SOURCE) == 'hint')


def is_unfolded(extra_specs, hint):
    """Return whether an instance has a requested, but not folded priority.

    If the fold is not enabled, Nova stores any hint and any extra spec.

    :param hint: the stored hint, of any type, or None
    """
    if hint is not None:
        return SOURCE not in extra_specs
    return EXTRA_SPEC in extra_specs and get_priority(extra_specs) is None


def get_placement_amount(extra_specs, resource_class, default):
    """Return the amount of a resource class that Placement allocates.

    :param default: amount if no extra spec requests a number
    """
    requests = select_placement_requests(extra_specs, resource_class)
    if any(map(is_number, requests.values())):
        return sum_amounts(requests)
    return default


def select_placement_requests(extra_specs, *classes):
    """Return the extra specs that request resources of Placement.

    :param classes: of 'PCPU', 'VCPU' and 'MEMORY_MB'
    """
    return _select(_PLACEMENT_REQUEST, extra_specs, classes)


def select_pinning_requests(extra_specs, *classes):
    """Return the extra specs by which Nova decides on pinning.

    :param classes: of 'PCPU' and 'VCPU'
    """
    return _select(_PINNING_REQUEST, extra_specs, classes)


def find_misread_requests(extra_specs):
    """Return the extra specs for CPUs that Nova reads in one way only.

    The guest would get other CPUs than Placement allocates.
    """
    misread = (select_placement_requests(extra_specs, 'PCPU', 'VCPU').keys() ^
               select_pinning_requests(extra_specs, 'PCPU', 'VCPU').keys())
    return {key: value for key, value in extra_specs.items() if key in misread}


def _select(pattern, extra_specs, classes):
    matches = {key: pattern.match(key) for key in extra_specs}
    return {key: extra_specs[key] for key, match in matches.items()
            if match and match.group(1) in classes}


def sum_amounts(requests):
    """Return the sum of the values; like Nova, ignore all but numbers."""
    return sum(int(value) for value in requests.values() if is_number(value))


def is_number(value):
    """Return whether the value of an extra spec is a natural number or 0."""
    return value.isascii() and value.isdigit()


def is_realtime(extra_specs):
    """Return whether extra specs ask for real-time, as Nova reads them."""
    return strutils.bool_from_string(extra_specs.get('hw:cpu_realtime'))
