# SPDX-License-Identifier: Apache-2.0

"""The interface by which ``openstack`` loads the commands.

The entry points of the commands are in the group ``openstack.priority.v1``.
"""

DEFAULT_API_VERSION = '1'
API_VERSION_OPTION = 'os_priority_api_version'
API_NAME = 'priority'
API_VERSIONS = ('1',)


def make_client(instance):
    """Return None: the commands use the clients of other services."""


def build_option_parser(parser):
    """Return the parser of the global options, without further options."""
    return parser
