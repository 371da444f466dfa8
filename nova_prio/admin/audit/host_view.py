# SPDX-License-Identifier: Apache-2.0

"""Read the records of a host in Nova and in Placement."""

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
from nova_prio.placement import allocations
from nova_prio.virt import demand

#: The most compute nodes in memory at a time.
PAGE = 100


@dataclasses.dataclass(frozen=True)
class HostView:
    """The records of a host in Nova and in Placement, read at one moment.

    ``report`` is its HostReport or None; ``problem`` says why it cannot be
    read. ``idle_instances`` are the ``instances`` of the host that are neither
    changed nor moved. ``migrations`` are the open ones from and to the host,
    ``consumers`` the UUIDs of these instances and migrations. ``allocations``
    at the host are a dict, consumer -> resource class -> amount.
    ``inventories``, ``traits`` and ``aggregates`` are those of its resource
    provider. ``sharing`` lists the UUIDs of the providers that share disks
    with the host, ``disks`` is a dict, consumer -> DISK_GB at these providers,
    which may be older than the rest.
    """

    context: object
    node: objects.ComputeNode
    report: host_report.HostReport | None
    problem: str | None
    instances: list
    idle_instances: list
    migrations: list
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
    def is_idle(self):
        """Whether no instance of the host is being changed or moved."""
        return (len(self.idle_instances) == len(self.instances) ==
                len(self.consumers))

    @functools.cached_property
    def total_allocations(self):
        """The allocations with the shared disks added, a dict like them."""
        totals = dict(self.allocations)
        for uuid in (self.consumers | totals.keys()) & self.disks.keys():
            resources = totals.get(uuid, {})
            totals[uuid] = {**resources, orc.DISK_GB: self.disks[uuid] +
                            resources.get(orc.DISK_GB, 0)}
        return totals

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
    def used_rows(self):
        """The ``capacity.Rows`` that the instances on the host use."""
        return capacity.calculate_used(
            sum(each.dedicated for each in self.demands),
            self.usage.low_shared, self.usage.ordinary_shared)


def read_shared_disks(client, aggregates):
    """Return the allocations at the providers that share disks in aggregates.

    :param aggregates: frozenset, UUIDs of aggregates in Placement
    :returns: dict, UUID of a provider -> consumer -> DISK_GB
    """
    disks = {}
    for provider in allocations.find_disk_sharers(client, aggregates):
        consumers = allocations.get_json(
            client, '/resource_providers/%s/allocations' % provider
            )['allocations']
        disks[provider] = {
            uuid: allocation['resources'][orc.DISK_GB]
            for uuid, allocation in consumers.items()
            if orc.DISK_GB in allocation['resources']}
    return disks


def read_host(context, client, node, read_disks=read_shared_disks):
    """Return the HostView of a compute node.

    :param context: nova.context.RequestContext of its cell
    :param read_disks: function to call instead of :func:`read_shared_disks`
    """
    def read(kind):
        return allocations.get_json(client, '/resource_providers/%s/%s' % (
            node.uuid, kind))[kind]

    try:
        inventories = read('inventories')
    except allocations.NotInPlacement as error:
        raise allocations.PlacementRefused(
            'Placement has no resource provider for the host; nova-compute '
            'makes it when it starts') from error
    # Read Placement before Nova: nova-scheduler writes the allocation of an
    # instance before nova-compute writes its host.
    present = {uuid: allocation['resources']
               for uuid, allocation in read('allocations').items()}
    aggregates = read('aggregates')
    shared = read_disks(client, frozenset(aggregates))
    sharing = [provider for provider in shared if provider != node.uuid]
    disks = collections.Counter()
    for provider in sharing:
        disks.update(shared[provider])
    migrations = list(objects.MigrationList.get_in_progress_by_host_and_node(
        context, node.host, node.hypervisor_hostname))
    moving = {migration.instance_uuid for migration in migrations}
    instances = list(objects.InstanceList.get_by_host_and_node(
        context, node.host, node.hypervisor_hostname,
        expected_attrs=['flavor', 'system_metadata', 'numa_topology',
                        'migration_context']))
    idle = [instance for instance in instances
            if instance.task_state is None and instance.uuid not in moving]
    consumers = moving.union(each.uuid for each in (*migrations, *instances))
    return HostView(
        context, node, *host_inventory.read_report(node), instances, idle,
        migrations, frozenset(consumers), present, inventories, read('traits'),
        aggregates, sharing, disks)


def count_hosts(context):
    """Return the number of compute hosts in all cells."""
    return sum(len(objects.HostMappingList.get_by_cell_id(context, cell.id))
               for cell in objects.CellMappingList.get_all(context))


def list_nodes(context, cell):
    """Yield the compute nodes of a cell, one page in memory at a time.

    :returns: iterator of (context of the cell, nova.objects.ComputeNode)
    """
    with nova_context.target_cell(context, cell) as cctxt:
        for node in host_inventory.iterate_pages(
                functools.partial(
                    objects.ComputeNodeList.get_by_pagination, cctxt),
                'id', PAGE):
            yield cctxt, node


def list_nodes_of_host(context, host):
    """Return the compute nodes of a host, like :func:`list_nodes`.

    :raises nova.exception.HostMappingNotFound: if the host is unknown
    """
    mapping = objects.HostMapping.get_by_host(context, host)
    with nova_context.target_cell(context, mapping.cell_mapping) as cctxt:
        return [(cctxt, node) for node in
                objects.ComputeNodeList.get_all_by_host(cctxt, host)]


class CellUnreachable(Exception):
    """The cell with the given UUID does not answer."""

    def __init__(self, cell):
        super().__init__('Cannot determine the owner of the allocation: cell '
                         '%s does not answer.' % cell)


class NotScheduledYet(Exception):
    """An instance is being created, and is in no cell yet."""


def find_instance(context, uuid):
    """Return an instance of any cell.

    :returns: (context of its cell, nova.objects.Instance), or (None, None)
    :raises NotScheduledYet: if it is being created
    :raises CellUnreachable: if its cell does not answer
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
            raise CellUnreachable(mapping.cell_mapping.uuid) from error


def find_migration(context, uuid):
    """Return the nova.objects.Migration of any cell, or None.

    :raises CellUnreachable: if a cell does not answer
    """
    answers = nova_context.scatter_gather_all_cells(
        context, objects.Migration.get_by_uuid, uuid)
    unreachable = None
    for cell, answer in answers.items():
        if isinstance(answer, objects.Migration):
            return answer
        if not isinstance(answer, exception.MigrationNotFound):
            unreachable = CellUnreachable(cell)
    if unreachable:
        raise unreachable
    return None
