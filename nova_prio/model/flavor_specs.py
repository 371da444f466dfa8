# SPDX-License-Identifier: Apache-2.0

"""The priority and the resources in the extra specs of a flavor.

nova-api decides the priority of an instance once and writes it into the copy
of the flavor that is kept with the instance (the fold,
:mod:`nova_prio.api.priority_fold`), so that stock Nova carries it from there.
A priority is in force only if it is folded. ``extra_specs`` are dicts, extra
spec -> str.
"""

import re
import reprlib

from oslo_utils import strutils

from nova_prio.model import capacity

EXTRA_SPEC = 'hw:cpu_priority'
HINT = 'priority'
#: Kept in the folded flavor of an instance that was created with the hint.
#: 'hint': the priority is that of the hint, and stays if the instance is
#: resized to a flavor without one. 'flavor': a flavor took the priority over.
SOURCE = 'nova_prio:source'

CPU_POLICY = 'hw:cpu_policy'
VCPU = 'resources:VCPU'

# Nova reads resource requests in two ways. To ask Placement it reads all
# groups, numbered and named (ResourceRequest.XS_KEYPAT in
# nova.scheduler.utils). To decide on pinning it reads numbered groups only,
# and the beginning of the resource class (_get_vcpu_pcpu_resources in
# nova.virt.hardware). The same in Nova 31, 33 and 34.
_REQUESTED = re.compile(
    r'resources(?:[a-zA-Z0-9_-]{1,64})?:(PCPU|VCPU|MEMORY_MB)$')
_RESOURCE = re.compile(r'resources(?:[1-9][0-9]*)?:(PCPU|VCPU)')


class RequestRefused(ValueError):
    """A request that contradicts itself; its text is a sentence."""


def format_fault(subject, value, allowed):
    """Return the sentence that refuses a value of a request.

    :param subject: extra spec, image property or hint, with its name
    :param value: the value seen, of any type
    :param allowed: clause that names the values allowed
    """
    return '%s is %s; %s.' % (subject, quote(value), allowed)


def format_flavor_fault(key, value, allowed):
    """Return the sentence that refuses an extra spec of a flavor."""
    return format_fault('Extra spec %s of the flavor' % key, value, allowed)


def quote(value):
    """Return a value of a request as a sentence shows it.

    The sentence goes into the answer and into the log of nova-api: on one
    line, without control characters, and short, however deep or long the
    value is that a user sent.
    """
    return reprlib.repr(value)


def get_priority(extra_specs):
    """Return the priority that is folded into a flavor.

    :returns: 'high', 'low', or None for an ordinary instance
    """
    priority = extra_specs.get(EXTRA_SPEC)
    policy = extra_specs.get(CPU_POLICY)
    if priority == capacity.HIGH:
        pinned = (policy in ('dedicated', 'mixed') or
                  (policy is None and sum_amounts(select_pinning_requests(extra_specs, 'PCPU'))))
        return capacity.HIGH if pinned else None
    if priority == capacity.LOW and policy == 'shared':
        return capacity.LOW
    return None


def is_from_hint(extra_specs):
    """Return whether the priority that is in force came with the hint."""
    return (get_priority(extra_specs) is not None and
            extra_specs.get(SOURCE) == 'hint')


def is_unfolded(extra_specs, hint):
    """Return whether nova-api did not fold a priority that was asked for.

    If it is not enabled there, Nova stores any hint and any extra spec.

    :param extra_specs: those of the embedded flavor
    :param hint: the stored hint, of any type, or None
    """
    if hint is not None:
        return SOURCE not in extra_specs
    return EXTRA_SPEC in extra_specs and get_priority(extra_specs) is None


def get_placement_amount(extra_specs, resource_class, wanted):
    """Return the amount that Placement allocates to an instance.

    :param extra_specs: they may give the amount
    :param resource_class: 'VCPU' or 'MEMORY_MB'
    :param wanted: amount that the instance uses if the extra specs give none
    """
    given = select_placement_requests(extra_specs, resource_class)
    return sum_amounts(given) if any(
        map(is_number, given.values())) else wanted


def select_placement_requests(extra_specs, resource_class):
    """Return the extra specs that ask Placement for a resource class.

    :param resource_class: 'PCPU', 'VCPU' or 'MEMORY_MB'
    :returns: dict, extra spec -> str, of all resource groups
    """
    return _matching(_REQUESTED, extra_specs, resource_class)


def select_pinning_requests(extra_specs, resource_class):
    """Return the extra specs by which Nova decides on pinning.

    :param resource_class: 'PCPU' or 'VCPU'
    :returns: dict, extra spec -> str, of the groups without a name
    """
    return _matching(_RESOURCE, extra_specs, resource_class)


def find_misread_requests(extra_specs):
    """Return the extra specs for CPUs that Nova reads in one way only.

    The guest would get other CPUs than those that Placement is asked for.
    """
    return {key: value for key, value in extra_specs.items()
            if any((key in select_placement_requests({key: value}, name)) !=
                   (key in select_pinning_requests({key: value}, name))
                   for name in ('PCPU', 'VCPU'))}


def _matching(pattern, extra_specs, resource_class):
    found = {key: pattern.match(key) for key in extra_specs}
    return {key: extra_specs[key] for key, match in found.items()
            if match and match.group(1) == resource_class}


def sum_amounts(amounts):
    """Return the sum of the values of extra specs that are numbers.

    Like Nova, ignore all others.
    """
    return sum(int(value) for value in amounts.values() if is_number(value))


def is_number(value):
    """Return whether a value of an extra spec is a number from 0 on."""
    return value.isascii() and value.isdigit()


def is_realtime(extra_specs):
    """Return whether extra specs ask for real-time, as Nova reads them."""
    return strutils.bool_from_string(extra_specs.get('hw:cpu_realtime'))
