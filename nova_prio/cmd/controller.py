# SPDX-License-Identifier: Apache-2.0

"""Nova and its databases for the commands, and errors in one sentence."""

import contextlib
import itertools
import warnings

from osc_lib import exceptions

from nova_prio.admin import config_files
from nova_prio.compat import contract


@contextlib.contextmanager
def configure_nova(parsed_args):
    """Configure Nova; yields an administrator's RequestContext.

    What goes wrong in the databases ends the command with one sentence.
    """
    # Nova takes a second to import, which the help need not wait for, and its
    # libraries warn of what is not the user's to change.
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        from nova import config
        from nova import context

        from nova_prio.admin import host_inventory
    from nova_prio.compat import hooks
    mismatches = contract.find_mismatches(contract.COMMANDS)
    if mismatches:
        raise exceptions.CommandError(
            'Nova %s does not match this package: %s. Install a release of '
            'nova-prio that supports it.'
            % (contract.get_nova_release(), '; '.join(mismatches)))
    conf = hooks.register_options()
    files = itertools.chain.from_iterable(
        ('--config-file', path) for path in parsed_args.config_file)
    try:
        config.parse_args(['nova-prio', *files], configure_db=False,
                          init_rpc=False)
        host_inventory.connect_databases(conf)
        yield context.get_admin_context()
    except config_files.ERRORS as error:
        raise exceptions.CommandError(config_files.format_read_error(
            error, parsed_args.config_file)) from error
    except host_inventory.DATABASE_ERRORS as error:
        raise exceptions.CommandError(
            "Nova's database cannot be read: %s. Run this where nova-manage "
            'runs, or give its nova.conf with --config-file.'
            % ' '.join(str(error).split())) from error


@contextlib.contextmanager
def report_errors():
    """End the command with the sentence of an error of Nova or Placement."""
    from nova import exception

    from nova_prio.model import flavor_specs
    from nova_prio.placement import allocations
    try:
        yield
    except exception.HostMappingNotFound as error:
        raise exceptions.CommandError(
            '%s; allowed are names of compute hosts.'
            % error.format_message().rstrip('.')) from error
    except allocations.CLIENT_ERRORS as error:
        raise exceptions.CommandError(
            'Placement cannot be asked: %s. See [placement] in nova.conf.'
            % str(error).rstrip('.')) from error
    except allocations.PlacementRefused as error:
        raise exceptions.CommandError(
            '%s.' % str(error).rstrip('.')) from error
    except flavor_specs.RequestRefused as error:
        raise exceptions.CommandError(str(error)) from error
    except exception.NovaException as error:
        raise exceptions.CommandError(error.format_message()) from error


def find_flavor(context, wanted):
    """Return a nova.objects.Flavor, by its name or ID as --flavor gives it."""
    from nova import exception
    from nova import objects
    for find in objects.Flavor.get_by_flavor_id, objects.Flavor.get_by_name:
        with contextlib.suppress(
                exception.FlavorNotFound, exception.FlavorNotFoundByName):
            return find(context, wanted)
    raise exceptions.CommandError(
        "--flavor is '%s'; allowed are names and IDs of flavors." % wanted)


def read_guests(conf, remedy):
    """Return the ``audit.guests.Host`` here and a list of its guests.

    :param remedy: sentence for a libvirt that does not answer
    """
    from nova_prio.admin.audit import guests
    try:
        return guests.read_guests(conf)
    except guests.GuestsUnreadable as error:
        raise exceptions.CommandError(
            '%s. %s' % (str(error).rstrip('.'), remedy)) from error
