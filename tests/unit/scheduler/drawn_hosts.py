# SPDX-License-Identifier: Apache-2.0

"""Hosts and requests, drawn for the randomised tests of the filter.

Each function draws from a ``random.Random`` that is given to it. Hypothesis'
``randoms(use_true_random=False)`` is one whose draws it shrinks, and which is
several times faster than a strategy for each draw.
"""

import hypothesis
from nova import exception
from nova import objects
from nova.pci import stats
from nova.virt import hardware
from oslo_utils.fixture import uuidsentinel as uuids

from tests.unit import nova_objects

#: Ids of PCI requests; a candidate maps '<id>-<number>' to a provider.
PCI_REQUESTS = (uuids.pci_0, uuids.pci_1)
PCI_PROVIDERS = (uuids.rp_0, uuids.rp_1, uuids.rp_2)
PHYSNETS = ('blue', 'red')

# Pairs of extra specs and image properties that ask Nova for one feature.
_THREADS = [
    ({'hw:cpu_thread_policy': 'prefer'}, {}),
    ({'hw:cpu_thread_policy': 'require'}, {}),
    ({'hw:cpu_thread_policy': 'isolate'}, {}),
    ({}, {'hw_cpu_thread_policy': 'require'}),
    ({}, {'hw_cpu_thread_policy': 'isolate'}),
    ({'trait:HW_CPU_HYPERTHREADING': 'required'}, {}),
    ({'trait:HW_CPU_HYPERTHREADING': 'forbidden'}, {}),
]
_EMULATOR = [
    ({'hw:emulator_threads_policy': 'isolate'}, {}),
    ({'hw:emulator_threads_policy': 'share'}, {}),
]
_PAGES = [
    ({'hw:mem_page_size': 'small'}, {}),
    ({'hw:mem_page_size': 'large'}, {}),
    ({'hw:mem_page_size': 'any'}, {}),
    ({'hw:mem_page_size': '2048'}, {}),
    ({'hw:mem_page_size': 'any'}, {'hw_mem_page_size': '2048'}),
]
_NODES = [
    ({'hw:numa_nodes': '1'}, {}),
    ({'hw:numa_nodes': '2'}, {}),
    ({'hw:numa_nodes': '2'}, {}),
    ({'hw:numa_nodes': '3'}, {}),
    ({}, {'hw_numa_nodes': 2}),
]
_REALTIME = [
    ({'hw:cpu_realtime': 'yes', 'hw:cpu_realtime_mask': '^0'}, {}),
    ({'hw:cpu_realtime': 'yes'}, {'hw_cpu_realtime_mask': '^0-1'}),
    ({'hw:cpu_realtime': 'yes', 'hw:emulator_threads_policy': 'isolate'}, {}),
]


def _cells_by_hand(vcpus, memory_mb):
    """Return pairs that ask for two different guest cells."""
    if vcpus < 2:
        return _NODES
    rest = '1-%d' % (vcpus - 1)
    more = str(memory_mb - 64)
    return [
        ({'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0', 'hw:numa_cpus.1': rest,
          'hw:numa_mem.0': '64', 'hw:numa_mem.1': more}, {}),
        ({'hw:numa_nodes': '2', 'hw:numa_cpus.0': rest, 'hw:numa_cpus.1': '0',
          'hw:numa_mem.0': more, 'hw:numa_mem.1': '64'}, {}),
    ]


def _policies(vcpus, priority, isolates_emulator):
    """Return the CPU policies that Nova accepts beside a priority."""
    pinned = [
        ({'hw:cpu_policy': 'dedicated'}, {}),
        ({'resources:PCPU': str(vcpus + isolates_emulator)}, {}),
    ]
    mixed = [
        ({'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}, {}),
        ({'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '^0'}, {}),
    ]
    shared = [({'hw:cpu_policy': 'shared'}, {})]
    if priority == 'high':
        return pinned + pinned[:1] + mixed
    if priority == 'low':
        return shared
    pinned.append(({}, {'hw_cpu_policy': 'dedicated'}))
    mixed.append(({'hw:cpu_dedicated_mask': '0'}, {'hw_cpu_policy': 'mixed'}))
    shared += [({}, {}), ({'resources:VCPU': str(vcpus)}, {})]
    return pinned + pinned + mixed + mixed[:1] + shared * 2


def request(rnd, priorities=(None,)):
    """Return a request spec that Nova's API accepts.

    :param priorities: the priorities to choose from
    """
    priority = rnd.choice(priorities)
    vcpus = rnd.choice([1, 2, 2, 2, 2, 3, 4, 4, 6, 8])
    memory_mb = rnd.choice([192, 192, 255, 384, 768])
    features = [_PAGES, _NODES, _cells_by_hand(vcpus, memory_mb)]
    if priority != 'low':
        features += [_THREADS, _EMULATOR, _REALTIME]
    extra_specs = {} if priority is None else {'hw:cpu_priority': priority}
    properties = {}
    # One feature at a time shows its effect best.
    for feature in rnd.sample(features, rnd.choice([0, 0, 1, 1, 1, 2, 3])):
        specs, image = rnd.choice(feature)
        extra_specs.update(specs)
        properties.update(image)
    isolates = extra_specs.get('hw:emulator_threads_policy') == 'isolate'
    specs, image = rnd.choice(_policies(vcpus, priority, isolates))
    if 'hw:cpu_realtime' in extra_specs and 'hw:cpu_dedicated_mask' in specs:
        # The real-time mask names the dedicated vCPUs.
        specs = {'hw:cpu_policy': 'mixed'}
    extra_specs.update(specs)
    properties.update(image)
    flavor = nova_objects.flavor(vcpus=vcpus)
    flavor.memory_mb = memory_mb
    flavor.extra_specs = extra_specs
    spec = nova_objects.request_spec(nova_objects.ORDINARY)
    spec.flavor = flavor
    spec.image = objects.ImageMeta(
        properties=objects.ImageMetaProps(**properties))
    try:
        spec.numa_topology = hardware.numa_get_constraints(flavor, spec.image)
    except (exception.NovaException, ValueError):
        hypothesis.reject()
    return spec


def _cell(rnd, number, is_legacy, has_pages):
    threads = rnd.choice([1, 2])
    cpus = list(range(number * 8, number * 8 + threads * rnd.choice(
        [4] * 8 + [3, 3, 2, 2, 0])))
    first = rnd.choice([0, 1, 2, 3, 4, 4])
    shared = set(cpus if is_legacy else cpus[:first])
    dedicated = set(cpus if is_legacy else cpus[first:])
    pinned = rnd.sample(sorted(dedicated), min(
        len(dedicated), rnd.choice([0, 0, 0, 0, 0, 1, 2, 4])))
    memory = rnd.choice([1024, 1024, 512])
    used = rnd.choice([0, 0, 0, 0, 256, 512])
    pages = [objects.NUMAPagesTopology(
        size_kb=4, total=memory * 256, used=used * 256, reserved=0)]
    if rnd.choice([True, True, False]):
        pages.append(objects.NUMAPagesTopology(
            size_kb=2048, total=384, used=rnd.choice([0, 0, 0, 256, 288]),
            reserved=rnd.choice([0, 0, 64])))
        # A host may have large pages only.
        pages = pages[rnd.choice([0, 0, 0, 1]):]
    cell = objects.NUMACell(
        id=number, socket=rnd.choice([0, 0, number, number, None]),
        cpuset=shared, pcpuset=dedicated, pinned_cpus=set(pinned),
        memory=memory, memory_usage=used,
        cpu_usage=rnd.choice([0, 0, 0, 0, 1, 2, 4, 8]),
        mempages=pages if rnd.choice(has_pages) else [],
        siblings=[set(cpus[first:first + threads])
                  for first in range(0, len(cpus), threads)])
    if rnd.choice([True, True, True, False]):
        cell.network_metadata = objects.NetworkMetadata(
            physnets=set(rnd.choice(
                [(), PHYSNETS[:1], PHYSNETS[1:], PHYSNETS])),
            tunneled=rnd.choice([True, False]))
    return cell


def numa_topology(rnd, counts=(1, 2, 2, 3, 3), is_legacy=False,
                  has_pages=(True, True, False)):
    """Return the topology of a host.

    The cells have up to 8 CPUs each: shared ones, dedicated ones, both or
    none.

    :param counts: numbers of NUMA cells to choose from
    :param is_legacy: whether the same CPUs are shared and dedicated, as a
        host with ``vcpu_pin_set`` reports them
    :param has_pages: whether a cell knows its page sizes, to choose from
    """
    return objects.NUMATopology(cells=[
        _cell(rnd, number, is_legacy, has_pages)
        for number in range(rnd.choice(counts))])


def pci_stats(rnd, host_topology):
    """Return the PciDeviceStats of a host, with a pool for each provider."""
    return stats.PciDeviceStats(host_topology, objects.PciDevicePoolList(
        objects=[objects.PciDevicePool(
            vendor_id='8086', product_id=rnd.choice(['aa', 'aa', 'bb']),
            numa_node=rnd.choice([0, 0, 1, 2, None]),
            count=rnd.choice([1, 2]),
            tags={'dev_type': 'type-PCI', 'rp_uuid': provider})
            for provider in PCI_PROVIDERS[:rnd.choice([3, 3, 1, 0])]]))


def pci_requests(rnd):
    """Return the PCI requests of a flavor, or of ports."""
    return objects.InstancePCIRequests(requests=[
        objects.InstancePCIRequest(
            count=1, request_id=request_id,
            spec=[{'vendor_id': '8086',
                   'product_id': rnd.choice(['aa', 'aa', 'bb'])}],
            alias_name=rnd.choice(['alias', 'alias', None]),
            numa_policy=rnd.choice(
                [None, 'required', 'legacy', 'preferred', 'socket']))
        for request_id in PCI_REQUESTS[:rnd.choice([1, 1, 2])]])


def candidate(rnd, state, **resources):
    """Return an allocation candidate of a host.

    :param state: nova.scheduler.host_manager.HostState
    :param resources: dict, resource class -> amount
    """
    return {
        'allocations': {state.uuid: {'resources': resources}},
        'mappings': {'': [state.uuid], **{
            '%s-0' % request_id: [rnd.choice(PCI_PROVIDERS)]
            for request_id in PCI_REQUESTS}}}
