# SPDX-License-Identifier: Apache-2.0

"""The priority and the resource requests in the extra specs of a flavor.

nova-api folds the priority of an instance into the flavor: it writes priority
and CPU policy into the copy of the flavor that Nova stores with the instance
(:mod:`nova_prio.api.priority_fold`). A priority is in force only if it is
folded.

``extra_specs`` is always dict, name of the extra spec -> value.
"""

from collections import abc
import re
import reprlib
import typing

from oslo_utils import strutils

from nova_prio.model import cpu_capacity

EXTRA_SPEC = 'hw:cpu_priority'
HINT = 'priority'
CPU_POLICY = 'hw:cpu_policy'
VCPU = 'resources:VCPU'
#: Extra spec in the folded flavor of an instance that was created with the
#: hint. With the value 'hint', the hint gave the priority, and the instance
#: keeps the priority if it is resized to a flavor without one. With the value
#: 'flavor', a later flavor decides the priority.
SOURCE = 'nova_prio:source'

# Nova 31 to 34 read the extra specs resources:* in two ways. For the request
# to Placement, Nova reads all groups, numbered and named
# (ResourceRequest.XS_KEYPAT in nova.scheduler.utils). To decide on pinning,
# Nova reads numbered groups only, and compares only the beginning of the
# resource class (_get_vcpu_pcpu_resources in nova.virt.hardware).
_PLACEMENT_REQUEST = re.compile(
    r'resources(?:[a-zA-Z0-9_-]{1,64})?:(PCPU|VCPU|MEMORY_MB|DISK_GB)$')
_PINNING_REQUEST = re.compile(r'resources(?:[1-9][0-9]*)?:(PCPU|VCPU)')


class RequestRefused(ValueError):
    """A request that contradicts itself; the text is a sentence."""


def format_fault(subject: str, value: object, allowed: str) -> str:
    """Return the sentence that refuses a value of a request.

    :param subject: kind and name of the extra spec, image property or hint
    :param allowed: clause that names the allowed values
    """
    return '%s is %s; %s.' % (subject, quote(value), allowed)


def refuse_flavor(key: str, value: object, allowed: str) -> typing.NoReturn:
    """Raise RequestRefused for the value of an extra spec of a flavor."""
    raise RequestRefused(format_fault(
        'Extra spec %s of the flavor' % key, value, allowed))


def refuse_image(name: str, value: object, allowed: str) -> typing.NoReturn:
    """Raise RequestRefused for the value of a property of an image."""
    raise RequestRefused(format_fault(
        'Image property %s' % name, value, allowed))


def quote(value: object) -> str:
    """Return any value from a user as a short text on one line."""
    return reprlib.repr(value)


def get_priority(extra_specs: abc.Mapping[str, str]) -> str | None:
    """Return the priority in force, 'high' or 'low'; None if ordinary.

    A priority is in force if nova-api has written it into the flavor of the
    instance, together with the CPU policy that belongs to it.

    :param extra_specs: dict, those of the flavor that the instance has
    """
    priority = extra_specs.get(EXTRA_SPEC)
    policy = extra_specs.get(CPU_POLICY)
    if policy is None and sum_amounts(
            select_pinning_requests(extra_specs, 'PCPU')):
        # Without a CPU policy, Nova pins an instance that requests PCPU.
        policy = 'dedicated'
    is_in_force = False
    if priority == cpu_capacity.LOW:
        is_in_force = policy == 'shared'
    elif priority == cpu_capacity.HIGH:
        is_in_force = policy in ('dedicated', 'mixed')
    return priority if is_in_force else None


def is_from_hint(extra_specs: abc.Mapping[str, str]) -> bool:
    """Return whether the priority in force came with the scheduler hint."""
    return (get_priority(extra_specs) is not None and
            extra_specs.get(SOURCE) == 'hint')


def is_unfolded(extra_specs: abc.Mapping[str, str], hint: object) -> bool:
    """Return whether an instance has requested a priority that it did not get.

    It gets the priority when nova-api folds it: writes it into the flavor of
    the instance, with the CPU policy and, for a hint, with the extra spec
    SOURCE. While ``[nova_prio] enabled`` is false, nova-api stores any hint
    and any extra spec as it is.

    :param extra_specs: those of the flavor that the instance has
    :param hint: the stored hint, of any type, or None
    """
    if hint is not None:
        return SOURCE not in extra_specs
    # get_priority returns None without the CPU policy of the priority.
    return EXTRA_SPEC in extra_specs and get_priority(extra_specs) is None


def get_placement_amount(extra_specs: abc.Mapping[str, str],
                         resource_class: str, default: int) -> int:
    """Return the amount of a resource class that Placement allocates.

    An extra spec may have any value; one that is no number requests nothing.

    :param resource_class: such as 'VCPU', which the extra spec
        ``resources:VCPU`` requests
    :param default: amount if no extra spec requests a number
    """
    requests = select_placement_requests(extra_specs, resource_class)
    if any(is_number(value) for value in requests.values()):
        return sum_amounts(requests)
    return default


def select_placement_requests(extra_specs: abc.Mapping[str, str],
                              *classes: str) -> dict[str, str]:
    """Return the extra specs that request resources of Placement.

    These are extra specs such as ``resources:PCPU``, ``resources1:PCPU`` and
    ``resources_A:PCPU``.

    :param classes: of 'PCPU', 'VCPU', 'MEMORY_MB' and 'DISK_GB'
    :returns: dict, name of the extra spec -> value
    """
    return _select(_PLACEMENT_REQUEST, extra_specs, classes)


def select_pinning_requests(extra_specs: abc.Mapping[str, str],
                            *classes: str) -> dict[str, str]:
    """Return the requests for CPUs that Nova reads to decide on pinning.

    These are extra specs such as ``resources:PCPU`` and ``resources1:PCPU``.
    Nova does not read groups with a name, such as ``resources_A:PCPU``, for
    this. PCPU asks for pinned vCPUs, VCPU for vCPUs that are not pinned.

    :param classes: of 'PCPU' and 'VCPU'
    :returns: dict, name of the extra spec -> value
    """
    return _select(_PINNING_REQUEST, extra_specs, classes)


def find_misread_requests(
        extra_specs: abc.Mapping[str, str]) -> dict[str, str]:
    """Return the requests for CPUs that only one of Nova's two readers sees.

    One reader makes the request to Placement, the other decides on pinning.
    They do not read the same request groups, such as ``resources_A:PCPU``.
    With such a request, the guest gets other CPUs than Placement allocates.

    :returns: dict, name of the extra spec -> value
    """
    misread = (select_placement_requests(extra_specs, 'PCPU', 'VCPU').keys() ^
               select_pinning_requests(extra_specs, 'PCPU', 'VCPU').keys())
    return {key: value for key, value in extra_specs.items() if key in misread}


def _select(pattern: re.Pattern[str], extra_specs: abc.Mapping[str, str],
            classes: abc.Container[str]) -> dict[str, str]:
    """Return the extra specs whose key has the pattern and one of classes.

    :param pattern: its group 1 is the resource class, such as 'PCPU'
    """
    matches = {key: pattern.match(key) for key in extra_specs}
    return {key: extra_specs[key] for key, match in matches.items()
            if match and match.group(1) in classes}


def sum_amounts(requests: abc.Mapping[str, str]) -> int:
    """Return the sum of the values that are numbers, as Nova does.

    A value that is no number is left out.

    :param requests: dict, name of the extra spec -> value
    """
    return sum(int(value) for value in requests.values() if is_number(value))


def is_number(value: str) -> bool:
    """Return whether the value of an extra spec is a whole number, 0 on."""
    return value.isascii() and value.isdigit()


def is_realtime(extra_specs: abc.Mapping[str, str]) -> bool:
    """Return whether extra specs ask for real-time, as Nova reads them."""
    return strutils.bool_from_string(extra_specs.get('hw:cpu_realtime'))
