# SPDX-License-Identifier: Apache-2.0

"""The worked example on real services, with the real client.

The host has 12 CPUs, of which README.rst dedicates 8, and a ratio of 2.
"""

import collections
import subprocess

import pytest

from tests.live import client
from tests.live import layout as layouts
from tests.live import watch


@pytest.fixture(scope='module')
def host(hosts):
    """The name of the host of all servers."""
    return hosts[0]


@pytest.fixture(scope='module')
def servers(openstack, flavors, host):
    """Three high, five low and one ordinary server, created in that order.

    They are deleted at the end.
    """
    names = ['high-1', 'high-2', 'high-3', 'low-1', 'low-2', 'low-3',
             'low-4', 'low-5', 'ordinary-1']
    yield [openstack.boot(name, name.split('-')[0], '--host', host)
           for name in names]
    openstack.run('server', 'delete', '--wait', *names)


def select(servers, flavor, status='ACTIVE'):
    """Return the servers of a flavor with a status."""
    return [server for server in servers
            if server['name'].startswith(flavor) and
            server['status'] == status]


def test_two_high_and_four_low_fill_the_host(servers):
    assert {
        'high-1': 'ACTIVE', 'high-2': 'ACTIVE', 'high-3': 'ERROR',
        'low-1': 'ACTIVE', 'low-2': 'ACTIVE', 'low-3': 'ACTIVE',
        'low-4': 'ACTIVE', 'low-5': 'ERROR', 'ordinary-1': 'ERROR',
    } == {server['name']: server['status'] for server in servers}


def test_refused_servers_have_a_fault(servers):
    for name in 'high', 'low', 'ordinary':
        refused, = select(servers, name, 'ERROR')
        assert 'No valid host was found' in refused['fault']['message']


def test_high_vcpus_are_pinned_one_to_one_on_dedicated_cpus(servers, layout):
    pins = [pin.get('cpuset') for server in select(servers, 'high')
            for pin in client.domain(layout, server).iter('vcpupin')]
    assert list('01234567') == sorted(pins)


def test_low_vcpus_float_over_all_cpus(servers, layout):
    for server in select(servers, 'low'):
        assert '0-11' == client.domain(layout, server).find(
            'vcpu').get('cpuset')


@pytest.mark.parametrize('service', ['api', 'scheduler'])
def test_upgrade_check_succeeds(servers, layout, service):
    done = subprocess.run(
        [layouts.PROGRAMS / 'nova-prio-status', *(
            '--config-file=%s' % (layout.etc / 'nova' / (name + '.conf'))
            for name in ('common', 'nova', 'readme-' + service)),
         'upgrade', 'check'],
        capture_output=True, text=True)
    assert 0 == done.returncode, done.stdout + done.stderr


def test_guests_are_in_their_partitions(servers, layout):
    found = collections.Counter(
        client.domain(layout, server).findtext('resource/partition')
        for server in select(servers, ''))
    assert {'/high_prio_machine': 2, '/low_prio_machine': 4} == found


def test_placement_has_no_free_cpus(servers, openstack, host):
    provider, = openstack.show('resource', 'provider', 'list', '--name', host)
    used = {usage['resource_class']: usage['usage'] for usage in
            openstack.show('resource', 'provider', 'usage', 'show',
                           provider['uuid'])}
    assert {'PCPU': 8, 'VCPU': 16, 'MEMORY_MB': 6 * 64, 'DISK_GB': 6} == used


def test_invariants_hold(servers, layout):
    assert [] == watch.settle(layout).violations
