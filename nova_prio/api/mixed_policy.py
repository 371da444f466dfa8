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

"""The mixed CPU policy of a flavor that names numbers of PCPU and VCPU."""

from nova.virt import hardware

from nova_prio import mixed


def with_extra_specs(flavor, extra_specs):
    """Return a copy of a flavor with other extra specs, to be embedded.

    :param flavor: nova.objects.Flavor; never changed
    :param extra_specs: dict, extra spec -> str
    """
    copy = flavor.obj_clone()
    copy.extra_specs = extra_specs
    copy.obj_reset_changes()
    return copy


def extra_specs_of(flavor, image_meta):
    """Return the extra specs that stock Nova takes for the same.

    :param flavor: nova.objects.Flavor, with extra specs
    :param image_meta: nova.objects.ImageMeta, which may give the guest its
        NUMA nodes
    :returns: dict, extra spec -> str: those of the flavor itself where it
        does not name both numbers, or one of them is zero
    :raises nova_prio.policy.RequestRefused: where what it asks for
        contradicts itself or the image
    :raises nova.exception.NovaException: where Nova refuses the NUMA nodes
    """
    extra_specs = flavor.extra_specs
    if not mixed.is_asked_for(extra_specs):
        return extra_specs
    dedicated = mixed.dedicated_vcpus(
        flavor.vcpus, extra_specs, image_meta.properties)
    if dedicated is None:
        return extra_specs
    # Nova reads flavor and image for the nodes; the mask makes no difference
    # to them.
    topology = hardware.numa_get_constraints(
        with_extra_specs(flavor, mixed.fold(extra_specs, '0')), image_meta)
    nodes = [cell.total_cpus for cell in topology.cells]
    vcpus = mixed.spread(nodes, dedicated)
    mixed.check_emulator_threads(extra_specs, nodes[0], vcpus)
    return mixed.fold(extra_specs, hardware.format_cpu_spec(set(vcpus)))
