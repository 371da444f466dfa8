# SPDX-License-Identifier: Apache-2.0

"""Disable and enable the nova-compute services of hosts with Nova's API."""

from __future__ import annotations

import typing

from nova_prio.admin import host as admin_host
from nova_prio.admin import nova_client


#: Reason with which "host drain" disables services.
REASON = 'nova-prio host drain'


class Service(typing.NamedTuple):
    """The nova-compute service of a host.

    ``reason`` is '' if it is enabled, or was disabled without a reason.
    """

    uuid: str
    is_enabled: bool
    reason: str


def list_services(client: nova_client.NovaClient,
                  host: str) -> list[dict[str, typing.Any]]:
    """Return the nova-compute services of a host, in the format of the API.

    :returns: list of one dict, key of the API -> value; [] if the host is
        unknown
    """
    return client.get(
        '/os-services', binary='nova-compute', host=host)['services']


def read_service(client: nova_client.NovaClient, host: str) -> Service:
    """Return the Service of a host.

    :raises nova_prio.admin.host.HostRefused: if the host has none
    """
    services = list_services(client, host)
    if not services:
        raise admin_host.HostRefused(
            "HOST is '%s', which has no nova-compute service; allowed are "
            'names of compute hosts.' % host)
    found = services[0]
    return Service(uuid=found['id'],
                   is_enabled=found['status'] == 'enabled',
                   reason=found['disabled_reason'] or '')


def disable(client: nova_client.NovaClient, service: Service) -> None:
    """Disable a service, so that its host gets no more instances."""
    client.request('PUT', '/os-services/' + service.uuid, json={
        'status': 'disabled', 'disabled_reason': REASON})


def enable(client: nova_client.NovaClient, service: Service) -> None:
    """Enable a service."""
    client.request('PUT', '/os-services/' + service.uuid,
                   json={'status': 'enabled'})
