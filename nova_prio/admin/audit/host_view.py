# SPDX-License-Identifier: Apache-2.0


"""What Nova and Placement say of a host, read at one moment."""

import collections
import dataclasses
import functools

from nova import context as nova_context
from nova import exception
from nova import objects
import os_resource_classes as orc

from nova_prio.admin import host_inventory
from nova_prio.compute import usage
from nova_prio.model import capacity
from nova_prio.objects import host_report
from nova_prio.placement import allocations as prio_allocations
from nova_prio.virt import demand

#: How many compute nodes are read at once.
PAGE = 100


@dataclasses.dataclass(frozen=True)
class HostView:
    """One host, as Nova and Placement have it.

    ``instances`` are those that Nova has on it, ``at_rest`` those of them that
    are not changed or moved right now. ``moves`` are the open migrations from
    and to it, ``consumers`` the UUIDs of these instances and migrations.
    ``allocations`` is what Placement holds there, dict, consumer -> resource
    class -> amount; ``inventories``, ``traits`` and ``aggregates`` are those
    of its resource provider. ``sharing`` are the UUIDs of the providers that
    share disks with it, ``disks`` the DISK_GB there, dict, consumer -> amount,
    which may be a little older. ``report`` is its HostReport or None;
    ``problem`` says why it cannot be read.
    """

    context: object
    node: objects.ComputeNode
    report: host_report.HostReport | None
    problem: str | None
    instances: list
    at_rest: list
    moves: list
    consumers: frozenset
    allocations: dict
    inventories: dict
    traits: list
    aggregates: list
    sharing: list
    disks: dict

    @property
    def name(self):
        """The name of the host."""
        return self.node.host

    @property
    def is_at_rest(self):
        """Whether nothing is changed or moved there right now."""
        return (len(self.at_rest) == len(self.instances) and
                len(self.consumers) == len(self.instances))

    @functools.cached_property
    def held(self):
        """The allocations at the host, with the disks that it shares.

        A dict as ``allocations``, also of those that hold only a disk.
        """
        held = dict(self.allocations)
        for uuid in (self.consumers | held.keys()) & self.disks.keys():
            resources = held.get(uuid, {})
            held[uuid] = {**resources, orc.DISK_GB: self.disks[uuid] +
                          resources.get(orc.DISK_GB, 0)}
        return held

    @property
    def classes(self):
        """The resource classes that an instance can hold for this host."""
        return {*self.inventories, *([orc.DISK_GB] if self.sharing else [])}

    @functools.cached_property
    def demands(self):
        """The ``capacity.Demand`` of each instance on the host, a list."""
        return [demand.get_demand(instance.flavor, instance.numa_topology)
                for instance in self.instances]

    @functools.cached_property
    def cells(self):
        """The NUMA cells of the host as nova-compute counts them, a list."""
        text = self.node.numa_topology
        return (objects.NUMATopology.obj_from_db_obj(text).cells
                if text else [])

    @functools.cached_property
    def usage(self):
        """The ``compute.usage.UsageLedger`` of the instances on the host."""
        ledger = usage.UsageLedger()
        for instance in self.instances:
            ledger.add(instance.uuid, usage.RESIDENT, usage.Usage.from_flavor(
                instance.flavor, instance.numa_topology))
        return ledger

    @property
    def rows(self):
        """The ``capacity.Rows`` that the instances on the host draw."""
        return capacity.calculate_used(sum(each.dedicated for each in self.demands),
                                       self.usage.low_shared, self.usage.ordinary_shared)


def read_shared_disks(client, aggregates):
    """Return the allocations at the providers that share disks in aggregates.

    :param client: nova.scheduler.client.report.SchedulerReportClient
    :param aggregates: frozenset, UUIDs of aggregates in Placement
    :returns: dict, UUID of a provider -> consumer -> amount of DISK_GB
    :raises holdings.NotMended: if Placement does not answer
    """
    found = {}
    for provider in prio_allocations.find_disk_sharers(client, aggregates):
        allocations = prio_allocations.get_json(
            client, '/resource_providers/%s/allocations' % provider
            )['allocations']
        found[provider] = {
            uuid: held['resources'][orc.DISK_GB]
            for uuid, held in allocations.items()
            if orc.DISK_GB in held['resources']}
    return found


def read_host(context, client, node, read_disks=read_shared_disks):
    """Return the HostView of a compute node.

    :param context: nova.context.RequestContext of its cell
    :param client: nova.scheduler.client.report.SchedulerReportClient
    :param node: nova.objects.ComputeNode
    :param read_disks: function to call instead of :func:`shared_disks`
    :raises holdings.NotMended: where Placement does not answer
    """
    def answer(what):
        return prio_allocations.get_json(
            client, '/resource_providers/%s/%s' % (node.uuid, what))

    try:
        inventories = answer('inventories')['inventories']
    except prio_allocations.NotInPlacement as error:
        raise prio_allocations.PlacementRefused(
            'Placement has no resource provider for the host, which '
            'nova-compute makes when it starts') from error
    # Placement first: what is scheduled has its allocation before its host.
    held = {uuid: found['resources']
            for uuid, found in answer('allocations')['allocations'].items()}
    aggregates = answer('aggregates')['aggregates']
    shared = {provider: disks for provider, disks
              in read_disks(client, frozenset(aggregates)).items()
              if provider != node.uuid}
    disks = collections.Counter()
    for of_provider in shared.values():
        disks.update(of_provider)
    moves = list(objects.MigrationList.get_in_progress_by_host_and_node(
        context, node.host, node.hypervisor_hostname))
    moving = {move.instance_uuid for move in moves}
    instances = list(objects.InstanceList.get_by_host_and_node(
        context, node.host, node.hypervisor_hostname,
        expected_attrs=['flavor', 'system_metadata', 'numa_topology',
                        'migration_context']))
    return HostView(
        context, node, *host_inventory.read_report(node), instances,
        [instance for instance in instances
         if instance.task_state is None and instance.uuid not in moving],
        moves, frozenset([*(move.uuid for move in moves), *moving,
                          *(instance.uuid for instance in instances)]),
        held, inventories, answer('traits')['traits'], aggregates,
        list(shared), disks)


def count_hosts(context):
    """Return how many hosts there are in all cells.

    :param context: nova.context.RequestContext
    """
    return sum(len(objects.HostMappingList.get_by_cell_id(context, cell.id))
               for cell in objects.CellMappingList.get_all(context))


def list_nodes(context, cell):
    """Yield the compute nodes of a cell, one page in memory at a time.

    :param context: nova.context.RequestContext
    :param cell: nova.objects.CellMapping
    :returns: (nova.context.RequestContext of the cell, ComputeNode)
    """
    with nova_context.target_cell(context, cell) as cctxt:
        marker = None
        while page := list(objects.ComputeNodeList.get_by_pagination(
                cctxt, limit=PAGE, marker=marker)):
            marker = page[-1].id
            # None of them is kept while the next page is read.
            while page:
                yield cctxt, page.pop(0)


def list_nodes_of_host(context, host):
    """Return the compute nodes of a host, as :func:`nodes` yields them.

    :param context: nova.context.RequestContext
    :param host: name of the host
    :raises nova.exception.HostMappingNotFound: where it is unknown
    """
    mapping = objects.HostMapping.get_by_host(context, host)
    with nova_context.target_cell(context, mapping.cell_mapping) as cctxt:
        return [(cctxt, node) for node in
                objects.ComputeNodeList.get_all_by_host(cctxt, host)]


class CellUnreachable(Exception):
    """A cell does not answer, said in one sentence."""


class NotScheduledYet(Exception):
    """An instance is being created, and is in no cell yet."""


def find_instance(context, uuid):
    """Return the instance that a UUID is of, wherever it is.

    :param context: nova.context.RequestContext
    :returns: (nova.context.RequestContext of its cell, nova.objects.Instance);
        (None, None) where there is none
    :raises InNoCell: where it is being created
    :raises Unanswered: where its cell does not answer
    """
    try:
        mapping = objects.InstanceMapping.get_by_instance_uuid(context, uuid)
    except exception.InstanceMappingNotFound:
        return None, None
    if mapping.cell_mapping is None:
        raise NotScheduledYet(uuid)
    with nova_context.target_cell(context, mapping.cell_mapping) as cctxt:
        try:
            return cctxt, objects.Instance.get_by_uuid(cctxt, uuid)
        except exception.InstanceNotFound:
            return None, None
        except host_inventory.DATABASE_ERRORS as error:
            raise _unanswered(mapping.cell_mapping.uuid) from error


def find_migration(context, uuid):
    """Return the migration that a UUID is of, in any cell, or None.

    :param context: nova.context.RequestContext
    :raises Unanswered: where a cell does not answer
    """
    found = nova_context.scatter_gather_all_cells(
        context, objects.Migration.get_by_uuid, uuid)
    for answer in found.values():
        if isinstance(answer, objects.Migration):
            return answer
    for cell, answer in found.items():
        if not isinstance(answer, exception.MigrationNotFound):
            raise _unanswered(cell)
    return None


def _unanswered(cell):
    return CellUnreachable('Whose it is is not known: cell %s does not answer.'
                           % cell)
