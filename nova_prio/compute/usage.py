# SPDX-License-Identifier: Apache-2.0

"""The usage of the instances of a host, by class."""

import collections
import operator
import typing

import os_resource_classes as orc
from oslo_log import log as logging

from nova_prio.model import capacity
from nova_prio.model import flavor_specs
from nova_prio.virt import demand

LOG = logging.getLogger(__name__)

#: Roles in which an instance counts on a host. A move to or from the host
#: counts with the other flavor of the instance.
RESIDENT = 'resident'
MOVE = 'move'


class Usage(typing.NamedTuple):
    """The usage of one instance on a host."""

    demand: capacity.Demand
    #: NUMA cell of the host -> floating vCPUs; empty without NUMA topology.
    shared_by_cell: dict
    #: Amounts in Placement, which the flavor may set with ``resources:``.
    vcpu: int
    memory_mb: int

    @classmethod
    def from_flavor(cls, flavor, numa_topology):
        """Return the Usage of an instance.

        :param numa_topology: nova.objects.InstanceNUMATopology that was
            fitted to the host, or None
        """
        needed = demand.get_demand(flavor, numa_topology)
        return cls(
            needed, demand.count_shared_by_cell(numa_topology),
            flavor_specs.get_placement_amount(
                flavor.extra_specs, orc.VCPU, default=needed.shared),
            flavor_specs.get_placement_amount(
                flavor.extra_specs, orc.MEMORY_MB, default=flavor.memory_mb))

    @property
    def is_low(self):
        """Whether the instance has low priority."""
        return self.demand.priority == capacity.LOW


class UsageLedger:
    """The usage of every instance that counts on a host.

    It records each Usage by instance and role. To record a Usage twice, or to
    remove one that was never recorded, changes nothing.
    """

    def __init__(self):
        self._usages = {}
        # UUIDs of the instances whose move brings them to the host.
        self._incoming = set()

    def clear(self):
        """Remove every Usage; a recount follows."""
        self._usages.clear()
        self._incoming.clear()

    def holds(self, uuid):
        """Return whether an instance counts on the host, in any role."""
        return not {(uuid, RESIDENT), (uuid, MOVE)}.isdisjoint(self._usages)

    def settle(self, uuid):
        """Let an instance whose move to the host is over count as resident."""
        if (uuid, RESIDENT) not in self._usages and self.holds(uuid):
            self._usages[uuid, RESIDENT] = self._usages.pop((uuid, MOVE))

    def add(self, uuid, role, usage):
        """Record the Usage of an instance in a role.

        If the instance is a resident, also drop its move to the host, which
        Nova would keep until the next recount.
        """
        if role == RESIDENT:
            self._usages.pop((uuid, MOVE), None)
        self._usages[uuid, role] = usage
        self._incoming.discard(uuid)

    def mark_incoming(self, uuid):
        """Count the move of an instance as one that has not arrived yet."""
        self._incoming.add(uuid)

    def remove(self, uuid, role, usage):
        """Remove a Usage.

        Nova may remove a move although the instance was recorded as resident,
        and the other way round. For example, the source of a cold migration
        that is confirmed before a recount removes the old flavor as a move.
        Therefore the record with an equal Usage is removed, in either role.
        """
        other = MOVE if role == RESIDENT else RESIDENT
        for key in (uuid, role), (uuid, other):
            if self._usages.get(key) == usage:
                del self._usages[key]
                return
        # No record is equal, but Nova has removed this role from its numbers.
        self._usages.pop((uuid, role), None)

    @property
    def low_shared(self):
        """Floating vCPUs of the low-priority instances."""
        return sum(usage.demand.shared for usage in self._usages.values()
                   if usage.is_low)

    @property
    def ordinary_shared(self):
        """Floating vCPUs of all other instances."""
        return sum(usage.demand.shared for usage in self._usages.values()
                   if not usage.is_low)

    @property
    def has_priority(self):
        """Whether an instance with a priority counts on the host."""
        return any(usage.demand.priority for usage in self._usages.values())

    def rows_by_instance(self):
        """Return dict, UUID -> ``capacity.Rows`` that the instance uses."""
        rows = {}
        for (uuid, _), usage in self._usages.items():
            rows[uuid] = capacity.Rows(*map(
                operator.add, rows.get(uuid, (0, 0, 0)),
                capacity.calculate_needed_rows(usage.demand)))
        return rows

    @property
    def low_by_cell(self):
        """Dict, NUMA cell -> floating vCPUs of its low-priority guests."""
        cells = collections.Counter()
        for usage in self._usages.values():
            if usage.is_low:
                cells.update(usage.shared_by_cell)
        return cells

    @property
    def vcpu(self):
        """VCPU in Placement of all instances but the incoming ones.

        Placement had room for an incoming instance, and may have removed the
        allocation of an instance that will never arrive.
        """
        return sum(usage.vcpu for usage in self._arrived())

    @property
    def memory_mb(self):
        """MEMORY_MB in Placement of all instances but the incoming ones."""
        return sum(usage.memory_mb for usage in self._arrived())

    @property
    def largest_vcpu(self):
        """The largest VCPU of one of these instances; 0 if there is none."""
        return max((usage.vcpu for usage in self._arrived()), default=0)

    def _arrived(self):
        return [usage for (uuid, role), usage in self._usages.items()
                if role != MOVE or uuid not in self._incoming]


class OversoldWarnings:
    """Warn of each instance on an oversold row, once while that lasts.

    A row is oversold if the configuration changed while instances were on the
    host: mix was disabled, a CPU set shrank, or the ratio fell.
    """

    def __init__(self):
        self._warned = frozenset()

    def warn(self, report, usages):
        """Write a WARNING for each instance that was not warned of yet.

        :param report: HostReport with the rows of the host
        :param usages: UsageLedger of the host
        """
        used_by_instance = usages.rows_by_instance()
        # (UUID, name of an oversold row) -> vCPUs of the instance in the row
        found = {(uuid, row): getattr(used, row)
                 for row in capacity.find_oversold_rows(
                     report.sellable, report.used)
                 for uuid, used in used_by_instance.items()
                 if getattr(used, row)}
        for (uuid, row), vcpus in found.items():
            if (uuid, row) not in self._warned:
                LOG.warning(
                    'Too much is sold of the %(row)s row of this host: '
                    '%(sold)d of %(sellable)d CPUs, %(used)d of them to this '
                    'instance. The instance keeps running, and the row admits '
                    'nothing while too much is sold: move instances away, or '
                    'set cpu_priority_mix_enable, the CPU sets and the CPU '
                    'allocation ratio as they were.',
                    {'row': row, 'sold': getattr(report.used, row),
                     'sellable': getattr(report.sellable, row),
                     'used': vcpus}, instance_uuid=uuid)
        self._warned = frozenset(found)
