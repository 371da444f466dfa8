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

#: Keys of the body under which Nova looks for hints. Nova reads the first that
#: is present and ignores the other.
_HINT_KEYS = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')


@contextlib.contextmanager
def _invalid_request():
    try:
        yield
    except flavor_specs.RequestRefused as error:
        # Only for this error, create, rebuild and resize all answer with the
        # text of the error.
        raise exception.InvalidRequest(str(error))


def check_body(body):
    """Refuse a priority hint if the body has both keys for hints.

    Nova would read only one of the two, and silently ignore the other one.

    :param body: body of the request, which Nova has not validated yet
    """
    if not isinstance(body, dict) or not body.keys() >= set(_HINT_KEYS):
        return
    for key in _HINT_KEYS:
        hints = body[key]
        if isinstance(hints, dict) and flavor_specs.HINT in hints:
            raise exception.InvalidRequest(
                "Scheduler hint '%s' is %s in %s, but the request has both %s "
                "and Nova reads only one of them; put all hints into %s. The "
                "allowed values are 'high' and 'low'."
                % (flavor_specs.HINT,
                   flavor_specs.quote(hints[flavor_specs.HINT]), key,
                   ' and '.join(_HINT_KEYS), _HINT_KEYS[0]))


@_invalid_request()
def fold_for_create(flavor, hints):
    """Return the flavor that is to be embedded in a new instance.

    :param hints: dict of scheduler hints, or None
    :returns: a folded copy, which :func:`complete_for_image` may complete, or
        the flavor itself if there is nothing to fold
    """
    extra_specs = priority_fold.fold(flavor.vcpus, flavor.extra_specs, hints)
    if extra_specs is None:
        if not mixed_cpus.names_both_classes(flavor.extra_specs):
            return flavor
        extra_specs = dict(flavor.extra_specs)
    return copy_flavor(flavor, extra_specs)


@_invalid_request()
def complete_for_image(image, flavor):
    """Complete the folded flavor of a new instance, and check the image.

    Nova reads the image only after it has taken the flavor. Therefore change
    the flavor in place.

    :param image: dict with the 'properties' of the image, or None
    """
    if mixed_cpus.names_both_classes(flavor.extra_specs):
        flavor.extra_specs = apply_mixed_policy(
            flavor, objects.ImageMeta.from_dict(image or {}))
        flavor.obj_reset_changes()
    check_image(image, flavor)


@_invalid_request()
def fold_for_resize(flavor, instance):
    """Fold the new flavor of a resize in place, for Nova looked it up."""
    extra_specs = priority_fold.fold_resize(
        flavor.vcpus, flavor.extra_specs, instance.flavor.extra_specs)
    if extra_specs is not None:
        flavor.extra_specs = extra_specs
    if mixed_cpus.names_both_classes(flavor.extra_specs):
        flavor.extra_specs = apply_mixed_policy(flavor, instance.image_meta)
    flavor.obj_reset_changes()


@_invalid_request()
def check_image(image, flavor):
    """Check that an image, a dict or None, fits a folded flavor."""
    priority_fold.check_image(flavor.extra_specs,
                              (image or {}).get('properties', {}))


def get_force_of_move(instance, force, host):
    """Return ``force`` of a move, so that the scheduler checks the host.

    In microversions that have ``force``, a move to a named host bypasses the
    scheduler by default.

    :param force: True, False or None, as the caller gives it
    :param host: host that the caller names, or None
    """
    priority = flavor_specs.get_priority(instance.flavor.extra_specs)
    if force is False or not host or priority is None:
        return force
    if force:
        # The only error that these calls answer with 400.
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


def apply_mixed_policy(flavor, image_meta):
    """Return the extra specs of a flavor with the mixed policy, if it applies.

    It applies if the flavor has numbers of PCPU and of VCPU above zero. The
    image may give the guest its NUMA nodes.

    :raises nova_prio.model.flavor_specs.RequestRefused: if the flavor or the
        image is refused
    """
    extra_specs = flavor.extra_specs
    if not mixed_cpus.names_both_classes(extra_specs):
        return extra_specs
    dedicated = mixed_cpus.count_dedicated_vcpus(
        flavor.vcpus, extra_specs, image_meta.properties)
    if dedicated is None:
        return extra_specs
    # Nova reads the nodes from flavor and image. The mask does not matter.
    topology = hardware.numa_get_constraints(copy_flavor(
        flavor, mixed_cpus.fold_to_mixed_policy(extra_specs, '0')), image_meta)
    nodes = [cell.total_cpus for cell in topology.cells]
    vcpus = mixed_cpus.spread_dedicated_vcpus(nodes, dedicated)
    mixed_cpus.check_emulator_threads(extra_specs, nodes[0], vcpus)
    return mixed_cpus.fold_to_mixed_policy(
        extra_specs, hardware.format_cpu_spec(set(vcpus)))
