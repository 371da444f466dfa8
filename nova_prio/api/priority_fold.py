# SPDX-License-Identifier: Apache-2.0

"""The fold: the priority that a request asks for, written into a flavor.

Extra specs in, extra specs out: dicts, extra spec -> str. The CPU policy is
always spelled out, so that stock Nova places and pins the instance
accordingly. A request that contradicts itself raises policy.RequestRefused.
"""

import functools

from nova_prio.model import capacity
from nova_prio.model import flavor_specs

_ALLOWED = "allowed are 'high' and 'low'"


def fold(vcpus, extra_specs, hints):
    """Return the extra specs with the priority that is asked for folded in.

    :param vcpus: vCPUs of the flavor
    :param hints: dict of scheduler hints, or None; a hint may be a string or
        a list of one string
    :returns: a new dict, or None if no priority is asked for
    :raises policy.RequestRefused: with a sentence for each fault of hint and
        value
    """
    value = extra_specs.get(flavor_specs.EXTRA_SPEC)
    if flavor_specs.HINT not in (hints or {}):
        _refuse(_faults_of_value(value))
        return _folded(vcpus, extra_specs, value)
    hint = hints[flavor_specs.HINT]
    if isinstance(hint, list) and len(hint) == 1:
        hint = hint[0]
    subject = "Scheduler hint '%s'" % flavor_specs.HINT
    faults = []
    if hint not in capacity.PRIORITIES:
        faults.append(flavor_specs.format_fault(subject, hint, _ALLOWED))
    if value is not None and value == hint:
        faults.append("%s is %s, and the flavor already gives %s; drop the "
                      "hint." % (subject, flavor_specs.quote(hint), value))
    elif value is not None:
        faults.append("%s is %s, but extra spec %s of the flavor is %s; only "
                      "one of the two is allowed." % (
                          subject, flavor_specs.quote(
                              hint), flavor_specs.EXTRA_SPEC,
                          flavor_specs.quote(value)))
    _refuse(faults + _faults_of_value(value))
    return _folded(vcpus, extra_specs, hint, source='hint')


def fold_resize(vcpus, extra_specs, current):
    """Return the extra specs of a new flavor with the priority folded in.

    A priority that came with the hint stays, unless the new flavor takes it
    over by naming the same. A priority of the old flavor ends with it.

    :param vcpus: vCPUs of the new flavor
    :param extra_specs: those of the new flavor
    :param current: those of the instance's flavor
    :returns: a new dict, or None if the flavor can be taken as it is
    """
    value = extra_specs.get(flavor_specs.EXTRA_SPEC)
    _refuse(_faults_of_value(value))
    if flavor_specs.SOURCE not in current:
        return _folded(vcpus, extra_specs, value)
    if not flavor_specs.is_from_hint(current):
        return (_folded(vcpus, extra_specs, value, source='flavor') or
                {**extra_specs, flavor_specs.SOURCE: 'flavor'})
    hint = flavor_specs.get_priority(current)
    if value is None:
        return _folded(vcpus, extra_specs, hint, source='hint')
    if value != hint:
        raise flavor_specs.RequestRefused(
            "Extra spec %s of the new flavor is '%s', but the instance was "
            "created with scheduler hint '%s' = '%s'; allowed is '%s' or none."
            % (flavor_specs.EXTRA_SPEC, value, flavor_specs.HINT, hint, hint))
    return _folded(vcpus, extra_specs, value, source='flavor')


def check_image(extra_specs, properties):
    """Check that an image does not contradict a priority that is in force.

    :param extra_specs: those of the folded flavor
    :param properties: dict, image property -> str
    """
    priority = flavor_specs.get_priority(extra_specs)
    of_image = properties.get('hw_cpu_policy')
    if priority is None or of_image is None:
        return
    if priority == capacity.LOW:
        allowed = ('shared',)
    elif extra_specs.get(flavor_specs.CPU_POLICY) == 'mixed':
        allowed = ('mixed',)
    else:
        allowed = ('dedicated', 'mixed')
    if of_image not in allowed:
        raise flavor_specs.RequestRefused(flavor_specs.format_fault(
            'Image property hw_cpu_policy', of_image,
            'with %s priority and this flavor allowed is %s or none' % (
                priority, ', '.join(map(flavor_specs.quote, allowed)))))


def _faults_of_value(value):
    if value is None or value in capacity.PRIORITIES:
        return []
    return [flavor_specs.format_flavor_fault(
        flavor_specs.EXTRA_SPEC, value, _ALLOWED)]


def _refuse(faults):
    if faults:
        raise flavor_specs.RequestRefused(' '.join(faults))


def _refuse_for(priority, key, value, allowed):
    raise flavor_specs.RequestRefused(flavor_specs.format_flavor_fault(
        key, value, 'with %s priority allowed is %s or none'
        % (priority, allowed)))


def _folded(vcpus, extra_specs, priority, source=None):
    if priority is None:
        return None
    folded = {**extra_specs, flavor_specs.EXTRA_SPEC: priority}
    folded.pop(flavor_specs.SOURCE, None)
    if source:
        folded[flavor_specs.SOURCE] = source
    if priority == capacity.HIGH:
        _fold_high(folded)
    else:
        _fold_low(folded, "%s = '%d'" % (flavor_specs.VCPU, vcpus))
    return folded


def _fold_high(specs):
    refuse = functools.partial(_refuse_for, capacity.HIGH)
    cpu_policy = specs.get(flavor_specs.CPU_POLICY)
    if cpu_policy == 'shared':
        refuse(flavor_specs.CPU_POLICY, cpu_policy, "'dedicated', 'mixed'")
    for key, value in flavor_specs.find_misread_requests(specs).items():
        refuse(key, value, 'resources:PCPU')
    pcpus = flavor_specs.select_pinning_requests(specs, 'PCPU')
    shared = flavor_specs.select_pinning_requests(specs, 'VCPU')
    # Nova ignores any other value, and then pins nothing. If there are both
    # numbers, one may be zero.
    least = 0 if pcpus and shared else 1
    for key, value in {**pcpus, **shared}.items():
        if not flavor_specs.is_number(value) or int(value) < least:
            refuse(key, value, 'a whole number from %d on' % least)
    if cpu_policy is None and not flavor_specs.sum_amounts(pcpus):
        for key, value in shared.items():
            refuse(key, value, 'resources:PCPU')
        specs[flavor_specs.CPU_POLICY] = 'dedicated'


def _fold_low(specs, all_vcpus):
    refuse = functools.partial(_refuse_for, capacity.LOW)
    cpu_policy = specs.get(flavor_specs.CPU_POLICY)
    if cpu_policy not in (None, 'shared'):
        refuse(flavor_specs.CPU_POLICY, cpu_policy, "'shared'")
    if flavor_specs.is_realtime(specs):
        refuse('hw:cpu_realtime', specs['hw:cpu_realtime'], "'false'")
    if specs.get('hw:emulator_threads_policy') == 'isolate':
        refuse('hw:emulator_threads_policy', 'isolate', "'share'")
    for key, value in flavor_specs.find_misread_requests(specs).items():
        refuse(key, value, all_vcpus)
    shared = flavor_specs.select_pinning_requests(specs, 'VCPU')
    for key, value in flavor_specs.select_pinning_requests(
            specs, 'PCPU').items():
        # Beside the number of VCPU, that of PCPU may be zero.
        if not shared or not flavor_specs.is_number(value) or int(value):
            refuse(key, value, all_vcpus)
        del specs[key]
    for key, value in shared.items():
        if "%s = '%s'" % (key, value) != all_vcpus:
            refuse(key, value, all_vcpus)
    specs.pop(flavor_specs.VCPU, None)
    specs[flavor_specs.CPU_POLICY] = 'shared'
