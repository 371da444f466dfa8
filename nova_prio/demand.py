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

"""What an instance takes from a host, read from Nova's objects."""

from nova.objects import fields
from nova.virt import hardware

from nova_prio import capacity
from nova_prio import policy

_ISOLATE = fields.CPUThreadAllocationPolicy.ISOLATE


def of(flavor, numa_topology):
    """Return the ``capacity.Demand`` of an instance.

    A guest without a NUMA topology floats with all its vCPUs. Otherwise its
    cells say which vCPUs are dedicated (``pcpuset``) and which are shared
    (``cpuset``); an isolated emulator thread takes one dedicated CPU more.

    :param flavor: nova.objects.Flavor, with extra specs
    :param numa_topology: nova.objects.InstanceNUMATopology or None
    """
    priority = policy.in_force(flavor.extra_specs)
    if numa_topology is None:
        return capacity.Demand(priority, dedicated=0, shared=flavor.vcpus)
    dedicated = sum(len(cell.pcpuset) for cell in numa_topology.cells)
    shared = sum(len(cell.cpuset) for cell in numa_topology.cells)
    if numa_topology.emulator_threads_isolated:
        dedicated += 1
    return capacity.Demand(priority, dedicated, shared)


def shared_by_cell(numa_topology):
    """Return dict, NUMA cell of the host -> floating vCPUs of an instance.

    :param numa_topology: nova.objects.InstanceNUMATopology that was fitted
        to the host, or None
    """
    cells = numa_topology.cells if numa_topology else []
    return {cell.id: len(cell.cpuset) for cell in cells if cell.cpuset}


def wants_whole_cores(flavor, numa_topology):
    """Return whether an instance is real-time or isolates its threads.

    :param flavor: nova.objects.Flavor, with extra specs
    :param numa_topology: nova.objects.InstanceNUMATopology or None
    """
    return hardware.is_realtime_enabled(flavor) or (
        numa_topology is not None and
        numa_topology.cells[0].cpu_thread_policy == _ISOLATE)


def pins(instance):
    """Return the CPUs that Nova gave to an instance alone, a set of numbers.

    :param instance: nova.objects.Instance with its NUMA topology
    """
    return pins_of(instance.numa_topology)


def pins_of(numa_topology):
    """Return the CPUs that Nova gave by a topology, a set of numbers.

    :param numa_topology: nova.objects.InstanceNUMATopology or None
    """
    found = set()
    for cell in numa_topology.cells if numa_topology else []:
        found |= set((cell.cpu_pinning or {}).values())
        found |= cell.cpuset_reserved or set()
    return found


def pinned_cpus(host_topology):
    """Return the dedicated CPUs of a host that are pinned, by whomever.

    CPUs that thread isolation keeps free for an instance count as pinned.

    :param host_topology: nova.objects.NUMATopology of the host
    :returns: set of CPU numbers
    """
    return set().union(*(cell.pinned_cpus & cell.pcpuset
                         for cell in host_topology.cells))
