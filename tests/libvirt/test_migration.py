# SPDX-License-Identifier: Apache-2.0

"""Migrations between two real hosts with different CPU sets."""

import dataclasses
import logging
from unittest import mock

import fixtures
from nova.tests.functional.api import client
import pytest

from tests.libvirt import daemon
from tests.libvirt import guests
from tests.libvirt import two_hosts

#: Flavor of each kind: vCPUs and extra specs.
KINDS = {
    'high': (1, {'hw:cpu_priority': 'high'}),
    'high mixed': (2, {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'mixed',
                       'hw:cpu_dedicated_mask': '0'}),
    'low': (2, {'hw:cpu_priority': 'low'}),
    'low in a cell': (2, {'hw:cpu_priority': 'low', 'hw:numa_nodes': '1'}),
    'ordinary': (2, {}),
    'mixed': (2, {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}),
}


@pytest.fixture(scope='module')
def bed(cpus):
    with two_hosts.Host('mix1') as mix1, two_hosts.Host('mix2') as mix2:
        mix1.prepare()
        mix2.prepare()
        with two_hosts.TwoHosts.running({
                mix1: cpus,
                mix2: dataclasses.replace(cpus, dedicated=cpus.shared,
                                          shared=cpus.dedicated)}) as found:
            yield found


@pytest.fixture(scope='module')
def image(bed, busy_image):
    return bed.image(busy_image)


@pytest.fixture
def server(bed, image, kind):
    """The only server on mix1."""
    vcpus, extra_specs = KINDS[kind]
    found = bed.boot_on('mix1', bed.flavor(vcpus, **extra_specs), image)
    yield found
    bed._delete_server(found)


def in_place(bed, server, kind, host):
    """Assert that a server runs only on a host, on the CPUs of its kind."""
    assert host == bed.host_of(server)
    assert [host] == list(bed.held_by(server['id']))
    guest, cpus = bed.guest(server), bed.cpus_of[host]
    for other in bed.hosts.values():
        assert {other.name == host} == {
            guest.name in other.virsh('list', '--all', '--name').split(),
            (other.instances_path / server['id']).exists()}
    assert server['id'] == guest.host.virsh('domuuid', guest.name).strip()
    vcpus = {
        'high': [cpus.dedicated],
        'low': [cpus.floating] * 2,
        'low in a cell': [cpus.floating] * 2,
        'ordinary': [cpus.shared] * 2}.get(
            kind, [cpus.dedicated, cpus.shared])
    assert dict(enumerate(vcpus)) == guest.affinity
    running = guests.busy(guest, daemon.TIMEOUT_SECONDS)
    assert vcpus == [running[vcpu].allowed for vcpu in sorted(running)]
    if kind.startswith('low'):
        assert {cpus.shared} == {thread.allowed for thread in [
            guest.emulator, *guest.iothreads.values()]}
    priority = kind.split()[0]
    partition = ('/%s_prio_machine.partition/' % priority
                 if priority in ('high', 'low') else '/machine')
    for controller in 'cpu', 'cpuset':
        assert guest.cgroups[controller].startswith(partition), guest.cgroups


@pytest.mark.parametrize('kind', KINDS)
def test_live_migration_to_other_host_and_back(bed, server, kind):
    in_place(bed, server, kind, 'mix1')
    bed.there_and_back(
        server, lambda host: in_place(bed, server, kind, host))


@pytest.mark.parametrize('kind', KINDS)
def test_cold_migration_revert_and_confirm(bed, server, kind):
    before = bed.recounted()
    bed._migrate_server(server, 'mix2')
    bed._revert_resize(server)
    in_place(bed, server, kind, 'mix1')
    assert before == bed.recounted()
    for host in 'mix2', 'mix1':
        bed._migrate_server(server, host)
        bed._confirm_resize(server)
        in_place(bed, server, kind, host)
        after = bed.recounted()
    assert before == after


@pytest.fixture
def mix2_without_partitions(bed):
    mix2 = bed.hosts['mix2']
    for path in mix2.path('/sys/fs/cgroup').rglob('*_prio_machine.partition'):
        path.rmdir()
    # Otherwise nova-compute trusts its latest probes.
    bed.computes['mix2'].manager.driver.partitions.record_failed_start()
    yield
    mix2.prepare()
    bed.update_host()


@pytest.mark.parametrize('kind', ['high', 'low'])
def test_host_without_partitions_refuses_only_priority_guests(
        bed, image, server, kind, mix2_without_partitions):
    before = bed.recounted()
    with fixtures.FakeLogger('nova', logging.DEBUG) as log:
        with pytest.raises(client.OpenStackApiException):
            bed.migrate(server, 'mix2')
    assert ('Migration pre-check error: libvirt cannot start a guest in the '
            'partition /high_prio_machine (') in log.output
    in_place(bed, server, kind, 'mix1')
    assert before == bed.recounted()
    with fixtures.FakeLogger('nova_prio.scheduler.filters',
                             logging.DEBUG) as log:
        refused = bed._create_server(
            flavor_id=bed.flavor(**{'hw:cpu_priority': 'low'}),
            image_uuid=image, networks='none', host='mix2',
            expected_state='ERROR')
    assert 'Host mix2, node mix2 refused: no_partition: ' in log.output
    bed._delete_server(refused)
    bed._delete_server(bed.boot_on('mix2', bed.flavor(), image))


def fail(bed, server, host, option, value, happens=None):
    """Let a live migration to mix2 fail, with an option of a host.

    :param happens: function that is called during the transfer of memory
    """
    guest = bed.guest(server)
    with mock.patch.dict(bed.options[host], {('libvirt', option): value}):
        wait = bed.migrate(server, 'mix2')
        if happens:
            daemon.wait_for(lambda: 'Memory processed' in guest.host.virsh(
                'domjobinfo', guest.name), 'No memory is sent.')
            happens()
        # Nova 33 and 34 take the error of libvirt for a failed rollback.
        assert wait() in ('failed', 'error')
    bed.api.post_server_action(
        server['id'], {'os-resetState': {'state': 'active'}})


@pytest.mark.parametrize('kind', ['high', 'low'])
def test_failed_live_migration_keeps_guest_and_accounting(bed, server, kind):
    mix2 = bed.hosts['mix2']
    before = bed.recounted()

    def kill():
        mix2.run('kill', '-KILL', str(
            guests.Guest(mix2, bed.guest(server).name).pid))

    fail(bed, server, 'mix2', 'live_migration_inbound_addr',
         two_hosts.UNREACHABLE % 2)
    in_place(bed, server, kind, 'mix1')
    assert before == bed.recounted()
    fail(bed, server, 'mix1', 'live_migration_bandwidth', 1, kill)
    in_place(bed, server, kind, 'mix1')
    assert before == bed.recounted()
    fail(bed, server, 'mix1', 'live_migration_bandwidth', 1,
         mix2.stop_libvirtd)
    mix2.start_libvirtd()
    # Nova could not roll back on mix2; the next recount does.
    bed.update_host()
    in_place(bed, server, kind, 'mix1')
    assert before == bed.recounted()
