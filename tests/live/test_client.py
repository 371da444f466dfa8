# SPDX-License-Identifier: Apache-2.0

"""The commands ``openstack priority``, as admin and as a member.

The first host has 12 CPUs, of which README.rst dedicates 8, and a ratio of 2.
"""

import csv
import io

import pytest

from tests.live import tenant

PLACE = ('--image', 'guest', '--nic', 'none', '--wait')


@pytest.fixture(scope='module')
def project(layout):
    """The ID of the project of the member."""
    with tenant.tenant(layout) as users:
        yield users['member'].current_project_id


@pytest.fixture(scope='module')
def member(openstack, project):
    """Words that run a command of ``openstack`` as the member."""
    return ('--os-username', 'tenant-member', '--os-password',
            tenant.PASSWORD, '--os-project-name', 'tenant')


@pytest.fixture(scope='module')
def servers(openstack, flavors, hosts, member):
    """Dict, name -> ID of a server of the admin and one of the member."""
    openstack.run('server', 'create', '--flavor', 'high', '--host', hosts[0],
                  *PLACE, 'client-high')
    openstack.run(*member, 'server', 'create', '--flavor', 'low', *PLACE,
                  'client-low')
    yield {server['Name']: server['ID'] for server in openstack.show(
        'server', 'list', '--all-projects')
        if server['Name'].startswith('client-')}
    openstack.run('server', 'delete', '--wait', 'client-high')
    openstack.run(*member, 'server', 'delete', '--wait', 'client-low')


def test_capacity_of_hosts(openstack, servers, hosts):
    rows = openstack.show('priority', 'capacity', 'list', '--aggregate',
                          'priority', '--flavor', 'high')
    assert sorted(hosts) == [row['Host'] for row in rows]
    assert all(row['Mix'] and row['Enabled'] for row in rows)
    first = next(row for row in rows if row['Host'] == hosts[0])
    assert (4, 8, 4, 16, 1) == tuple(first[column] for column in (
        'High Sold', 'High Sellable', 'High Left', 'Low Sellable', 'Units'))
    assert 4 == sum(row['Low Sold'] for row in rows)


def test_admin_lists_servers_of_all_projects(openstack, servers, hosts):
    rows = {row['ID']: row for row in openstack.show(
        'priority', 'server', 'list', '--all-projects')}
    for name, expected in (('client-high', ('high', 4, 0)),
                           ('client-low', ('low', 0, 4))):
        row = rows[servers[name]]
        assert expected == (row['Class'], row['Dedicated vCPUs'],
                            row['Shared vCPUs'])
    listed = openstack.show('priority', 'server', 'list', '--all-projects',
                            '--host', hosts[0])
    assert servers['client-high'] in {row['ID'] for row in listed}


@pytest.mark.parametrize('attribute', ['name', 'id'])
def test_admin_lists_servers_of_one_project(
        openstack, servers, project, attribute):
    wanted = {'name': 'tenant', 'id': project}[attribute]
    row, = openstack.show('priority', 'server', 'list', '--project', wanted)
    assert servers['client-low'] == row['ID']


def test_projects_as_csv(openstack, servers, project):
    text = openstack.run(
        'priority', 'project', 'list', '--all-projects', '-f', 'csv')
    rows = list(csv.DictReader(io.StringIO(text)))
    row, = (row for row in rows if row['Project'] == project)
    assert ('low', '1', '0', '4') == tuple(row[column] for column in (
        'Class', 'Servers', 'Dedicated vCPUs', 'Shared vCPUs'))


def test_member_lists_own_servers_without_their_hosts(
        openstack, servers, member, project):
    row, = openstack.show(*member, 'priority', 'server', 'list')
    assert (servers['client-low'], '') == (row['ID'], row['Host'])
    row, = openstack.show(*member, 'priority', 'project', 'list')
    assert project == row['Project']


@pytest.mark.parametrize('words', [
    ['capacity', 'list'], ['server', 'list', '--all-projects'],
    ['project', 'list', '--all-projects']])
def test_member_gets_the_policy_error(openstack, servers, member, words):
    with pytest.raises(RuntimeError, match='ForbiddenException: 403'):
        openstack.run(*member, 'priority', *words)
