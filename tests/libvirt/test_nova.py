# SPDX-License-Identifier: Apache-2.0

"""Servers of each priority in a stock Nova, on a real host."""

from unittest import mock

import libvirt
from lxml import etree
from nova.virt import hardware
import pytest

from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt.partitions import PROBE_PREFIX
from tests import commands
from tests.libvirt import cloud
from tests.libvirt import daemon
from tests.libvirt import guests


@pytest.fixture(scope='module')
def bed(host, cpus):
    with cloud.RealCloud.running(host, cpus) as found:
        yield found


@pytest.fixture(scope='module', autouse=True)
def servers(bed, busy_image, idle_image):
    """Dict, priority -> server."""
    busy, idle = bed.image(busy_image), bed.image(idle_image)
    return {
        'high': bed.boot(bed.flavor(**{'hw:cpu_priority': 'high'}), busy),
        'low': bed.boot(bed.flavor(2, **{'hw:cpu_priority': 'low'}), busy),
        # Its vCPUs must not exceed the shared CPUs of the host.
        None: bed.boot(bed.flavor(), idle)}


@pytest.fixture(autouse=True)
def each_stays_in_place(bed, servers, cpus):
    """Check each server after each test."""
    yield
    for priority, server in servers.items():
        assert 'ACTIVE' == bed.api.get_server(server['id'])['status']
        in_place(bed, server, priority, cpus)


def in_place(bed, server, priority, cpus):
    """Assert that a server runs on the CPUs of its priority."""
    guest = bed.guest(server)
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


def resize(bed, server, priority):
    bed._resize_server(server, bed.flavor(2, **{'hw:cpu_priority': priority}))
    bed._confirm_resize(server)


def rescue(bed, server, priority):
    bed._rescue_server(server)
    in_place(bed, server, priority, bed.cpus)
    bed._unrescue_server(server)


def stop(bed, server, priority):
    bed._stop_server(server)
    bed._start_server(server)


def shelve(bed, server, priority):
    bed._shelve_server(server)
    bed._unshelve_server(server)


def hard_reboot(bed, server, priority=None):
    bed._reboot_server(server, hard=True)


def restore(bed, servers, cpus):
    """Undo a change of the CPU sets; the high server must be shelved."""
    bed.set_cpus(cpus.dedicated, cpus.shared)
    bed.restart_compute()
    for priority in 'low', None:
        hard_reboot(bed, servers[priority])
    bed.update_host()
    bed._unshelve_server(servers['high'])


@pytest.mark.parametrize('priority, change', [
    *(('low', change) for change in (
        hard_reboot, stop, rescue, resize, shelve)),
    # A resize of the high server would need a second dedicated CPU.
    *(('high', change) for change in (hard_reboot, stop, rescue, shelve))])
def test_new_guest_of_server_gets_cpus_of_its_priority(
        bed, servers, priority, change):
    pid = bed.guest(servers[priority]).pid
    change(bed, servers[priority], priority)
    assert pid != bed.guest(servers[priority]).pid


def test_restarts_of_services_keep_guests_and_usage(bed, servers, host):
    """After the restarts, the driver can reboot its guests."""
    def seen():
        bed.update_host()
        return ([bed.guest(server).pid for server in servers.values()],
                sorted(bed.driver.list_instance_uuids()), bed.report().used)

    before = seen()
    bed.restart_compute()
    assert before == seen()
    host.restart_libvirtd()
    assert before == seen()
    pids, uuids, used = before
    assert sorted(server['id'] for server in servers.values()) == uuids
    # The ordinary server draws from the low row as well.
    assert (1, 3, 1) == tuple(used)
    for server in servers.values():
        hard_reboot(bed, server)
    new_pids, *others = seen()
    assert [uuids, used] == others
    assert not set(pids) & set(new_pids)


def test_next_probe_destroys_leftover_guest_of_earlier_probe(bed, host):
    """libvirtd or nova-compute may stop before the guest is destroyed."""
    partitions = bed.driver.partitions
    partitions.record_failed_start()
    with mock.patch.object(libvirt.virDomain, 'destroy',
                           side_effect=libvirt.libvirtError('gone')):
        bed.driver.probe_partitions()
    assert 'gone' in partitions.problem
    assert PROBE_PREFIX in host.virsh('list', '--name')
    bed.update_host()
    assert partitions.problem is None
    assert PROBE_PREFIX not in host.virsh('list', '--name')


def test_low_guest_uses_new_cpu_sets_after_hard_reboot(
        bed, servers, cpus):
    low = bed.guest(servers['low'])
    # nova-compute does not start if pinned instances lack their CPUs.
    bed._shelve_server(servers['high'])
    for dedicated, shared, mix in (
            (cpus.shared, cpus.dedicated, True),
            (cpus.dedicated, cpus.shared, False),
            (cpus.dedicated, cpus.shared, True)):
        before = low.pid, low.affinity, low.emulator.allowed
        bed.set_cpus(dedicated, shared)
        bed.flags(cpu_priority_mix_enable=mix)
        bed.restart_compute()
        assert before == (low.pid, low.affinity, low.emulator.allowed)
        hard_reboot(bed, servers['low'])
        floating = shared | dedicated if mix else shared
        assert {0: floating, 1: floating} == low.affinity
        assert shared == low.emulator.allowed
    bed._unshelve_server(servers['high'])


def test_low_emulator_set_limits_emulator_threads(
        bed, servers, cpus):
    """This machine has two CPUs: one for the guest, one for its threads."""
    low = bed.guest(servers['low'])
    bed._shelve_server(servers['high'])
    bed.flags(cpu_priority_mix_enable=False)
    bed.set_cpus((), cpus.dedicated)
    bed.flags(low_emulator_set=hardware.format_cpu_spec(cpus.shared),
              group='nova_prio')
    bed.restart_compute()
    assert bed.driver.partitions.problem is None
    for change in hard_reboot, stop:
        change(bed, servers['low'], 'low')
        assert {0: cpus.dedicated, 1: cpus.dedicated} == low.affinity
        guests.busy(low)
        assert {cpus.shared} == {thread.allowed for thread in [
            low.emulator, *low.iothreads.values()]}
    bed.flags(low_emulator_set=None, group='nova_prio')
    bed.flags(cpu_priority_mix_enable=True)
    restore(bed, servers, cpus)


def test_ordinary_guest_on_stale_cpu_sets_blocks_its_cpus(
        bed, servers, cpus):
    """A suspended guest returns to the CPUs of its start."""
    ordinary = servers[None]
    bed._shelve_server(servers['high'])
    bed.set_cpus(cpus.shared, cpus.dedicated)
    bed.restart_compute()
    kept = hardware.format_cpu_spec(cpus.shared)
    for change in (bed._suspend_server, bed._resume_server):
        assert kept == bed.report().blocked_cpus
        change(ordinary)
        bed.update_host()
    assert kept == bed.report().blocked_cpus
    bed.api.post_server_action(servers['high']['id'], {'unshelve': None})
    bed._wait_for_state_change(servers['high'], 'SHELVED_OFFLOADED')
    hard_reboot(bed, ordinary)
    bed.update_host()
    # The emulator threads of the low guest also run on these CPUs.
    assert kept == bed.report().blocked_cpus
    hard_reboot(bed, servers['low'])
    bed.update_host()
    assert '' == bed.report().blocked_cpus
    bed._unshelve_server(servers['high'])
    bed._shelve_server(servers['high'])
    restore(bed, servers, cpus)


def test_audit_finds_changed_cpuset_of_guest(bed, servers, cpus):
    def audit():
        return commands.run('audit', '--all')

    bed.flags(host=bed.host.name)
    status, (row,), said = audit()
    assert (0, 'floating=3 pinned=1', 'ok') == (
        status, row['Libvirt'], row['State']), (row, said)
    guest = bed.guest(servers['low'])
    everywhere, shared = (hardware.format_cpu_spec(each)
                          for each in (cpus.floating, cpus.shared))
    bed.host.virsh('vcpupin', guest.name, '1', shared)
    status, (found, row), said = audit()
    assert (3, 'old_cpuset', servers['low']['id'], 'CPUs ' + everywhere,
            'CPUs ' + shared) == (status, *(found[name] for name in (
                'Finding', 'Consumer', 'Needed', 'Libvirt'))), said
    bed.host.virsh('vcpupin', guest.name, '1', everywhere)
    assert 0 == audit()[0]
    bed.flags(connection_uri='qemu+unix:///system?socket=/none',
              group='libvirt')
    status, (found,), _ = audit()
    bed.flags(connection_uri=bed.host.uri, group='libvirt')
    assert (1, 'unread') == (status, found['Finding'])
    assert 'libvirt does not answer: ' in found['Remedy']


def test_domain_xml_of_driver_matches_schema(
        bed, servers, tmp_path, monkeypatch):
    made = []
    apply_priority = guest_xml.apply_priority

    def record(*args):
        made.append(apply_priority(*args))
        return made[-1]

    monkeypatch.setattr(guest_xml, 'apply_priority', record)
    for server in servers.values():
        hard_reboot(bed, server)
    for number, xml in enumerate(made):
        file = tmp_path / str(number)
        file.write_text(xml)
        daemon.run('virt-xml-validate', str(file), 'domain')
    # The driver does not change the XML of an ordinary guest.
    assert set(guest_xml.PARTITIONS.values()) == {
        etree.fromstring(xml).findtext('resource/partition') for xml in made}


def test_delete_removes_guest_cgroup_and_allocations(
        bed, servers, host, idle_image):
    server = bed.boot(bed.flavor(**{'hw:cpu_priority': 'low'}),
                      bed.image(idle_image))
    guest = bed.guest(server)
    group = host.path('/sys/fs/cgroup/cpu' + guest.cgroups['cpu'])
    assert group.exists()
    bed._delete_server(server)
    assert guest.name not in host.virsh('list', '--all')
    daemon.wait_for(lambda: not group.exists(), 'The cgroup still exists.')
    assert {} == bed.placement.get(
        '/allocations/%s' % server['id']).body['allocations']
