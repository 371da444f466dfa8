# SPDX-License-Identifier: Apache-2.0


"""Snapshots of the services and hosts of a cloud.

The arithmetic follows the documentation for operators and imports nothing
from nova_prio. Otherwise it could not find errors of nova_prio.
"""

import dataclasses
import fractions
import math

from nova.virt import hardware

LOW, HIGH = '/low_prio_machine', '/high_prio_machine'
PARTITIONS = {'high': HIGH, 'low': LOW, None: '/machine'}
#: Final states of a migration. A finished migration waits until its user
#: confirms or reverts it.
FINISHED, REVERTED = 'finished', 'reverted'
AT_REST = {FINISHED, 'cancelled', 'completed', 'confirmed', 'done', 'error',
           'failed', 'reverted'}


@dataclasses.dataclass(frozen=True)
class Domain:
    """A guest, as libvirt describes it.

    CPUs are frozensets of int; an empty one stands for any CPU.
    """

    name: str
    uuid: str
    is_active: bool
    partition: str
    #: One frozenset for each vCPU.
    vcpus: tuple
    #: The CPUs of all emulator and I/O threads.
    threads: frozenset

    @property
    def is_low(self):
        """Whether the guest is in the low-priority partition."""
        return self.partition == LOW


@dataclasses.dataclass(frozen=True)
class Host:
    """A host as its operator configured it, and its guests."""

    name: str
    dedicated: frozenset
    shared: frozenset
    ratio: fractions.Fraction
    mix: bool
    domains: tuple = ()

    @property
    def floating(self):
        """The CPUs where low-priority guests may float."""
        return self.shared | self.dedicated if self.mix else self.shared

    @property
    def sellable(self):
        """Dict, row -> CPUs that the host may sell: high, low, ordinary."""
        shared = len(self.shared) * self.ratio
        surplus = len(self.dedicated) * max(self.ratio - 1, 0)
        return {'high': len(self.dedicated),
                'low': math.floor(shared + (surplus if self.mix else 0)),
                'ordinary': math.floor(shared)}

    def pins(self, domain):
        """Return the pinned dedicated CPUs of a guest, one for each vCPU.

        A low-priority guest has no pinned CPU. Isolated emulator threads count
        as one vCPU.
        """
        if domain.is_low:
            return []
        found = [cpu for cpus in domain.vcpus if len(cpus) == 1
                 for cpu in cpus & self.dedicated]
        if len(domain.threads) == 1:
            found += domain.threads & self.dedicated - set(found)
        return found

    def shared_vcpus(self, domain):
        """Return the number of vCPUs of a guest that are not pinned."""
        return sum(domain.is_low or len(cpus) != 1 or
                   not cpus <= self.dedicated for cpus in domain.vcpus)


@dataclasses.dataclass(frozen=True)
class Server:
    """A server, as the compute API shows it to the administrator."""

    uuid: str
    name: str
    status: str
    task_state: str
    host: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    #: Extra specs of the flavor that is embedded in the server.
    specs: dict
    image_properties: dict
    hints: dict
    has_fault: bool
    #: Whether the guest is running or paused in the records of Nova.
    has_power: bool
    #: Extra specs of the same flavor as the operator wrote them, None if
    #: the flavor is deleted.
    offered: dict = None

    @property
    def title(self):
        """Name and UUID, for sentences."""
        return 'server %s (%s)' % (self.name, self.uuid)

    @property
    def is_at_rest(self):
        """Whether the server has no task."""
        return self.task_state is None and self.status != 'BUILD'

    @property
    def needs_host(self):
        """Whether the server uses resources of a host."""
        return bool(self.host) and self.status != 'SHELVED_OFFLOADED'

    @property
    def needs_guest(self):
        """Whether a guest of the server must be active."""
        return self.status in ('ACTIVE', 'PAUSED', 'RESCUE') or (
            self.status == 'VERIFY_RESIZE' and self.has_power)

    @property
    def priority(self):
        """The priority in force: high, low or None."""
        return self.specs.get('hw:cpu_priority')

    @property
    def needs(self):
        """The expected allocation: dict, resource class -> int."""
        return self._needs(self.specs)

    def needs_with(self, priority):
        """Return the expected allocation for ``offered`` with a priority.

        :param priority: high, low or None
        """
        policy = {'hw:cpu_policy': 'dedicated'} if priority == 'high' and (
            'hw_cpu_policy' not in self.image_properties and
            'resources:PCPU' not in self.offered) else {}
        return self._needs({**policy, **self.offered})

    def _needs(self, specs):
        """Return the allocation for extra specs after the fold."""
        policy = specs.get('hw:cpu_policy') or (
            self.image_properties.get('hw_cpu_policy', 'shared'))
        dedicated = {'shared': 0, 'dedicated': self.vcpus}.get(policy)
        if dedicated is None:
            mask = specs['hw:cpu_dedicated_mask']
            if mask.startswith('^'):
                mask = '0-%d,%s' % (self.vcpus - 1, mask)
            dedicated = len(hardware.parse_cpu_spec(mask))
        found = {
            'VCPU': self.vcpus - dedicated,
            'PCPU': dedicated + int(
                specs.get('hw:emulator_threads_policy') == 'isolate'),
            'MEMORY_MB': self.memory_mb, 'DISK_GB': self.disk_gb}
        wanted = {key.split(':')[1]: int(value) for key, value in
                  specs.items() if key.startswith('resources:')}
        if 'PCPU' in wanted:
            found['VCPU'] = 0
        return {key: units for key, units in {**found, **wanted}.items()
                if units}

    @property
    def shared_vcpus(self):
        """Number of floating vCPUs."""
        return self.needs.get('VCPU', 0)

    @property
    def pins(self):
        """Number of pinned CPUs."""
        return self.needs.get('PCPU', 0)


@dataclasses.dataclass(frozen=True)
class Migration:
    """A move of a server from one host to another."""

    uuid: str
    server: str
    status: str
    source: str
    #: Whether the flavor is the same after the move.
    keeps_flavor: bool


@dataclasses.dataclass(frozen=True)
class Provider:
    """The records of Placement about a host."""

    name: str
    #: Resource class -> dict: total, reserved, allocation_ratio, max_unit.
    inventories: dict
    #: Resource class -> int.
    usages: dict
    traits: frozenset
    #: Consumer -> resource class -> int.
    allocations: dict


@dataclasses.dataclass(frozen=True)
class Hypervisor:
    """The latest usage report of a nova-compute."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    is_up: bool


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The state of a cloud at one time."""

    hosts: tuple = ()
    servers: tuple = ()
    migrations: tuple = ()
    providers: tuple = ()
    hypervisors: tuple = ()
    #: Names of the hosts in aggregates for priority instances.
    priority_hosts: frozenset = frozenset()
