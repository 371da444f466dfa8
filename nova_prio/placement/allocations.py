# SPDX-License-Identifier: Apache-2.0

"""The allocations of instances in Placement, and the expected allocations.

``context`` is a nova.context.RequestContext of the cell of the instances,
``client`` a nova.scheduler.client.report.SchedulerReportClient. Functions that
call Placement raise PlacementRefused if Placement refuses or fails. Methods of
the client that only log such an error must not be used.
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

#: Resource classes whose amounts the flavor of an instance decides. All other
#: allocations, for example of PCI devices, are left unchanged.
OWN = frozenset((orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB))
#: Number of attempts to write while other clients change the same object.
ATTEMPTS = 4

_ENDED = frozenset(('confirmed', 'reverted', 'error', 'failed', 'completed',
                    'cancelled', 'done'))
# The first microversion with generations of consumers, and the first that
# filters providers by trait and aggregate.
_ALLOCATIONS_VERSION, _PROVIDERS_VERSION = '1.28', '1.22'
#: Errors of Nova's client if Placement, or keystone, does not answer.
CLIENT_ERRORS = (ks_exceptions.ClientException, sdk_exceptions.SDKException)


class PlacementRefused(Exception):
    """Placement refused a request or failed; the text says why."""


class NotInPlacement(PlacementRefused):
    """Placement does not know the object of a request."""


def select_managed(resources):
    """Return the amounts that the flavor decides, without zeros."""
    return {name: amount for name, amount in resources.items()
            if name in OWN and amount}


def get_expected(instance, is_volume_backed):
    """Return the expected allocation, a dict, resource class -> amount.

    As in the scheduler, the embedded flavor and the image decide. Deleted and
    shelved offloaded instances have no expected allocation.
    """
    if vm_states.allow_resource_removal(
            instance.vm_state, instance.task_state):
        return {}
    return select_managed(scheduler_utils.ResourceRequest.from_request_spec(
        objects.RequestSpec(
            flavor=instance.flavor, image=instance.image_meta,
            is_bfv=is_volume_backed, requested_resources=[])
    ).merged_resources())


def find_drifted(context, instances, present, classes):
    """Yield (instance, expected allocation) of the instances that drifted.

    :param instances: list of nova.objects.Instance on one host
    :param present: dict, UUID -> resource class -> amount at the host
    :param classes: resource classes of the host; others are not compared
    """
    def get_drift(instance, is_volume_backed):
        """Return the expected allocation, or None if it is present."""
        expected = get_expected(instance, is_volume_backed)
        if orc.PCPU in expected and orc.PCPU not in classes:
            # Pinned instances have VCPU allocations on a host without PCPU.
            return None
        expected = {name: amount for name, amount in expected.items()
                    if name in classes}
        return None if expected == select_managed(
            present.get(instance.uuid, {})) else expected

    # Do not query the block devices of all instances.
    suspects = [instance for instance in instances
                if get_drift(instance, False) is not None]
    volume_backed = find_volume_backed(context, suspects)
    for instance in suspects:
        expected = get_drift(instance, instance.uuid in volume_backed)
        if expected is not None:
            yield instance, expected


def find_volume_backed(context, instances):
    """Return the UUIDs of the instances that were booted from a volume."""
    bdms = objects.BlockDeviceMappingList.bdms_by_instance_uuid(
        context, [instance.uuid for instance in instances])
    return {instance.uuid for instance in instances
            if compute_utils.is_volume_backed_instance(
                context, instance, bdms.get(
                    instance.uuid, objects.BlockDeviceMappingList()))}


def is_on_no_host(instance):
    """Return whether an instance has no host and is not about to get one."""
    return (instance.host is None and instance.task_state is None and
            instance.vm_state in (vm_states.SHELVED_OFFLOADED,
                                  vm_states.ERROR))


def get_if_idle(context, uuid):
    """Return an instance; None if it is gone, has a task or a migration."""
    try:
        instance = objects.Instance.get_by_uuid(
            context, uuid, expected_attrs=['flavor', 'system_metadata'])
    except exception.InstanceNotFound:
        return None
    migrations = objects.MigrationList.get_by_filters(
        context, {'instance_uuid': uuid})
    is_idle = instance.task_state is None and not any(
        map(is_open_migration, migrations))
    return instance if is_idle else None


def is_open_migration(migration):
    """Return whether a migration is in progress or awaits confirmation."""
    return migration.status not in _ENDED


def delete(context, client, uuid):
    """Delete the allocations of a consumer."""
    present = client.get_allocs_for_consumer(context, uuid)
    if not write(context, client, '/allocations/' + uuid, present,
                 {**present, 'allocations': {}}):
        raise PlacementRefused(
            'Another client changed the allocations at the same time')


def return_to_instance(context, client, migration):
    """Move the allocations of a migration back to its instance.

    The allocations that the instance had on the destination are deleted.
    """
    present = client.get_allocs_for_consumer(context, migration.uuid)
    if present['allocations'] and not client.move_allocations(
            context, migration.uuid, migration.instance_uuid):
        raise PlacementRefused('Placement refused to move the allocations')


def write(context, client, url, present, wanted):
    """Write to Placement, unless the wanted data are present.

    :param url: str, relative to that of Placement
    :param present: the answer of Placement at this URL
    :param wanted: dict, with the generation in ``present``
    :returns: False if another client wrote meanwhile, else True
    """
    if wanted == present:
        return True
    response = client.put(url, wanted, version=_ALLOCATIONS_VERSION,
                          global_request_id=context.global_id)
    if response:
        return True
    try:
        error, *_ = response.json()['errors']
    except ValueError:
        # The response is from a proxy in front of Placement.
        raise _build_error(url, response) from None
    if error.get('code') != 'placement.concurrent_update':
        raise PlacementRefused('Placement refused the request: %s'
                               % ' '.join(error['detail'].split()))
    return False


def update_provider(context, client, provider, kind, change):
    """Change the inventories, the traits or the aggregates of a provider.

    :param provider: UUID of the resource provider
    :param kind: 'inventories', 'traits' or 'aggregates'
    :param change: function of the present ones that returns the wanted ones
    """
    url = '/resource_providers/%s/%s' % (provider, kind)
    for _ in range(ATTEMPTS):
        present = get_json(client, url)
        wanted = {**present, kind: change(present[kind])}
        if kind == 'traits':
            for trait in set(wanted[kind]) - set(present[kind]):
                client.put('/traits/' + trait, None, version='1.6')
        if write(context, client, url, present, wanted):
            return
    raise PlacementRefused(
        'Other clients changed the %s of the host at the same time: %d '
        'attempts failed' % (kind, ATTEMPTS))


def find_disk_sharers(client, aggregates):
    """Return the UUIDs of the providers that share disks in aggregates.

    The query must not ask for capacity: a full provider shares its disks too.

    :param aggregates: UUIDs of aggregates in Placement
    """
    if not aggregates:
        return []
    providers = get_json(
        client, '/resource_providers?member_of=in:%s&required=%s' % (
            ','.join(sorted(aggregates)), os_traits.MISC_SHARES_VIA_AGGREGATE)
        )['resource_providers']
    return [provider['uuid'] for provider in providers
            if orc.DISK_GB in get_json(
                client, '/resource_providers/%s/inventories'
                % provider['uuid'])['inventories']]


def get_json(client, url, version=_PROVIDERS_VERSION):
    """Return the answer of Placement at a URL, a dict."""
    response = client.get(url, version=version)
    if not response:
        raise _build_error(url, response)
    return response.json()


def _build_error(url, response):
    error = NotInPlacement if response.status_code == 404 else PlacementRefused
    return error('Placement answers %s with status %s'
                 % (url, response.status_code))
