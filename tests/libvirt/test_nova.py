# SPDX-License-Identifier: Apache-2.0

"""Servers of each priority in a stock Nova, on a real host."""

from unittest import mock

import libvirt
from lxml import etree
from nova.virt import hardware
import pytest

from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt import partitions
from tests import commands
from tests.libvirt import cloud as clouds
from tests.libvirt import daemon
from tests.libvirt import guests


@pytest.fixture(scope='module')
def cloud(host, cpus):
    with clouds.RealCloud.running(host, cpus) as found:
        yield found


@pytest.fixture(scope='module', autouse=True)
def servers(cloud, busy_image, idle_image):
    """Dict, priority -> server."""
    busy, idle = cloud.image(busy_image), cloud.image(idle_image)
    return {
        'high': cloud.boot(cloud.flavor(**{'hw:cpu_priority': 'high'}), busy),
        'low': cloud.boot(cloud.flavor(2, **{'hw:cpu_priority': 'low'}), busy),
        # An ordinary server must not have more vCPUs than the host has
        # shared CPUs.
        None: cloud.boot(cloud.flavor(), idle)}


@pytest.fixture(autouse=True)
def check_each_server(cloud, servers, cpus):
    """Check each server after each test."""
    yield
    for priority, server in servers.items():
        assert 'ACTIVE' == cloud.api.get_server(server['id'])['status']
        assert_on_its_cpus(cloud, server, priority, cpus)


def assert_on_its_cpus(cloud, server, priority, cpus):
    """Assert that a server runs on the CPUs of its priority."""
    guest = cloud.guest(server)
    vcpu_cpus = {'high': cpus.dedicated, 'low': cpus.floating,
                 None: cpus.shared}[priority]
    partition = '/%s_prio_machine.partition/' % priority
    vcpus = {'low': 2}.get(priority, 1)
    assert dict.fromkeys(range(vcpus), vcpu_cpus) == guest.affinity
    assert {vcpu_cpus} == {
        thread.allowed for thread in guest.vcpus.values()}
    if priority == 'low':
        assert {cpus.shared} == {thread.allowed for thread in [
            guest.emulator, *guest.iothreads.values()]}
    for controller in 'cpu', 'cpuset':
        assert guest.cgroups[controller].startswith(
            partition if priority else '/machine'), guest.cgroups


def resize(cloud, server, priority):
    cloud._resize_server(
        server, cloud.flavor(2, **{'hw:cpu_priority': priority}))
    cloud._confirm_resize(server)


def rescue(cloud, server, priority):
    cloud._rescue_server(server)
    assert_on_its_cpus(cloud, server, priority, cloud.cpus)
    cloud._unrescue_server(server)


def stop_and_start(cloud, server, priority):
    cloud._stop_server(server)
    cloud._start_server(server)


def shelve_and_unshelve(cloud, server, priority):
    cloud._shelve_server(server)
    cloud._unshelve_server(server)


def hard_reboot(cloud, server, priority=None):
    cloud._reboot_server(server, hard=True)


def restore_cpus(cloud, servers, cpus):
    """Undo a change of the CPU sets, and unshelve the high server."""
    cloud.set_cpus(cpus.dedicated, cpus.shared)
    cloud.restart_compute()
    for priority in 'low', None:
        hard_reboot(cloud, servers[priority])
    cloud.update_host()
    cloud._unshelve_server(servers['high'])


@pytest.mark.parametrize('priority, change', [
    *(('low', change) for change in (
        hard_reboot, stop_and_start, rescue, resize, shelve_and_unshelve)),
    # A resize of the high server would need a second dedicated CPU.
    *(('high', change) for change in (
        hard_reboot, stop_and_start, rescue, shelve_and_unshelve))])
def test_new_guest_of_server_gets_cpus_of_its_priority(
        cloud, servers, priority, change):
    pid = cloud.guest(servers[priority]).pid
    change(cloud, servers[priority], priority)
    assert pid != cloud.guest(servers[priority]).pid


def test_restarts_of_services_keep_guests_and_usage(cloud, servers, host):
    """After the restarts, the driver can reboot its guests."""
    def read_state():
        cloud.update_host()
        return ([cloud.guest(server).pid for server in servers.values()],
                sorted(cloud.driver.list_instance_uuids()),
                cloud.report().used)

    before = read_state()
    cloud.restart_compute()
    assert before == read_state()
    host.restart_libvirtd()
    assert before == read_state()
    pids, uuids, used = before
    assert sorted(server['id'] for server in servers.values()) == uuids
    # The ordinary server draws from the low row as well.
    assert (1, 3, 1) == tuple(used)
    for server in servers.values():
        hard_reboot(cloud, server)
    new_pids, *others = read_state()
    assert [uuids, used] == others
    assert not set(pids) & set(new_pids)


def test_next_probe_destroys_leftover_guest_of_earlier_probe(cloud, host):
    """A probe leaves a guest if libvirtd or nova-compute ends too early."""
    probed = cloud.driver.partitions
    probed.record_failed_start()
    with mock.patch.object(libvirt.virDomain, 'destroy',
                           side_effect=libvirt.libvirtError('injected')):
        cloud.driver.probe_partitions()
    assert 'injected' in probed.problem
    assert partitions.PROBE_PREFIX in host.virsh('list', '--name')
    # Nova does not take that guest for an instance.
    assert not (set(partitions.PROBE_UUIDS.values()) &
                set(cloud.driver.list_instance_uuids()))
    cloud.update_host()
    assert not probed.problem
    assert partitions.PROBE_PREFIX not in host.virsh('list', '--name')


def test_low_guest_uses_new_cpu_sets_after_hard_reboot(
        cloud, servers, cpus):
    low = cloud.guest(servers['low'])
    # nova-compute does not start if pinned instances lack their CPUs.
    cloud._shelve_server(servers['high'])
    for dedicated, shared, mix in (
            (cpus.shared, cpus.dedicated, True),
            (cpus.dedicated, cpus.shared, False),
            (cpus.dedicated, cpus.shared, True)):
        before = low.pid, low.affinity, low.emulator.allowed
        cloud.set_cpus(dedicated, shared)
        cloud.flags(cpu_priority_mix_enable=mix)
        cloud.restart_compute()
        assert before == (low.pid, low.affinity, low.emulator.allowed)
        hard_reboot(cloud, servers['low'])
        floating = shared | dedicated if mix else shared
        assert {0: floating, 1: floating} == low.affinity
        assert shared == low.emulator.allowed
    cloud._unshelve_server(servers['high'])


def test_low_emulator_set_limits_emulator_threads(
        cloud, servers, cpus):
    """The vCPUs use one CPU of this machine, the emulator threads another."""
    low = cloud.guest(servers['low'])
    cloud._shelve_server(servers['high'])
    cloud.flags(cpu_priority_mix_enable=False)
    cloud.set_cpus((), cpus.dedicated)
    cloud.flags(low_emulator_set=hardware.format_cpu_spec(cpus.shared),
                group='nova_prio')
    cloud.restart_compute()
    assert not cloud.driver.partitions.problem
    for change in hard_reboot, stop_and_start:
        change(cloud, servers['low'], 'low')
        assert {0: cpus.dedicated, 1: cpus.dedicated} == low.affinity
        guests.wait_until_busy(low)
        assert {cpus.shared} == {thread.allowed for thread in [
            low.emulator, *low.iothreads.values()]}
    cloud.flags(low_emulator_set=None, group='nova_prio')
    cloud.flags(cpu_priority_mix_enable=True)
    restore_cpus(cloud, servers, cpus)


def test_ordinary_guest_on_stale_cpu_sets_blocks_its_cpus(
        cloud, servers, cpus):
    """A suspended guest returns to the CPUs of its start."""
    ordinary = servers[None]
    cloud._shelve_server(servers['high'])
    cloud.set_cpus(cpus.shared, cpus.dedicated)
    cloud.restart_compute()
    blocked = cpus.shared
    for change in (cloud._suspend_server, cloud._resume_server):
        assert blocked == cloud.report().blocked
        change(ordinary)
        cloud.update_host()
    assert blocked == cloud.report().blocked
    cloud.api.post_server_action(servers['high']['id'], {'unshelve': None})
    cloud._wait_for_state_change(servers['high'], 'SHELVED_OFFLOADED')
    hard_reboot(cloud, ordinary)
    cloud.update_host()
    # The emulator threads of the low guest also run on these CPUs.
    assert blocked == cloud.report().blocked
    hard_reboot(cloud, servers['low'])
    cloud.update_host()
    assert not cloud.report().blocked
    cloud._unshelve_server(servers['high'])
    cloud._shelve_server(servers['high'])
    restore_cpus(cloud, servers, cpus)


def test_audit_finds_changed_cpuset_of_guest(cloud, servers, cpus):
    def audit():
        return commands.run('audit', '--all')

    cloud.flags(host=cloud.host.name)
    status, (row,), errors = audit()
    assert (0, 'floating=3 pinned=1', 'ok') == (
        status, row['Libvirt'], row['State']), (row, errors)
    guest = cloud.guest(servers['low'])
    floating, shared = (hardware.format_cpu_spec(each)
                        for each in (cpus.floating, cpus.shared))
    cloud.host.virsh('vcpupin', guest.name, '1', shared)
    status, (found, row), errors = audit()
    assert (3, 'old_cpuset', servers['low']['id'], 'CPUs ' + floating,
            'CPUs ' + shared) == (status, *(found[name] for name in (
                'Finding', 'Consumer', 'Needed', 'Libvirt'))), errors
    cloud.host.virsh('vcpupin', guest.name, '1', floating)
    assert 0 == audit()[0]
    cloud.flags(connection_uri='qemu+unix:///system?socket=/none',
                group='libvirt')
    status, (found,), _ = audit()
    cloud.flags(connection_uri=cloud.host.uri, group='libvirt')
    assert (1, 'unread') == (status, found['Finding'])
    assert 'libvirt does not answer: ' in found['Remedy']


def test_domain_xml_of_driver_matches_schema(
        cloud, servers, tmp_path, monkeypatch):
    documents = []
    apply_priority = guest_xml.apply_priority

    def record(*args):
        documents.append(apply_priority(*args))
        return documents[-1]

    monkeypatch.setattr(guest_xml, 'apply_priority', record)
    for server in servers.values():
        hard_reboot(cloud, server)
    for number, xml in enumerate(documents):
        file = tmp_path / str(number)
        file.write_text(xml)
        daemon.run('virt-xml-validate', str(file), 'domain')
    # The driver does not change the XML of an ordinary guest.
    assert set(guest_xml.PARTITIONS.values()) == {
        etree.fromstring(xml).findtext('resource/partition')
        for xml in documents}


def test_delete_removes_guest_cgroup_and_allocations(
        cloud, servers, host, idle_image):
    server = cloud.boot(cloud.flavor(**{'hw:cpu_priority': 'low'}),
                        cloud.image(idle_image))
    guest = cloud.guest(server)
    group = host.path('/sys/fs/cgroup/cpu' + guest.cgroups['cpu'])
    assert group.exists()
    cloud._delete_server(server)
    assert guest.name not in host.virsh('list', '--all')
    daemon.wait_for(lambda: not group.exists(), 'The cgroup still exists.')
    assert {} == cloud.placement.get(
        '/allocations/%s' % server['id']).body['allocations']
