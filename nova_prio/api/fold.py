# SPDX-License-Identifier: Apache-2.0

"""The flavors, images and moves of instances in nova-api, while it is enabled.

Each function raises nova.exception.InvalidRequest, with one sentence, if the
request contradicts itself. Nova answers with 400.
"""

import contextlib

from nova import exception
from nova import objects
from nova.virt import hardware

from nova_prio.api import priority_fold
from nova_prio.model import flavor_specs
from nova_prio.model import mixed_cpus

#: Keys of the body under which Nova looks for hints; it reads the first that
#: is present and ignores the other.
_HINT_KEYS = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')


def check_body(body):
    """Check that Nova does not ignore the priority hint of a new server.

    :param body: body of the request, which Nova has not validated yet
    """
    if not isinstance(body, dict) or not body.keys() >= set(_HINT_KEYS):
        return
    for key in _HINT_KEYS:
        if isinstance(body[key], dict) and flavor_specs.HINT in body[key]:
            raise exception.InvalidRequest(
                "Scheduler hint '%s' is %s in %s, but the request has both %s "
                "and Nova reads only one of them; put all hints into %s. "
                "Allowed are 'high' and 'low'."
                % (flavor_specs.HINT, flavor_specs.quote(body[key][flavor_specs.HINT]), key,
                   ' and '.join(_HINT_KEYS), _HINT_KEYS[0]))


def fold_for_create(flavor, hints):
    """Return the flavor that is to be kept with a new instance.

    :param flavor: nova.objects.Flavor that was asked for; never changed
    :param hints: dict of scheduler hints, or None
    :returns: a copy with the priority folded in, which
        :func:`fit_to_image` may complete, or the flavor itself where nothing
        is asked for that stock Nova does not know
    """
    with _refusals():
        extra_specs = priority_fold.fold(
            flavor.vcpus, flavor.extra_specs, hints)
    if extra_specs is None and not mixed_cpus.names_both_classes(
            flavor.extra_specs):
        return flavor
    return copy_flavor(
        flavor, extra_specs or dict(flavor.extra_specs))


def complete_for_image(image, flavor):
    """Complete the flavor of a new instance, and check it against its image.

    Nova reads the image of a new instance only after it has taken the flavor.
    The flavor is therefore changed in place.

    :param image: dict with the 'properties' of the image, or None
    :param flavor: nova.objects.Flavor that :func:`flavor_to_create` returned
    """
    if mixed_cpus.names_both_classes(flavor.extra_specs):
        with _refusals():
            flavor.extra_specs = apply_mixed_policy(
                flavor, objects.ImageMeta.from_dict(image or {}))
        flavor.obj_reset_changes()
    check_image(image, flavor)


def fold_for_resize(flavor, instance):
    """Fold the flavor that an instance is to be resized to.

    Nova looks the flavor up by itself; it is therefore changed in its place.

    :param flavor: nova.objects.Flavor, which is used for this resize only
    :param instance: nova.objects.Instance with its flavor
    """
    with _refusals():
        extra_specs = priority_fold.fold_resize(
            flavor.vcpus, flavor.extra_specs, instance.flavor.extra_specs)
        if extra_specs is not None:
            flavor.extra_specs = extra_specs
        if mixed_cpus.names_both_classes(flavor.extra_specs):
            flavor.extra_specs = apply_mixed_policy(
                flavor, instance.image_meta)
    flavor.obj_reset_changes()


def check_image(image, flavor):
    """Check that an image fits the priority of the flavor it is used with.

    :param image: dict with the 'properties' of the image, or None
    :param flavor: nova.objects.Flavor, folded
    """
    with _refusals():
        priority_fold.check_image(
            flavor.extra_specs, (image or {}).get('properties', {}))


def get_force_of_move(instance, force, host):
    """Return ``force`` of a move, so that a scheduler finds the host.

    In microversions that know ``force``, a move to a named host bypasses the
    scheduler. For a priority instance the scheduler checks that host.

    :param instance: nova.objects.Instance with its flavor
    :param force: True, False or None, as the caller gives it
    :param host: host that the caller names, or None
    :raises nova.exception.ValidationError: if a priority instance is to be
        moved by force
    """
    if force is False or not host:
        return force
    priority = flavor_specs.get_priority(instance.flavor.extra_specs)
    if priority is None:
        return force
    if force:
        # The only error that these calls answer with 400.
        raise exception.ValidationError(detail=(
            "Parameter 'force' is true, which goes round the scheduler; "
            "for an instance of %s priority allowed is false or none."
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

    It does if the flavor names both numbers of CPUs, and none of them is zero.

    :param flavor: nova.objects.Flavor
    :param image_meta: nova.objects.ImageMeta, which may give the guest its
        NUMA nodes
    :raises nova_prio.model.flavor_specs.RequestRefused: if flavor or image are refused
    """
    extra_specs = flavor.extra_specs
    if not mixed_cpus.names_both_classes(extra_specs):
        return extra_specs
    dedicated = mixed_cpus.count_dedicated_vcpus(
        flavor.vcpus, extra_specs, image_meta.properties)
    if dedicated is None:
        return extra_specs
    # Nova reads the nodes from flavor and image. The mask does not matter.
    topology = hardware.numa_get_constraints(
        copy_flavor(flavor, mixed_cpus.fold_to_mixed_policy(extra_specs, '0')), image_meta)
    nodes = [cell.total_cpus for cell in topology.cells]
    vcpus = mixed_cpus.spread_dedicated_vcpus(nodes, dedicated)
    mixed_cpus.check_emulator_threads(extra_specs, nodes[0], vcpus)
    return mixed_cpus.fold_to_mixed_policy(
        extra_specs, hardware.format_cpu_spec(set(vcpus)))


@contextlib.contextmanager
def _refusals():
    try:
        yield
    except flavor_specs.RequestRefused as error:
        # The only error that create, rebuild and resize all answer with its
        # own text.
        raise exception.InvalidRequest(str(error))
