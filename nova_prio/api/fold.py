# SPDX-License-Identifier: Apache-2.0

"""The flavors, images and moves of instances, if ``enabled`` is true.

To fold a priority is to write it into the flavor of the instance.
If a request contradicts itself, each function raises
nova.exception.InvalidRequest with one sentence. Nova answers with 400.
"""

import contextlib

from nova import exception
from nova import objects
from nova.virt import hardware

from nova_prio.api import priority_fold
from nova_prio.model import flavor_specs
from nova_prio.model import mixed_cpus


@contextlib.contextmanager
def _answer_with_bad_request():
    """Raise InvalidRequest with the text of RequestRefused."""
    try:
        yield
    except flavor_specs.RequestRefused as error:
        # Nova's API methods for create, rebuild and resize all answer with the
        # text of this error, and of no other error of Nova.
        raise exception.InvalidRequest(str(error))


@_answer_with_bad_request()
def fold_for_create(flavor, hints):
    """Fold (write) the requested priority into the flavor of a new instance.

    :param flavor: nova.objects.Flavor, which is not changed
    :param hints: dict of scheduler hints, or None
    :returns: a copy of the flavor; the flavor itself if nothing will change it
    """
    # None if the request has no priority.
    extra_specs = priority_fold.fold(flavor.vcpus, flavor.extra_specs, hints)
    if extra_specs is not None:
        return copy_flavor(flavor, extra_specs)
    if mixed_cpus.requests_pcpu_and_vcpu(flavor.extra_specs):
        # Stock Nova refuses these two requests together: when the image is
        # known, complete_for_image replaces them by the mixed CPU policy.
        # Return a copy, so that it does not change the flavor that Nova stores
        # for all users.
        return copy_flavor(flavor, dict(flavor.extra_specs))
    return flavor


@_answer_with_bad_request()
def complete_for_image(image, flavor):
    """Adapt the flavor of a new instance to its image, and check the image.

    If the flavor requests PCPU and VCPU, the image may decide which vCPUs are
    dedicated. The flavor is changed in place, because API.create already works
    with this object when it reads the image.

    :param image: dict with the 'properties' of the image, or None
    """
    if mixed_cpus.requests_pcpu_and_vcpu(flavor.extra_specs):
        image_meta = objects.ImageMeta.from_dict(image or {})
        flavor.extra_specs = get_mixed_policy_specs(flavor, image_meta)
        # No save may write these extra specs into the stored flavor.
        flavor.obj_reset_changes()
    check_image(image, flavor)


@_answer_with_bad_request()
def fold_for_resize(flavor, instance):
    """Fold (write) the priority of an instance into its new flavor, in place.

    It is the priority in the new flavor, or that of the hint with which the
    instance was created.

    :param flavor: nova.objects.Flavor that Nova read for this resize alone
    """
    # None if there is nothing to write.
    extra_specs = priority_fold.fold_resize(
        flavor.vcpus, flavor.extra_specs, instance.flavor.extra_specs)
    if extra_specs is not None:
        flavor.extra_specs = extra_specs
    # This changes only a flavor that requests both PCPU and VCPU: the mixed
    # CPU policy replaces these requests.
    flavor.extra_specs = get_mixed_policy_specs(flavor, instance.image_meta)
    # No save may write these extra specs into the stored flavor.
    flavor.obj_reset_changes()


@_answer_with_bad_request()
def check_image(image, flavor):
    """Check that an image fits the priority in the flavor of an instance.

    The CPU policy of the image must not contradict the priority.

    :param image: dict with the 'properties' of the image, or None
    """
    properties = (image or {}).get('properties', {})
    priority_fold.check_image(flavor.extra_specs, properties)


def decide_force(instance, force, host):
    """Return the value of ``force`` for a live migration or evacuation.

    If ``force`` is true, or None for a named host, the scheduler does not
    check the host. For a priority instance the scheduler must check it.

    :param force: parameter of the request: True, False or None
    :param host: host that the request names, or None
    :raises nova.exception.ValidationError: if the request forces the move of
        a priority instance
    """
    priority = flavor_specs.get_priority(instance.flavor.extra_specs)
    if force is False or not host or priority is None:
        return force
    if force:
        # Live migration and evacuation answer only this error with 400.
        raise exception.ValidationError(detail=(
            "Parameter 'force' is true, which bypasses the scheduler; for an "
            "instance of %s priority only false or no value is allowed."
            % priority))
    # With False, Nova asks the scheduler to check the named host.
    return False


def copy_flavor(flavor, extra_specs):
    """Return a copy of a flavor with other extra specs, to be embedded."""
    copy = flavor.obj_clone()
    copy.extra_specs = extra_specs
    copy.obj_reset_changes()
    return copy


def get_mixed_policy_specs(flavor, image_meta):
    """Return the extra specs of a flavor, with the mixed policy if required.

    A flavor that requests more than 0 PCPU and more than 0 VCPU requires the
    mixed CPU policy, which replaces these requests. Other extra specs are
    returned unchanged.

    :param image_meta: nova.objects.ImageMeta, which may give the guest NUMA
        nodes
    :returns: dict, name -> str
    :raises nova_prio.model.flavor_specs.RequestRefused: if the flavor or the
        image is refused
    """
    extra_specs = flavor.extra_specs
    if not mixed_cpus.requests_pcpu_and_vcpu(extra_specs):
        return extra_specs
    dedicated_count = mixed_cpus.count_dedicated_vcpus(
        flavor.vcpus, extra_specs, image_meta.properties)
    if dedicated_count is None:
        # The flavor requests 0 PCPU or 0 VCPU: it needs no mixed policy.
        return extra_specs
    # To find the vCPUs of each NUMA node, build the topology with any mask of
    # dedicated vCPUs: the nodes do not depend on the mask.
    any_mask = '0'
    specs = mixed_cpus.fold_to_mixed_policy(extra_specs, any_mask)
    topology = hardware.numa_get_constraints(
        copy_flavor(flavor, specs), image_meta)
    # The set of vCPUs of each node. A guest with the mixed policy always has a
    # topology.
    nodes = [cell.total_cpus for cell in topology.cells]
    dedicated_vcpus = mixed_cpus.choose_dedicated_vcpus(
        nodes, dedicated_count)
    # Isolated emulator threads must run beside dedicated vCPUs of the first
    # node.
    mixed_cpus.check_emulator_threads(extra_specs, nodes[0], dedicated_vcpus)
    mask = hardware.format_cpu_spec(set(dedicated_vcpus))
    return mixed_cpus.fold_to_mixed_policy(extra_specs, mask)
