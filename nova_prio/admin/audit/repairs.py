# SPDX-License-Identifier: Apache-2.0

"""Repairs of findings: writes to Placement, each of them all or nothing.

A repair must not touch a guest, an instance that is being changed or moved, or
data that changed since the audit read it. Each raises PlacementRefused if it
was not done. The first and the last parameters are:

:param view: HostView
:param context: nova.context.RequestContext of the cell of the host
:param client: nova.scheduler.client.report.SchedulerReportClient
"""

from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations


def repair_instance(view, uuid, context, client):
    """Give an instance its expected allocations at its host."""
    if allocation_repair.repair(
            context, client, view.node.uuid, view.name, uuid) is None:
        raise allocations.PlacementRefused(
            'The instance is being changed or moved')


def delete_allocations(view, uuid, fault, find_fault, context, client):
    """Delete the allocations of a consumer that must not have them.

    Read the allocations before ``find_fault`` reads the instance. If Nova
    allocates for the consumer after the first read, the generation of the
    consumer changes, and Placement refuses the write.

    :param fault: (kind of finding, whether to delete all allocations of the
        consumer, not only those at the host)
    :param find_fault: function that returns ``fault`` if nothing has changed
    """
    host = view.node.uuid
    present = client.get_allocs_for_consumer(context, uuid)
    resources = present['allocations'].get(host, {}).get('resources')
    if resources != view.allocations[uuid] or find_fault() != fault:
        raise allocations.PlacementRefused(
            'The allocation has changed since it was read')
    deleted = present['allocations'] if fault[1] else {
        provider['uuid']
        for provider in client.get_providers_in_tree(context, host)}
    wanted = {
        provider: amounts for provider, amounts
        in present['allocations'].items() if provider not in deleted}
    if not allocations.write(context, client, '/allocations/' + uuid, present,
                             {**present, 'allocations': wanted}):
        raise allocations.PlacementRefused(
            'Others change the allocations of the consumer at the same time')


def replace_provider_data(view, kind, wanted, context, client):
    """Replace the 'inventories', 'traits' or 'aggregates' of a host."""
    def change(present):
        if present != getattr(view, kind):
            raise allocations.PlacementRefused(
                'The %s of the host have changed since they were read' % kind)
        return wanted

    allocations.update_provider(
        context, client, view.node.uuid, kind, change)
