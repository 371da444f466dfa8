# SPDX-License-Identifier: Apache-2.0

"""The command ``openstack priority capacity list``.

A row is the limit of a host for one kind of vCPUs. The high row limits the
pinned vCPUs, which Nova calls dedicated. The low row limits the shared vCPUs,
which float among the shared CPUs of the host. On a mix host, low-priority
instances also float on the dedicated CPUs. The sold vCPUs of a row are in use,
the sellable vCPUs are the limit.

The traits of :mod:`nova_prio.model.traits` tell which hosts run the compute
driver of this package, and which of them are mix hosts.
"""

import collections
import math

from openstack import exceptions as sdk_exceptions
from osc_lib.command import command
from osc_lib import exceptions

from nova_prio.model import flavor_cpus
from nova_prio.model import flavor_specs
from nova_prio.model import maturity
from nova_prio.model import provider_rows
from nova_prio.model import traits


class ListCapacity(command.Lister):
    """List the sold, sellable and remaining vCPUs of hosts in Placement.

    The high row counts the dedicated vCPUs of all servers, the low row their
    shared vCPUs. Hosts without the compute driver for priorities are omitted.
    The host is the name of its resource provider, which is the hypervisor
    hostname. A host that is not enabled is disabled for priority instances.

    Placement cannot tell the ordinary row, the partitions, or the dedicated
    CPUs that a guest on a stale CPU set blocks. On a mix host, it may show
    more remaining low-priority vCPUs than there are, by less than the
    allocation ratio. "nova-prio capacity show" shows the exact rows. By
    default, Placement allows this command for administrators only.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = maturity.mark(super().get_parser(prog_name))
        parser.add_argument(
            '--aggregate', action='append', metavar='<aggregate>',
            help='list the hosts of this aggregate (name or ID), by '
            'Placement\'s copy of the aggregate (repeat option to list '
            'multiple aggregates)')
        parser.add_argument(
            '--flavor', metavar='<flavor>',
            help='also list how many servers of this flavor (name or ID) fit '
            'by the PCPU, VCPU, MEMORY_MB and DISK_GB in Placement; a server '
            'that boots from a volume needs less DISK_GB. NUMA cells, huge '
            'pages, aggregates and images are not considered, so fewer may '
            'fit')
        return parser

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows of the table."""
        connection = self.app.client_manager.sdk_connection
        request = {}
        needs_enabled = False
        if parsed_args.flavor:
            request, needs_enabled = _read_flavor(
                connection.compute, parsed_args.flavor)
        member_of = None
        if parsed_args.aggregate:
            uuids = _find_aggregates(connection.compute, parsed_args.aggregate)
            member_of = 'in:' + ','.join(uuids)
        table = []
        for provider, host_traits in _list_hosts(
                connection.placement, member_of):
            usages = _read_usages(connection.placement, provider)
            inventories = _read_inventories(connection.placement, provider)
            is_enabled = traits.CPU_PRIORITY in host_traits
            is_mix = traits.CPU_PRIORITY_MIX in host_traits
            values = [provider.name, is_mix, is_enabled]
            for row_name in provider_rows.CLASS_OF_ROW:
                values += provider_rows.get_row(row_name, inventories, usages)
            if request:
                units = 0
                if is_enabled or not needs_enabled:
                    units = provider_rows.count_instances(
                        request, inventories, usages)
                values.append(units)
            table.append(values)
        columns = _list_columns()
        if request:
            columns.append('Units')
        return columns, sorted(table)


def _list_columns():
    """Return the names of the columns, without that of a flavor, a list.

    The columns of the rows are High Sold, High Sellable and so on.
    """
    columns = ['Host', 'Mix', 'Enabled']
    for row_name in provider_rows.CLASS_OF_ROW:
        for amount_name in provider_rows.Row._fields:
            columns.append('%s %s' % (row_name.title(), amount_name.title()))
    return columns


def _find_aggregates(compute, names):
    """Return the UUIDs of aggregates, a list.

    :param names: list of the names or IDs of the aggregates
    """
    uuids = []
    for name in names:
        aggregate = compute.find_aggregate(name, ignore_missing=False)
        uuids.append(aggregate.uuid)
    return uuids


def _read_flavor(compute, name):
    """Return the resources that a flavor requests, and if it has a priority.

    :param name: name or ID of the flavor
    :returns: (dict, resource class -> amount; bool)
    :raises osc_lib.exceptions.CommandError: if the flavor cannot be read
    """
    flavor = compute.find_flavor(
        name, ignore_missing=False, get_extra_specs=True)
    specs = flavor_cpus.add_policy(flavor.extra_specs)
    swap_gb = math.ceil((flavor.swap or 0) / 1024)
    disk_gb = flavor.disk + flavor.ephemeral + swap_gb
    try:
        request = flavor_cpus.get_placement_request(
            flavor.vcpus, flavor.ram, disk_gb, specs)
    except ValueError as error:
        raise exceptions.CommandError(
            "--flavor is '%s': %s" % (name, error)) from error
    return request, flavor_specs.EXTRA_SPEC in specs


def _list_hosts(placement, member_of):
    """Yield the providers of the hosts with our driver, and their traits.

    Three requests find the traits of all hosts.

    :param member_of: filter of resource providers by aggregates, in the format
        of Placement; None for all hosts
    :returns: tuples (resource provider of openstacksdk, set of those of its
        traits that this package defines)
    """
    # Placement refuses a filter by a trait that does not exist.
    existing = placement.traits(name='in:' + ','.join(traits.ALL))
    trait_names = {trait.name for trait in existing}
    providers = {}
    traits_of = collections.defaultdict(set)
    for trait_name in sorted(trait_names):
        for provider in placement.resource_providers(
                required=trait_name, member_of=member_of):
            providers[provider.id] = provider
            traits_of[provider.id].add(trait_name)
    for uuid, host_traits in traits_of.items():
        if traits.has_our_driver(host_traits):
            yield providers[uuid], host_traits


def _read_inventories(placement, provider):
    """Return the inventories of a resource provider.

    :returns: dict, resource class -> inventory
    """
    inventories = placement.resource_provider_inventories(provider)
    return {inventory.resource_class: inventory for inventory in inventories}


def _read_usages(placement, provider):
    """Return the used amounts of a resource provider.

    :returns: dict, resource class -> amount
    """
    response = placement.get('/resource_providers/%s/usages' % provider.id)
    sdk_exceptions.raise_from_response(response)
    return response.json()['usages']
