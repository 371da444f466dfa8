# SPDX-License-Identifier: Apache-2.0

"""A preview of the instance of a flavor, without a call to any service."""

from nova import exception
from nova import objects
from nova.scheduler import utils
from nova.virt import hardware

from nova_prio.api import fold
from nova_prio.api import priority_fold
from nova_prio.compat import hooks
from nova_prio.model import flavor_specs


def preview(vcpus, memory_mb, disk_gb, extra_specs, image_properties, hints):
    """Return the properties of the instance that a request would create.

    Extra specs, image properties and hints are dicts, name -> str.

    :returns: dict, in the order of the output. ``dedicated_cpus`` and
        ``shared_cpus`` are vCPUs of the guest in Nova's CPU set notation, ''
        for none. ``numa_nodes`` is a list of one dict for each NUMA node of
        the guest. ``placement_request`` is a dict, resource class -> amount,
        over all request groups. ``extra_specs`` are those of the embedded
        flavor.
    :raises nova_prio.model.flavor_specs.RequestRefused: if the request
        contradicts itself, or Nova refuses an extra spec or image property
    :raises nova.exception.NovaException: if stock Nova refuses the flavor
    """
    objects.register_all()
    _validate(extra_specs)
    image = _read_image(image_properties)
    flavor = objects.Flavor(
        vcpus=vcpus, memory_mb=memory_mb, root_gb=disk_gb, ephemeral_gb=0,
        swap=0, extra_specs=extra_specs)
    # The flavor that Nova would embed, and the NUMA topology of the guest or
    # None.
    flavor, topology = fit_request(flavor, image, hints)
    cells = topology.cells if topology else []
    dedicated = set()
    numa_nodes = []
    for cell in cells:
        dedicated |= cell.pcpuset
        numa_nodes.append({
            'node': cell.id,
            'dedicated_cpus': hardware.format_cpu_spec(cell.pcpuset),
            'shared_cpus': hardware.format_cpu_spec(cell.cpuset),
            'memory_mb': cell.memory})
    # All cells have the same policy.
    cpu_policy = cells[0].cpu_policy if cells else None
    request = utils.ResourceRequest.from_request_spec(objects.RequestSpec(
        flavor=flavor, image=image, is_bfv=False, requested_resources=[]))
    return {
        'priority': flavor_specs.get_priority(flavor.extra_specs),
        'cpu_policy': cpu_policy or 'shared',
        'dedicated_cpus': hardware.format_cpu_spec(dedicated),
        'shared_cpus': hardware.format_cpu_spec(
            set(range(vcpus)) - dedicated),
        'numa_nodes': numa_nodes,
        'placement_request': request.merged_resources(),
        'extra_specs': flavor.extra_specs}


def fit_request(flavor, image, hints):
    """Return the flavor and the NUMA topology that an instance would get.

    As in nova-api, the requested priority is written (folded) into the flavor.
    If the flavor requests PCPU and VCPU, the mixed CPU policy replaces these
    requests.

    :param flavor: nova.objects.Flavor, which is not changed
    :param image: nova.objects.ImageMeta
    :param hints: dict of scheduler hints, or None
    :returns: (nova.objects.Flavor, nova.objects.InstanceNUMATopology or None)
    :raises nova_prio.model.flavor_specs.RequestRefused: if the request
        contradicts itself
    :raises nova.exception.NovaException: if stock Nova refuses the flavor
    """
    # priority_fold takes extra specs, and fold takes Nova's objects.
    extra_specs = priority_fold.fold(flavor.vcpus, flavor.extra_specs, hints)
    if extra_specs is None:
        # The request has no priority.
        extra_specs = flavor.extra_specs
    flavor = fold.copy_flavor(flavor, extra_specs)
    # These are all extra specs, unchanged unless they request PCPU and VCPU.
    flavor.extra_specs = fold.get_mixed_policy_specs(flavor, image)
    flavor.obj_reset_changes()
    priority_fold.check_image(flavor.extra_specs, image.properties)
    return flavor, hardware.numa_get_constraints(flavor, image)


def _validate(extra_specs):
    """Validate extra specs as nova-api does when it creates a flavor.

    :param extra_specs: dict, name -> str
    :raises nova_prio.model.flavor_specs.RequestRefused: if one is invalid
    """
    conf = hooks.register_options()
    conf.set_override('enabled', override=True, group='nova_prio')
    try:
        # This package has validators only if the option is true. An earlier
        # import of the module may have loaded Nova's validators alone: load
        # all validators again.
        from nova.api.validation.extra_specs import validators
        validators.load_validators()
    finally:
        conf.clear_override('enabled', group='nova_prio')
    for name, value in extra_specs.items():
        try:
            validators.validate(name, value)
        except exception.ValidationError as error:
            # Nova names the key or the value, not both.
            raise flavor_specs.RequestRefused(
                "Extra spec %s of the flavor is '%s': %s"
                % (name, value, error.format_message())) from error


def _read_image(properties):
    """Return image properties as nova.objects.ImageMeta.

    :param properties: dict, name -> str
    :raises nova_prio.model.flavor_specs.RequestRefused: names the property
        that is invalid
    """
    valid = {}
    # Nova reads the properties of NUMA nodes up to the first missing number.
    # A sort by length adds the property of node 2 before that of node 10.
    names = sorted(properties, key=lambda name: (len(name), name))
    # Add one property after the other, so that the first error names it.
    for name in names:
        valid[name] = properties[name]
        try:
            # Pass a copy: this method removes the properties that it reads.
            objects.ImageMetaProps.from_dict(dict(valid))
        except ValueError as error:
            raise flavor_specs.RequestRefused(
                "Image property %s is '%s': %s."
                % (name, properties[name], error)) from error
    return objects.ImageMeta.from_dict({'properties': properties})
