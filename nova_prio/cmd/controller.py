# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What those commands share that read Nova's databases.

They run where nova-manage does: beside a Nova whose ``nova.conf`` names the
databases.
"""

import contextlib
import itertools
import typing
import warnings

from osc_lib import exceptions

from nova_prio import conf_files
from nova_prio import contract


def add_arguments(parser):
    """Add the options that say where the configuration is."""
    parser.add_argument(
        '--config-file', action='append', default=[], metavar='PATH',
        help='nova.conf to read (repeat the option for several; default: '
        'those that the services of Nova read)')


@contextlib.contextmanager
def nova(parsed_args):
    """Configure Nova; yields an administrator's RequestContext.

    What goes wrong in the databases ends the command with one sentence.
    """
    # Nova takes a second to import, which the help need not wait for, and its
    # libraries warn of what is not the user's to change.
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        from nova import config
        from nova import context
        from nova import objects

    from nova_prio.cmd import databases
    from nova_prio import seams
    from nova_prio import survey
    mismatches = contract.mismatches(contract.COMMANDS)
    if mismatches:
        raise exceptions.CommandError(
            'Nova %s does not match this package: %s. Install a release of '
            'nova-prio that supports it.'
            % (contract.release(), '; '.join(mismatches)))
    conf = seams.register_options()
    files = itertools.chain.from_iterable(
        ('--config-file', path) for path in parsed_args.config_file)
    try:
        config.parse_args(['nova-prio', *files], configure_db=False,
                          init_rpc=False)
        databases.connect(conf)
        objects.register_all()
        yield context.get_admin_context()
    except conf_files.ERRORS as error:
        raise exceptions.CommandError(conf_files.unreadable(
            error, parsed_args.config_file)) from error
    except survey.DATABASE_ERRORS as error:
        raise exceptions.CommandError(
            "Nova's database cannot be read: %s. Run this where nova-manage "
            'runs, or give its nova.conf with --config-file.'
            % ' '.join(str(error).split())) from error


def flavor(context, wanted):
    """Return a nova.objects.Flavor, by its name or ID as --flavor gives it."""
    from nova import exception
    from nova import objects
    for find in objects.Flavor.get_by_flavor_id, objects.Flavor.get_by_name:
        with contextlib.suppress(
                exception.FlavorNotFound, exception.FlavorNotFoundByName):
            return find(context, wanted)
    raise exceptions.CommandError(
        "--flavor is '%s'; allowed are names and IDs of flavors." % wanted)


@contextlib.contextmanager
def one_sentence():
    """End the command with one sentence where a service does not answer."""
    from nova import exception

    from nova_prio import holdings
    try:
        yield
    except exception.HostMappingNotFound as error:
        raise exceptions.CommandError(
            '%s; allowed are names of compute hosts.'
            % error.format_message().rstrip('.')) from error
    except holdings.NO_PLACEMENT as error:
        raise exceptions.CommandError(
            'Placement cannot be asked: %s. See [placement] in nova.conf.'
            % str(error).rstrip('.')) from error
    except holdings.NotMended as error:
        raise exceptions.CommandError(
            '%s.' % str(error).rstrip('.')) from error


class Seen(typing.NamedTuple):
    """What is said of a host.

    ``view`` is an ``audit.views.HostView``; ``is_marked`` tells whether it is
    in an aggregate for priority instances, ``is_up`` whether its nova-compute
    is.
    """

    view: object
    is_marked: bool
    is_up: bool


def look(context, client, host):
    """Return what Nova and Placement say of a host, a Seen.

    To be called in :func:`one_sentence`.

    :param context: nova.context.RequestContext, of no cell
    :param client: nova.scheduler.client.report.SchedulerReportClient
    :param host: its name
    """
    from nova import objects
    from nova import servicegroup

    from nova_prio.audit import views
    from nova_prio import priority_hosts
    nodes = views.nodes_of(context, host)
    if len(nodes) != 1:
        raise exceptions.CommandError(
            "HOST is '%s', which has %d compute nodes; allowed are hosts with "
            'one.' % (host, len(nodes)))
    (cctxt, node), = nodes
    return Seen(
        views.read(cctxt, client, node),
        any(map(priority_hosts.is_marked,
                objects.AggregateList.get_by_host(context, host))),
        servicegroup.API().service_is_up(
            objects.Service.get_by_compute_host(cctxt, host)))
