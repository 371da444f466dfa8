# SPDX-License-Identifier: Apache-2.0

"""A client of Nova's API, which tells an API that refuses from one that fails.

The commands read Nova's databases, but only the API changes servers and
services.
"""

from __future__ import annotations

import http
import typing

from keystoneauth1 import exceptions as client_exceptions
from openstack import exceptions as sdk_exceptions

if typing.TYPE_CHECKING:
    from keystoneauth1 import adapter
    import requests

#: The microversion of all requests. Each release of Nova that the package
#: supports has it. 2.56 adds the host of a cold migration, 2.68 removes forced
#: live migrations, 2.84 the details of failed events, and 2.95 keeps evacuated
#: servers stopped.
MICROVERSION = '2.95'


class APIRefused(Exception):
    """Nova's API refuses a request; the text is the reason.

    ``status`` is the HTTP status, from 400 to 499.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class APIUnavailable(Exception):
    """Nova's API does not answer, or answers that it failed.

    It may have accepted the request. The text is one sentence.
    """


class NovaClient:
    """The requests to Nova's API.

    :param compute: adapter of openstacksdk, such as ``connection.compute``
    """

    def __init__(self, compute: adapter.Adapter) -> None:
        self._compute = compute

    def get(self, path: str, **query: typing.Any) -> typing.Any:
        """Return the JSON body of an answer.

        :raises APIRefused: if the API refuses the request
        :raises APIUnavailable: if it does not answer
        """
        return self.request('GET', path, params=query).json()

    def act(self, uuid: str, action: str,
            arguments: dict[str, typing.Any] | None = None) -> None:
        """Start an action of a server.

        :param uuid: UUID of the server
        :param action: name of the action, such as ``shelve``
        :param arguments: its arguments, name -> value; None if it has none
        :raises APIRefused: if the API refuses the action
        :raises APIUnavailable: if it does not answer
        """
        self.request(
            'POST', '/servers/%s/action' % uuid, json={action: arguments})

    def request(self, method: str, path: str,
                **kwargs: typing.Any) -> requests.Response:
        """Send a request; return the answer.

        :raises APIRefused: if the API refuses the request
        :raises APIUnavailable: if it does not answer
        """
        try:
            response = self._compute.request(
                path, method, microversion=MICROVERSION, **kwargs)
            sdk_exceptions.raise_from_response(response)
        except sdk_exceptions.HttpException as error:
            # An error made of an answer has its status: the 0 is only for the
            # type, which allows None.
            status = error.status_code or 0
            text = str(error.details or error).strip().rstrip('.')
            # A request over the rate limit may succeed later.
            if status >= 500 or status == http.HTTPStatus.TOO_MANY_REQUESTS:
                raise APIUnavailable("Nova's API fails: %s" % text) from error
            raise APIRefused("Nova's API refuses %s %s: %s" % (
                method, path, text), status) from error
        except (client_exceptions.ClientException,
                sdk_exceptions.SDKException) as error:
            raise APIUnavailable("Nova's API does not answer: %s" % (
                str(error).strip().rstrip('.'))) from error
        return response
