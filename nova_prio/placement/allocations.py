# SPDX-License-Identifier: Apache-2.0

"""The allocations of instances in Placement, and the expected allocations.

``context`` is that of the cell of the instances. Functions that call Placement
raise PlacementRefused if Placement refuses or fails. They must not call
methods of ``client`` that only log such an error.
"""

from __future__ import annotations

from collections import abc
import contextlib
import functools
import typing

from keystoneauth1 import exceptions as ks_exceptions
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from nova import objects
from nova.scheduler import utils as scheduler_utils
from openstack import exceptions as sdk_exceptions
import os_resource_classes as orc
import os_traits

from nova_prio.objects import migration_states

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report
    import requests

#: Resource classes whose amounts the flavor of an instance decides. This
#: package changes no other allocations, for example of PCI devices.
MANAGED = frozenset((orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB))
#: Number of attempts to write while other clients change the same object.
ATTEMPTS = 4

# The first microversion with generations of consumers, and the first that
# filters providers by trait and aggregate.
_ALLOCATIONS_VERSION, _PROVIDERS_VERSION = '1.28', '1.22'
#: Errors of Nova's client if Placement, or keystone, does not answer.
CLIENT_ERRORS = (ks_exceptions.ClientException, sdk_exceptions.SDKException)
#: Errors of reading an answer that is from a proxy or a middleware in front of
#: Placement: it is no JSON, or has other keys.
_NOT_OF_PLACEMENT = (AttributeError, LookupError, TypeError, ValueError)


class PlacementRefused(Exception):
    """Placement refused a request or failed; the text says why."""


class NotInPlacement(PlacementRefused):
    """Placement does not know the object of a request."""


class RequestInvalid(PlacementRefused):
    """A request contradicts itself, or names what Placement does not know."""


def select_managed(resources: abc.Mapping[str, int]) -> dict[str, int]:
    """Return the amounts of the resource classes that the flavor decides.

    These are VCPU, PCPU, MEMORY_MB and DISK_GB. Leave out amounts of 0.

    :param resources: resource class -> amount
    """
    return {name: amount for name, amount in resources.items()
            if name in MANAGED and amount}


def get_expected(instance: objects.Instance,
                 is_volume_backed: bool) -> dict[str, int]:
    """Return the expected VCPU, PCPU, MEMORY_MB and DISK_GB of an instance.

    As in the scheduler, the embedded flavor and the image decide. The
    allocation of a deleted or shelved offloaded instance is empty.
    """
    if vm_states.allow_resource_removal(
            instance.vm_state, instance.task_state):
        return {}
    flavor = instance.flavor
    # Leave out the projects that may use the flavor: a list cannot be looked
    # up, and they change no amount.
    fields = tuple(
        (name, getattr(flavor, name)) for name in flavor.fields
        if name in flavor and name not in ('extra_specs', 'projects'))
    # Very old instances have no extra specs in their flavor.
    extra_specs = tuple(flavor.get('extra_specs', {}).items())
    return dict(_ask_scheduler(
        fields, extra_specs, tuple(instance.system_metadata.items()),
        is_volume_backed))


@functools.lru_cache(maxsize=1024)
def _ask_scheduler(
        flavor_fields: tuple[tuple[str, typing.Any], ...],
        extra_specs: tuple[tuple[str, str], ...],
        system_metadata: tuple[tuple[str, str], ...],
        is_volume_backed: bool) -> dict[str, int]:
    """Return the amounts that Nova's scheduler requests for an instance.

    The answers are kept: asking Nova takes ten times as long as looking an
    answer up. Each instance may have metadata of its own, so there must be
    more answers than a host has instances.

    :param flavor_fields: names and values of the fields of the flavor
    :param system_metadata: that of the instance, with the image properties, in
        its order: if two keys name one property, Nova takes the last
    """
    flavor = objects.Flavor(
        extra_specs=dict(extra_specs), **dict(flavor_fields))
    instance = objects.Instance(
        image_ref=None, system_metadata=dict(system_metadata))
    spec = objects.RequestSpec(
        flavor=flavor, image=instance.image_meta, is_bfv=is_volume_backed,
        requested_resources=[])
    request = scheduler_utils.ResourceRequest.from_request_spec(spec)
    return select_managed(request.merged_resources())


def find_drifted(
        context: nova_context.RequestContext,
        instances: abc.Iterable[objects.Instance],
        present: abc.Mapping[str, abc.Mapping[str, int]],
        classes: abc.Container[str],
) -> abc.Iterator[tuple[objects.Instance, dict[str, int]]]:
    """Yield the instances whose allocation is not the expected one.

    :param instances: instances on one host
    :param present: UUID -> resource class -> amount at the host
    :param classes: resource classes of the host. Expected amounts of other
        classes are left out: Placement accepts no allocation of them there.
    :returns: iterator of (instance, expected allocation)
    """
    # To query few block devices, first assume that no instance was booted from
    # a volume. A volume-backed instance then differs too, because its
    # allocation has no root disk. This misses only an allocation that has this
    # disk needlessly.
    suspects = []
    for instance, _expected in _find_differing(
            instances, set(), present, classes):
        suspects.append(instance)
    volume_backed = find_volume_backed(context, suspects)
    yield from _find_differing(suspects, volume_backed, present, classes)


def _find_differing(
        instances: abc.Iterable[objects.Instance],
        volume_backed: abc.Container[str],
        present: abc.Mapping[str, abc.Mapping[str, int]],
        classes: abc.Container[str],
) -> abc.Iterator[tuple[objects.Instance, dict[str, int]]]:
    """Yield the instances whose allocation is not the expected one.

    Compare VCPU, PCPU, MEMORY_MB and DISK_GB, which the flavor decides.

    :param volume_backed: UUIDs of the instances booted from a volume
    :param present: UUID of an instance -> resource class -> amount
    :param classes: resource classes of the host
    :returns: iterator of (instance, its expected allocation)
    """
    for instance in instances:
        expected = get_expected(instance, instance.uuid in volume_backed)
        if orc.PCPU in expected and orc.PCPU not in classes:
            # On a host without an inventory of PCPU, Nova allocates VCPU for a
            # pinned instance: such an allocation must not be changed to PCPU.
            continue
        expected = {name: amount for name, amount in expected.items()
                    if name in classes}
        allocated = select_managed(present.get(instance.uuid, {}))
        if allocated != expected:
            yield instance, expected


def find_volume_backed(
        context: nova_context.RequestContext,
        instances: abc.Collection[objects.Instance]) -> set[str]:
    """Return the UUIDs of the instances that were booted from a volume."""
    bdms_by_uuid = objects.BlockDeviceMappingList.bdms_by_instance_uuid(
        context, [instance.uuid for instance in instances])
    volume_backed = set()
    for instance in instances:
        bdms = bdms_by_uuid.get(
            instance.uuid, objects.BlockDeviceMappingList())
        if compute_utils.is_volume_backed_instance(context, instance, bdms):
            volume_backed.add(instance.uuid)
    return volume_backed


def migration_has_allocations(instance: objects.Instance,
                              client: report.SchedulerReportClient) -> bool:
    """Return whether the last migration has the allocations of an instance.

    This concerns a migration from the present host of the instance. During the
    move, it has the allocations at this host. If the move fails, Nova first
    ends the task of the instance and the migration, and then moves the
    allocations back to the instance. If another client writes allocations of
    the instance between, Nova cannot move them back, and the migration keeps
    them for good.
    """
    last = migration_states.get_newest(instance)
    if last is None or last.source_compute != instance.host:
        return False
    answer = client.get_allocs_for_consumer(instance._context, last.uuid)
    return bool(answer['allocations'])


def delete(context: nova_context.RequestContext,
           client: report.SchedulerReportClient, uuid: str) -> None:
    """Delete the allocations of a consumer.

    :param uuid: UUID of an instance or a migration
    :raises PlacementRefused: also if another client changed them just now
    """
    present = client.get_allocs_for_consumer(context, uuid)
    wanted = present | {'allocations': {}}
    if not write(context, client, '/allocations/' + uuid, present, wanted):
        raise PlacementRefused(
            'Another client changed the allocations at the same time')


def move(context: nova_context.RequestContext,
         client: report.SchedulerReportClient, migration: str,
         instance: str) -> None:
    """Move the allocations of a migration back to its instance.

    They replace the allocations of the instance. If there are none, do
    nothing.

    :param migration: UUID of the migration
    :param instance: UUID of the instance
    """
    present = client.get_allocs_for_consumer(context, migration)
    if present['allocations'] and not client.move_allocations(
            context, migration, instance):
        raise PlacementRefused('Placement refused to move the allocations')


def write(context: nova_context.RequestContext,
          client: report.SchedulerReportClient, url: str,
          present: dict[str, typing.Any],
          wanted: dict[str, typing.Any]) -> bool:
    """Write to Placement, unless the wanted data are present.

    The data are the allocations of a consumer, or the inventories, traits or
    aggregates of a provider.

    :param url: relative to the URL of Placement
    :param present: the answer of Placement at this URL
    :param wanted: new data, with the generation in ``present``
    :returns: False if another client changed the data since ``present`` was
        read, else True
    """
    if wanted == present:
        return True
    # The parts of a provider have the same format in this version as in that
    # of get_json.
    response = client.put(url, wanted, version=_ALLOCATIONS_VERSION,
                          global_request_id=context.global_id)
    if response:
        return True
    try:
        error = response.json()['errors'][0]
        code, detail = error.get('code'), error['detail']
    except _NOT_OF_PLACEMENT:
        # The answer is from a proxy or a middleware in front of Placement.
        raise _build_error(url, response) from None
    if code != 'placement.concurrent_update':
        raise PlacementRefused('Placement refused the request: %s'
                               % ' '.join(detail.split()))
    return False


def update_provider(context: nova_context.RequestContext,
                    client: report.SchedulerReportClient, provider: str,
                    kind: str, change: abc.Callable[[typing.Any], typing.Any],
                    ) -> None:
    """Change the inventories, the traits or the aggregates of a provider.

    :param provider: UUID of the resource provider
    :param kind: 'inventories', 'traits' or 'aggregates'
    :param change: function that takes the present inventories, traits or
        aggregates, and returns the wanted ones
    """
    url = '/resource_providers/%s/%s' % (provider, kind)
    for _ in range(ATTEMPTS):
        present = get_json(client, url)
        wanted = present | {kind: change(present[kind])}
        if kind == 'traits':
            # Placement refuses a provider with a trait that does not exist:
            # create each new one. This does nothing if it exists.
            for trait in set(wanted[kind]) - set(present[kind]):
                client.put('/traits/' + trait, None, version='1.6')
        # The result is False if another client has changed the provider.
        if write(context, client, url, present, wanted):
            return
    raise PlacementRefused(
        'Other clients changed the %s of the host at the same time: %d '
        'attempts failed' % (kind, ATTEMPTS))


def find_disk_sharers(client: report.SchedulerReportClient,
                      aggregates: abc.Collection[str]) -> list[str]:
    """Return the UUIDs of the providers that share disks in aggregates.

    The query must not ask for capacity: a full provider shares its disks too.

    :param aggregates: UUIDs of aggregates in Placement
    """
    if not aggregates:
        return []
    url = '/resource_providers?member_of=in:%s&required=%s' % (
        ','.join(sorted(aggregates)), os_traits.MISC_SHARES_VIA_AGGREGATE)
    sharers = []
    for provider in get_json(client, url)['resource_providers']:
        uuid = provider['uuid']
        if orc.DISK_GB in read_provider(client, uuid, 'inventories'):
            sharers.append(uuid)
    return sharers


def list_providers(client: report.SchedulerReportClient,
                   trait: str) -> list[dict[str, typing.Any]]:
    """Return the resource providers with a trait, as Placement lists them.

    :param trait: known to Placement, which refuses an unknown trait
    """
    return get_json(client, '/resource_providers?required=' + trait
                    )['resource_providers']


def list_members(client: report.SchedulerReportClient,
                 aggregate: str) -> list[dict[str, typing.Any]]:
    """Return the resource providers in an aggregate, as Placement lists them.

    :param aggregate: UUID of the aggregate
    """
    return get_json(client, '/resource_providers?member_of=' + aggregate
                    )['resource_providers']


def read_provider(client: report.SchedulerReportClient, uuid: str,
                  kind: str) -> typing.Any:
    """Return a part of a resource provider, in the format of Placement.

    :param kind: 'inventories', 'usages', 'traits', 'aggregates' or
        'allocations'
    """
    return get_json(client, '/resource_providers/%s/%s' % (uuid, kind))[kind]


def get_json(client: report.SchedulerReportClient, url: str,
             version: str = _PROVIDERS_VERSION) -> dict[str, typing.Any]:
    """Return the answer of Placement at a URL.

    :param url: relative to the URL of Placement
    :raises PlacementRefused: if Placement refuses or fails
    """
    response = client.get(url, version=version)
    if not response:
        raise _build_error(url, response)
    return response.json()


def _build_error(url: str, response: requests.Response) -> PlacementRefused:
    """Return the exception for a failed request.

    It is RequestInvalid, NotInPlacement or, for any other status than 400 and
    404, PlacementRefused itself.
    """
    status = response.status_code
    if status == 400:
        # If the answer is not of Placement, continue after this block.
        with contextlib.suppress(*_NOT_OF_PLACEMENT):
            error = response.json()['errors'][0]
            # The detail is a general sentence, an empty line, and the reason.
            _, _, reason = error['detail'].partition('\n\n')
            reason = ' '.join(reason.split()).rstrip('.')
            return RequestInvalid(
                'Placement refuses the request: %s' % reason)
    error_class = NotInPlacement if status == 404 else PlacementRefused
    return error_class('Placement answers %s with status %s' % (url, status))
