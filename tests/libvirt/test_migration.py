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

#: Name of a flavor -> (vCPUs, extra specs).
FLAVORS = {
    'high': (1, {'hw:cpu_priority': 'high'}),
    'high mixed': (2, {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'mixed',
                       'hw:cpu_dedicated_mask': '0'}),
    'low': (2, {'hw:cpu_priority': 'low'}),
    'low in a cell': (2, {'hw:cpu_priority': 'low', 'hw:numa_nodes': '1'}),
    'ordinary': (2, {}),
    'mixed': (2, {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}),
}


@pytest.fixture(scope='module')
def cloud(cpus):
    with two_hosts.Host('mix1') as mix1, two_hosts.Host('mix2') as mix2:
        mix1.prepare()
        mix2.prepare()
        with two_hosts.TwoHosts.running({
                mix1: cpus,
                mix2: dataclasses.replace(cpus, dedicated=cpus.shared,
                                          shared=cpus.dedicated)}) as found:
            yield found


@pytest.fixture(scope='module')
def image(cloud, busy_image):
    return cloud.image(busy_image)


@pytest.fixture
def server(cloud, image, flavor):
    """The only server on mix1."""
    vcpus, extra_specs = FLAVORS[flavor]
    found = cloud.boot_on('mix1', cloud.flavor(vcpus, **extra_specs), image)
    yield found
    cloud._delete_server(found)


def assert_on_its_cpus(cloud, server, flavor, host):
    """Assert that a server is on one host only, on the CPUs of its flavor."""
    assert host == cloud.host_of(server)
    assert [host] == list(cloud.allocations_of(server['id']))
    guest, cpus = cloud.guest(server), cloud.cpus_of[host]
    for other in cloud.hosts.values():
        assert {other.name == host} == {
            guest.name in other.virsh('list', '--all', '--name').split(),
            (other.instances_path / server['id']).exists()}
    assert server['id'] == guest.host.virsh('domuuid', guest.name).strip()
    vcpus = {
        'high': [cpus.dedicated],
        'low': [cpus.floating] * 2,
        'low in a cell': [cpus.floating] * 2,
        'ordinary': [cpus.shared] * 2}.get(
            flavor, [cpus.dedicated, cpus.shared])
    assert dict(enumerate(vcpus)) == guest.affinity
    running = guests.wait_until_busy(guest)
    assert vcpus == [running[vcpu].allowed for vcpu in sorted(running)]
    if flavor.startswith('low'):
        assert {cpus.shared} == {thread.allowed for thread in [
            guest.emulator, *guest.iothreads.values()]}
    priority = flavor.split()[0]
    partition = ('/%s_prio_machine.partition/' % priority
                 if priority in ('high', 'low') else '/machine')
    for controller in 'cpu', 'cpuset':
        assert guest.cgroups[controller].startswith(partition), guest.cgroups


@pytest.mark.parametrize('flavor', FLAVORS)
def test_live_migration_to_other_host_and_back(cloud, server, flavor):
    assert_on_its_cpus(cloud, server, flavor, 'mix1')
    cloud.migrate_and_return(
        server, lambda host: assert_on_its_cpus(cloud, server, flavor, host))


@pytest.mark.parametrize('flavor', FLAVORS)
def test_cold_migration_revert_and_confirm(cloud, server, flavor):
    before = cloud.recount()
    cloud._migrate_server(server, 'mix2')
    cloud._revert_resize(server)
    assert_on_its_cpus(cloud, server, flavor, 'mix1')
    assert before == cloud.recount()
    for host in 'mix2', 'mix1':
        cloud._migrate_server(server, host)
        cloud._confirm_resize(server)
        assert_on_its_cpus(cloud, server, flavor, host)
        after = cloud.recount()
    assert before == after


@pytest.fixture
def mix2_without_partitions(cloud):
    mix2 = cloud.hosts['mix2']
    for path in mix2.path('/sys/fs/cgroup').rglob('*_prio_machine.partition'):
        path.rmdir()
    # Otherwise nova-compute trusts its latest probes.
    cloud.computes['mix2'].manager.driver.partitions.record_failed_start()
    yield
    mix2.prepare()
    cloud.update_host()


@pytest.mark.parametrize('flavor', ['high', 'low'])
def test_host_without_partitions_refuses_only_priority_guests(
        cloud, image, server, flavor, mix2_without_partitions):
    before = cloud.recount()
    with fixtures.FakeLogger('nova', logging.DEBUG) as log:
        with pytest.raises(client.OpenStackApiException):
            cloud.migrate(server, 'mix2')
    assert ('Migration pre-check error: libvirt cannot start a guest in the '
            'partition /high_prio_machine (') in log.output
    assert_on_its_cpus(cloud, server, flavor, 'mix1')
    assert before == cloud.recount()
    with fixtures.FakeLogger('nova_prio.scheduler.filters',
                             logging.DEBUG) as log:
        refused = cloud._create_server(
            flavor_id=cloud.flavor(**{'hw:cpu_priority': 'low'}),
            image_uuid=image, networks='none', host='mix2',
            expected_state='ERROR')
    assert 'Host mix2, node mix2 refused: no_partition: ' in log.output
    cloud._delete_server(refused)
    cloud._delete_server(cloud.boot_on('mix2', cloud.flavor(), image))


def fail_migration(cloud, server, host, option, value, cause=None):
    """Start a live migration to mix2 that must fail.

    :param host: name of the host that gets the option
    :param option: option of [libvirt] in nova.conf
    :param value: value of the option
    :param cause: function to call during the transfer of memory
    """
    guest = cloud.guest(server)
    with mock.patch.dict(cloud.options[host], {('libvirt', option): value}):
        wait = cloud.migrate(server, 'mix2')
        if cause:
            daemon.wait_for(lambda: 'Memory processed' in guest.host.virsh(
                'domjobinfo', guest.name), 'No memory is sent.')
            cause()
        # Nova 32 to 34 set the status error after an error of libvirt.
        assert wait() in ('failed', 'error')
    cloud.api.post_server_action(
        server['id'], {'os-resetState': {'state': 'active'}})


@pytest.mark.parametrize('flavor', ['high', 'low'])
def test_failed_live_migration_keeps_guest_and_accounting(
        cloud, server, flavor):
    mix2 = cloud.hosts['mix2']
    before = cloud.recount()

    def kill_guest_on_mix2():
        mix2.run('kill', '-KILL', str(
            guests.Guest(mix2, cloud.guest(server).name).pid))

    fail_migration(cloud, server, 'mix2', 'live_migration_inbound_addr',
                   two_hosts.UNREACHABLE % 2)
    assert_on_its_cpus(cloud, server, flavor, 'mix1')
    assert before == cloud.recount()
    fail_migration(cloud, server, 'mix1', 'live_migration_bandwidth', 1,
                   kill_guest_on_mix2)
    assert_on_its_cpus(cloud, server, flavor, 'mix1')
    assert before == cloud.recount()
    fail_migration(cloud, server, 'mix1', 'live_migration_bandwidth', 1,
                   mix2.stop_libvirtd)
    mix2.start_libvirtd()
    # Nova could not roll back on mix2; the next recount does.
    cloud.update_host()
    assert_on_its_cpus(cloud, server, flavor, 'mix1')
    assert before == cloud.recount()
