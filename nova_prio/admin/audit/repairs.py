# SPDX-License-Identifier: Apache-2.0

"""Repairs of findings: writes to Placement, each of them all or nothing.

:mod:`nova_prio.admin.audit.migrations` has the repair that writes to Nova as well.

None of them touches a guest, nor an instance that is changed or moved, nor
what somebody else has written since it was read. Each takes at last:

:param context: nova.context.RequestContext of the cell of the host
:param client: nova.scheduler.client.report.SchedulerReportClient
:raises nova_prio.placement.allocations.PlacementRefused: if the repair was not done
"""

from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations


def repair_instance(provider, host, uuid, context, client):
    """Give an instance its expected allocations at its host."""
    if allocation_repair.repair(context, client, provider, host, uuid) is None:
        raise allocations.PlacementRefused('It is changed or moved right now')


def delete_allocations(provider, uuid, held, everywhere,
                       is_still_so, context, client):
    """Delete the allocations of a consumer that has no use for them.

    The allocations are read before ``is_still_so`` looks: what begins to need
    them later changes the generation of the consumer.

    :param held: the allocations that were found at the provider of the host
    :param everywhere: whether the allocations elsewhere go, too
    :param is_still_so: function without arguments that looks again
    """
    found = client.get_allocs_for_consumer(context, uuid)
    there = found['allocations'].get(provider)
    if (there is None or there['resources'] != held or not is_still_so()):
        raise allocations.PlacementRefused(
            'It has been changed since it was read')
    gone = set(found['allocations']) if everywhere else {
        each['uuid']
        for each in client.get_providers_in_tree(context, provider)}
    left = {of: resources for of, resources in found['allocations'].items()
            if of not in gone}
    if not allocations.write(context, client, '/allocations/' + uuid,
                             {**found, 'allocations': left}):
        raise allocations.PlacementRefused(
            'Others change what it holds at the same time')


def replace_provider_data(provider, what, there, wanted, context, client):
    """Replace the inventories, the traits or the aggregates of a host.

    :param what: name of these
    :param there: what was read
    :param wanted: all that must be there
    """
    def change(now):
        if now != there:
            raise allocations.PlacementRefused(
                'Somebody else has changed the %s of the host' % what)
        return wanted

    allocations.update_provider(context, client, provider, what, change)
