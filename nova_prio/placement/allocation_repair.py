# SPDX-License-Identifier: Apache-2.0

"""Give an instance its expected allocations in Placement.

Shared by the periodic task of nova-compute and by the audit. The parameters
``context`` and ``client`` are those of :mod:`nova_prio.placement.allocations`, ``provider``
is the UUID of the resource provider of the host, and ``sharing`` a list of the
UUIDs of the providers that share disks with it.
"""

import copy

from nova.compute import utils as compute_utils
import os_resource_classes as orc

from nova_prio.placement import allocations


def repair(context, client, provider, host, uuid):
    """Write the expected allocation of an instance, unless it is changed now.

    The allocation is read first, then whether the instance is at rest: a move
    that begins later changes the generation of the consumer, and Placement
    then refuses the write.

    :returns: (allocation before, allocation now), two dicts, resource class ->
        amount, both with the disks that are shared with the host; or None
        if the instance is changed right now
    :raises holdings.NotMended: if Placement does not take all of it; CPUs and
        memory may have been written then, if the sentence says so
    """
    for _ in range(allocations.ATTEMPTS):
        found = client.get_allocs_for_consumer(context, uuid)
        instance = allocations.get_if_idle(context, uuid)
        if instance is None or instance.host != host:
            return None
        needs = _needed(context, instance)
        sharing = find_sharing_providers(client, provider)
        placed, problem = _placed(provider, sharing, found, needs)
        wanted = _with(found, placed, instance)
        if problem is None:
            try:
                if _write(context, client, uuid, found, wanted):
                    return (_total(found, provider, sharing),
                            _total(wanted, provider, sharing))
                continue
            except allocations.PlacementRefused as error:
                problem = error
        # CPUs and memory are in use on the host, wherever the disk is: a disk
        # without a place must not let Placement sell them again.
        rest = _with(found, _disk_as_found(placed, found), instance)
        if rest == wanted and isinstance(
                problem, allocations.PlacementRefused):
            raise problem
        if _write(context, client, uuid, found, rest):
            raise allocations.PlacementRefused(
                'Its CPUs and memory are as needed now, but its DISK_GB is '
                'not: %s' % problem)
    raise allocations.PlacementRefused(
        'Others change what it holds at the same time: %d attempts failed'
        % allocations.ATTEMPTS)


def get_present_and_expected(context, client, provider, sharing, instance):
    """Return the present and the expected amounts of an instance, two dicts.

    Both are with the disks that are shared with the host.
    """
    found = client.get_allocs_for_consumer(context, instance.uuid)
    return _total(found, provider, sharing), _needed(context, instance)


def _needed(context, instance):
    return allocations.get_expected(
        instance, compute_utils.is_volume_backed_instance(context, instance))


def _at(allocation, provider):
    return allocations.select_own(allocation['allocations'].get(
        provider, {'resources': {}})['resources'])


def _total(allocation, provider, sharing):
    """Return the amounts at a host and the disks at sharing providers."""
    total = _at(allocation, provider)
    for uuid in sharing:
        disk = _at(allocation, uuid).get(orc.DISK_GB)
        if disk:
            total[orc.DISK_GB] = total.get(orc.DISK_GB, 0) + disk
    return total


def _write(context, client, uuid, found, wanted):
    """Write an allocation if it differs; return whether it is as wanted."""
    return (wanted['allocations'] == found['allocations'] or
            allocations.write(context, client, '/allocations/' + uuid, wanted))


def _placed(provider, sharing, found, needs):
    """Return the expected allocations of an instance, by provider.

    If it needs nothing, all its allocations go. A disk stays at the provider
    that holds it. If the host and a sharing provider both hold it, the host
    has it: an evacuation leaves the disk of the old host at the sharing
    provider. If none holds it, it belongs to the sharing provider, because
    Nova's libvirt driver reports local disks even if they are not in use.

    :param found: the present allocations, as Placement answers
    :returns: (dict, UUID of a provider -> resource class -> amount; why the
        disk has no place in it, or None)
    """
    if not needs:
        return dict.fromkeys(found['allocations'], {}), None
    holding = [uuid for uuid in (provider, *sharing)
               if orc.DISK_GB in _at(found, uuid)]
    placed = {uuid: _but_disk(_at(found, uuid)) for uuid in holding}
    placed[provider] = _but_disk(needs)
    if orc.DISK_GB in needs:
        places = holding or sharing or [provider]
        if provider not in places and len(places) > 1:
            return placed, (
                'The resource providers %s share disks with the host, and the '
                'instance holds DISK_GB at %s of them; let it hold its '
                'DISK_GB at one of them, with "openstack resource provider '
                'allocation set"' % (' and '.join(sorted(places)),
                                     'each' if holding else 'none'))
        placed.setdefault(places[0], {})[orc.DISK_GB] = needs[orc.DISK_GB]
    return placed, None


def _but_disk(resources):
    return {name: amount for name, amount in resources.items()
            if name != orc.DISK_GB}


def _disk_as_found(placed, found):
    """Return expected allocations with the present DISK_GB in them."""
    return {provider: {**_but_disk(resources),
                       **{name: amount for name, amount
                          in _at(found, provider).items()
                          if name == orc.DISK_GB}}
            for provider, resources in placed.items()}


def find_sharing_providers(client, provider):
    """Return the UUIDs of the providers that share disks with a host."""
    aggregates = allocations.get_json(
        client, '/resource_providers/%s/aggregates' % provider)['aggregates']
    return [uuid for uuid in allocations.find_disk_sharers(client, aggregates)
            if uuid != provider]


def _with(found, placed, instance):
    """Return an allocation with these amounts in place of its own ones."""
    wanted = copy.deepcopy(found)
    for provider, resources in placed.items():
        at = wanted['allocations'].setdefault(provider, {'resources': {}})
        kept = {name: amount for name, amount in at['resources'].items()
                if name not in allocations.OWN}
        at['resources'] = {**kept, **resources}
        if not at['resources']:
            del wanted['allocations'][provider]
    if not found['allocations']:
        wanted.update(project_id=instance.project_id,
                      user_id=instance.user_id, consumer_generation=None)
    return wanted
