# SPDX-License-Identifier: Apache-2.0

"""Write the expected allocations of an instance to Placement.

``context`` and ``client`` are those of :mod:`nova_prio.placement.allocations`.
``providers`` are the UUIDs of the resource provider of the host, which is the
first one, and of the providers that share disks with the host. ``present`` is
the answer of Placement with the allocations of the instance.
"""

from __future__ import annotations

from collections import abc
import copy
import typing

from nova.compute import utils as compute_utils
import os_resource_classes as orc

from nova_prio.objects import migration_states
from nova_prio.placement import allocations

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova import objects
    from nova.scheduler.client import report


def repair(context: nova_context.RequestContext,
           client: report.SchedulerReportClient, provider: str, host: str,
           uuid: str) -> tuple[dict[str, int], dict[str, int]] | None:
    """Write the expected allocations of an instance if the instance is idle.

    It is idle if :func:`nova_prio.objects.migration_states.get_if_idle` says
    so, and if no migration from its host has its allocations.

    :param provider: UUID of the resource provider of the host
    :param host: host name of the instance
    :param uuid: UUID of the instance
    :returns: the amounts before and after, by resource class, with the disks
        at sharing providers; None if the instance is not idle on this host
    :raises allocations.PlacementRefused: if Placement refused the write, or
        only its DISK_GB; the text says which
    """
    url = '/allocations/' + uuid
    providers = _list_providers(client, provider)
    for _ in range(allocations.ATTEMPTS):
        # Read the allocations before the instance: if a move begins later, the
        # move changes the generation, and Placement refuses the write.
        present = client.get_allocs_for_consumer(context, uuid)
        instance = migration_states.get_if_idle(context, uuid)
        if (instance is None or instance.host != host or
                allocations.migration_has_allocations(instance, client)):
            return None
        expected = _get_expected(context, instance)
        present_disks = _get_disks(present, providers)
        # The allocations to write; None if no provider can be chosen for the
        # disk.
        wanted = None
        try:
            disks = _assign_disk(
                expected.get(orc.DISK_GB), providers, present_disks)
            wanted = _build_allocations(
                present, providers, expected, instance, disks)
            if allocations.write(context, client, url, present, wanted):
                return (_sum_amounts(present, providers),
                        _sum_amounts(wanted, providers))
            # Another client changed the allocations: read them again.
            continue
        except allocations.PlacementRefused as error:
            problem = error
        # Write CPUs and memory alone: Placement must not sell them again only
        # because it refused the disk.
        without_disk = _build_allocations(
            present, providers, expected, instance, present_disks)
        if without_disk == wanted:
            # The disk was not the reason: the refused write did not change it.
            raise problem
        if allocations.write(context, client, url, present, without_disk):
            raise allocations.PlacementRefused(
                'CPUs and memory are as expected now, but DISK_GB is not: %s'
                % problem)
    raise allocations.PlacementRefused(
        'Other clients changed the allocations at the same time: %d attempts '
        'failed' % allocations.ATTEMPTS)


def get_present_and_expected(
        context: nova_context.RequestContext,
        client: report.SchedulerReportClient, providers: list[str],
        instance: objects.Instance) -> tuple[dict[str, int], dict[str, int]]:
    """Return the present and the expected amounts of an instance.

    :param providers: UUIDs of the provider of the host, and then of those that
        share disks with it
    :returns: both by resource class. DISK_GB includes the disks at sharing
        providers.
    """
    present = client.get_allocs_for_consumer(context, instance.uuid)
    return (_sum_amounts(present, providers),
            _get_expected(context, instance))


def _get_expected(context: nova_context.RequestContext,
                  instance: objects.Instance) -> dict[str, int]:
    """Return the expected amounts of an instance by resource class."""
    return allocations.get_expected(
        instance, compute_utils.is_volume_backed_instance(context, instance))


def _list_providers(client: report.SchedulerReportClient,
                    provider: str) -> list[str]:
    """Return the UUIDs of the providers that may have resources of a host.

    :param provider: UUID of the resource provider of the host
    :returns: first this provider, then those that share disks with the host
    """
    aggregates = allocations.read_provider(client, provider, 'aggregates')
    sharers = allocations.find_disk_sharers(client, aggregates)
    return [provider] + [uuid for uuid in sharers if uuid != provider]


def _get_amounts(present: dict[str, typing.Any],
                 provider: str) -> dict[str, int]:
    """Return the amounts that the flavor decides at one provider.

    These are VCPU, PCPU, MEMORY_MB and DISK_GB.

    :param present: allocations of an instance, as Placement returns them:
        'allocations' is a dict, UUID of a provider -> its 'resources'
    :param provider: UUID of the provider
    """
    allocation = present['allocations'].get(provider, {'resources': {}})
    return allocations.select_managed(allocation['resources'])


def _get_disks(present: dict[str, typing.Any],
               providers: list[str]) -> dict[str, int]:
    """Return the DISK_GB of an instance at each provider that has it.

    :param present: allocations of an instance, as Placement returns them:
        'allocations' is a dict, UUID of a provider -> its 'resources'
    :param providers: UUIDs
    :returns: UUID of a provider -> DISK_GB
    """
    disks = {}
    for uuid in providers:
        amounts = _get_amounts(present, uuid)
        if orc.DISK_GB in amounts:
            disks[uuid] = amounts[orc.DISK_GB]
    return disks


def _sum_amounts(present: dict[str, typing.Any],
                 providers: list[str]) -> dict[str, int]:
    """Return the amounts at a host, with the disks at sharing providers.

    These are VCPU, PCPU, MEMORY_MB and DISK_GB, by resource class.

    :param present: allocations of an instance, as Placement returns them
    :param providers: UUIDs of the provider of the host, and then of those that
        share disks with it
    """
    amounts = _get_amounts(present, providers[0])
    disks = _get_disks(present, providers)
    if disks:
        amounts[orc.DISK_GB] = sum(disks.values())
    return amounts


def _assign_disk(disk_gb: int | None, providers: list[str],
                 present_disks: dict[str, int]) -> dict[str, int]:
    """Return DISK_GB by the UUID of the provider to which the disk belongs.

    This is the provider with a DISK_GB allocation of the instance. If both the
    host and a sharing provider have such an allocation, it is the host: the
    other one is left over from an evacuation. If neither has one,
    it is the sharing provider: Nova's libvirt driver reports local disks even
    if no instance uses them.

    :param disk_gb: DISK_GB of the instance, or None
    :param providers: UUIDs of the provider of the host, and then of those that
        share disks with it
    :param present_disks: UUID of a provider -> its DISK_GB allocation of the
        instance
    :raises allocations.PlacementRefused: if several sharing providers match
    """
    if not disk_gb:
        return {}
    host = providers[0]
    sharers = providers[1:]
    if present_disks:
        candidates = list(present_disks)
    elif sharers:
        candidates = sharers
    else:
        candidates = [host]
    if host in candidates:
        return {host: disk_gb}
    if len(candidates) == 1:
        return {candidates[0]: disk_gb}
    having = 'each' if present_disks else 'none'
    raise allocations.PlacementRefused(
        'The resource providers %s share disks with the host, and %s of them '
        'has a DISK_GB allocation of the instance; allocate DISK_GB at one of '
        'them, with "openstack resource provider allocation set"'
        % (' and '.join(sorted(candidates)), having))


def _build_allocations(
        present: dict[str, typing.Any], providers: list[str],
        expected: dict[str, int], instance: objects.Instance,
        disks: dict[str, int]) -> dict[str, typing.Any]:
    """Return the present allocations, changed to the expected amounts.

    :param present: allocations of the instance, as Placement returns them
    :param providers: UUIDs of the provider of the host, and then of those that
        share disks with it
    :param expected: resource class -> amount; {} deletes the amounts at
        all providers
    :param instance: decides project and user if it has no allocations yet
    :param disks: UUID of a provider -> DISK_GB
    """
    host = providers[0]
    wanted = copy.deepcopy(present)
    changed: abc.Iterable[str] = providers
    if not expected:
        changed = present['allocations']
    for uuid in changed:
        allocation = wanted['allocations'].setdefault(uuid, {'resources': {}})
        amounts = dict(allocation['resources'])
        # At a sharing provider, keep all amounts but DISK_GB, unless all are
        # to be deleted.
        if uuid == host or not expected:
            for name in allocations.MANAGED:
                amounts.pop(name, None)
            amounts.update(expected)
        amounts[orc.DISK_GB] = disks.get(uuid, 0)
        # Placement accepts no amount of 0.
        allocation['resources'] = {
            name: amount for name, amount in amounts.items() if amount}
        if not allocation['resources']:
            del wanted['allocations'][uuid]
    # Placement does not know a consumer without allocations: create it.
    if wanted['allocations'] and not present['allocations']:
        wanted.update(project_id=instance.project_id,
                      user_id=instance.user_id, consumer_generation=None)
    return wanted
