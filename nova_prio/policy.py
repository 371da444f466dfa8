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

"""What a flavor and a scheduler hint ask for, and how it is written down.

Pure: extra specs in, extra specs out. The priority of an instance is decided
once and written into the copy of the flavor that is kept with the instance
(the fold), with the CPU policy spelled out, so that stock Nova carries it
from there. A priority is in force only where it is folded.
"""

import re
import reprlib

from oslo_utils import strutils

from nova_prio import capacity

EXTRA_SPEC = 'hw:cpu_priority'
HINT = 'priority'
#: Kept in the folded flavor of an instance that was created with the hint:
#: 'hint' as long as its priority is that of the hint, which outlives a resize
#: to a flavor that names none, and 'flavor' from where a flavor took it over.
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

_ALLOWED = "allowed are 'high' and 'low'"


class RequestRefused(ValueError):
    """A request that contradicts itself, said in one sentence."""


def quoted(value):
    """Return a value of a request as a sentence shows it.

    The sentence goes into the answer and into the log of nova-api: on one
    line, without control characters, and short, however deep or long the
    value is that a user sent.

    :param value: what JSON or an image can hold
    :returns: str
    """
    return reprlib.repr(value)


def in_force(extra_specs):
    """Return the priority that is folded into a flavor.

    :param extra_specs: dict, extra spec -> str
    :returns: 'high', 'low', or None for an ordinary instance
    """
    priority = extra_specs.get(EXTRA_SPEC)
    policy = extra_specs.get(CPU_POLICY)
    if priority == capacity.HIGH:
        pinned = (policy in ('dedicated', 'mixed') or
                  (policy is None and total(resources(extra_specs, 'PCPU'))))
        return capacity.HIGH if pinned else None
    if priority == capacity.LOW and policy == 'shared':
        return capacity.LOW
    return None


def is_from_hint(extra_specs):
    """Return whether the priority that is in force came with the hint."""
    return (in_force(extra_specs) is not None and
            extra_specs.get(SOURCE) == 'hint')


def in_placement(extra_specs, resource_class, wanted):
    """Return how much of a resource class Placement holds for an instance.

    :param extra_specs: dict, extra spec -> str, which may give the amount
    :param resource_class: 'VCPU' or 'MEMORY_MB'
    :param wanted: amount that the instance uses if the extra specs give none
    """
    given = requested(extra_specs, resource_class)
    if any(map(is_number, given.values())):
        return total(given)
    return wanted


def requested(extra_specs, resource_class):
    """Return the extra specs that ask Placement for a resource class.

    :param extra_specs: dict, extra spec -> str
    :param resource_class: 'PCPU', 'VCPU' or 'MEMORY_MB'
    :returns: dict, extra spec -> str, of all resource groups
    """
    return _matching(_REQUESTED, extra_specs, resource_class)


def resources(extra_specs, resource_class):
    """Return the extra specs by which Nova decides on pinning.

    :param extra_specs: dict, extra spec -> str
    :param resource_class: 'PCPU' or 'VCPU'
    :returns: dict, extra spec -> str, of the groups without a name
    """
    return _matching(_RESOURCE, extra_specs, resource_class)


def misread(extra_specs):
    """Return the extra specs for CPUs that Nova reads in one way only.

    They ask Placement for CPUs that the guest does not get, or the other way
    round.

    :param extra_specs: dict, extra spec -> str
    :returns: dict, extra spec -> str
    """
    return {key: value for key, value in extra_specs.items()
            if any((key in requested({key: value}, name)) !=
                   (key in resources({key: value}, name))
                   for name in ('PCPU', 'VCPU'))}


def _matching(pattern, extra_specs, resource_class):
    found = {key: pattern.match(key) for key in extra_specs}
    return {key: extra_specs[key] for key, match in found.items()
            if match and match.group(1) == resource_class}


def total(amounts):
    """Return the sum of the values of extra specs.

    :param amounts: dict, extra spec -> str; what is no number, Nova passes
        over too
    """
    return sum(int(value) for value in amounts.values() if is_number(value))


def is_number(value):
    """Return whether a value of an extra spec is a number from 0 on."""
    return value.isascii() and value.isdigit()


def is_realtime(extra_specs):
    """Return whether extra specs ask for real-time, as Nova reads them."""
    return strutils.bool_from_string(extra_specs.get('hw:cpu_realtime'))


def is_unfolded(extra_specs, hint):
    """Return whether a priority was asked for that was not folded.

    That is so where nova-api did not fold: stock Nova stores any hint and any
    extra spec.

    :param extra_specs: dict, extra spec -> str, of the embedded flavor
    :param hint: the stored hint, of any shape, or None
    """
    if hint is not None:
        return SOURCE not in extra_specs
    return EXTRA_SPEC in extra_specs and in_force(extra_specs) is None


def fold(vcpus, extra_specs, hints):
    """Return the extra specs with the priority that is asked for folded in.

    :param vcpus: vCPUs of the flavor
    :param extra_specs: dict, extra spec -> str
    :param hints: dict of scheduler hints, or None; a hint may be a string or
        a list of one string
    :returns: a new dict, or None if no priority is asked for
    :raises RequestRefused: if the request contradicts itself; the text has a
        sentence for each fault of hint and value
    """
    value = extra_specs.get(EXTRA_SPEC)
    faults = _faults_of_value(value)
    if HINT not in (hints or {}):
        _refuse_for(faults)
        return _folded(vcpus, extra_specs, value)
    hint = hints[HINT]
    if isinstance(hint, list) and len(hint) == 1:
        hint = hint[0]
    if value is not None and value == hint:
        faults.insert(0, (
            "Scheduler hint '%s' is %s, and the flavor already gives %s; "
            "drop the hint." % (HINT, quoted(hint), value)))
    elif value is not None:
        faults.insert(0, (
            "Scheduler hint '%s' is %s, but extra spec %s of the flavor is "
            "%s; only one of the two is allowed."
            % (HINT, quoted(hint), EXTRA_SPEC, quoted(value))))
    if hint not in capacity.PRIORITIES:
        faults.insert(0, "Scheduler hint '%s' is %s; %s." % (
            HINT, quoted(hint), _ALLOWED))
    _refuse_for(faults)
    return _folded(vcpus, extra_specs, hint, source='hint')


def fold_resize(vcpus, extra_specs, current):
    """Return the extra specs of a new flavor with the priority folded in.

    A priority that came with the hint stays, unless the new flavor takes it
    over by naming the same; one that came with the old flavor ends with it.

    :param vcpus: vCPUs of the new flavor
    :param extra_specs: dict, extra spec -> str, of the new flavor
    :param current: dict, extra spec -> str, of the instance's flavor
    :returns: a new dict, or None where the flavor can be taken as it is
    :raises RequestRefused: where the new flavor contradicts the hint, or
        itself
    """
    value = extra_specs.get(EXTRA_SPEC)
    _refuse_for(_faults_of_value(value))
    if SOURCE not in current:
        return _folded(vcpus, extra_specs, value)
    if not is_from_hint(current):
        return (_folded(vcpus, extra_specs, value, source='flavor') or
                {**extra_specs, SOURCE: 'flavor'})
    hint = in_force(current)
    if value is None:
        return _folded(vcpus, extra_specs, hint, source='hint')
    if value != hint:
        raise RequestRefused(
            "Extra spec %s of the new flavor is '%s', but the instance was "
            "created with scheduler hint '%s' = '%s'; allowed is '%s' or none."
            % (EXTRA_SPEC, value, HINT, hint, hint))
    return _folded(vcpus, extra_specs, value, source='flavor')


def check_image(extra_specs, properties):
    """Check that an image does not contradict a priority that is in force.

    :param extra_specs: dict, extra spec -> str, of the folded flavor
    :param properties: dict, image property -> str
    :raises RequestRefused: where it does
    """
    priority = in_force(extra_specs)
    policy = properties.get('hw_cpu_policy')
    if priority is None or policy is None:
        return
    if priority == capacity.LOW:
        allowed = ('shared',)
    elif extra_specs.get(CPU_POLICY) == 'mixed':
        allowed = ('mixed',)
    else:
        allowed = ('dedicated', 'mixed')
    if policy not in allowed:
        raise RequestRefused(
            "Image property hw_cpu_policy is %s; with %s priority and this "
            "flavor allowed is %s or none." % (
                quoted(policy), priority, ', '.join(map(quoted, allowed))))


def _faults_of_value(value):
    if value is None or value in capacity.PRIORITIES:
        return []
    return ["Extra spec %s of the flavor is %s; %s."
            % (EXTRA_SPEC, quoted(value), _ALLOWED)]


def _refuse_for(faults):
    if faults:
        raise RequestRefused(' '.join(faults))


def _folded(vcpus, extra_specs, priority, source=None):
    if priority is None:
        return None
    folded = dict(extra_specs)
    folded.pop(SOURCE, None)
    folded[EXTRA_SPEC] = priority
    if source:
        folded[SOURCE] = source
    if priority == capacity.HIGH:
        return _fold_high(folded)
    return _fold_low(folded, vcpus)


def _fold_high(specs):
    policy = specs.get(CPU_POLICY)
    if policy == 'shared':
        _refuse(capacity.HIGH, CPU_POLICY, policy, "'dedicated', 'mixed'")
    for key, value in misread(specs).items():
        _refuse(capacity.HIGH, key, value, 'resources:PCPU')
    pcpus = resources(specs, 'PCPU')
    shared = resources(specs, 'VCPU')
    # Nova takes any other value for none, and then pins nothing; of the two
    # numbers one may be.
    least = 0 if pcpus and shared else 1
    for key, value in {**pcpus, **shared}.items():
        if not is_number(value) or int(value) < least:
            _refuse(capacity.HIGH, key, value,
                    'a whole number from %d on' % least)
    if policy is None and not total(pcpus):
        for key, value in shared.items():
            _refuse(capacity.HIGH, key, value, 'resources:PCPU')
        specs[CPU_POLICY] = 'dedicated'
    return specs


def _fold_low(specs, vcpus):
    policy = specs.get(CPU_POLICY)
    if policy not in (None, 'shared'):
        _refuse(capacity.LOW, CPU_POLICY, policy, "'shared'")
    if is_realtime(specs):
        _refuse(capacity.LOW, 'hw:cpu_realtime', specs['hw:cpu_realtime'],
                "'false'")
    if specs.get('hw:emulator_threads_policy') == 'isolate':
        _refuse(capacity.LOW, 'hw:emulator_threads_policy', 'isolate',
                "'share'")
    for key, value in misread(specs).items():
        _refuse(capacity.LOW, key, value, "%s = '%d'" % (VCPU, vcpus))
    shared = resources(specs, 'VCPU')
    for key, value in resources(specs, 'PCPU').items():
        # None is said by a number of zero too, beside that of VCPU.
        if not shared or not is_number(value) or int(value):
            _refuse(capacity.LOW, key, value, "%s = '%d'" % (VCPU, vcpus))
        del specs[key]
    for key, value in shared.items():
        if (key, value) != (VCPU, str(vcpus)):
            _refuse(capacity.LOW, key, value, "%s = '%d'" % (VCPU, vcpus))
    specs.pop(VCPU, None)
    specs[CPU_POLICY] = 'shared'
    return specs


def _refuse(priority, key, value, allowed):
    raise RequestRefused(
        "Extra spec %s of the flavor is %s; with %s priority allowed is %s "
        "or none." % (key, quoted(value), priority, allowed))
