# SPDX-License-Identifier: Apache-2.0

"""The fold: the requested priority, written into the extra specs of a flavor.

The functions read and return extra specs: dicts, extra spec -> str. The fold
also writes the CPU policy, so that stock Nova places and pins the instance as
its priority requires. If a request contradicts itself, the functions raise
``flavor_specs.RequestRefused``.
"""

from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs

_ALLOWED = "allowed values are 'high' and 'low'"
_USE_PCPU = 'resources:PCPU is allowed instead'


def fold(vcpus, extra_specs, hints):
    """Return extra specs with the requested priority folded (written) in.

    An extra spec or a scheduler hint requests the priority, but not both.

    :param vcpus: number of vCPUs of the flavor
    :param extra_specs: dict, extra spec -> str, of the flavor
    :param hints: dict of scheduler hints, or None; a hint may be a string or
        a list of one string
    :returns: a new dict, or None if the request has no priority
    """
    value = extra_specs.get(flavor_specs.EXTRA_SPEC)
    if flavor_specs.HINT not in (hints or {}):
        _check_value(value)
        return _write_priority(vcpus, extra_specs, value)
    hint = hints[flavor_specs.HINT]
    if isinstance(hint, list) and len(hint) == 1:
        hint = hint[0]
    # One error reports the faults of the hint and of the extra spec.
    hint_faults = _find_hint_faults(hint, value)
    _check_value(value, hint_faults)
    return _write_priority(vcpus, extra_specs, hint, source='hint')


def fold_resize(vcpus, extra_specs, current):
    """Return the extra specs of the flavor of a resize, with the priority.

    The priority is folded (written) into the extra specs of the new flavor.
    The instance keeps a priority that came with the hint. If the new flavor
    names the same priority, the flavor decides the priority from then on. A
    priority that came with the old flavor ends.

    :param vcpus: number of vCPUs of the new flavor
    :param extra_specs: dict, extra spec -> str, of the new flavor
    :param current: extra specs of the present flavor. If the instance was
        created with a hint, SOURCE says what decides its priority: 'hint', or
        'flavor' after a resize to a flavor with a priority.
    :returns: a new dict, or None if there is nothing to write
    """
    value = extra_specs.get(flavor_specs.EXTRA_SPEC)
    _check_value(value)
    if flavor_specs.SOURCE not in current:
        # The instance was created without the hint.
        return _write_priority(vcpus, extra_specs, value)
    if flavor_specs.is_from_hint(current):
        hint = flavor_specs.get_priority(current)
        if value not in (None, hint):
            raise flavor_specs.RequestRefused(
                "Extra spec %s of the new flavor is '%s', but the instance "
                "was created with scheduler hint '%s' = '%s'; only '%s' or no "
                "value is allowed." % (
                    flavor_specs.EXTRA_SPEC, value, flavor_specs.HINT, hint,
                    hint))
        source = 'flavor' if value else 'hint'
        return _write_priority(vcpus, extra_specs, hint, source=source)
    # The instance was created with the hint, but a later flavor has decided.
    written = _write_priority(vcpus, extra_specs, value)
    if written is None:
        written = dict(extra_specs)
    # Keep SOURCE even if the new flavor has no priority. The request spec
    # still has the hint, and SOURCE tells nova-scheduler to ignore it.
    written[flavor_specs.SOURCE] = 'flavor'
    return written


def check_image(extra_specs, properties):
    """Refuse an image that contradicts the priority in the extra specs.

    :param properties: dict, name of the image property -> value
    """
    priority = flavor_specs.get_priority(extra_specs)
    image_policy = properties.get('hw_cpu_policy')
    if priority is None or image_policy is None:
        return
    if priority == cpu_capacity.LOW:
        allowed = ('shared',)
    elif extra_specs.get(flavor_specs.CPU_POLICY) == 'mixed':
        allowed = ('mixed',)
    else:
        # With 'dedicated' in the flavor, Nova ignores the policy of the image.
        # 'shared' is refused nevertheless: it asks for vCPUs without pinning.
        # Without a policy in the flavor, the image sets it.
        allowed = ('dedicated', 'mixed')
    if image_policy not in allowed:
        values = ', '.join(flavor_specs.quote(value) for value in allowed)
        flavor_specs.refuse_image(
            'hw_cpu_policy', image_policy,
            'with %s priority and this flavor only %s or no value is allowed'
            % (priority, values))


def _find_hint_faults(hint, value):
    """Yield a sentence for each fault of the scheduler hint with a priority.

    :param hint: value of the hint, of any type
    :param value: value of the extra spec of the flavor, or None
    """
    subject = "Scheduler hint '%s'" % flavor_specs.HINT
    if hint not in cpu_capacity.PRIORITIES:
        yield flavor_specs.format_fault(subject, hint, _ALLOWED)
    if value is not None and value == hint:
        yield ("%s is %s, and the flavor already gives %s; drop the hint."
               % (subject, flavor_specs.quote(hint), value))
    elif value is not None:
        yield ("%s is %s, but extra spec %s of the flavor is %s; only one of "
               "the two is allowed." % (
                   subject, flavor_specs.quote(hint), flavor_specs.EXTRA_SPEC,
                   flavor_specs.quote(value)))


def _check_value(value, hint_faults=()):
    """Raise one error for a wrong extra spec and for the faults of a hint.

    Do nothing if there is no fault.

    :param value: value of the extra spec, or None
    :param hint_faults: iterable of sentences
    """
    faults = list(hint_faults)
    if value is not None and value not in cpu_capacity.PRIORITIES:
        subject = 'Extra spec %s of the flavor' % flavor_specs.EXTRA_SPEC
        faults.append(flavor_specs.format_fault(subject, value, _ALLOWED))
    if faults:
        raise flavor_specs.RequestRefused(' '.join(faults))


def _refuse(specs, key, allowed):
    """Refuse the value of an extra spec of a flavor with a priority.

    The error reads "Extra spec KEY of the flavor is VALUE; with PRIORITY
    priority ALLOWED."

    :param specs: dict, the extra specs with the priority
    :param key: name of the extra spec
    :param allowed: clause that names the allowed values
    """
    flavor_specs.refuse_flavor(key, specs[key], 'with %s priority %s' % (
        specs[flavor_specs.EXTRA_SPEC], allowed))


def _write_priority(vcpus, extra_specs, priority, source=None):
    """Return a copy of the extra specs with a priority and its CPU policy.

    :param priority: 'high', 'low' or None
    :param source: what decides the priority of an instance that was created
        with the hint: 'hint', or 'flavor' after a resize. None if it was
        created without the hint.
    :returns: None if there is no priority
    """
    if priority is None:
        return None
    specs = dict(extra_specs)
    specs[flavor_specs.EXTRA_SPEC] = priority
    specs.pop(flavor_specs.SOURCE, None)
    if source:
        specs[flavor_specs.SOURCE] = source
    if priority == cpu_capacity.HIGH:
        _complete_for_high(specs)
    else:
        _complete_for_low(specs, vcpus)
    return specs


def _complete_for_high(specs):
    """Check the extra specs for high priority, and write the CPU policy.

    :param specs: dict, extra spec -> str, which has the priority; changed
    """
    cpu_policy = specs.get(flavor_specs.CPU_POLICY)
    if cpu_policy == 'shared':
        _refuse(specs, flavor_specs.CPU_POLICY,
                "only 'dedicated', 'mixed' or no value is allowed")
    # Nova has two readers of requests, for Placement and for pinning. Refuse a
    # request that only one of them sees, such as resources_A:PCPU.
    for key in flavor_specs.find_misread_requests(specs):
        _refuse(specs, key, _USE_PCPU)
    # The extra specs by which Nova decides how many vCPUs it pins, two dicts.
    pcpus = flavor_specs.select_pinning_requests(specs, 'PCPU')
    shared = flavor_specs.select_pinning_requests(specs, 'VCPU')
    # If the value is no number, Nova ignores the request and pins nothing. If
    # the flavor requests both PCPU and VCPU, one number may be 0: when the
    # image is known, api.fold checks that they add up to the vCPUs.
    least = 0 if pcpus and shared else 1
    for key, value in (pcpus | shared).items():
        if not flavor_specs.is_number(value) or int(value) < least:
            _refuse(specs, key,
                    'only a whole number from %d on is allowed' % least)
    if cpu_policy is None and not flavor_specs.sum_amounts(pcpus):
        # No vCPU is pinned yet: pin all of them, but refuse a flavor that
        # requests shared vCPUs alone.
        for key in shared:
            _refuse(specs, key, _USE_PCPU)
        specs[flavor_specs.CPU_POLICY] = 'dedicated'


def _complete_for_low(specs, vcpus):
    """Check the extra specs for low priority, and write the CPU policy.

    :param specs: dict, extra spec -> str, which has the priority; changed
    :param vcpus: number of vCPUs of the flavor
    """
    for key, allowed in ((flavor_specs.CPU_POLICY, 'shared'),
                         ('hw:emulator_threads_policy', 'share')):
        if specs.get(key, allowed) != allowed:
            _refuse(specs, key, "only '%s' or no value is allowed" % allowed)
    if flavor_specs.is_realtime(specs):
        _refuse(specs, 'hw:cpu_realtime',
                "only 'false' or no value is allowed")
    only_vcpu = "only %s = '%d' is allowed" % (flavor_specs.VCPU, vcpus)
    # Nova has two readers of requests, for Placement and for pinning. Refuse a
    # request that only one of them sees, such as resources_A:PCPU.
    for key in flavor_specs.find_misread_requests(specs):
        _refuse(specs, key, only_vcpu)
    # The extra specs by which Nova decides how many vCPUs it pins, two dicts.
    pcpus = flavor_specs.select_pinning_requests(specs, 'PCPU')
    shared = flavor_specs.select_pinning_requests(specs, 'VCPU')
    for key, value in pcpus.items():
        is_zero = flavor_specs.is_number(value) and int(value) == 0
        # 0 PCPU says that all vCPUs are shared: this has a meaning only beside
        # the number of shared vCPUs, the request for VCPU.
        if not shared or not is_zero:
            _refuse(specs, key, only_vcpu)
        del specs[key]
    for key, value in shared.items():
        if key != flavor_specs.VCPU or value != str(vcpus):
            _refuse(specs, key, only_vcpu)
    # Nova refuses a CPU policy beside this request.
    specs.pop(flavor_specs.VCPU, None)
    specs[flavor_specs.CPU_POLICY] = 'shared'
