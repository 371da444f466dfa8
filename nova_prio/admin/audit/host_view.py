# SPDX-License-Identifier: Apache-2.0

"""Read the records of a host in Nova and in Placement."""

from __future__ import annotations

import collections
from collections import abc
from concurrent import futures
import dataclasses
import functools
import typing

from nova.compute import vm_states
from nova import context as nova_context
from nova import exception
from nova import objects
import os_resource_classes as orc

from nova_prio.admin.audit import providers
from nova_prio.admin import host_inventory
from nova_prio.model import cpu_capacity
from nova_prio.model import traits as prio_traits
from nova_prio.model import usage
from nova_prio.placement import allocations
from nova_prio.virt import demand

if typing.TYPE_CHECKING:
    from nova.scheduler.client import report as report_client

    from nova_prio.model import inventory

#: The result of :func:`read_amounts`, which may not be there yet.
Amounts: typing.TypeAlias = 'futures.Future[dict[str, typing.Any]]'


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostView(host_inventory.HostRecord):
    """A host with its records in Nova and in Placement, read at one moment.

    ``context`` targets the cell of the host. ``instances`` are on the host;
    the ``instances_at_rest`` among them have no task and no open migration.
    ``migrations`` are the open migrations from and to the host. ``consumers``
    are the UUIDs of these instances and migrations.

    The other fields are from Placement. ``allocations`` at the host are
    consumer -> resource class -> amount. ``inventories``, ``traits`` and
    ``provider_aggregates``, a list of UUIDs, are those of the resource
    provider of the host, or those that :class:`providers.Providers` has read
    of them. ``sharing`` lists the UUIDs of the providers that share disks with
    the host. ``disks`` is consumer -> DISK_GB at these providers, of this and
    of other hosts. It may be older than the other fields.
    """

    context: nova_context.RequestContext
    instances: list[objects.Instance]
    instances_at_rest: list[objects.Instance]
    migrations: list[objects.Migration]
    consumers: frozenset[str]
    allocations: dict[str, dict[str, int]]
    inventories: inventory.Inventories
    traits: list[str]
    provider_aggregates: list[str]
    sharing: list[str]
    disks: dict[str, int]

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """The names of the ``instances`` by UUID."""
        return {instance.uuid: instance.display_name or ''
                for instance in self.instances}

    @property
    def has_tasks_or_moves(self) -> bool:
        """Whether an instance of the host is being changed or moved.

        The instances at rest have no task and no open migration.
        """
        return bool(self.migrations or
                    len(self.instances_at_rest) < len(self.instances))

    @functools.cached_property
    def total_allocations(self) -> dict[str, dict[str, int]]:
        """The allocations of each consumer, with its shared disks.

        ``allocations`` are those at the provider of the host: consumer ->
        resource class -> amount. ``disks`` are DISK_GB at the providers that
        share disks with the host: consumer -> amount. Add them up.
        """
        totals = dict(self.allocations)
        # ``disks`` also has consumers that are only on other hosts, while
        # ``consumers`` are those that Nova has on this host.
        of_this_host = self.consumers | totals.keys()
        for uuid in of_this_host & self.disks.keys():
            resources = totals.get(uuid, {})
            disk_gb = self.disks[uuid] + resources.get(orc.DISK_GB, 0)
            totals[uuid] = resources | {orc.DISK_GB: disk_gb}
        return totals

    @property
    def classes(self) -> set[str]:
        """The resource classes that Placement offers for the host."""
        classes = set(self.inventories)
        if self.sharing:
            classes.add(orc.DISK_GB)
        return classes

    @functools.cached_property
    def demands(self) -> list[cpu_capacity.Demand]:
        """The priority and the vCPUs of each of the ``instances``."""
        return [demand.get_demand(instance.flavor, instance.numa_topology)
                for instance in self.instances]

    @functools.cached_property
    def usage(self) -> usage.Totals:
        """The sums of the usage of the ``instances``."""
        return usage.Totals(
            demand.get_usage(instance.flavor, instance.numa_topology)
            for instance in self.instances)

    @property
    def used_rows(self) -> cpu_capacity.Rows:
        """The Rows that the ``instances`` use.

        Rows are three numbers of vCPUs: pinned ones, all others, and the
        others without low priority.
        """
        # The sums in ``usage`` are without the pinned vCPUs.
        return cpu_capacity.calculate_used(
            sum(each.dedicated for each in self.demands),
            self.usage.low_shared, self.usage.ordinary_shared)


def read_shared_disks(
        client: report_client.SchedulerReportClient,
        aggregates: frozenset[str]) -> dict[str, dict[str, int]]:
    """Return the allocations at the providers that share disks in aggregates.

    :param aggregates: UUIDs of aggregates in Placement
    :returns: UUID of a provider -> consumer -> DISK_GB
    """
    disks = {}
    for provider in allocations.find_disk_sharers(client, aggregates):
        consumers = allocations.read_provider(client, provider, 'allocations')
        disks[provider] = {
            uuid: allocation['resources'][orc.DISK_GB]
            for uuid, allocation in consumers.items()
            if orc.DISK_GB in allocation['resources']}
    return disks


def read_amounts(client: report_client.SchedulerReportClient,
                 provider: str) -> dict[str, typing.Any]:
    """Return the inventories and the allocations at a provider.

    Placement lists neither for several providers at once.

    :param provider: UUID of the resource provider
    :returns: 'inventories' or 'allocations' -> what Placement has of it
    """
    return {kind: allocations.read_provider(client, provider, kind)
            for kind in ('inventories', 'allocations')}


def read_host(
        context: nova_context.RequestContext,
        client: report_client.SchedulerReportClient,
        host: host_inventory.HostRecord,
        read_disks: abc.Callable[..., dict[str, dict[str, int]]]
        = read_shared_disks,
        index: providers.Providers | None = None,
        amounts: Amounts | None = None) -> HostView:
    """Return the HostView of a host.

    :param context: targets the cell of the host
    :param read_disks: :func:`read_shared_disks`, or the same with a cache
    :param index: the traits and aggregates of all hosts; None to read those of
        the host, all of them
    :param amounts: a future with the result of :func:`read_amounts`; None to
        read them now
    :raises nova_prio.placement.allocations.PlacementRefused: if nova-compute
        has not registered the host yet, or Placement cannot be read
    """
    node = host.node
    # 'inventories', 'allocations' ... -> what Placement has of this kind.
    of_provider: dict[str, typing.Any] = {}
    # Read Placement before Nova: nova-scheduler writes the allocation of an
    # instance before nova-compute writes its host.
    try:
        if amounts is not None:
            of_provider.update(amounts.result())
        else:
            of_provider.update(read_amounts(client, node.uuid))
        if index is not None:
            of_provider['aggregates'] = index.list_aggregates(node.uuid)
            of_provider['traits'] = index.list_traits(node.uuid)
        else:
            for kind in 'aggregates', 'traits':
                of_provider[kind] = allocations.read_provider(
                    client, node.uuid, kind)
    except allocations.NotInPlacement as error:
        raise allocations.PlacementRefused(
            'Placement has no resource provider for the host; nova-compute '
            'makes it when it starts') from error
    # nova-compute has not written the resources of the host yet.
    if not host.is_registered:
        raise allocations.PlacementRefused(host.problem)
    present = {uuid: allocation['resources']
               for uuid, allocation in of_provider['allocations'].items()}
    aggregates, traits = of_provider['aggregates'], of_provider['traits']
    # Provider that shares disks in an aggregate -> consumer -> DISK_GB.
    disks_of_sharers = read_disks(client, frozenset(aggregates))
    # The allocations at the host itself were read above.
    sharing = [provider for provider in disks_of_sharers
               if provider != node.uuid]
    # Consumer -> sum of its DISK_GB at these providers.
    disks: collections.Counter[str] = collections.Counter()
    for provider in sharing:
        disks.update(disks_of_sharers[provider])
    migrations = list(objects.MigrationList.get_in_progress_by_host_and_node(
        context, node.host, node.hypervisor_hostname))
    moving = {migration.instance_uuid for migration in migrations}
    instances = read_instances(
        context, node, ['flavor', 'system_metadata', 'numa_topology',
                        'migration_context'])
    # These are neither being changed nor moved.
    at_rest = [instance for instance in instances
               if instance.task_state is None and instance.uuid not in moving]
    # The UUIDs for which Nova may have allocations at the host: those of the
    # migrations, of their instances, and of the instances on the host.
    consumers = moving.union(each.uuid for each in migrations + instances)
    return HostView(
        node=node, cell=host.cell, service=host.service,
        aggregates=host.aggregates, context=context,
        instances=instances, instances_at_rest=at_rest, migrations=migrations,
        consumers=frozenset(consumers), allocations=present,
        inventories=of_provider['inventories'], traits=traits,
        is_disabled=prio_traits.CPU_PRIORITY_DISABLED in traits,
        provider_aggregates=aggregates, sharing=sharing, disks=disks)


def read_instances(context: nova_context.RequestContext,
                   node: objects.ComputeNode,
                   attributes: list[str]) -> list[objects.Instance]:
    """Return the instances of a host that use its resources.

    A shelved offloaded instance uses no resources. Nova removes the host from
    its record a moment later, or never if nova-compute is killed before that.

    :param context: targets the cell of the host
    :param attributes: those to read with each instance
    """
    return [each for each in objects.InstanceList.get_by_host_and_node(
                context, node.host, node.hypervisor_hostname,
                expected_attrs=attributes)
            if not vm_states.allow_resource_removal(
                each.vm_state, each.task_state)]


def list_hosts(
        context: nova_context.RequestContext, cell: objects.CellMapping,
) -> abc.Iterator[tuple[nova_context.RequestContext,
                        host_inventory.HostRecord]]:
    """Yield the hosts of a cell, page by page.

    :returns: iterator of (context that targets the cell, HostRecord)
    """
    aggregates = objects.AggregateList.get_all(context)
    with nova_context.target_cell(context, cell) as cctxt:
        for host in host_inventory.iterate_hosts(cctxt, aggregates):
            yield cctxt, host


def find_hosts(
        context: nova_context.RequestContext, name: str,
) -> list[tuple[nova_context.RequestContext, host_inventory.HostRecord]]:
    """Return the records of a host, one for each of its compute nodes.

    :returns: list of (context that targets the cell, HostRecord of a compute
        node)
    :raises nova.exception.HostMappingNotFound: if the host is unknown
    """
    mapping = objects.HostMapping.get_by_host(context, name)
    aggregates = objects.AggregateList.get_by_host(context, name)
    with nova_context.target_cell(context, mapping.cell_mapping) as cctxt:
        service = objects.Service.get_by_host_and_binary(
            cctxt, name, 'nova-compute')
        return [(cctxt, host_inventory.HostRecord(
            node=node, cell=mapping.cell_mapping.uuid, service=service,
            aggregates=aggregates))
            for node in objects.ComputeNodeList.get_all_by_host(cctxt, name)]


class CellUnreachable(Exception):
    """A cell does not answer, so the owner of an allocation is unknown."""

    def __init__(self, cell_uuid: str) -> None:
        super().__init__('Cannot determine the owner of the allocation: cell '
                         '%s does not answer.' % cell_uuid)


class NotScheduledYet(Exception):
    """An instance is being created, and is in no cell yet."""


def find_instance(context: nova_context.RequestContext,
                  uuid: str) -> objects.Instance | None:
    """Return the instance of any cell, or None.

    :raises NotScheduledYet: if the instance is being created
    :raises CellUnreachable: if the cell of the instance does not answer
    """
    try:
        mapping = objects.InstanceMapping.get_by_instance_uuid(context, uuid)
    except exception.InstanceMappingNotFound:
        return None
    if mapping.cell_mapping is None:
        raise NotScheduledYet(uuid)
    with nova_context.target_cell(context, mapping.cell_mapping) as cctxt:
        try:
            return objects.Instance.get_by_uuid(cctxt, uuid)
        except exception.InstanceNotFound:
            return None
        except host_inventory.DATABASE_ERRORS as error:
            raise CellUnreachable(mapping.cell_mapping.uuid) from error


def find_migration(context: nova_context.RequestContext,
                   uuid: str) -> objects.Migration | None:
    """Return the migration of any cell, or None.

    :raises CellUnreachable: if a cell does not answer, and no other cell has
        the migration
    """
    answers = nova_context.scatter_gather_all_cells(
        context, objects.Migration.get_by_uuid, uuid)
    unreachable = None
    # The answer of a cell is the migration, an error, or a mark of Nova that
    # the cell does not answer.
    for cell_uuid, answer in answers.items():
        if isinstance(answer, objects.Migration):
            return answer
        if not isinstance(answer, exception.MigrationNotFound):
            unreachable = cell_uuid
    if unreachable:
        raise CellUnreachable(unreachable)
    return None
