# SPDX-License-Identifier: Apache-2.0

"""The commands ``openstack priority server list`` and ``... project list``.

The class of a server is high, low or ordinary: the priority that is in force,
or none. Its dedicated vCPUs are pinned to host CPUs, its shared vCPUs float.
"""

import collections
import dataclasses

from openstack import exceptions as sdk_exceptions
from osc_lib.command import command
from osc_lib import utils
from oslo_utils import strutils

from nova_prio.model import flavor_cpus
from nova_prio.model import flavor_specs
from nova_prio.model import maturity

#: The first microversion that shows the flavor embedded in a server.
MICROVERSION = '2.47'


@dataclasses.dataclass
class Total:
    """The number of servers of a project in a class, and of their vCPUs."""

    servers: int = 0
    dedicated_vcpus: int = 0
    shared_vcpus: int = 0


class ServerLister(command.Lister):
    """A command that lists servers, with the options that select them."""

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = maturity.mark(super().get_parser(prog_name))
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
            ``cpu_capacity.Demand``). The demand is None if the flavor cannot
            be read, which is logged.
        """
        connection = self.app.client_manager.sdk_connection
        project_id = None
        if parsed_args.project:
            project_id = _find_project(
                connection.identity, parsed_args.project)
        # Nova ignores a project unless all projects are listed.
        all_projects = bool(parsed_args.all_projects or parsed_args.project)
        # openstacksdk does not send parameters that are None.
        for server in connection.compute.servers(
                all_projects=all_projects, microversion=MICROVERSION,
                compute_host=parsed_args.host or None, project_id=project_id):
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
        """Return the names of the columns, and the rows of the table."""
        columns = ('ID', 'Name', 'Project', 'Host', 'Status', 'Priority',
                   'Class', 'Dedicated vCPUs', 'Shared vCPUs')
        table = []
        for server, class_name, demand in self.list_servers(parsed_args):
            extra_specs = server.flavor.extra_specs or {}
            priority = extra_specs.get(flavor_specs.EXTRA_SPEC, '')
            # Unknown numbers are empty.
            dedicated_vcpus = shared_vcpus = ''
            if demand is not None:
                dedicated_vcpus = demand.dedicated
                shared_vcpus = demand.shared
            table.append((
                server.id, server.name, server.project_id,
                server.compute_host or '', server.status, priority,
                class_name, dedicated_vcpus, shared_vcpus))
        return columns, table


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
        """Return the names of the columns, and the rows of the table."""
        columns = ('Project', 'Class', 'Servers', 'Dedicated vCPUs',
                   'Shared vCPUs')
        # (ID of the project, name of the class) -> Total
        totals = collections.defaultdict(Total)
        for server, class_name, demand in self.list_servers(parsed_args):
            # Each user may see whether host_id is empty.
            if server.host_id and demand is not None:
                total = totals[server.project_id, class_name]
                total.servers += 1
                total.dedicated_vcpus += demand.dedicated
                total.shared_vcpus += demand.shared
        table = []
        for project_id in sorted({project_id for project_id, _ in totals}):
            for class_name in flavor_cpus.CLASSES:
                total = totals.get((project_id, class_name))
                if total is not None:
                    table.append((
                        project_id, class_name, total.servers,
                        total.dedicated_vcpus, total.shared_vcpus))
        return columns, table


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
