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

each_flavor = pytest.mark.parametrize('flavor', ['high', 'low', 'ordinary'])


@pytest.fixture
def source(hosts):
    """The source host."""
    return hosts[0]


@pytest.fixture
def destination(hosts):
    """The destination host."""
    return hosts[1]


@pytest.fixture
def expect(layout, openstack):
    """Function that asserts the host, CPUs and partition of a running server.

    No other host may have a guest of the server.
    """
    def check(name, host, flavor):
        server = openstack.show('server', 'show', name)
        guest = server['OS-EXT-SRV-ATTR:instance_name']
        assert ('ACTIVE', [host]) == (server['status'], [
            each for each in layout.hosts
            if guest in client.guests(layout, each)])
        domain = client.domain(layout, server)
        pins = {pin.get('cpuset') for pin in domain.iter('vcpupin')}
        if flavor == 'high':
            # At the destination, Nova adds the shared CPUs to the XML. They
            # have no effect if all vCPUs are pinned.
            assert 4 == len(pins & {*'01234567'}) == len(pins)
        else:
            assert {'low': '0-11', 'ordinary': '8-11'}[flavor] == (
                domain.find('vcpu').get('cpuset'))
            assert not pins
        assert domain.findtext('resource/partition') == {
            'high': '/high_prio_machine', 'low': '/low_prio_machine',
            'ordinary': '/machine'}[flavor]
        assert [] == watch.settle(layout).violations

    return check


@pytest.mark.parametrize('priority', ['high', 'low'])
def test_hint_sets_priority(priority, boot, source, expect):
    boot('hinted', 'ordinary', '--host', source,
         '--hint', 'priority=' + priority)
    expect('hinted', source, priority)


@pytest.mark.parametrize('before, after', [
    ('high', 'low'), ('low', 'ordinary'), ('ordinary', 'high')])
def test_resize_changes_class(before, after, openstack, boot, expect):
    boot('resized', before)
    openstack.run('server', 'resize', '--flavor', after, '--wait', 'resized')
    openstack.run('server', 'resize', 'confirm', 'resized')
    found = openstack.wait('resized', 'ACTIVE')
    expect('resized', found['OS-EXT-SRV-ATTR:host'], after)


@pytest.mark.parametrize('priority, other', [
    ('high', 'low'), ('low', 'high')])
def test_hint_stays_until_a_flavor_has_its_priority(
        priority, other, openstack, boot, expect):
    """After that resize, the flavor alone decides the priority."""
    boot('hinted', 'ordinary', '--hint', 'priority=' + priority)
    with pytest.raises(RuntimeError, match='created with scheduler hint'):
        openstack.run('server', 'resize', '--flavor', other, 'hinted')
    for flavor, after in (
            ('plain', priority), (priority, priority),
            ('ordinary', 'ordinary')):
        openstack.run('server', 'resize', '--flavor', flavor, '--wait',
                      'hinted')
        openstack.run('server', 'resize', 'confirm', 'hinted')
        found = openstack.wait('hinted', 'ACTIVE')
        expect('hinted', found['OS-EXT-SRV-ATTR:host'], after)


@pytest.mark.parametrize('end', ['confirm', 'revert'])
@each_flavor
def test_cold_migration_keeps_class(
        flavor, end, openstack, boot, source, destination, expect):
    boot('moved', flavor, '--host', source)
    openstack.run('server', 'migrate', '--wait', 'moved')
    openstack.run('server', 'migration', end, 'moved')
    openstack.wait('moved', 'ACTIVE')
    expect('moved', destination if end == 'confirm' else source, flavor)


@each_flavor
def test_live_migration_to_other_host_and_back(
        flavor, openstack, boot, source, destination, expect):
    boot('moved', flavor, '--host', source)
    for host in destination, source:
        openstack.run('server', 'migrate', '--live-migration', '--host', host,
                      '--wait', 'moved')
        expect('moved', host, flavor)


def test_audit_repairs_migration_after_killed_compute(
        layout, openstack, boot, source, destination, expect):
    """libvirt completes the move; the documented remedy works."""
    soon = functools.partial(waiting.soon, every=0.1, within=client.SECONDS)
    server = boot('moved', 'high', '--host', source)
    guest = server['OS-EXT-SRV-ATTR:instance_name']
    client.virsh(layout, source, 'migrate-setspeed', guest, '1')
    openstack.run('server', 'migrate', '--live-migration',
                  '--host', destination, 'moved')
    soon(lambda: 'Unbounded' in client.virsh(
        layout, source, 'domjobinfo', guest))
    found = cloud.Cloud(layout)
    service = 'nova-compute-' + source
    found.processes.stop(service, signal.SIGKILL)
    soon(lambda: guest not in client.guests(layout, source))
    found.start_compute(source)
    settled = functools.partial(waiting.soon, every=5,
                                within=watch.SETTLE_SECONDS)
    # The audit reports a migration that has not changed for a minute.
    settled(lambda: 'libvirt may have moved the guest to ' + destination
            in found.audit('--dry-run'))
    for word in 'destroy', 'undefine':
        client.virsh(layout, destination, word, guest)
    # The other nova-compute updates its report within a minute.
    settled(lambda: 0 == subprocess.run(
        [layouts.PROGRAMS / 'nova-prio', 'audit', '--fix',
         *layout.nova_options]).returncode)
    openstack.run('server', 'reboot', '--hard', '--wait', 'moved')
    expect('moved', source, 'high')


def test_abort_of_queued_live_migration_keeps_source_cpus(
        layout, openstack, admin, boot, source, destination, expect):
    """A rebuild must not use the CPUs of the aborted destination."""
    def migration(server, status):
        return next((each for each in admin.compute.server_migrations(
            server['id']) if each.status == status), None)

    soon = functools.partial(waiting.soon, every=0.1, within=client.SECONDS)
    # At the destination, the first migration claims the CPUs that the other
    # server has at the source.
    queued, slow = [boot(name, 'high', '--host', source)
                    for name in ('queued', 'slow')]
    client.virsh(layout, source, 'migrate-setspeed',
                 slow['OS-EXT-SRV-ATTR:instance_name'], '1')
    for server, status in (slow, 'running'), (queued, 'queued'):
        admin.compute.live_migrate_server(
            server['id'], host=destination, block_migration='auto')
        waits = soon(migration, server, status)
    admin.compute.abort_server_migration(waits, queued['id'])
    soon(lambda: not admin.compute.get_server(queued['id']).task_state)
    openstack.run('server', 'rebuild', '--wait', 'queued')
    openstack.wait('slow', 'ACTIVE')
    expect('slow', destination, 'high')
    expect('queued', source, 'high')


def test_evacuation_keeps_class(
        layout, openstack, boot, source, destination, expect):
    flavors = 'high', 'low', 'ordinary'
    for flavor in flavors:
        boot(flavor + '-1', flavor, '--host', source)
    found = cloud.Cloud(layout)
    found.processes.stop('nova-compute-' + source, signal.SIGKILL)
    openstack.run(
        'compute', 'service', 'set', '--down', source, 'nova-compute')
    for flavor in flavors:
        openstack.run('server', 'evacuate', flavor + '-1')
    for flavor in flavors:
        # From microversion 2.95 on, Nova leaves evacuated servers stopped.
        openstack.wait(flavor + '-1', 'SHUTOFF')
        openstack.run('server', 'start', flavor + '-1')
        openstack.wait(flavor + '-1', 'ACTIVE')
    found.start_compute(source)
    # nova-compute removes its evacuated guests before Nova accepts this.
    tenacity.retry(stop=tenacity.stop_after_delay(client.SECONDS),
                   wait=tenacity.wait_fixed(2))(openstack.run)(
        'compute', 'service', 'set', '--up', source, 'nova-compute')
    for flavor in flavors:
        expect(flavor + '-1', destination, flavor)


@each_flavor
def test_unshelve_keeps_class(flavor, openstack, boot, expect):
    boot('shelved', flavor)
    openstack.run('server', 'shelve', 'shelved')
    openstack.wait('shelved', 'SHELVED_OFFLOADED')
    openstack.run('server', 'unshelve', '--wait', 'shelved')
    found = openstack.show('server', 'show', 'shelved')
    expect('shelved', found['OS-EXT-SRV-ATTR:host'], flavor)


def test_soft_anti_affinity_prefers_host_without_member(
        openstack, boot, source, destination):
    """The host without a member has more instances."""
    openstack.run('server', 'group', 'create', '--policy',
                  'soft-anti-affinity', 'apart')
    group = openstack.show('server', 'group', 'show', 'apart')['id']
    member = '--hint', 'group=' + group
    boot('member-1', 'low', '--host', source, *member)
    for number in range(3):
        boot('crowd-%d' % number, 'low', '--host', destination)
    found = [boot('alone', 'low'), boot('member-2', 'low', *member)]
    openstack.run('server', 'group', 'delete', 'apart')
    assert [source, destination] == [
        server['OS-EXT-SRV-ATTR:host'] for server in found]
