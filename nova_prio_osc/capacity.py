# SPDX-License-Identifier: Apache-2.0

"""The command ``openstack priority capacity list``."""

import math

from openstack import exceptions as sdk_exceptions
from osc_lib.command import command
from osc_lib import exceptions

from nova_prio.model import flavor_cpus
from nova_prio.model import flavor_specs
from nova_prio.model import provider_rows
from nova_prio.model import traits

#: Columns of the amounts: High Sold, High Sellable and so on.
AMOUNTS = ['%s %s' % (row.title(), amount.title())
           for row in provider_rows.CLASS_OF_ROW
           for amount in provider_rows.Row._fields]


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
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--aggregate', action='append', metavar='<aggregate>',
            help='list the hosts of this aggregate (name or ID), by '
            'Placement\'s copy of the aggregate (repeat option to list '
            'multiple aggregates)')
        parser.add_argument(
            '--flavor', metavar='<flavor>',
            help='also list how many servers of this flavor (name or ID) fit '
            'by the PCPU, VCPU, MEMORY_MB and DISK_GB in Placement; a server '
            'that boots from a volume needs less DISK_GB. NUMA cells, '
            'aggregates and images are not considered, so fewer may fit')
        return parser

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        connection = self.app.client_manager.sdk_connection
        request = needs_enabled = None
        if parsed_args.flavor:
            request, needs_enabled = _read_flavor(
                connection.compute, parsed_args.flavor)
        query = {}
        if parsed_args.aggregate:
            query['member_of'] = 'in:' + ','.join(
                connection.compute.find_aggregate(
                    name, ignore_missing=False).uuid
                for name in parsed_args.aggregate)
        rows = []
        for provider, found in _list_hosts(connection.placement, query):
            inventories, usages = _read_resources(
                connection.placement, provider)
            is_enabled = traits.CPU_PRIORITY in found
            row = [provider.name, traits.CPU_PRIORITY_MIX in found, is_enabled]
            for name in provider_rows.CLASS_OF_ROW:
                row += provider_rows.get_row(name, inventories, usages)
            if request:
                row.append(provider_rows.count_instances(
                    request, inventories, usages)
                    if is_enabled or not needs_enabled else 0)
            rows.append(row)
        return (['Host', 'Mix', 'Enabled', *AMOUNTS,
                 *(['Units'] if request else [])],
                sorted(rows))


def _read_flavor(compute, name):
    """Return the resources that a flavor requests, and if it has a priority.

    :param name: name or ID of the flavor
    :returns: (dict, resource class -> amount; bool)
    """
    flavor = compute.find_flavor(
        name, ignore_missing=False, get_extra_specs=True)
    specs = flavor_cpus.add_policy(flavor.extra_specs)
    disk_gb = (flavor.disk + flavor.ephemeral +
               math.ceil((flavor.swap or 0) / 1024))
    try:
        request = flavor_cpus.get_placement_request(
            flavor.vcpus, flavor.ram, disk_gb, specs)
    except ValueError as error:
        raise exceptions.CommandError(
            "--flavor is '%s': %s" % (name, error)) from error
    return request, flavor_specs.EXTRA_SPEC in specs


def _list_hosts(placement, query):
    """Yield the providers of the hosts with our driver, and their traits.

    Three requests find the traits of all hosts.

    :param query: further filters of resource providers
    """
    # Placement refuses a filter by a trait that does not exist.
    existing = {trait.name for trait in placement.traits(
        name='in:' + ','.join(traits.ALL))}
    providers, traits_of = {}, {}
    for trait in sorted(existing):
        for provider in placement.resource_providers(
                required=trait, **query):
            providers[provider.id] = provider
            traits_of.setdefault(provider.id, set()).add(trait)
    for uuid, found in traits_of.items():
        if traits.has_our_driver(found):
            yield providers[uuid], found


def _read_resources(placement, provider):
    """Return the inventories and the usages of a resource provider.

    :returns: (dict, resource class -> inventory; dict, resource class ->
        amount)
    """
    response = placement.get('/resource_providers/%s/usages' % provider.id)
    sdk_exceptions.raise_from_response(response)
    return ({inventory.resource_class: inventory for inventory in
             placement.resource_provider_inventories(provider)},
            response.json()['usages'])
