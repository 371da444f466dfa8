# SPDX-License-Identifier: Apache-2.0

"""The flavors, images and moves of instances, if ``enabled`` is true.

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
        # It is the only error of Nova with whose text create, rebuild and
        # resize all answer.
        raise exception.InvalidRequest(str(error))


@_answer_with_bad_request()
def fold_for_create(flavor, hints):
    """Return the flavor that is to be embedded in a new instance.

    :param hints: dict of scheduler hints, or None
    :returns: a folded copy, which :func:`complete_for_image` may complete, or
        the flavor itself if there is nothing to fold
    """
    extra_specs = priority_fold.fold(flavor.vcpus, flavor.extra_specs, hints)
    if extra_specs is None:
        if not mixed_cpus.requests_pcpu_and_vcpu(flavor.extra_specs):
            return flavor
        # complete_for_image changes the embedded flavor, not the stored one.
        extra_specs = dict(flavor.extra_specs)
    return copy_flavor(flavor, extra_specs)


@_answer_with_bad_request()
def complete_for_image(image, flavor):
    """Apply the image to the folded flavor of a new instance.

    If the flavor requests PCPU and VCPU, the image may decide which vCPUs are
    dedicated. When Nova reads the image, it already holds this flavor, so
    change the flavor in place. Then check the image.

    :param image: dict with the 'properties' of the image, or None
    """
    if mixed_cpus.requests_pcpu_and_vcpu(flavor.extra_specs):
        flavor.extra_specs = get_mixed_policy_specs(
            flavor, objects.ImageMeta.from_dict(image or {}))
        # No save may write these extra specs into the stored flavor.
        flavor.obj_reset_changes()
    check_image(image, flavor)


@_answer_with_bad_request()
def fold_for_resize(flavor, instance):
    """Fold the new flavor of a resize in place.

    :param flavor: nova.objects.Flavor that Nova read for this resize alone
    """
    extra_specs = priority_fold.fold_resize(
        flavor.vcpus, flavor.extra_specs, instance.flavor.extra_specs)
    if extra_specs is not None:
        flavor.extra_specs = extra_specs
    # The extra specs are the same if the flavor does not request both PCPU and
    # VCPU.
    flavor.extra_specs = get_mixed_policy_specs(flavor, instance.image_meta)
    # No save may write the fold into the stored flavor.
    flavor.obj_reset_changes()


@_answer_with_bad_request()
def check_image(image, flavor):
    """Check that an image, a dict or None, fits a folded flavor."""
    priority_fold.check_image(flavor.extra_specs,
                              (image or {}).get('properties', {}))


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
    policy. Other extra specs are returned unchanged.

    :param image_meta: nova.objects.ImageMeta, which may give the guest NUMA
        nodes

    :raises nova_prio.model.flavor_specs.RequestRefused: if the flavor or the
        image is refused
    """
    extra_specs = flavor.extra_specs
    if not mixed_cpus.requests_pcpu_and_vcpu(extra_specs):
        return extra_specs
    dedicated = mixed_cpus.count_dedicated_vcpus(
        flavor.vcpus, extra_specs, image_meta.properties)
    if dedicated is None:
        return extra_specs
    # Nova reads the NUMA nodes from flavor and image, whatever the mask is.
    topology = hardware.numa_get_constraints(copy_flavor(
        flavor, mixed_cpus.fold_to_mixed_policy(extra_specs, '0')), image_meta)
    nodes = [cell.total_cpus for cell in topology.cells]
    vcpus = mixed_cpus.choose_dedicated_vcpus(nodes, dedicated)
    mixed_cpus.check_emulator_threads(extra_specs, nodes[0], vcpus)
    return mixed_cpus.fold_to_mixed_policy(
        extra_specs, hardware.format_cpu_spec(set(vcpus)))
