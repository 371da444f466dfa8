# SPDX-License-Identifier: Apache-2.0

"""The instances that must leave a host before co-location ends."""

from __future__ import annotations

from collections import abc
import typing

from nova import exception
from nova import objects

from nova_prio.admin.audit import host_view
from nova_prio.model import capacity
from nova_prio.model import flavor_specs
from nova_prio.virt import demand

if typing.TYPE_CHECKING:
    from nova import context as nova_context

    from nova_prio.admin.host import plan_format

#: Reasons why an instance must leave.
LOW, PINNED_OUTSIDE = 'low priority', 'pinned outside'
CREATED, UNCONFIRMED = 'being created', 'to be confirmed or reverted'
UNKNOWN = 'unknown'


class RemainingInstance(typing.NamedTuple):
    """An instance that must leave, and the reason.

    ``instance`` is None if its cell does not answer.
    """

    uuid: str
    reason: str
    instance: objects.Instance | None

    def describe(self) -> tuple[str, str, int | str, int | str]:
        """Return name, priority, vCPUs and memory in MB, '' if unknown."""
        if self.instance is None:
            return '', '', '', ''
        flavor = self.instance.flavor
        return (self.instance.display_name or '',
                flavor_specs.get_priority(flavor.extra_specs) or '',
                flavor.vcpus, flavor.memory_mb)


def list_remaining(
        context: nova_context.RequestContext, view: host_view.HostView,
        plan: plan_format.SavedPlan | None = None,
) -> abc.Iterator[RemainingInstance]:
    """Yield a RemainingInstance for each instance that must leave a host.

    These are the low-priority instances. If a SavedPlan is to be undone, the
    instances pinned on CPUs that were not dedicated before the plan must leave
    too: nova-compute would not start with the old CPU sets. An instance may be
    on the host, on the way to the host, or may return to the host.
    """
    old_dedicated = plan.old_cpus.dedicated if plan else None
    listed = set()
    for instance in view.instances:
        if _is_low(instance.flavor):
            reason = LOW
        elif plan and demand.get_instance_pins(instance) - old_dedicated:
            reason = PINNED_OUTSIDE
        else:
            continue
        listed.add(instance.uuid)
        yield RemainingInstance(instance.uuid, reason, instance)
    for consumer in sorted(view.allocations.keys() - {
            instance.uuid for instance in view.instances}):
        remaining = _find_remaining(context, consumer, old_dedicated)
        # A live migration and its instance are two consumers.
        if remaining and remaining.uuid not in listed:
            listed.add(remaining.uuid)
            yield remaining


def _is_low(flavor: objects.Flavor | None) -> bool:
    """Return whether a flavor has low priority; False without a flavor."""
    return bool(flavor and flavor_specs.get_priority(
        flavor.extra_specs) == capacity.LOW)


def _find_remaining(
        context: nova_context.RequestContext, uuid: str,
        old_dedicated: frozenset[int] | None) -> RemainingInstance | None:
    """Return the RemainingInstance of a consumer, or None.

    The consumer has an allocation at the host, but its instance is not on the
    host. The instance may be on the way to the host, or may return. The result
    is None if the plan can be undone with the instance on the host.

    :param uuid: UUID of an instance or of a migration
    :param old_dedicated: dedicated CPUs before the plan, or None, which allows
        all CPUs
    """
    # An instance that is not on its host yet is being created there.
    reason = CREATED
    try:
        instance = host_view.find_instance(context, uuid)
        if instance is None:
            migration = host_view.find_migration(context, uuid)
            if migration is None:
                return None
            uuid, reason = migration.instance_uuid, UNCONFIRMED
            instance = host_view.find_instance(context, uuid)
    except host_view.NotScheduledYet:
        try:
            instance = objects.BuildRequest.get_by_instance_uuid(
                context, uuid).instance
        except exception.BuildRequestNotFound:
            # Meanwhile, the instance was created in a cell.
            return RemainingInstance(uuid, CREATED, None)
    except host_view.CellUnreachable:
        return RemainingInstance(uuid, UNKNOWN, None)
    if instance is None:
        return None
    must_leave = _is_low(instance.flavor) or _is_low(instance.old_flavor)
    if not must_leave and old_dedicated is not None:
        # Nothing shows yet to which CPUs a new instance will be pinned.
        must_leave = (_needs_dedicated_cpus(instance) if reason == CREATED
                      else bool(_get_old_pins(instance) - old_dedicated))
    return RemainingInstance(uuid, reason, instance) if must_leave else None


def _needs_dedicated_cpus(instance: objects.Instance) -> bool:
    """Return whether nova-compute will pin an instance that is being created.

    nova-compute chooses the CPUs later.
    """
    return demand.get_demand(
        instance.flavor, instance.numa_topology).dedicated > 0


def _get_old_pins(instance: objects.Instance) -> set[int]:
    """Return the CPUs that a revert of the resize pins an instance on."""
    context = instance.migration_context
    return demand.get_topology_pins(
        context.old_numa_topology) if context else set()
