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

"""What the CPUs of a flavor become, without any service that is asked."""

import dataclasses

from nova import exception
from nova import objects
from nova.scheduler import utils
from nova.virt import hardware

from nova_prio.api import mixed_policy
from nova_prio import policy
from nova_prio import seams


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What an instance of a flavor is made of.

    ``dedicated_cpus`` and ``shared_cpus`` are vCPUs of the guest as Nova
    writes a set of CPUs, '' for none; ``numa_nodes`` a list of dicts, one for
    each NUMA node of the guest; ``placement_request`` a dict, resource class
    -> amount, over all request groups; ``extra_specs`` those that are kept
    with the instance.
    """

    priority: str | None
    cpu_policy: str
    dedicated_cpus: str
    shared_cpus: str
    numa_nodes: list
    placement_request: dict
    extra_specs: dict


def of(vcpus, memory_mb, disk_gb, extra_specs, image_properties, hints):
    """Return what a flavor becomes in a request, a :class:`Compiled`.

    :param extra_specs: dict, extra spec -> str
    :param image_properties: dict, image property -> str
    :param hints: dict, scheduler hint -> str
    :raises nova_prio.policy.RequestRefused: where the request contradicts
        itself, or where Nova does not take one of the extra specs or cannot
        read a property of the image
    :raises nova.exception.NovaException: where stock Nova refuses it
    """
    objects.register_all()
    _validate(extra_specs)
    image = _image(image_properties)
    flavor, topology = fitted(objects.Flavor(
        vcpus=vcpus, memory_mb=memory_mb, root_gb=disk_gb, ephemeral_gb=0,
        swap=0, extra_specs=extra_specs), image, hints)
    cells = topology.cells if topology else []
    dedicated = set().union(*(cell.pcpuset for cell in cells))
    request = utils.ResourceRequest.from_request_spec(objects.RequestSpec(
        flavor=flavor, image=image, is_bfv=False, requested_resources=[]))
    return Compiled(
        policy.in_force(flavor.extra_specs),
        cells and cells[0].cpu_policy or 'shared',
        hardware.format_cpu_spec(dedicated),
        hardware.format_cpu_spec(set(range(vcpus)) - dedicated),
        [{'node': cell.id,
          'dedicated_cpus': hardware.format_cpu_spec(cell.pcpuset),
          'shared_cpus': hardware.format_cpu_spec(cell.cpuset),
          'memory_mb': cell.memory} for cell in cells],
        request.merged_resources(), flavor.extra_specs)


def fitted(flavor, image, hints):
    """Return the flavor that is kept with an instance, and its topology.

    :param flavor: nova.objects.Flavor; never changed
    :param image: nova.objects.ImageMeta
    :param hints: dict, scheduler hint -> str
    :returns: (nova.objects.Flavor, nova.objects.InstanceNUMATopology or None)
    :raises nova_prio.policy.RequestRefused: where the request contradicts
        itself
    :raises nova.exception.NovaException: where stock Nova refuses it
    """
    flavor = mixed_policy.with_extra_specs(flavor, policy.fold(
        flavor.vcpus, flavor.extra_specs, hints) or flavor.extra_specs)
    flavor = mixed_policy.with_extra_specs(
        flavor, mixed_policy.extra_specs_of(flavor, image))
    policy.check_image(flavor.extra_specs, image.properties)
    return flavor, hardware.numa_get_constraints(flavor, image)


def _validate(extra_specs):
    """Check extra specs as nova-api does where a flavor is given them."""
    conf = seams.register_options()
    conf.set_override('enabled', True, group='nova_prio')
    try:
        # Nova loads them at import too, and maybe did so without ours.
        from nova.api.validation.extra_specs import validators
        validators.load_validators()
    finally:
        conf.clear_override('enabled', group='nova_prio')
    for name, value in extra_specs.items():
        try:
            validators.validate(name, value)
        except exception.ValidationError as error:
            # Nova names the key or the value, not both.
            raise policy.RequestRefused(
                "Extra spec %s of the flavor is '%s': %s"
                % (name, value, error.format_message())) from error


def _image(properties):
    read = {}
    # Nova stops reading NUMA nodes at the first that is not there.
    for name in sorted(properties, key=lambda name: (len(name), name)):
        read[name] = properties[name]
        try:
            # It takes out of the dict what it reads.
            objects.ImageMetaProps.from_dict(dict(read))
        except ValueError as error:
            raise policy.RequestRefused(
                "Image property %s is '%s': %s."
                % (name, properties[name], error)) from error
    return objects.ImageMeta.from_dict({'properties': properties})
