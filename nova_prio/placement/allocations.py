# SPDX-License-Identifier: Apache-2.0


"""The allocations of instances in Placement, and the expected ones.

Shared by the periodic task of nova-compute and by the audit. An instance
holds CPUs, memory and disk at the provider of its host; everything else that
it may hold there or elsewhere (PCI devices, bandwidth, virtual GPUs) is left
as it is.

``context`` is a nova.context.RequestContext of the cell of the instances,
``client`` a nova.scheduler.client.report.SchedulerReportClient. Its methods
that write to Placement are used only if they raise errors: some of them log a
failure and return. Functions that ask Placement raise NotMended if it does not
answer, or refuses.
"""

from keystoneauth1 import exceptions as ks_exceptions
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from nova import exception
from nova import objects
from nova.scheduler import utils as scheduler_utils
from openstack import exceptions as sdk_exceptions
import os_resource_classes as orc
import os_traits

#: Resource classes whose amounts the flavor of an instance decides.
OWN = frozenset((orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB))

#: How often a write is tried while others change the same allocation.
ATTEMPTS = 4

_ENDED = frozenset(('confirmed', 'reverted', 'error', 'failed', 'completed',
                    'cancelled', 'done'))
_NOWHERE = frozenset((vm_states.SHELVED_OFFLOADED, vm_states.ERROR))
# Consumers have generations from the first of these on, queries of providers
# by trait and aggregate likewise.
_ALLOCATIONS, _PROVIDERS = '1.28', '1.22'

#: Errors of Nova's client if Placement, or keystone, does not answer.
CLIENT_ERRORS = (ks_exceptions.ClientException, sdk_exceptions.SDKException)


class PlacementRefused(Exception):
    """Placement refused a request, or did not answer; a sentence says why."""


class NotInPlacement(PlacementRefused):
    """Placement does not know the object of a request."""


def select_own(resources):
    """Return those of some resources, a dict, that the flavor decides."""
    return {name: amount for name, amount in resources.items()
            if name in OWN and amount}


def get_expected(instance, is_volume_backed):
    """Return the expected allocation of an instance, resource class -> amount.

    As in the scheduler, the embedded flavor and the image decide. An instance
    that is offloaded, or that failed before it was on a host, needs nothing.

    :param instance: nova.objects.Instance with flavor and system metadata
    :param is_volume_backed: whether it was booted from a volume
    """
    if vm_states.allow_resource_removal(
            instance.vm_state, instance.task_state):
        return {}
    return select_own(scheduler_utils.ResourceRequest.from_request_spec(
        objects.RequestSpec(
            flavor=instance.flavor, image=instance.image_meta,
            is_bfv=is_volume_backed, requested_resources=[])
    ).merged_resources())


def find_drifted(context, instances, held, classes):
    """Yield the instances of a host with other allocations than expected.

    :param instances: list of nova.objects.Instance
    :param held: dict, UUID -> allocation at the host, resource class -> amount
    :param classes: resource classes of the host; others are not compared
    :returns: (nova.objects.Instance, expected amounts of these classes)
    """
    def needs_else(instance, is_volume_backed):
        """Return the expected amounts, None if the instance has them."""
        needs = get_expected(instance, is_volume_backed)
        if orc.PCPU in needs and orc.PCPU not in classes:
            # Pinned instances hold VCPU on a host without PCPU.
            return None
        of_host = {name: amount for name, amount in needs.items()
                   if name in classes}
        return of_host if of_host != select_own(
            held.get(instance.uuid, {})) else None

    suspects = [instance for instance in instances
                if needs_else(instance, False) is not None]
    from_volume = find_volume_backed(context, suspects)
    for instance in suspects:
        needs = needs_else(instance, instance.uuid in from_volume)
        if needs is not None:
            yield instance, needs


def find_volume_backed(context, instances):
    """Return the UUIDs of those instances that were booted from a volume."""
    disks = objects.BlockDeviceMappingList.bdms_by_instance_uuid(
        context, [instance.uuid for instance in instances])
    return {instance.uuid for instance in instances
            if compute_utils.is_volume_backed_instance(
                context, instance, disks.get(
                    instance.uuid, objects.BlockDeviceMappingList()))}


def is_on_no_host(instance):
    """Return whether an instance is on no host, and stays so."""
    return (instance.vm_state in _NOWHERE and instance.host is None and
            instance.task_state is None)


def get_if_idle(context, uuid):
    """Return an instance, or None if it is changed or moved right now."""
    try:
        instance = objects.Instance.get_by_uuid(
            context, uuid, expected_attrs=['flavor', 'system_metadata'])
    except exception.InstanceNotFound:
        return None
    moves = objects.MigrationList.get_by_filters(
        context, {'instance_uuid': uuid})
    if instance.task_state is not None or any(map(is_open_migration, moves)):
        return None
    return instance


def is_open_migration(migration):
    """Return whether a migration goes on, or waits to be confirmed."""
    return migration.status not in _ENDED


def delete(context, client, uuid):
    """Delete the allocations of a consumer."""
    found = client.get_allocs_for_consumer(context, uuid)
    if found['allocations'] and not write(
            context, client, '/allocations/' + uuid,
            {**found, 'allocations': {}}):
        raise PlacementRefused('Others change what it holds at the same time')


def return_to_instance(context, client, migration):
    """Move the allocations of a migration back to its instance.

    The instance did not move: its allocations elsewhere for the move go.
    """
    if client.get_allocs_for_consumer(
            context, migration.uuid)['allocations'] and (
                not client.move_allocations(
                    context, migration.uuid, migration.instance_uuid)):
        raise PlacementRefused('Placement does not take it')


def write(context, client, url, body):
    """Write to Placement; return whether nobody else wrote in between.

    :param url: str, below that of Placement
    :param body: dict, with the generation that was read
    """
    found = client.put(url, body, version=_ALLOCATIONS,
                       global_request_id=context.global_id)
    if found:
        return True
    try:
        error, *_ = found.json()['errors']
    except ValueError:
        # It comes from something in front of Placement.
        raise _no_answer(url, found) from None
    if error.get('code') != 'placement.concurrent_update':
        raise PlacementRefused('Placement does not take it: %s'
                               % ' '.join(error['detail'].split()))
    return False


def update_provider(context, client, provider, what, change):
    """Change the inventories, the traits or the aggregates of a provider.

    :param provider: UUID of the resource provider
    :param what: name of these
    :param change: function of what is there that returns what must be there
    """
    url = '/resource_providers/%s/%s' % (provider, what)
    for _ in range(ATTEMPTS):
        found = get_json(client, url)
        wanted = change(found[what])
        if what == 'traits':
            for trait in set(wanted) - set(found[what]):
                client.put('/traits/' + trait, None, version='1.6')
        if wanted == found[what] or write(
                context, client, url, {**found, what: wanted}):
            return
    raise PlacementRefused('Others change the %s of the host at the same time: %d '
                           'attempts failed' % (what, ATTEMPTS))


def _no_answer(url, found):
    kind = NotInPlacement if found.status_code == 404 else PlacementRefused
    return kind('Placement answers %s with status %s'
                % (url, found.status_code))


def find_disk_sharers(client, aggregates):
    """Return the UUIDs of the providers that share disks in aggregates.

    A provider that is full shares as well, so Placement must not be asked for
    those with room.

    :param aggregates: UUIDs of aggregates in Placement
    """
    if not aggregates:
        return []
    sharing = get_json(
        client, '/resource_providers?member_of=in:%s&required=%s' % (
            ','.join(sorted(aggregates)), os_traits.MISC_SHARES_VIA_AGGREGATE)
        )['resource_providers']
    return [found['uuid'] for found in sharing if orc.DISK_GB in get_json(
        client, '/resource_providers/%s/inventories' % found['uuid']
        )['inventories']]


def get_json(client, url, version=_PROVIDERS):
    """Return what Placement answers at a URL, as a dict."""
    found = client.get(url, version=version)
    if not found:
        raise _no_answer(url, found)
    return found.json()
