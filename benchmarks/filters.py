# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Filter and weigher beside those of Nova that they replace.

Both sides run in turn in one process, on copies of the same hosts and with
the same requests, and have to give the same answers. A host has two NUMA cells
of 32 CPUs; every other one is full. Writes microseconds per host, medians over
the repeats, and their ratios, as JSON.
"""

import argparse
import copy
import gc
import json
import resource
import statistics
import time
import uuid

from nova import config
from nova import objects
from nova.objects import fields
from nova.scheduler.filters import numa_topology_filter
from nova.scheduler import host_manager
from nova.scheduler import weights
from nova.scheduler.weights import cpu
from nova.virt import hardware

from nova_prio import capacity
from nova_prio.objects import host_report
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler.weights import priority_weighter
from nova_prio import seams

SIZES = (100, 1000, 10000)
#: Per NUMA cell: CPUs, and how many of them are dedicated.
CELL_CPUS, CELL_DEDICATED = 32, 24


def host_cpus(mix):
    """Return the ``capacity.HostCPUs`` of a host with two cells."""
    dedicated = frozenset(
        cell * CELL_CPUS + cpu for cell in range(2)
        for cpu in range(CELL_DEDICATED))
    return capacity.HostCPUs(
        dedicated, frozenset(range(2 * CELL_CPUS)) - dedicated,
        capacity.exact_ratio('2.0'), mix)


def host(number, mix):
    """Return the state of one host; hosts with odd numbers are full."""
    cpus = host_cpus(mix)
    is_full = number % 2
    pinned = set(cpus.dedicated) if is_full else {0, 2, number % CELL_CPUS // 2
                                                  * 2 % CELL_DEDICATED}
    topology = objects.NUMATopology(cells=[objects.NUMACell(
        id=cell, socket=cell,
        cpuset={each for each in cpus.shared if each // CELL_CPUS == cell},
        pcpuset={each for each in cpus.dedicated
                 if each // CELL_CPUS == cell},
        pinned_cpus={each for each in pinned if each // CELL_CPUS == cell},
        siblings=[{first, first + 1} for first in range(
            cell * CELL_CPUS, (cell + 1) * CELL_CPUS, 2)],
        memory=65536, memory_usage=0, cpu_usage=0,
        mempages=[objects.NUMAPagesTopology(
            size_kb=4, total=65536 * 256, used=0, reserved=0)],
        network_metadata=objects.NetworkMetadata(
            physnets=set(), tunneled=False)) for cell in range(2)])
    low = cpus.sellable.low if is_full else number % 16
    report = host_report.HostReport.of(
        cpus, capacity.used(len(pinned), low, 0), len(pinned) + low, {})
    node = objects.ComputeNode(
        uuid=str(uuid.uuid4()), host='host%d' % number,
        hypervisor_hostname='host%d' % number, updated_at=None,
        memory_mb=131072, memory_mb_used=0, free_ram_mb=131072, local_gb=1000,
        local_gb_used=0, free_disk_gb=1000, disk_available_least=1000,
        vcpus=len(cpus.shared), vcpus_used=len(pinned) + low,
        numa_topology=topology._to_json(), pci_device_pools=None,
        host_ip='127.0.0.1', hypervisor_type=fields.HVType.QEMU,
        hypervisor_version=1, cpu_info='', supported_hv_specs=[],
        stats={host_report.STATS_KEY: report.to_stats()}, metrics='[]',
        cpu_allocation_ratio=2.0, ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0)
    state = host_manager.HostState(node.host, node.host, str(uuid.uuid4()))
    state.update(compute=node, service={}, aggregates=[objects.Aggregate(
        uuid=str(uuid.uuid4()), name='a', hosts=[],
        metadata={'priority_mix': 'true'})])
    return state


def request(**extra_specs):
    """Return the request for one instance of 4 vCPUs."""
    flavor = objects.Flavor(
        id=1, name='f', flavorid='f', vcpus=4, memory_mb=1024, root_gb=1,
        ephemeral_gb=0, swap=0, extra_specs={
            key.replace('__', ':'): value
            for key, value in extra_specs.items()})
    image = objects.ImageMeta(properties=objects.ImageMetaProps())
    return objects.RequestSpec(
        instance_uuid=str(uuid.uuid4()), flavor=flavor, image=image,
        numa_topology=hardware.numa_get_constraints(flavor, image),
        pci_requests=objects.InstancePCIRequests(requests=[]),
        requested_resources=[], num_instances=1, scheduler_hints={})


HIGH = {'hw__cpu_priority': 'high', 'hw__cpu_policy': 'dedicated'}
LOW = {'hw__cpu_priority': 'low', 'hw__cpu_policy': 'shared'}
OTHER_PINNED = {
    'two_cells': {**HIGH, 'hw__numa_nodes': '2'},
    'require': {**HIGH, 'hw__cpu_thread_policy': 'require'},
    'page_size': {**HIGH, 'hw__mem_page_size': 'small'},
    'emulator': {**HIGH, 'hw__emulator_threads_policy': 'isolate',
                 'hw__mem_page_size': 'small'},
}


def filtered(filter_class, states, spec, pcpu):
    """Return (seconds, names of the hosts that pass)."""
    fresh = [copy.copy(state) for state in states]
    for state in fresh:
        state.limits = {}
        state.allocation_candidates = [{
            'allocations': {state.uuid: {'resources': {'PCPU': pcpu}}},
            'mappings': {'': [state.uuid]}}]
    host_filter = filter_class()
    gc.collect()
    start = time.perf_counter()
    passed = list(host_filter.filter_all(fresh, spec))
    return time.perf_counter() - start, [state.host for state in passed]


def weighed(weigher, states, spec):
    """Return the seconds that Nova's handler needs with one weigher."""
    handler = weights.HostWeightHandler()
    gc.collect()
    start = time.perf_counter()
    handler.get_weighed_objects([weigher], states, spec)
    return time.perf_counter() - start


def compare(states, spec, pcpu, repeats, same=True):
    """Return both filters' microseconds per host, and stock over ours."""
    times = {numa_topology_filter.NUMATopologyFilter: [],
             priority_filter.PriorityFilter: []}
    for _ in range(repeats):
        answers = []
        for filter_class, seen in times.items():
            seconds, passed = filtered(filter_class, states, spec, pcpu)
            seen.append(seconds / len(states) * 1e6)
            answers.append(passed)
        if same and answers[0] != answers[1]:
            raise SystemExit('The two filters do not agree.')
    stock, ours = (statistics.median(seen) for seen in times.values())
    return {'stock_us': stock, 'ours_us': ours, 'ratio': stock / ours}


def measure(states, plain, repeats):
    """Return all figures for one number of hosts.

    :param states: mix hosts, every other one full
    :param plain: the same without mix
    """
    found = {
        'filter.high.feasible': compare(
            states[::2], request(**HIGH), 4, repeats),
        'filter.high.full': compare(
            states[1::2], request(**HIGH), 4, repeats),
        'filter.ordinary.pinned.feasible': compare(
            plain[::2], request(hw__cpu_policy='dedicated'), 4, repeats),
        'filter.ordinary.plain': compare(plain, request(), 0, repeats),
        'filter.low': compare(states, request(**LOW), 0, repeats, same=False),
    }
    for name, extra_specs in OTHER_PINNED.items():
        found['filter.high.%s' % name] = compare(
            states[::2], request(**extra_specs),
            5 if name == 'emulator' else 4, repeats)
    times = {'stock': [], 'ours': []}
    for _ in range(repeats):
        times['stock'].append(weighed(
            cpu.CPUWeigher(), states, request()))
        times['ours'].append(weighed(
            priority_weighter.PriorityWeighter(), states, request(**LOW)))
    stock, ours = (statistics.median(times[side]) / len(states) * 1e6
                   for side in ('stock', 'ours'))
    found['weigher'] = {'stock_us': stock, 'ours_us': ours,
                        'ratio': ours / stock}
    for name, extra_specs in (('low', LOW), ('ordinary', {})):
        found['%s_%d_seconds' % (name, len(states))] = statistics.median(
            filtered(priority_filter.PriorityFilter, states,
                     request(**extra_specs), 0)[0] +
            weighed(priority_weighter.PriorityWeighter(), states,
                    request(**extra_specs)) for _ in range(repeats))
    return found


def main():
    """Measure and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--output', default='bench-filters.json')
    parser.add_argument('--sizes', type=int, nargs='+', default=SIZES)
    parser.add_argument('--repeats', type=int, default=5)
    arguments = parser.parse_args()
    config.parse_args(['bench', '--config-file', '/dev/null'])
    objects.register_all()
    seams.register_options()
    found = {}
    for size in arguments.sizes:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        states = [host(number, mix=True) for number in range(size)]
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        plain = [host(number, mix=False) for number in range(size)]
        found[str(size)] = measure(states, plain, arguments.repeats)
        found[str(size)]['host_state_kib'] = (after - before) / size
    with open(arguments.output, 'w') as output:
        json.dump(found, output, indent=2, sort_keys=True)
    print(json.dumps(found, indent=2, sort_keys=True))


if __name__ == '__main__':
    main()
