# SPDX-License-Identifier: Apache-2.0

"""Configure Nova for the commands, and report its errors as sentences."""

import contextlib
import functools
import warnings

from osc_lib import exceptions

from nova_prio.admin import config_files
from nova_prio.compat import contract
from nova_prio.compat import interfaces
from nova_prio.virt import driver_alias


@contextlib.contextmanager
def configure_nova(parsed_args):
    """Configure Nova and its databases; yield an administrator's context.

    Errors in the block of the with statement are reported in the same way.

    :raises CommandError: if Nova lacks an interface, or the configuration or a
        database cannot be read
    """
    # Import Nova late, so that the help is fast. Operators cannot act on the
    # warnings of Nova's libraries.
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        from nova import config
        from nova import context

        from nova_prio.admin import host_inventory
    from nova_prio.compat import hooks
    # Check that the installed Nova has all names that the commands rely on.
    mismatches = contract.find_mismatches(interfaces.COMMANDS)
    if mismatches:
        raise exceptions.CommandError(
            'Nova %s does not match this package: %s. Install a release of '
            'nova-prio that supports this Nova.'
            % (contract.get_nova_release(), '; '.join(mismatches)))
    conf = hooks.register_options()
    options = parsed_args.config_options
    try:
        config.parse_args(['nova-prio', *options], configure_db=False,
                          init_rpc=False)
        host_inventory.connect_databases(conf)
        yield context.get_admin_context()
    except BrokenPipeError:
        # The reader of the output, such as "head", has closed it. This is an
        # OSError, but none of a configuration file.
        raise
    except config_files.ERRORS as error:
        raise exceptions.CommandError(config_files.format_read_error(
            error, options)) from error
    except host_inventory.DATABASE_ERRORS as error:
        raise exceptions.CommandError(
            "Nova's database cannot be read: %s. Run this command where "
            'nova-manage runs, or give the nova.conf of that host with '
            '--config-file.' % ' '.join(str(error).split())) from error


@contextlib.contextmanager
def report_errors():
    """Raise CommandError for an error of Nova, Placement or this package.

    The text of the CommandError is one sentence. Other errors pass unchanged.
    """
    from nova import exception

    from nova_prio.admin import host as admin_host
    from nova_prio.admin import nova_client
    from nova_prio.model import flavor_specs
    from nova_prio.placement import allocations
    from nova_prio.placement import authentication
    sentence = '%s.'
    try:
        # This turns the plain Exception about a missing password into one of
        # CLIENT_ERRORS.
        with authentication.report_missing_password():
            yield
    except (exception.NovaException, allocations.PlacementRefused,
            flavor_specs.RequestRefused, admin_host.HostRefused,
            contract.StartRefused,
            nova_client.APIRefused, nova_client.APIUnavailable,
            *allocations.CLIENT_ERRORS) as error:
        if isinstance(error, exception.HostMappingNotFound):
            sentence = '%s; allowed are names of compute hosts.'
        elif isinstance(error, allocations.CLIENT_ERRORS):
            sentence = ('Placement does not answer: %s. Check [placement] in '
                        'nova.conf.')
        raise exceptions.CommandError(
            sentence % str(error).rstrip('.')) from error


def get_conf():
    """Return Nova's ``oslo_config.cfg.ConfigOpts``."""
    import nova.conf
    return nova.conf.CONF


def make_placement_client():
    """Return a nova.scheduler.client.report.SchedulerReportClient."""
    from nova_prio.placement import authentication
    return authentication.make_placement_client()


def is_compute():
    """Return whether the configuration is that of a priority host."""
    return get_conf().compute_driver == driver_alias.DRIVER


def make_audit(context, placement):
    """Return a ``run.CloudAudit``, which may read the guests of this host.

    :param placement: nova.scheduler.client.report.SchedulerReportClient
    """
    from nova_prio.admin.audit import guest_audit
    from nova_prio.admin.audit import run
    conf = get_conf()
    this_host = conf.host if is_compute() else None
    return run.CloudAudit(
        context, placement, name=this_host,
        read_guests=functools.partial(guest_audit.read_guests, conf))


def find_flavor(context, wanted):
    """Return the nova.objects.Flavor that the option --flavor names.

    :param wanted: name or ID of the flavor
    :raises CommandError: if there is no such flavor
    """
    from nova import exception
    from nova import objects
    for find in objects.Flavor.get_by_flavor_id, objects.Flavor.get_by_name:
        # If the flavor is not found, go on after this block.
        with contextlib.suppress(
                exception.FlavorNotFound, exception.FlavorNotFoundByName):
            return find(context, wanted)
    raise exceptions.CommandError(
        "--flavor is '%s'; allowed are names and IDs of flavors." % wanted)


def read_guests(conf):
    """Return this host and the guests that run on it.

    :returns: (``audit.guests.GuestHost``, list of ``guest_xml.Guest``)
    :raises CommandError: if libvirt does not answer
    """
    from nova_prio.admin.audit import guest_audit
    try:
        return guest_audit.read_guests(conf)
    except guest_audit.GuestsUnreadable as error:
        raise exceptions.CommandError(
            '%s. Run this command on the compute host, as a user who may '
            'connect to libvirt.' % str(error).rstrip('.')) from error
