# SPDX-License-Identifier: Apache-2.0

"""Real objects of Nova, as nova-scheduler holds them."""

import datetime

from nova import objects
from nova.objects import fields
from nova.scheduler import host_manager
from nova.virt import hardware
from oslo_utils.fixture import uuidsentinel as uuids

from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.objects import host_report

objects.register_all()

CPUS = cpu_capacity.HostCPUs(frozenset(range(8)), frozenset(range(8, 12)),
                             cpu_capacity.parse_ratio('2.0'), mix=True)


def flavor(vcpus=4, **extra_specs):
    """Return a flavor; a key like hw__cpu_policy stands for hw:cpu_policy."""
    return objects.Flavor(
        id=1, name='f', flavorid='f', vcpus=vcpus, memory_mb=256, root_gb=1,
        ephemeral_gb=0, swap=0, extra_specs={
            key.replace('__', ':'): value
            for key, value in extra_specs.items()})


HIGH = flavor(hw__cpu_priority='high', hw__cpu_policy='dedicated')
LOW = flavor(hw__cpu_priority='low', hw__cpu_policy='shared')
ORDINARY = flavor()
PINNED = flavor(hw__cpu_policy='dedicated')


def request_spec(of_flavor):
    """Return the request for one instance of a flavor."""
    image = objects.ImageMeta(properties=objects.ImageMetaProps())
    return objects.RequestSpec(
        instance_uuid=uuids.instance, flavor=of_flavor, image=image,
        numa_topology=hardware.numa_get_constraints(of_flavor, image),
        pci_requests=objects.InstancePCIRequests(requests=[]),
        requested_resources=[], num_instances=1,
        scheduler_hints={}, force_hosts=None, force_nodes=None)


def host_numa_topology(cpus, pinned=()):
    """Return the topology of a host with one NUMA cell."""
    return objects.NUMATopology(cells=[
        numa_cell(0, cpus.dedicated, cpus.shared, pinned)])


def numa_cell(number, dedicated, shared, pinned=()):
    """Return a NUMA cell of a host."""
    return objects.NUMACell(
        id=number, cpuset=set(shared), pcpuset=set(dedicated),
        memory=4096, cpu_usage=0, memory_usage=0, pinned_cpus=set(pinned),
        siblings=[{cpu} for cpu in {*shared, *dedicated}],
        mempages=[objects.NUMAPagesTopology(
            size_kb=4, total=1024 * 1024, used=0)],
        socket=0,
        network_metadata=objects.NetworkMetadata(
            physnets=set(), tunneled=False))


def aggregate(**metadata):
    """Return an aggregate with that metadata."""
    return objects.Aggregate(uuid=uuids.aggregate, name='a', hosts=[],
                             metadata=metadata)


def host_state(cpus=CPUS, pinned=(), low=0, ordinary=0, stats=None,
               aggregates=None, cells=None, low_by_cell=(),
               small_pages=None, low_supply=None):
    """Return the state of a host as the scheduler reads it.

    :param pinned: CPUs that are pinned
    :param low: vCPUs of its low-priority instances
    :param ordinary: shared vCPUs of its other instances
    :param stats: dict instead of the host's report
    :param aggregates: instead of one that is marked
    :param cells: NUMA cells instead of one with all CPUs
    :param small_pages: what the host reports
    :param low_supply: what the host reports, a LowSupply
    :param low_by_cell: dict, cell -> vCPUs of low-priority guests with a
        NUMA topology
    """
    used = len(pinned) + low + ordinary
    if stats is None:
        report = capacity_report.CapacityReport.from_usage(
            cpus, cpu_capacity.calculate_used(len(pinned), low, ordinary),
            used, dict(low_by_cell), small_pages=small_pages,
            low_supply=low_supply)
        text = host_report.HostReport.to_stats(report)
        stats = {host_report.STATS_KEY: text}
    node = objects.ComputeNode(
        uuid=uuids.node, host='host1', hypervisor_hostname='node1',
        updated_at=datetime.datetime.now(datetime.timezone.utc),
        memory_mb=4096, memory_mb_used=0, free_ram_mb=4096, local_gb=100,
        local_gb_used=0, free_disk_gb=100, disk_available_least=100,
        vcpus=len(cpus.shared), vcpus_used=used,
        numa_topology=(objects.NUMATopology(cells=cells) if cells else
                       host_numa_topology(cpus, pinned))._to_json(),
        pci_device_pools=None, host_ip='127.0.0.1',
        hypervisor_type=fields.HVType.QEMU, hypervisor_version=1,
        cpu_info='', supported_hv_specs=[], stats=stats, metrics='[]',
        cpu_allocation_ratio=float(cpus.ratio), ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0)
    state = host_manager.HostState('host1', 'node1', uuids.cell)
    state.update(
        compute=node, service={},
        aggregates=([aggregate(priority_mix='true')]
                    if aggregates is None else aggregates))
    return state


def candidate(state, **resources):
    """Give a host an allocation candidate with these resources."""
    state.allocation_candidates = [{
        'allocations': {state.uuid: {'resources': resources}},
        'mappings': {'': [state.uuid]}}]
    return state
