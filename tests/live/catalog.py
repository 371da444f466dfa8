# SPDX-License-Identifier: Apache-2.0

"""The catalog of a live cloud, and its clients."""

import openstack
import openstack.config
import yaml

from tests.live import layout as layouts

#: Listener -> type and name of its service.
SERVICES = {'compute': ('compute', 'nova'),
            'placement': ('placement', 'placement'),
            'image': ('image', 'glance'),
            'network': ('network', 'neutron')}
#: Name of the cloud for the client ``openstack``.
CLOUD = 'live'


def write(layout):
    """Write clouds.yaml."""
    (layout.directory / 'clouds.yaml').write_text(yaml.safe_dump({
        'clouds': {CLOUD: {
            'auth': {'auth_url': layout.url('identity'), 'username': 'admin',
                     'password': layouts.PASSWORD, 'project_name': 'admin',
                     'user_domain_id': 'default',
                     'project_domain_id': 'default'},
            'region_name': layouts.REGION,
            # The newest microversion of each service.
            'compute_api_version': '2.96',
            'placement_api_version': '1.39'}}}))


def connect(layout, **auth):
    """Return the openstacksdk connection of the administrator.

    :param auth: for another user: username, password and project_name
    """
    return openstack.connection.Connection(
        config=openstack.config.OpenStackConfig(
            config_files=[str(layout.directory / 'clouds.yaml')]
        ).get_one(cloud=CLOUD, auth=auth))


def fill(layout):
    """Create missing services, endpoints and roles."""
    connection = connect(layout)
    identity = connection.identity
    for listener, (service_type, name) in SERVICES.items():
        if any(identity.services(type=service_type)):
            continue
        service = identity.create_service(
            type=service_type, name=name)
        identity.create_endpoint(
            service_id=service.id, interface='public',
            region_id=layouts.REGION, url=layout.url(listener))
    role = (identity.find_role('service') or
            identity.create_role(name='service'))
    # Nova sends service tokens of this user to the other services.
    identity.assign_project_role_to_user(
        identity.find_project('admin'), identity.find_user('admin'), role)


def has_service(layout, binary):
    """Return whether a service of Nova with this binary is up."""
    return any(service.state == 'up' for service in
               connect(layout).compute.services(binary=binary))


def has_resources(layout, host):
    """Return whether the host has inventories in Placement."""
    placement = connect(layout).placement
    return any(any(placement.resource_provider_inventories(provider))
               for provider in placement.resource_providers(name=host))


def delete_inventories(layout, host):
    """Delete the inventories of a host that has no allocations."""
    placement = connect(layout).placement
    for provider in placement.resource_providers(name=host):
        placement.delete(
            '/resource_providers/%s/inventories' % provider.id,
            microversion='1.39').raise_for_status()
