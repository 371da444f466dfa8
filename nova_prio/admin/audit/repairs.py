# SPDX-License-Identifier: Apache-2.0

"""Repairs of findings: writes to Placement, each of them all or nothing.

A repair must not touch a guest, an instance that is being changed or moved, or
data that changed since the audit read it. Each raises PlacementRefused if it
was not done. ``context`` targets the cell of the host.
"""

from __future__ import annotations

from collections import abc
import typing

from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report

    from nova_prio.admin.audit import host_view


class AllocationFault(typing.NamedTuple):
    """Why a consumer must not have its allocation at a host.

    ``kind`` is the kind of finding. ``at_all_hosts`` tells that the consumer
    must not have allocations at other hosts either. ``owner`` is the UUID of
    the instance that must have the allocations instead, or None.
    """

    kind: str
    at_all_hosts: bool
    owner: str | None = None


def repair_instance(
        view: host_view.HostView, uuid: str,
        context: nova_context.RequestContext,
        client: report.SchedulerReportClient) -> None:
    """Write the expected allocations of an instance to Placement.

    :raises nova_prio.placement.allocations.PlacementRefused: if they were not
        written, for whatever reason: all repairs raise this class
    """
    # The amounts before and after the write; None if nothing was written,
    # because Nova may work on the instance.
    repaired = allocation_repair.repair(
        context, client, view.node.uuid, view.name, uuid)
    if repaired is None:
        raise allocations.PlacementRefused(
            'The instance is being changed or moved, or was within the last '
            'minute')


def remove_allocations(
        view: host_view.HostView, uuid: str, fault: AllocationFault,
        find_fault: abc.Callable[..., AllocationFault | None],
        context: nova_context.RequestContext,
        client: report.SchedulerReportClient) -> None:
    """Delete the allocations of a consumer, or move them to their owner.

    Read the allocations before ``find_fault`` reads the instance. If Nova
    allocates for the consumer after the first read, the generation of the
    consumer changes, and Placement refuses the write.

    :param uuid: UUID of the consumer
    :param fault: the fault that the audit found: why the consumer must not
        have the allocations
    :param find_fault: function of ``view``, ``client`` and ``uuid`` that
        returns the present fault, or None
    """
    host = view.node.uuid
    present = client.get_allocs_for_consumer(context, uuid)
    resources = present['allocations'].get(host, {}).get('resources')
    # In the view, the allocations are those that the audit read.
    if (resources != view.allocations[uuid] or
            find_fault(view, client, uuid) != fault):
        raise allocations.PlacementRefused(
            'The allocation has changed since it was read')
    # The instance that must have the allocations in place of its migration.
    if fault.owner:
        allocations.move(context, client, uuid, fault.owner)
        return
    if fault.at_all_hosts:
        # The consumer must have no allocations at all.
        kept: dict[str, typing.Any] = {}
    else:
        # Delete those at this host, whose providers form a tree.
        kept = dict(present['allocations'])
        for provider in client.get_providers_in_tree(context, host):
            kept.pop(provider['uuid'], None)
    wanted = present | {'allocations': kept}
    # The result is False if another client has changed the allocations.
    if not allocations.write(
            context, client, '/allocations/' + uuid, present, wanted):
        raise allocations.PlacementRefused(
            'Others change the allocations of the consumer at the same time')


def replace_provider_data(
        view: host_view.HostView, kind: str, read: typing.Any,
        wanted: typing.Any,
        context: nova_context.RequestContext,
        client: report.SchedulerReportClient) -> None:
    """Replace the 'inventories', 'traits' or 'aggregates' of a host.

    Refuse if the data in Placement are not those that the audit read.

    :param kind: which of the three
    :param read: the data that the audit read
    :param wanted: the new data, in the format of Placement
    """
    def change(present: typing.Any) -> typing.Any:
        """Return the new data if the data are those that the audit read.

        :param present: the data that Placement has now
        """
        if present != read:
            raise allocations.PlacementRefused(
                'The %s of the host have changed since they were read' % kind)
        return wanted

    # This reads the present data, and writes what ``change`` returns for them.
    allocations.update_provider(
        context, client, view.node.uuid, kind, change)
