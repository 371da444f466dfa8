# SPDX-License-Identifier: Apache-2.0

"""The instance that a flavor would make, without asking any service."""

import dataclasses

from nova import exception
from nova import objects
from nova.scheduler import utils
from nova.virt import hardware

from nova_prio.api import fold
from nova_prio.api import priority_fold
from nova_prio.compat import hooks
from nova_prio.model import flavor_specs


@dataclasses.dataclass(frozen=True)
class FlavorPreview:
    """An instance as a flavor makes it.

    ``dedicated_cpus`` and ``shared_cpus`` are vCPUs of the guest in Nova's CPU
    set notation, '' for none. ``numa_nodes`` has one dict per NUMA node of the
    guest. ``placement_request`` is a dict, resource class -> amount, over all
    request groups. ``extra_specs`` are embedded in the instance.
    """

    priority: str | None
    cpu_policy: str
    dedicated_cpus: str
    shared_cpus: str
    numa_nodes: list
    placement_request: dict
    extra_specs: dict


def preview(vcpus, memory_mb, disk_gb, extra_specs, image_properties, hints):
    """Return the FlavorPreview of a request.

    Extra specs, image properties and hints are dicts, name -> str.

    :raises nova_prio.model.flavor_specs.RequestRefused: if the request
        contradicts itself, or Nova refuses an extra spec or image property
    :raises nova.exception.NovaException: if stock Nova refuses the flavor
    """
    objects.register_all()
    _validate(extra_specs)
    image = _read_image(image_properties)
    flavor, topology = fit_request(objects.Flavor(
        vcpus=vcpus, memory_mb=memory_mb, root_gb=disk_gb, ephemeral_gb=0,
        swap=0, extra_specs=extra_specs), image, hints)
    cells = topology.cells if topology else []
    dedicated = set().union(*(cell.pcpuset for cell in cells))
    request = utils.ResourceRequest.from_request_spec(objects.RequestSpec(
        flavor=flavor, image=image, is_bfv=False, requested_resources=[]))
    return FlavorPreview(
        flavor_specs.get_priority(flavor.extra_specs),
        cells and cells[0].cpu_policy or 'shared',
        hardware.format_cpu_spec(dedicated),
        hardware.format_cpu_spec(set(range(vcpus)) - dedicated),
        [{'node': cell.id,
          'dedicated_cpus': hardware.format_cpu_spec(cell.pcpuset),
          'shared_cpus': hardware.format_cpu_spec(cell.cpuset),
          'memory_mb': cell.memory} for cell in cells],
        request.merged_resources(), flavor.extra_specs)


def fit_request(flavor, image, hints):
    """Return the flavor that is embedded in an instance, and its topology.

    :param image: nova.objects.ImageMeta
    :returns: (nova.objects.Flavor, nova.objects.InstanceNUMATopology or None)
    :raises: the errors of :func:`preview`
    """
    flavor = fold.copy_flavor(flavor, priority_fold.fold(
        flavor.vcpus, flavor.extra_specs, hints) or flavor.extra_specs)
    flavor.extra_specs = fold.apply_mixed_policy(flavor, image)
    flavor.obj_reset_changes()
    priority_fold.check_image(flavor.extra_specs, image.properties)
    return flavor, hardware.numa_get_constraints(flavor, image)


def _validate(extra_specs):
    """Validate extra specs as nova-api does when it creates a flavor."""
    conf = hooks.register_options()
    conf.set_override('enabled', True, group='nova_prio')
    try:
        # At import, Nova may have loaded the validators without ours.
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
    valid = {}
    # Nova stops reading NUMA nodes at the first missing number.
    for name in sorted(properties, key=lambda name: (len(name), name)):
        valid[name] = properties[name]
        try:
            # Nova removes the properties that it reads from the dict.
            objects.ImageMetaProps.from_dict(dict(valid))
        except ValueError as error:
            raise flavor_specs.RequestRefused(
                "Image property %s is '%s': %s."
                % (name, properties[name], error)) from error
    return objects.ImageMeta.from_dict({'properties': properties})
