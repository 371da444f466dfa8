# SPDX-License-Identifier: Apache-2.0

"""The CPUs of an instance, read from Nova's objects.

A lease is the CPUs and vCPUs that an instance has on a host
(:mod:`nova_prio.model.leases`).
``numa_topology`` is a nova.objects.InstanceNUMATopology, or None.
"""

import dataclasses
import functools

from nova import objects
from nova.objects import fields
from nova.virt import hardware
import os_resource_classes as orc

from nova_prio.model import admission
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_cpus
from nova_prio.model import flavor_specs
from nova_prio.model import leases
from nova_prio.model import usage

_ISOLATE = fields.CPUThreadAllocationPolicy.ISOLATE


@dataclasses.dataclass(frozen=True)
class ResourceRequest(admission.Request):
    """A request that is read from Nova's objects.

    ``wants_whole_cores`` is the result of ``needs_whole_cores``.
    """

    @classmethod
    def from_flavor(cls, flavor, numa_topology, **more):
        """Return the ResourceRequest of an instance.

        Its ``needed_rows`` are the vCPUs of the instance in each row; a row is
        a number of vCPUs that a host may sell.

        :param flavor: nova.objects.Flavor, with extra specs
        :param numa_topology: nova.objects.InstanceNUMATopology, or None
        :param more: dict, name -> value of the fields that a subclass adds
        """
        demand = get_demand(flavor, numa_topology)
        return cls(
            demand=demand, priority=demand.priority,
            needed_rows=cpu_capacity.calculate_needed_rows(demand),
            vcpus=flavor.vcpus, memory_mb=flavor.memory_mb,
            memory_parts=get_memory_parts(flavor, numa_topology),
            wants_whole_cores=needs_whole_cores(flavor, numa_topology), **more)


def get_priority(instance):
    """Return the priority in force: 'high', 'low', or None without one.

    :param instance: nova.objects.Instance or nova.objects.RequestSpec
    """
    return flavor_specs.get_priority(instance.flavor.extra_specs)


def get_demand(flavor, numa_topology):
    """Return the ``cpu_capacity.Demand`` of an instance: its numbers of CPUs.

    Without a NUMA topology, shared vCPUs may run on any shared CPU. Dedicated
    vCPUs have a topology, except at the end of a move, when Nova has dropped
    the migration context. An isolated emulator thread needs one more dedicated
    CPU.
    """
    if numa_topology is None:
        return flavor_cpus.get_demand(flavor.vcpus, flavor.extra_specs)
    dedicated = sum(len(cell.pcpuset) for cell in numa_topology.cells)
    shared = sum(len(cell.cpuset) for cell in numa_topology.cells)
    if numa_topology.emulator_threads_isolated:
        dedicated += 1
    return cpu_capacity.Demand(
        priority=flavor_specs.get_priority(flavor.extra_specs),
        dedicated=dedicated, shared=shared)


def get_memory_parts(flavor, numa_topology):
    """Return the ``memory_pages.MemoryParts`` of an instance.

    :returns: tuple of (page size in KiB or None, memory in MB), one for each
        NUMA cell; one without a page size if there is no NUMA topology
    """
    if numa_topology is None:
        return ((None, flavor.memory_mb),)
    return tuple((cell.pagesize, cell.memory) for cell in numa_topology.cells)


def get_usage(flavor, numa_topology):
    """Return the ``usage.Usage`` of an instance: what it takes from its host.

    These are vCPUs and memory, in all and for each NUMA cell of the host.
    ``vcpu`` and ``memory_mb`` are the amounts that Placement allocates, which
    extra specs may change. ``ram_mb`` is the memory of the guest.

    :param numa_topology: as Nova fitted it to the host, or None
    """
    demand = get_demand(flavor, numa_topology)
    cells = numa_topology.cells if numa_topology else []
    memory_by_cell = {
        (cell.id, cell.pagesize): cell.memory for cell in cells}  # in MB
    return usage.Usage(
        demand=demand,
        shared_by_cell=count_shared_by_cell(numa_topology),
        vcpu=flavor_specs.get_placement_amount(
            flavor.extra_specs, orc.VCPU, default=demand.shared),
        memory_mb=flavor_specs.get_placement_amount(
            flavor.extra_specs, orc.MEMORY_MB, default=flavor.memory_mb),
        ram_mb=flavor.memory_mb,
        memory_by_cell=memory_by_cell)


def get_lease_set(flavor, numa_topology, migration_uuid=None):
    """Return a new ``leases.LeaseSet`` for an instance.

    It has the dedicated CPUs that a host keeps for the instance with this
    flavor, and the vCPUs and memory that the instance takes from the host. The
    set is not in force until ``leases.Leases`` has it.

    :param numa_topology: as Nova fitted it to the host, or None
    :param migration_uuid: that of the move that claims the set, or None
    """
    return leases.LeaseSet(
        cpus=frozenset(get_topology_pins(numa_topology)),
        topology=numa_topology, usage=get_usage(flavor, numa_topology),
        migration_uuid=migration_uuid)


def count_shared_by_cell(numa_topology):
    """Return dict, id of a host's NUMA cell -> shared vCPUs of an instance.

    :param numa_topology: as Nova fitted it to the host: its cells have the
        ids of host cells; None for an instance without one
    """
    cells = numa_topology.cells if numa_topology else []
    return {cell.id: len(cell.cpuset) for cell in cells if cell.cpuset}


def needs_whole_cores(flavor, numa_topology):
    """Return whether low-priority guests must not use an instance's cores.

    This is so if the instance is real-time or has the CPU thread policy
    isolate. All its NUMA cells have the same policy, so look at the first.
    """
    return hardware.is_realtime_enabled(flavor) or (
        numa_topology is not None and
        numa_topology.cells[0].cpu_thread_policy == _ISOLATE)


def get_instance_pins(instance):
    """Return the set of CPUs where a nova.objects.Instance is pinned."""
    return get_topology_pins(instance.numa_topology)


def get_topology_pins(numa_topology):
    """Return the set of CPUs to which a topology pins its instance.

    These include the CPUs that Nova reserves for the emulator threads.

    :param numa_topology: nova.objects.InstanceNUMATopology, or None
    """
    pins = set()
    cells = numa_topology.cells if numa_topology else []
    for cell in cells:
        pins.update((cell.cpu_pinning or {}).values())
        pins.update(cell.cpuset_reserved or ())
    return pins


def has_all_vcpus(instance, numa_topology):
    """Return whether a topology has each vCPU of an instance.

    It must also pin them if the flavor or the image asks for pins. After a
    resize that has failed, the record of an instance may have one flavor, and
    the topology of the other. libvirt would let a vCPU that is not in the
    topology run on CPUs of other instances.

    :param instance: nova.objects.Instance
    :param numa_topology: nova.objects.InstanceNUMATopology, or None
    """
    cells = numa_topology.cells if numa_topology else []
    vcpus = sum(len(cell.total_cpus) for cell in cells)
    if vcpus and vcpus != instance.flavor.vcpus:
        return False
    if get_topology_pins(numa_topology):
        return True
    wanted = hardware.numa_get_constraints(
        instance.flavor, instance.image_meta)
    return wanted is None or not any(cell.pcpuset for cell in wanted.cells)


def find_floating_cpus(instance, cpus, cells):
    """Return the CPUs where the shared vCPUs of an instance float.

    They float if they may run on each of several CPUs. With a NUMA topology,
    these are only CPUs of the host cells that have shared vCPUs of the
    instance.

    :param instance: nova.objects.Instance
    :param cpus: ``cpu_capacity.HostCPUs`` of its host. Its ``floating`` CPUs
        are those of low-priority instances.
    :param cells: list of the nova.objects.NUMACell of its host
    :returns: frozenset of CPU numbers
    """
    allowed = cpus.shared
    if get_priority(instance) == cpu_capacity.LOW:
        allowed = cpus.floating
    topology = instance.numa_topology
    if topology is None:
        return allowed
    cell_ids = {cell.id for cell in topology.cells if cell.cpuset}
    floating = frozenset()
    for cell in cells:
        if cell.id in cell_ids:
            floating |= allowed & (cell.cpuset | cell.pcpuset)
    return floating


@functools.lru_cache(maxsize=1)
def get_host_pins(topology_json):
    """Return the frozenset of dedicated CPUs that Nova counts as pinned.

    These include the thread siblings that the CPU thread policy isolate keeps
    unused. The last result is cached: nova-compute asks for one host, whose
    text changes only with an instance that has a NUMA topology.

    :param topology_json: nova.objects.NUMATopology of the host as JSON text,
        or None
    """
    if not topology_json:
        return frozenset()
    pins = frozenset()
    for cell in objects.NUMATopology.obj_from_db_obj(topology_json).cells:
        pins |= cell.pinned_cpus & cell.pcpuset
    return pins
