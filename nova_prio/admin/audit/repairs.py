# SPDX-License-Identifier: Apache-2.0

"""Repairs of findings: writes to Placement, each of them all or nothing.

A repair must not touch a guest, an instance that is being changed or moved, or
data that changed since the audit read it. Each raises PlacementRefused if it
was not done. Each takes as its last parameters:

:param context: nova.context.RequestContext of the cell of the host
:param client: nova.scheduler.client.report.SchedulerReportClient
"""

from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations


def repair_instance(provider, host, uuid, context, client):
    """Give an instance its expected allocations at its host."""
    if allocation_repair.repair(context, client, provider, host, uuid) is None:
        raise allocations.PlacementRefused(
            'The instance is being changed or moved')


def delete_allocations(provider, uuid, resources, delete_all, fault,
                       find_fault, context, client):
    """Delete the allocations of a consumer that must not have them.

    Read the allocations before ``find_fault`` reads the instance: if the
    instance needs them later, the generation of the consumer changes.

    :param resources: the present allocation at the provider of the host
    :param delete_all: whether to delete allocations at other hosts, too
    :param find_fault: function that returns ``fault`` if nothing has changed
    """
    present = client.get_allocs_for_consumer(context, uuid)
    of_host = present['allocations'].get(provider, {}).get('resources')
    if of_host != resources or find_fault() != fault:
        raise allocations.PlacementRefused(
            'The allocation has changed since it was read')
    tree = present['allocations'] if delete_all else {
        each['uuid']
        for each in client.get_providers_in_tree(context, provider)}
    wanted = {of: amounts for of, amounts in present['allocations'].items()
              if of not in tree}
    if not allocations.write(context, client, '/allocations/' + uuid, present,
                             {**present, 'allocations': wanted}):
        raise allocations.PlacementRefused(
            'Others change the allocations of the consumer at the same time')


def replace_provider_data(provider, kind, present, wanted, context, client):
    """Replace the inventories, the traits or the aggregates of a host.

    :param kind: 'inventories', 'traits' or 'aggregates'
    """
    def change(now):
        if now != present:
            raise allocations.PlacementRefused(
                'The %s of the host have changed since they were read' % kind)
        return wanted

    allocations.update_provider(context, client, provider, kind, change)
