# SPDX-License-Identifier: Apache-2.0

"""The commands ``openstack priority server list`` and ``... project list``."""

import collections

from openstack import exceptions as sdk_exceptions
from osc_lib.command import command
from osc_lib import utils
from oslo_utils import strutils

from nova_prio.model import flavor_cpus
from nova_prio.model import flavor_specs

#: The first microversion that shows the flavor embedded in a server.
MICROVERSION = '2.47'


class ServerLister(command.Lister):
    """A command that lists servers, with the options that select them."""

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--host', metavar='<host>',
            help='only servers on this host (admin only)')
        parser.add_argument(
            '--project', metavar='<project>',
            help='only servers of this project (name or ID; admin only)')
        parser.add_argument(
            '--all-projects', action='store_true',
            default=strutils.bool_from_string(utils.env('ALL_PROJECTS')),
            help='include all projects (admin only; can be specified using '
            'the ALL_PROJECTS envvar)')
        return parser

    def list_servers(self, parsed_args):
        """Yield each selected server with its class and its CPUs.

        :returns: tuples (openstack.compute.v2.server.Server, class,
            ``capacity.Demand``). The demand is None if the flavor cannot be
            read, which is logged.
        """
        connection = self.app.client_manager.sdk_connection
        query = {}
        if parsed_args.host:
            query['compute_host'] = parsed_args.host
        if parsed_args.project:
            query['project_id'] = _find_project(
                connection.identity, parsed_args.project)
        for server in connection.compute.servers(
                all_projects=bool(
                    parsed_args.all_projects or parsed_args.project),
                microversion=MICROVERSION, **query):
            specs = server.flavor.extra_specs or {}
            demand = None
            try:
                demand = flavor_cpus.get_demand(server.flavor.vcpus, specs)
            except ValueError as error:
                self.log.warning(
                    'The CPUs of server %s are unknown. %s', server.id, error)
            yield server, flavor_cpus.get_class(specs), demand


class ListServer(ServerLister):
    """List the priority and the CPUs of servers.

    They are read from the flavor that is embedded in each server. "Priority"
    is the value of hw:cpu_priority there. "Class" is the priority in force,
    or ordinary. An isolated emulator thread counts as a dedicated vCPU. If
    only the image pins a server, its vCPUs are listed as shared.
    """

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        return (
            ('ID', 'Name', 'Project', 'Host', 'Status', 'Priority', 'Class',
             'Dedicated vCPUs', 'Shared vCPUs'),
            [(server.id, server.name, server.project_id,
              server.compute_host or '', server.status,
              (server.flavor.extra_specs or {}).get(
                  flavor_specs.EXTRA_SPEC, ''),
              class_name, *_get_vcpus(demand))
             for server, class_name, demand in self.list_servers(parsed_args)])


class ListProject(ServerLister):
    """List the vCPUs of each project and class, for example for billing.

    Without --all-projects, this is the project of the user. Servers without a
    host are not counted, because they use no vCPUs: for example, a server
    that is shelved and offloaded. A stopped server keeps its vCPUs. Nova omits
    the servers of a cell that does not answer, without a warning, unless
    [api] list_records_by_skipping_down_cells is false. For how vCPUs are
    counted, see "openstack priority server list".
    """

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        # (project, class) -> [servers, dedicated vCPUs, shared vCPUs]
        sums = collections.defaultdict(lambda: [0, 0, 0])
        for server, class_name, demand in self.list_servers(parsed_args):
            # Each user may see whether host_id is empty.
            if not server.host_id or demand is None:
                continue
            numbers = sums[server.project_id, class_name]
            for index, number in enumerate(
                    (1, demand.dedicated, demand.shared)):
                numbers[index] += number
        return (
            ('Project', 'Class', 'Servers', 'Dedicated vCPUs',
             'Shared vCPUs'),
            [(*key, *numbers) for key, numbers in sorted(
                sums.items(), key=lambda item: (
                    item[0][0], flavor_cpus.CLASSES.index(item[0][1])))])


def _get_vcpus(demand):
    """Return the dedicated and shared vCPUs, '' if they are unknown."""
    return ('', '') if demand is None else (demand.dedicated, demand.shared)


def _find_project(identity, name):
    """Return the ID of a project.

    As other commands of the client do, this takes the name as the ID if the
    user may not read projects.

    :param name: name or ID of the project
    """
    try:
        return identity.find_project(name, ignore_missing=False).id
    except sdk_exceptions.ForbiddenException:
        return name
