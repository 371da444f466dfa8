# SPDX-License-Identifier: Apache-2.0

"""Servers on hosts with two NUMA cells, and between two such hosts."""

import decimal

from lxml import etree
from nova.virt import hardware
import pytest

from nova_prio.model import cpu_capacity
from tests.libvirt import cells
from tests.libvirt import guests
from tests.libvirt import two_hosts

HIGH, LOW = ({'hw:cpu_priority': priority} for priority in ('high', 'low'))
BOTH_CELLS = {'hw:numa_nodes': '2'}
#: Name of a flavor -> (vCPUs, extra specs).
FLAVORS = {
    'high': (2, {**HIGH, **BOTH_CELLS}),
    'high mixed': (4, {**HIGH, **BOTH_CELLS, 'hw:cpu_policy': 'mixed',
                       'hw:cpu_dedicated_mask': '0,2'}),
    'low': (4, {**LOW, **BOTH_CELLS}),
    'low in one cell': (2, {**LOW, 'hw:numa_nodes': '1'}),
    'ordinary': (2, BOTH_CELLS),
}


@pytest.fixture(scope='module')
def cloud():
    """Two hosts. Each NUMA cell has one shared and one dedicated CPU."""
    with cells.Host('mix1') as mix1, cells.Host('mix2') as mix2:
        sets = [frozenset([1, 2]), frozenset([0, 3])]
        cpus_of = {}
        for host in mix1, mix2:
            host.prepare()
            cpus_of[host] = cpu_capacity.HostCPUs(
                *sets, ratio=decimal.Decimal(4), mix=True)
            sets.reverse()
        with two_hosts.TwoHosts.running(cpus_of) as found:
            yield found


@pytest.fixture(scope='module')
def image(cloud, busy_image):
    return cloud.image(busy_image)


def cpus_for(flavor, vcpu, cpus):
    """Return the CPUs in all cells of a host where a vCPU may run."""
    if flavor.startswith('low'):
        return cpus.floating
    if flavor == 'ordinary' or 'mixed' in flavor and vcpu % 2:
        return cpus.shared
    return cpus.dedicated


def assert_on_its_cpus(cloud, server, flavor, host):
    """Assert that a server is on a host, with the CPUs of its flavor.

    :returns: list of the host cells of the guest cells
    """
    assert host == cloud.host_of(server)
    guest, cpus = cloud.guest(server), cloud.cpus_of[host]
    domain = etree.fromstring(guest.host.virsh('dumpxml', guest.name))
    host_cells = [int(node.get('nodeset'))
                  for node in domain.iterfind('numatune/memnode')]
    assert (1 if 'one' in flavor else 2) == len(set(host_cells))
    running = guests.wait_until_busy(guest)
    pins = {int(pin.get('vcpu')): set(
        hardware.parse_cpu_spec(pin.get('cpuset')))
        for pin in domain.iterfind('cputune/vcpupin')}
    assert len(running) == len(pins)
    for cell, host_cell in zip(
            domain.iterfind('cpu/numa/cell'), host_cells, strict=True):
        of_cell = set(cells.CELLS[host_cell])
        for vcpu in hardware.parse_cpu_spec(cell.get('cpus')):
            wanted = cpus_for(flavor, vcpu, cpus) & of_cell
            assert wanted == pins[vcpu]
            assert cells.real_cpus(wanted) == running[vcpu].allowed
    if flavor.startswith('low'):
        shared = {cpu for cell in host_cells
                  for cpu in cpus.shared & set(cells.CELLS[cell])}
        assert hardware.format_cpu_spec(shared) == domain.find(
            'cputune/emulatorpin').get('cpuset')
        assert cells.real_cpus(shared) == guest.emulator.allowed
    priority = flavor.split()[0]
    assert guest.cgroups['cpu'].startswith(
        '/machine' if priority == 'ordinary' else
        '/%s_prio_machine.partition/' % priority)
    return host_cells


@pytest.mark.parametrize('flavor', FLAVORS)
def test_live_migration_to_other_host_and_back(cloud, image, flavor):
    vcpus, extra_specs = FLAVORS[flavor]
    server = cloud.boot_on('mix1', cloud.flavor(vcpus, **extra_specs), image)
    assert_on_its_cpus(cloud, server, flavor, 'mix1')
    cloud.migrate_and_return(
        server, lambda host: assert_on_its_cpus(cloud, server, flavor, host))
    cloud._reboot_server(server, hard=True)
    assert_on_its_cpus(cloud, server, flavor, 'mix1')
    cloud._delete_server(server)


def test_live_migration_moves_memory_to_cell_of_free_dedicated_cpu(
        cloud, image):
    flavor = cloud.flavor(1, **HIGH)
    server = cloud.boot_on('mix1', flavor, image)
    cell, = assert_on_its_cpus(cloud, server, 'high in one cell', 'mix1')
    others = [cloud.boot_on('mix2', flavor, image)]
    taken, = assert_on_its_cpus(cloud, others[0], 'high in one cell', 'mix2')
    if taken != cell:
        others.append(cloud.boot_on('mix2', flavor, image))
        cloud._delete_server(others.pop(0))
    assert 'completed' == cloud.migrate(server, 'mix2')()
    assert [1 - cell] == assert_on_its_cpus(
        cloud, server, 'high in one cell', 'mix2')
    cloud.recount()
    for each in server, *others:
        cloud._delete_server(each)
