# SPDX-License-Identifier: Apache-2.0

"""The metadata definitions in a running Glance, as Horizon asks for them."""

import subprocess

import pytest

from tests.live import layout as layouts

DIRECTORY = layouts.README.parent / 'etc' / 'metadefs'


@pytest.fixture(scope='module')
def definitions(layout):
    """Load the definitions, as the administrator guide does."""
    command = [layouts.PROGRAMS / 'glance-manage', '--config-file',
               layout.etc / 'glance' / 'glance-api.conf']
    subprocess.run([*command, 'db_load_metadefs', DIRECTORY], check=True,
                   stdin=subprocess.DEVNULL)
    yield
    subprocess.run([*command, 'db_unload_metadefs'], check=True,
                   stdin=subprocess.DEVNULL)


@pytest.mark.parametrize('resource_type, keys', [
    ('OS::Nova::Flavor', {'hw:cpu_priority'}),
    ('OS::Nova::Aggregate', {'priority_mix', 'priority_ordinary',
                             'priority_weight_multiplier'})])
def test_glance_offers_keys_of_a_resource_type(
        admin, definitions, resource_type, keys):
    url = '/metadefs/namespaces'
    found = admin.image.get(
        url, params={'resource_types': resource_type}).json()
    namespace, = found['namespaces']
    assert 'CPU Priority' == namespace['display_name']
    shown = admin.image.get(
        '%s/%s' % (url, namespace['namespace']),
        params={'resource_type': resource_type}).json()
    assert keys == set(shown['properties'])
