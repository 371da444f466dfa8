# SPDX-License-Identifier: Apache-2.0

"""Connections of openstacksdk to the APIs of a test."""

import contextlib
from unittest import mock

from keystoneauth1 import plugin
from keystoneauth1 import session
import openstack
from openstack import service_description

# Nova's tests replace this function, so that Placement has no proxy.
_MAKE_PROXY = service_description.ServiceDescription._make_proxy


class FakeToken(plugin.BaseAuthPlugin):
    """The headers by which Nova's and Placement's test APIs know a user."""

    def __init__(self, user):
        super().__init__()
        self._user = user

    def get_headers(self, session, **kwargs):
        roles = ','.join(self._user.roles)
        return {'X-Auth-Token': self._user.auth_user, 'X-Roles': roles,
                'X-Auth-User': self._user.auth_user,
                'X-User-Id': self._user.auth_user,
                'X-Auth-Project-Id': self._user.project_id}


def make_connection(cloud, user):
    """Return a connection.

    :param cloud: a ``FunctionalTest``
    :param user: API client of the user
    """
    connection = openstack.connection.Connection(
        session=session.Session(auth=FakeToken(user)),
        compute_endpoint_override=cloud.api_fixture.base_url,
        placement_endpoint_override=cloud.placement.fixture.endpoint)
    with mock.patch.object(
            service_description.ServiceDescription, '_make_proxy',
            _MAKE_PROXY):
        # The connection keeps these proxies.
        connection.compute, connection.placement  # noqa: B018
    return connection


@contextlib.contextmanager
def connect(cloud, user):
    """Yield a connection, which ``openstack.connect`` returns meanwhile."""
    connection = make_connection(cloud, user)
    with mock.patch.object(openstack, 'connect', return_value=connection):
        yield connection
