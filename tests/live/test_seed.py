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


def of(servers, flavor, status='ACTIVE'):
    return [server for server in servers
            if server['name'].startswith(flavor) and
            server['status'] == status]


def test_two_high_and_four_low_run_and_all_else_is_refused(servers):
    assert {
        'high-1': 'ACTIVE', 'high-2': 'ACTIVE', 'high-3': 'ERROR',
        'low-1': 'ACTIVE', 'low-2': 'ACTIVE', 'low-3': 'ACTIVE',
        'low-4': 'ACTIVE', 'low-5': 'ERROR', 'ordinary-1': 'ERROR',
    } == {server['name']: server['status'] for server in servers}


def test_each_refusal_has_a_fault(servers):
    for name in 'high', 'low', 'ordinary':
        refused, = of(servers, name, 'ERROR')
        assert 'No valid host was found' in refused['fault']['message']


def test_high_is_pinned_one_to_one_on_the_dedicated_cpus(servers, layout):
    pins = [pin.get('cpuset') for server in of(servers, 'high')
            for pin in client.domain(layout, server).iter('vcpupin')]
    assert list('01234567') == sorted(pins)


def test_low_floats_over_all_cpus(servers, layout):
    for server in of(servers, 'low'):
        assert '0-11' == client.domain(layout, server).find(
            'vcpu').get('cpuset')


@pytest.mark.parametrize('service', ['api', 'scheduler'])
def test_the_configuration_is_right(servers, layout, service):
    done = subprocess.run(
        [layouts.PROGRAMS / 'nova-prio-status', *(
            '--config-file=%s' % (layout.etc / 'nova' / (name + '.conf'))
            for name in ('common', 'nova', 'readme-' + service)),
         'upgrade', 'check'],
        capture_output=True, text=True)
    assert 0 == done.returncode, done.stdout + done.stderr


def test_partitions(servers, layout):
    found = collections.Counter(
        client.domain(layout, server).findtext('resource/partition')
        for server in of(servers, ''))
    assert {'/high_prio_machine': 2, '/low_prio_machine': 4} == found


def test_placement_is_full(servers, openstack, host):
    provider, = openstack.ask('resource', 'provider', 'list', '--name', host)
    used = {usage['resource_class']: usage['usage'] for usage in
            openstack.ask('resource', 'provider', 'usage', 'show',
                          provider['uuid'])}
    assert {'PCPU': 8, 'VCPU': 16, 'MEMORY_MB': 6 * 64, 'DISK_GB': 6} == used


def test_services_and_hosts_agree(servers, layout):
    assert [] == watch.settle(layout).violations
