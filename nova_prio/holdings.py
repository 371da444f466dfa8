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


"""What instances hold in Placement, what they need, and how that is mended.

Shared by the periodic task of nova-compute and by the audit. An instance
holds CPUs, memory and disk at the provider of its host; everything else that
it may hold there or elsewhere (PCI devices, bandwidth, virtual GPUs) is left
as it is.
"""

import copy

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


#: What Nova's client raises where Placement, or keystone, does not answer.
NO_PLACEMENT = (ks_exceptions.ClientException, sdk_exceptions.SDKException)


class NotMended(Exception):
    """Placement did not take what an instance needs, said in one sentence."""


class NotThere(NotMended):
    """Placement does not know what it was asked for."""


def own(resources):
    """Return what an instance holds of the classes that are its flavor's.

    :param resources: dict, resource class -> amount
    """
    return {name: amount for name, amount in resources.items()
            if name in OWN and amount}


def needed(instance, is_volume_backed):
    """Return what an instance has to hold: dict, resource class -> amount.

    The flavor is the one that is embedded in the instance, its image decides
    about dedicated CPUs as well: so does the scheduler. One that is offloaded,
    or that failed before it was on a host, needs nothing.

    :param instance: nova.objects.Instance with flavor and system metadata
    :param is_volume_backed: whether it was booted from a volume
    """
    if is_nowhere(instance) or vm_states.allow_resource_removal(
            instance.vm_state, instance.task_state):
        return {}
    return own(scheduler_utils.ResourceRequest.from_request_spec(
        objects.RequestSpec(
            flavor=instance.flavor, image=instance.image_meta,
            is_bfv=is_volume_backed, requested_resources=[])
    ).merged_resources())


def differing(context, instances, held, classes):
    """Yield the instances that hold something else than they need.

    :param context: nova.context.RequestContext of their cell
    :param instances: list of nova.objects.Instance of a host
    :param held: dict, UUID -> what they hold there, resource class -> amount
    :param classes: resource classes of the host: what is elsewhere is not
        looked at
    :returns: (nova.objects.Instance, what it needs of these classes)
    """
    def needs_else(instance, is_volume_backed):
        """Return what it needs of the host, None where it holds that."""
        needs = needed(instance, is_volume_backed)
        if orc.PCPU in needs and orc.PCPU not in classes:
            # A host of old times, where pinned instances hold VCPU.
            return None
        of_host = {name: amount for name, amount in needs.items()
                   if name in classes}
        return of_host if of_host != own(held.get(instance.uuid, {})) else None

    suspects = [instance for instance in instances
                if needs_else(instance, False) is not None]
    from_volume = volume_backed(context, suspects)
    for instance in suspects:
        needs = needs_else(instance, instance.uuid in from_volume)
        if needs is not None:
            yield instance, needs


def volume_backed(context, instances):
    """Return the UUIDs of those instances that were booted from a volume.

    :param context: nova.context.RequestContext of their cell
    :param instances: list of nova.objects.Instance
    """
    disks = objects.BlockDeviceMappingList.bdms_by_instance_uuid(
        context, [instance.uuid for instance in instances])
    return {instance.uuid for instance in instances
            if compute_utils.is_volume_backed_instance(
                context, instance, disks.get(
                    instance.uuid, objects.BlockDeviceMappingList()))}


def is_nowhere(instance):
    """Return whether an instance is on no host, and nothing brings it to one.

    :param instance: nova.objects.Instance
    """
    return (instance.vm_state in _NOWHERE and instance.host is None and
            instance.task_state is None)


def at_rest(context, uuid):
    """Return an instance, or None where it is changed or moved right now.

    :param context: nova.context.RequestContext of its cell
    """
    try:
        instance = objects.Instance.get_by_uuid(
            context, uuid, expected_attrs=['flavor', 'system_metadata'])
    except exception.InstanceNotFound:
        return None
    moves = objects.MigrationList.get_by_filters(
        context, {'instance_uuid': uuid})
    if instance.task_state is not None or any(map(is_open, moves)):
        return None
    return instance


def is_open(migration):
    """Return whether a migration goes on, or waits to be confirmed.

    :param migration: nova.objects.Migration
    """
    return migration.status not in _ENDED


def mend(context, client, provider, host, uuid):
    """Let an instance hold what it needs, unless it is changed right now.

    What it holds is read first, whether it is at rest after that: what begins
    to move later changes the generation of the consumer, and Placement then
    refuses the write.

    :param context: nova.context.RequestContext of its cell
    :param client: nova.scheduler.client.report.SchedulerReportClient
    :param provider: UUID of the resource provider of the host
    :param host: name of the host
    :returns: (what it held, what it holds now), two dicts, resource class ->
        amount, both with the disks that are shared with the host; or None
        if it is changed right now
    :raises NotMended: if Placement does not take all of it; CPUs and memory
        may have been written then, if the sentence says so
    """
    for _ in range(ATTEMPTS):
        found = client.get_allocs_for_consumer(context, uuid)
        instance = at_rest(context, uuid)
        if instance is None or (
                instance.host != host and not is_nowhere(instance)):
            return None
        needs = needed(instance, compute_utils.is_volume_backed_instance(
            context, instance))
        sharing = sharing_disks(client, provider)
        placed, problem = _placed(provider, sharing, found, needs)
        wanted = _with(found, placed, instance)
        if problem is None:
            try:
                if _write(context, client, uuid, found, wanted):
                    return (_total(found, provider, sharing),
                            _total(wanted, provider, sharing))
                continue
            except NotMended as error:
                problem = error
        # CPUs and memory are in use on the host, wherever the disk is: a disk
        # without a place must not let Placement sell them again.
        rest = _with(found, _disk_as_found(placed, found), instance)
        if rest == wanted and isinstance(problem, NotMended):
            raise problem
        if _write(context, client, uuid, found, rest):
            raise NotMended('Its CPUs and memory are as needed now, but its '
                            'DISK_GB is not: %s' % problem)
    raise NotMended('Others change what it holds at the same time: %d '
                    'attempts failed' % ATTEMPTS)


def everywhere(context, client, provider, sharing, instance):
    """Return what an instance holds and needs, shared disks included.

    :param provider: UUID of the resource provider of its host
    :param sharing: UUIDs of the providers that share disks with the host
    :param instance: nova.objects.Instance with flavor and system metadata
    :returns: two dicts, resource class -> amount
    """
    found = client.get_allocs_for_consumer(context, instance.uuid)
    return _total(found, provider, sharing), needed(
        instance, compute_utils.is_volume_backed_instance(context, instance))


def empty(context, client, uuid):
    """Let a consumer hold nothing any more.

    :param client: nova.scheduler.client.report.SchedulerReportClient
    :raises NotMended: where it goes on to hold something
    """
    found = client.get_allocs_for_consumer(context, uuid)
    if found['allocations'] and not put(
            context, client, '/allocations/' + uuid,
            {**found, 'allocations': {}}):
        raise NotMended('Others change what it holds at the same time')


def give_back(context, client, migration):
    """Let an instance that did not move hold again what it held before.

    What it holds elsewhere for the move goes.

    :param client: nova.scheduler.client.report.SchedulerReportClient
    :param migration: nova.objects.Migration, which holds it since
    :raises NotMended: where Placement does not take it
    """
    if client.get_allocs_for_consumer(
            context, migration.uuid)['allocations'] and (
                not client.move_allocations(
                    context, migration.uuid, migration.instance_uuid)):
        raise NotMended('Placement does not take it')


def put(context, client, url, body):
    """Write to Placement; return whether nobody else wrote in between.

    :param client: nova.scheduler.client.report.SchedulerReportClient
    :param url: str, below that of Placement
    :param body: dict, with the generation that was read
    :raises NotMended: where Placement does not take it
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
        raise NotMended('Placement does not take it: %s'
                        % ' '.join(error['detail'].split()))
    return False


def _no_answer(url, found):
    kind = NotThere if found.status_code == 404 else NotMended
    return kind('Placement answers %s with status %s'
                % (url, found.status_code))


def _at(allocation, provider):
    return own(allocation['allocations'].get(
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
            put(context, client, '/allocations/' + uuid, wanted))


def _placed(provider, sharing, found, needs):
    """Return the expected allocations of an instance, by provider.

    If it needs nothing, all its allocations go. A disk stays at the provider
    that holds it. If the host and a sharing provider both hold it, the host
    has it: an evacuation leaves the disk of the old host at the sharing
    provider. If none holds it, it belongs to the sharing provider, because
    Nova's libvirt driver reports local disks even if they are not in use.

    :param provider: UUID of the resource provider of the host
    :param sharing: UUIDs of the providers that share disks with the host
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
    kept = {}
    for provider, resources in placed.items():
        disk = _at(found, provider).get(orc.DISK_GB)
        kept[provider] = {**_but_disk(resources),
                          **({orc.DISK_GB: disk} if disk else {})}
    return kept


def sharing_disks(client, provider, aggregates=None):
    """Return the UUIDs of the providers that share disks with a host.

    A provider that is full shares as well, so Placement must not be asked for
    those with room.

    :param client: nova.scheduler.client.report.SchedulerReportClient
    :param provider: UUID of the resource provider of the host
    :param aggregates: UUIDs of its aggregates in Placement, if they are known
    :raises NotMended: if Placement does not answer
    """
    if aggregates is None:
        aggregates = answer(
            client, '/resource_providers/%s/aggregates' % provider
            )['aggregates']
    if not aggregates:
        return []
    sharing = answer(
        client, '/resource_providers?member_of=in:%s&required=%s' % (
            ','.join(aggregates), os_traits.MISC_SHARES_VIA_AGGREGATE)
        )['resource_providers']
    return [found['uuid'] for found in sharing
            if found['uuid'] != provider and orc.DISK_GB in answer(
                client, '/resource_providers/%s/inventories' % found['uuid']
                )['inventories']]


def answer(client, url, version=_PROVIDERS):
    """Return what Placement answers, as a dict.

    :param client: nova.scheduler.client.report.SchedulerReportClient
    :param url: str, below that of Placement
    :param version: microversion of Placement
    :raises NotMended: where it does not
    """
    found = client.get(url, version=version)
    if not found:
        raise _no_answer(url, found)
    return found.json()


def _with(found, placed, instance):
    """Return an allocation with these amounts in place of its own ones."""
    wanted = copy.deepcopy(found)
    for provider, resources in placed.items():
        at = wanted['allocations'].setdefault(provider, {'resources': {}})
        kept = {name: amount for name, amount in at['resources'].items()
                if name not in OWN}
        at['resources'] = {**kept, **resources}
        if not at['resources']:
            del wanted['allocations'][provider]
    if not found['allocations']:
        wanted.update(project_id=instance.project_id,
                      user_id=instance.user_id, consumer_generation=None)
    return wanted
