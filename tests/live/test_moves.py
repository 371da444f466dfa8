# SPDX-License-Identifier: Apache-2.0

"""Operations on servers of each priority, on real hosts, with the client.

Both hosts have 12 CPUs, of which README.rst dedicates 8.
"""

import functools
import signal
import subprocess

import pytest
import tenacity

from tests.live import client
from tests.live import cloud
from tests.live import layout as layouts
from tests.live import waiting
from tests.live import watch

each_kind = pytest.mark.parametrize('kind', ['high', 'low', 'ordinary'])


@pytest.fixture
def here(hosts):
    """The source host."""
    return hosts[0]


@pytest.fixture
def there(hosts):
    """The destination host."""
    return hosts[1]


@pytest.fixture
def expect(layout, openstack):
    """Function that asserts the host, CPUs and partition of a running server.

    No other host may have a guest of the server.
    """
    def expect_it(name, host, kind):
        server = openstack.ask('server', 'show', name)
        guest = server['OS-EXT-SRV-ATTR:instance_name']
        assert ('ACTIVE', [host]) == (server['status'], [
            each for each in layout.hosts
            if guest in client.guests(layout, each)])
        domain = client.domain(layout, server)
        pins = {pin.get('cpuset') for pin in domain.iter('vcpupin')}
        if kind == 'high':
            # At the destination, Nova adds the shared CPUs to the XML. They
            # have no effect if all vCPUs are pinned.
            assert 4 == len(pins & {*'01234567'}) == len(pins)
        else:
            assert {'low': '0-11', 'ordinary': '8-11'}[kind] == (
                domain.find('vcpu').get('cpuset'))
            assert not pins
        assert domain.findtext('resource/partition') == {
            'high': '/high_prio_machine', 'low': '/low_prio_machine',
            'ordinary': '/machine'}[kind]
        assert [] == watch.settle(layout).violations

    return expect_it


@pytest.mark.parametrize('kind', ['high', 'low'])
def test_hint(kind, boot, here, expect):
    boot('hinted', 'ordinary', '--host', here, '--hint', 'priority=' + kind)
    expect('hinted', here, kind)


@pytest.mark.parametrize('before, after', [
    ('high', 'low'), ('low', 'ordinary'), ('ordinary', 'high')])
def test_resize(before, after, openstack, boot, expect):
    boot('resized', before)
    openstack.run('server', 'resize', '--flavor', after, '--wait', 'resized')
    openstack.run('server', 'resize', 'confirm', 'resized')
    found = openstack.wait('resized', 'ACTIVE')
    expect('resized', found['OS-EXT-SRV-ATTR:host'], after)


@pytest.mark.parametrize('kind, other', [('high', 'low'), ('low', 'high')])
def test_resize_of_a_server_with_a_hint(kind, other, openstack, boot, expect):
    """The priority stays until a flavor takes the priority over."""
    boot('hinted', 'ordinary', '--hint', 'priority=' + kind)
    with pytest.raises(RuntimeError, match='created with scheduler hint'):
        openstack.run('server', 'resize', '--flavor', other, 'hinted')
    for flavor, after in (
            ('plain', kind), (kind, kind), ('ordinary', 'ordinary')):
        openstack.run('server', 'resize', '--flavor', flavor, '--wait',
                      'hinted')
        openstack.run('server', 'resize', 'confirm', 'hinted')
        found = openstack.wait('hinted', 'ACTIVE')
        expect('hinted', found['OS-EXT-SRV-ATTR:host'], after)


@pytest.mark.parametrize('end', ['confirm', 'revert'])
@each_kind
def test_cold_migration(kind, end, openstack, boot, here, there, expect):
    boot('moved', kind, '--host', here)
    openstack.run('server', 'migrate', '--wait', 'moved')
    openstack.run('server', 'migration', end, 'moved')
    openstack.wait('moved', 'ACTIVE')
    expect('moved', there if end == 'confirm' else here, kind)


@each_kind
def test_live_migration_there_and_back(kind, openstack, boot, here, there,
                                       expect):
    boot('moved', kind, '--host', here)
    for host in there, here:
        openstack.run('server', 'migrate', '--live-migration', '--host', host,
                      '--wait', 'moved')
        expect('moved', host, kind)


def test_nova_compute_killed_while_libvirt_moves_a_guest(
        layout, openstack, boot, here, there, expect):
    """libvirt completes the move; the remedy of the audit works."""
    soon = functools.partial(waiting.soon, every=0.1, within=client.SECONDS)
    server = boot('moved', 'high', '--host', here)
    guest = server['OS-EXT-SRV-ATTR:instance_name']
    client.virsh(layout, here, 'migrate-setspeed', guest, '1')
    openstack.run('server', 'migrate', '--live-migration', '--host', there,
                  'moved')
    soon(lambda: 'Unbounded' in client.virsh(
        layout, here, 'domjobinfo', guest))
    found = cloud.Cloud(layout)
    service = 'nova-compute-' + here
    found.processes.stop(service, signal.SIGKILL)
    soon(lambda: guest not in client.guests(layout, here))
    found.start_compute(here)
    settled = functools.partial(waiting.soon, every=5,
                                within=watch.SETTLE_SECONDS)
    # The audit reports a migration that has not changed for a minute.
    settled(lambda: 'libvirt may have moved the guest to ' + there
            in found.audit('--dry-run'))
    for word in 'destroy', 'undefine':
        client.virsh(layout, there, word, guest)
    files = [layout.etc / 'nova' / name for name in ('common.conf',
                                                     'nova.conf')]
    # The other nova-compute updates its report within a minute.
    settled(lambda: 0 == subprocess.run(
        [layouts.PROGRAMS / 'nova-prio', 'audit', '--fix',
         *('--config-file=%s' % file for file in files)]).returncode)
    openstack.run('server', 'reboot', '--hard', '--wait', 'moved')
    expect('moved', here, 'high')


def test_live_migration_aborted_in_the_queue(
        layout, openstack, admin, boot, here, there, expect):
    """A rebuild must not use the CPUs of the aborted destination."""
    def migration(server, status):
        return next((each for each in admin.compute.server_migrations(
            server['id']) if each.status == status), None)

    soon = functools.partial(waiting.soon, every=0.1, within=client.SECONDS)
    # The first migration gets the CPUs at the destination that the other
    # server has at the source.
    queued, slow = [boot(name, 'high', '--host', here)
                    for name in ('queued', 'slow')]
    client.virsh(layout, here, 'migrate-setspeed',
                 slow['OS-EXT-SRV-ATTR:instance_name'], '1')
    for server, status in (slow, 'running'), (queued, 'queued'):
        admin.compute.live_migrate_server(
            server['id'], host=there, block_migration='auto')
        waits = soon(migration, server, status)
    admin.compute.abort_server_migration(waits, queued['id'])
    soon(lambda: not admin.compute.get_server(queued['id']).task_state)
    openstack.run('server', 'rebuild', '--wait', 'queued')
    openstack.wait('slow', 'ACTIVE')
    expect('slow', there, 'high')
    expect('queued', here, 'high')


def test_evacuation_after_a_killed_compute(layout, openstack, boot, here,
                                           there, expect):
    kinds = 'high', 'low', 'ordinary'
    for kind in kinds:
        boot(kind + '-1', kind, '--host', here)
    found = cloud.Cloud(layout)
    found.processes.stop('nova-compute-' + here, signal.SIGKILL)
    openstack.run('compute', 'service', 'set', '--down', here, 'nova-compute')
    for kind in kinds:
        openstack.run('server', 'evacuate', kind + '-1')
    for kind in kinds:
        # From microversion 2.95 on, Nova leaves evacuated servers stopped.
        openstack.wait(kind + '-1', 'SHUTOFF')
        openstack.run('server', 'start', kind + '-1')
        openstack.wait(kind + '-1', 'ACTIVE')
    found.start_compute(here)
    # nova-compute removes its evacuated guests before Nova accepts this.
    tenacity.retry(stop=tenacity.stop_after_delay(client.SECONDS),
                   wait=tenacity.wait_fixed(2))(openstack.run)(
        'compute', 'service', 'set', '--up', here, 'nova-compute')
    for kind in kinds:
        expect(kind + '-1', there, kind)


@each_kind
def test_shelve_and_unshelve(kind, openstack, boot, expect):
    boot('shelved', kind)
    openstack.run('server', 'shelve', 'shelved')
    openstack.wait('shelved', 'SHELVED_OFFLOADED')
    openstack.run('server', 'unshelve', '--wait', 'shelved')
    found = openstack.ask('server', 'show', 'shelved')
    expect('shelved', found['OS-EXT-SRV-ATTR:host'], kind)


def test_soft_anti_affinity(openstack, boot, here, there):
    """A fuller host is better than one with a member of the group."""
    openstack.run('server', 'group', 'create', '--policy',
                  'soft-anti-affinity', 'apart')
    group = openstack.ask('server', 'group', 'show', 'apart')['id']
    member = '--hint', 'group=' + group
    boot('member-1', 'low', '--host', here, *member)
    for number in range(3):
        boot('crowd-%d' % number, 'low', '--host', there)
    found = [boot('alone', 'low'), boot('member-2', 'low', *member)]
    openstack.run('server', 'group', 'delete', 'apart')
    assert [here, there] == [
        server['OS-EXT-SRV-ATTR:host'] for server in found]
