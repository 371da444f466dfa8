# SPDX-License-Identifier: Apache-2.0

"""Give an instance the CPUs that its host keeps for it after a move."""

from __future__ import annotations

from nova import objects

from nova_prio.objects import host_report
from nova_prio.objects import migration_states


def correct_cpus(instance: objects.Instance) -> None:
    """Replace the CPUs of an instance if its record has those of a move.

    Nova leaves the new CPUs in the record of an instance whose resize on its
    host has failed: it has its old flavor again, and keeps its old CPUs. And
    Nova writes the CPUs of the destination into the record only just before
    the guest starts there: until then, or if that fails, the record of an
    instance on the destination has the CPUs of the source. In both cases only
    the migration context tells the right CPUs: call this before Nova replaces
    it. On another host, they are those of the new flavor, even if the record
    has the old one.

    Do nothing if the host of the instance has no report of this package: stock
    Nova starts the guest on the CPUs of the record.
    """
    # Do not load the context into ``instance``: Nova's claim has a copy of it,
    # in which the context would stay the old one.
    record = objects.Instance.get_by_uuid(
        instance._context, instance.uuid,
        expected_attrs=['migration_context', 'numa_topology'])
    own = _find_own_topology(record)
    if _list_pins(own) == _list_pins(record.numa_topology):
        return
    nodes = objects.ComputeNodeList.get_all_by_host(
        record._context, record.host)
    if all(host_report.STATS_KEY in (node.stats or {}) for node in nodes):
        instance.numa_topology = own


def _find_own_topology(
        record: objects.Instance) -> objects.InstanceNUMATopology | None:
    """Return the topology of the CPUs that its host keeps for an instance."""
    migration = migration_states.get_last_move(record)
    if migration is None or record.host != migration.dest_compute:
        return record.numa_topology
    old = record.migration_context.old_numa_topology
    new = record.migration_context.new_numa_topology
    pins = _list_pins(record.numa_topology)
    is_on_host = migration.source_compute == migration.dest_compute
    # A context may be stale: the CPUs of the record must be those of a move.
    if not is_on_host and pins == _list_pins(old):
        return new
    has_failed = migration.status == 'error' and (
        migration_states.has_old_flavor(record, migration))
    if is_on_host and has_failed and pins == _list_pins(new):
        return old
    return record.numa_topology


def _list_pins(
        numa_topology: objects.InstanceNUMATopology | None,
) -> list[dict[int, int] | None]:
    """Return dict, vCPU -> CPU, of each NUMA cell."""
    cells = numa_topology.cells if numa_topology else []
    return [cell.cpu_pinning for cell in cells]
