# SPDX-License-Identifier: Apache-2.0

"""The connection to Nova's API of the commands that change servers."""

from osc_lib import exceptions

#: Maximum time to wait for an answer of an API.
TIMEOUT_SECONDS = 60
#: What --timeout means for the commands that move servers.
TIMEOUT_HELP = ('start no move after this time; Nova goes on with the running '
                'moves')


def add_cloud_option(parser):
    """Add the option --os-cloud."""
    parser.add_argument(
        '--os-cloud', metavar='NAME',
        help='use the credentials of this cloud in clouds.yaml (default: the '
        'environment variables OS_*, as the client openstack does)')


def connect(parsed_args):
    """Return a ``nova_client.NovaClient`` of an administrator.

    :raises CommandError: if credentials are missing, or Nova's API cannot be
        found
    """
    from keystoneauth1 import exceptions as client_exceptions
    import openstack
    from openstack import exceptions as sdk_exceptions

    from nova_prio.admin import nova_client
    from nova_prio.placement import authentication
    try:
        with authentication.report_missing_password():
            # This also asks Keystone for the endpoint of Nova.
            return nova_client.NovaClient(openstack.connect(
                cloud=parsed_args.os_cloud, app_name='nova-prio',
                api_timeout=TIMEOUT_SECONDS).compute)
    except (client_exceptions.ClientException,
            sdk_exceptions.SDKException) as error:
        raise exceptions.CommandError(
            "No connection to Nova's API: %s. To give credentials, source "
            'the openrc file of an administrator, or give --os-cloud.'
            % ' '.join(str(error).split()).rstrip('.')) from error
