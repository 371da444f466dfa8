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

"""What nova-api does to the flavors of instances; called while it is enabled.

Every refusal is answered with 400 and one sentence.
"""

import contextlib

from nova import exception
from nova import objects

from nova_prio.api import mixed_policy
from nova_prio import mixed
from nova_prio import policies
from nova_prio import policy


#: Keys of the body under which Nova looks for hints; it reads the first that
#: is present and ignores the other.
_HINT_KEYS = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')


def check_body(body):
    """Check that Nova does not ignore the priority hint of a new server.

    :param body: body of the request, which Nova has not validated yet
    :raises nova.exception.InvalidRequest: if there are two dicts of hints and
        one of them holds the priority
    """
    if not isinstance(body, dict) or not body.keys() >= set(_HINT_KEYS):
        return
    for key in _HINT_KEYS:
        if isinstance(body[key], dict) and policy.HINT in body[key]:
            raise exception.InvalidRequest(
                "Scheduler hint '%s' is %s in %s, but the request has both %s "
                "and Nova reads only one of them; put all hints into %s. "
                "Allowed are 'high' and 'low'."
                % (policy.HINT, policy.quoted(body[key][policy.HINT]), key,
                   ' and '.join(_HINT_KEYS), _HINT_KEYS[0]))


def flavor_to_create(context, flavor, hints):
    """Return the flavor that is to be kept with a new instance.

    :param context: nova.context.RequestContext of the request
    :param flavor: nova.objects.Flavor that was asked for; never changed
    :param hints: dict of scheduler hints, or None
    :returns: a copy with the priority folded in, which
        :func:`fit_to_image` may complete, or the flavor itself where nothing
        is asked for that stock Nova does not know
    :raises nova.exception.InvalidRequest: where what is asked for contradicts
        itself
    :raises nova.exception.PolicyNotAuthorized: where the hint is not allowed
        to this user
    """
    with _refusals():
        extra_specs = policy.fold(flavor.vcpus, flavor.extra_specs, hints)
    if extra_specs is not None and policy.is_from_hint(extra_specs):
        context.can(policies.hint_rule(policy.in_force(extra_specs)))
    if extra_specs is None and not mixed.is_asked_for(flavor.extra_specs):
        return flavor
    return mixed_policy.with_extra_specs(
        flavor, extra_specs or dict(flavor.extra_specs))


def fit_to_image(image, flavor):
    """Complete the flavor of a new instance, and check it against its image.

    Where an instance is created, its image is known only after Nova has taken
    the flavor; that one is therefore changed in its place.

    :param image: dict with the 'properties' of the image, or None
    :param flavor: nova.objects.Flavor that :func:`flavor_to_create` returned
    :raises nova.exception.InvalidRequest: where they do not go together
    """
    if mixed.is_asked_for(flavor.extra_specs):
        with _refusals():
            flavor.extra_specs = mixed_policy.extra_specs_of(
                flavor, objects.ImageMeta.from_dict(image or {}))
        flavor.obj_reset_changes()
    check_image(image, flavor)


def flavor_to_resize(flavor, instance):
    """Return the flavor that an instance is to be resized to.

    :param flavor: nova.objects.Flavor that was asked for; never changed
    :param instance: nova.objects.Instance with its flavor
    :returns: a copy with the priority and the mixed policy folded in, or the
        flavor itself
    :raises nova.exception.InvalidRequest: where it contradicts the priority
        of the instance, its image, or itself
    """
    with _refusals():
        extra_specs = policy.fold_resize(
            flavor.vcpus, flavor.extra_specs, instance.flavor.extra_specs)
        if extra_specs is not None:
            flavor = mixed_policy.with_extra_specs(flavor, extra_specs)
        if not mixed.is_asked_for(flavor.extra_specs):
            return flavor
        return mixed_policy.with_extra_specs(
            flavor, mixed_policy.extra_specs_of(flavor, instance.image_meta))


def check_image(image, flavor):
    """Check that an image fits the priority of the flavor it is used with.

    :param image: dict with the 'properties' of the image, or None
    :param flavor: nova.objects.Flavor, folded
    :raises nova.exception.InvalidRequest: where it does not
    """
    with _refusals():
        policy.check_image(flavor.extra_specs,
                           (image or {}).get('properties', {}))


def force_of_move(instance, force, host):
    """Return whether a move is to be forced, so that it is Nova's to decide.

    Up to the microversions that know ``force``, naming a host goes round the
    scheduler; a priority instance is moved there by way of the scheduler.

    :param instance: nova.objects.Instance with its flavor
    :param force: what the caller says: True, False or None
    :param host: host that the caller names, or None
    :raises nova.exception.ValidationError: where a priority instance is moved
        by force
    """
    if force is False or not host:
        return force
    priority = policy.in_force(instance.flavor.extra_specs)
    if priority is None:
        return force
    if force:
        # The one sort of error that these calls answer with 400.
        raise exception.ValidationError(detail=(
            "Parameter 'force' is true, which goes round the scheduler; "
            "for an instance of %s priority allowed is false or none."
            % priority))
    return False


@contextlib.contextmanager
def _refusals():
    try:
        yield
    except policy.RequestRefused as error:
        # The sort of error that create, rebuild and resize all answer with
        # its own text.
        raise exception.InvalidRequest(str(error))
