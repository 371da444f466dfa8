# SPDX-License-Identifier: Apache-2.0

"""Servers on hosts with two NUMA cells, and between two such hosts."""

import decimal

from lxml import etree
from nova.virt import hardware
import pytest

from nova_prio.model import capacity
from tests.libvirt import cells
from tests.libvirt import guests
from tests.libvirt import two_hosts

HIGH, LOW = ({'hw:cpu_priority': priority} for priority in ('high', 'low'))
BOTH_CELLS = {'hw:numa_nodes': '2'}
#: Flavor of each kind: vCPUs and extra specs.
KINDS = {
    'high': (2, {**HIGH, **BOTH_CELLS}),
    'high mixed': (4, {**HIGH, **BOTH_CELLS, 'hw:cpu_policy': 'mixed',
                       'hw:cpu_dedicated_mask': '0,2'}),
    'low': (4, {**LOW, **BOTH_CELLS}),
    'low in one cell': (2, {**LOW, 'hw:numa_nodes': '1'}),
    'ordinary': (2, BOTH_CELLS),
}


@pytest.fixture(scope='module')
def bed():
    """Two hosts; each NUMA cell has a CPU of each set, in another order."""
    with cells.Host('mix1') as mix1, cells.Host('mix2') as mix2:
        sets = [frozenset([1, 2]), frozenset([0, 3])]
        cpus_of = {}
        for host in mix1, mix2:
            host.prepare()
            cpus_of[host] = capacity.HostCPUs(
                *sets, ratio=decimal.Decimal(4), mix=True)
            sets.reverse()
        with two_hosts.TwoHosts.running(cpus_of) as found:
            yield found


@pytest.fixture(scope='module')
def image(bed, busy_image):
    return bed.image(busy_image)


def cpus_for(kind, vcpu, cpus):
    """Return the CPUs of a host, of all cells, on which a vCPU may run."""
    if kind.startswith('low'):
        return cpus.floating
    if kind == 'ordinary' or 'mixed' in kind and vcpu % 2:
        return cpus.shared
    return cpus.dedicated


def in_place(bed, server, kind, host):
    """Assert that each guest cell has the CPUs of its kind.

    :returns: list of the host cells of the guest cells
    """
    assert host == bed.host_of(server)
    guest, cpus = bed.guest(server), bed.cpus_of[host]
    domain = etree.fromstring(guest.host.virsh('dumpxml', guest.name))
    host_cells = [int(node.get('nodeset'))
                  for node in domain.iterfind('numatune/memnode')]
    assert (1 if 'one' in kind else 2) == len(set(host_cells))
    running = guests.busy(guest)
    pins = {int(pin.get('vcpu')): set(
        hardware.parse_cpu_spec(pin.get('cpuset')))
        for pin in domain.iterfind('cputune/vcpupin')}
    assert len(running) == len(pins)
    for cell, host_cell in zip(
            domain.iterfind('cpu/numa/cell'), host_cells, strict=True):
        of_cell = set(cells.CELLS[host_cell])
        for vcpu in hardware.parse_cpu_spec(cell.get('cpus')):
            wanted = cpus_for(kind, vcpu, cpus) & of_cell
            assert wanted == pins[vcpu]
            assert cells.folded(wanted) == running[vcpu].allowed
    if kind.startswith('low'):
        shared = {cpu for cell in host_cells
                  for cpu in cpus.shared & set(cells.CELLS[cell])}
        assert hardware.format_cpu_spec(shared) == domain.find(
            'cputune/emulatorpin').get('cpuset')
        assert cells.folded(shared) == guest.emulator.allowed
    priority = kind.split()[0]
    assert guest.cgroups['cpu'].startswith(
        '/machine' if priority == 'ordinary' else
        '/%s_prio_machine.partition/' % priority)
    return host_cells


@pytest.mark.parametrize('kind', KINDS)
def test_live_migration_to_other_host_and_back(bed, image, kind):
    vcpus, extra_specs = KINDS[kind]
    server = bed.boot_on('mix1', bed.flavor(vcpus, **extra_specs), image)
    in_place(bed, server, kind, 'mix1')
    bed.there_and_back(
        server, lambda host: in_place(bed, server, kind, host))
    bed._reboot_server(server, hard=True)
    in_place(bed, server, kind, 'mix1')
    bed._delete_server(server)


def test_live_migration_moves_memory_to_cell_of_free_dedicated_cpu(bed, image):
    flavor = bed.flavor(1, **HIGH)
    server = bed.boot_on('mix1', flavor, image)
    cell, = in_place(bed, server, 'high in one cell', 'mix1')
    others = [bed.boot_on('mix2', flavor, image)]
    taken, = in_place(bed, others[0], 'high in one cell', 'mix2')
    if taken != cell:
        others.append(bed.boot_on('mix2', flavor, image))
        bed._delete_server(others.pop(0))
    assert 'completed' == bed.migrate(server, 'mix2')()
    assert [1 - cell] == in_place(bed, server, 'high in one cell', 'mix2')
    bed.recounted()
    for one in server, *others:
        bed._delete_server(one)
