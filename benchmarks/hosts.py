# SPDX-License-Identifier: Apache-2.0

"""The hosts of the benchmark, as HostStates of nova-scheduler.

A host has two NUMA cells of 32 CPUs with thread siblings, 24 of them
dedicated, pages of 4 KiB and 2 MiB and one physical network. Every second host
is full. All other hosts have a few pinned instances.
"""

import copy
import functools
import uuid

from nova import objects
from nova.objects import fields
from nova.scheduler import host_manager

from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.objects import host_report

#: CPUs, dedicated CPUs and memory of each NUMA cell.
CELL_CPUS, CELL_DEDICATED, CELL_MEMORY_MB = 32, 24, 65536
PHYSICAL_NETWORK = 'physnet1'
#: Vendor and product of PCI devices.
PCI_DEVICE = {'vendor_id': '8086', 'product_id': '154c'}


def cpus(mix):
    """Return the ``cpu_capacity.HostCPUs`` of a host."""
    dedicated = frozenset(cell * CELL_CPUS + cpu for cell in range(2)
                          for cpu in range(CELL_DEDICATED))
    return cpu_capacity.HostCPUs(
        dedicated, frozenset(range(2 * CELL_CPUS)) - dedicated,
        cpu_capacity.parse_ratio('2.0'), mix)


def report(mix, pinned, low, vcpus_used):
    """Return the text of the report of a host."""
    return host_report.HostReport.to_stats(
        capacity_report.CapacityReport.from_usage(
            cpus(mix), cpu_capacity.calculate_used(pinned, low, 0), vcpus_used,
            low_by_cell={}))


@functools.lru_cache
def _topology(pinned, has_threads):
    """Return the NUMA topology as text, as in the database."""
    def of_cell(cell, numbers):
        return {each for each in numbers if each // CELL_CPUS == cell}

    threads = 2 if has_threads else 1
    return objects.NUMATopology(cells=[objects.NUMACell(
        id=cell, socket=cell,
        cpuset=of_cell(cell, cpus(True).shared),
        pcpuset=of_cell(cell, cpus(True).dedicated),
        pinned_cpus=of_cell(cell, pinned),
        siblings=[set(range(first, first + threads)) for first in range(
            cell * CELL_CPUS, (cell + 1) * CELL_CPUS, threads)],
        memory=CELL_MEMORY_MB, memory_usage=0, cpu_usage=0,
        mempages=[
            objects.NUMAPagesTopology(
                size_kb=size_kb, total=CELL_MEMORY_MB * 512 // size_kb,
                used=0, reserved=0) for size_kb in (4, 2048)],
        network_metadata=objects.NetworkMetadata(
            physnets={PHYSICAL_NETWORK}, tunneled=False))
        for cell in range(2)])._to_json()


def host(number, mix=True, has_threads=True, has_pci_devices=False):
    """Return the HostState of one host; hosts with odd numbers are full."""
    host_cpus = cpus(mix)
    is_full = bool(number % 2)
    first = number // 2 % CELL_DEDICATED
    pinned = host_cpus.dedicated if is_full else frozenset(
        {0, 2, first, CELL_CPUS + first})
    low = host_cpus.sellable.low if is_full else number % 16
    vcpus_used = len(pinned) + low
    pools = objects.PciDevicePoolList(objects=[
        objects.PciDevicePool(
            numa_node=cell, count=8, tags={'dev_type': 'type-VF'},
            **PCI_DEVICE) for cell in range(2)])
    return make_state(
        'host%d' % number, len(host_cpus.shared), vcpus_used, 2.0,
        2 * CELL_MEMORY_MB, _topology(pinned, has_threads),
        {host_report.STATS_KEY: report(mix, len(pinned), low, vcpus_used)},
        pools if has_pci_devices else None)


def make_state(name, vcpus, vcpus_used, ratio, memory_mb, topology, stats,
               pools=None):
    """Return the HostState of a host, as nova-scheduler reads it.

    :param vcpus: number of its shared CPUs
    :param vcpus_used: vCPUs of all its instances
    :param ratio: CPU allocation ratio
    :param topology: its NUMA topology as text
    :param stats: dict, name -> text of the stats of the compute node
    :param pools: nova.objects.PciDevicePoolList, or None
    """
    node = objects.ComputeNode(
        uuid=str(uuid.uuid4()), host=name, hypervisor_hostname=name,
        updated_at=None, memory_mb=memory_mb, memory_mb_used=0,
        free_ram_mb=memory_mb, local_gb=1000, local_gb_used=0,
        free_disk_gb=1000, disk_available_least=1000,
        vcpus=vcpus, vcpus_used=vcpus_used, numa_topology=topology,
        pci_device_pools=pools, host_ip='127.0.0.1',
        hypervisor_type=fields.HVType.QEMU, hypervisor_version=1, cpu_info='',
        supported_hv_specs=[], stats=stats, metrics='[]',
        cpu_allocation_ratio=ratio, ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0)
    state = host_manager.HostState(name, name, str(uuid.uuid4()))
    state.update(compute=node, service={}, aggregates=[_aggregate()])
    return state


@functools.lru_cache
def _aggregate():
    """Return the aggregate of all hosts, always the same object."""
    return objects.Aggregate(
        uuid=str(uuid.uuid4()), name='priority', hosts=[],
        metadata={'priority_mix': 'true'})


def copy_for(request, states):
    """Return copies of hosts, as nova-scheduler reads them for a request.

    nova-scheduler reads all hosts for each request: the text of a report is
    always a new object, even if it is equal. Each host has the one allocation
    candidate that Placement would return for the request.

    :param request: benchmarks.request_specs.Request
    :param states: list of HostState, not written to
    """
    found = []
    for state in states:
        state = copy.copy(state)
        state.limits = {}
        state.stats = {key: str(text.encode(), 'utf-8')
                       for key, text in state.stats.items()}
        state.allocation_candidates = [{
            'allocations': {state.uuid: {'resources': dict(
                request.resources)}},
            'mappings': {'': [state.uuid]}}]
        found.append(state)
    return found
