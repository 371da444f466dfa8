# SPDX-License-Identifier: Apache-2.0

"""The instances that must leave a host before co-location ends."""

from __future__ import annotations

from collections import abc
import typing

from nova import context as nova_context
from nova import exception
from nova import objects
from nova.virt import hardware

from nova_prio.admin.audit import host_view
from nova_prio.admin.host import plan_format
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs
from nova_prio.virt import demand

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
    instance: objects.Instance | None = None

    def format_row(self, destination: str) -> list[str | int]:
        """Return the values of a row of "host disable"; '' if unknown.

        :param destination: name of a host that the instance fits on, or ''
        """
        if self.instance is None:
            return [self.uuid, '', '', '', '', self.reason, '']
        name = self.instance.display_name or ''
        flavor = self.instance.flavor
        priority = flavor_specs.get_priority(flavor.extra_specs) or ''
        return [self.uuid, name, priority, flavor.vcpus, flavor.memory_mb,
                self.reason, destination]


def list_remaining(
        context: nova_context.RequestContext, view: host_view.HostView,
        plan: plan_format.SavedPlan | None = None,
) -> abc.Iterator[RemainingInstance]:
    """Yield a RemainingInstance for each instance that must leave a host.

    These are the low-priority instances. If a SavedPlan is to be undone, the
    instances pinned on CPUs that were not dedicated before the plan must leave
    too: nova-compute would not start with the old CPU sets. An instance may be
    on the host, on the way to the host, or may return to the host.

    :param plan: the plan to be undone, or None
    """
    # The dedicated CPUs before the plan; None if any instance may stay pinned.
    old_dedicated = plan.old_cpus.dedicated if plan else None
    # UUIDs, because a consumer below may belong to the same instance.
    listed = set()
    for instance in view.instances:
        # An instance that arrives by a resize gets its new flavor last. After
        # a resize that failed, the new flavor means nothing.
        becomes_low = instance.task_state and _is_low(instance.new_flavor)
        if _is_low(instance.flavor) or becomes_low:
            reason = LOW
        elif plan and demand.get_instance_pins(instance) - old_dedicated:
            reason = PINNED_OUTSIDE
        else:
            continue
        listed.add(instance.uuid)
        yield RemainingInstance(
            uuid=instance.uuid, reason=reason, instance=instance)
    # UUIDs of the instances and migrations with allocations at the host, but
    # not of the instances on the host.
    for consumer in sorted(view.allocations.keys() - view.names.keys()):
        remaining = _find_remaining(context, consumer, old_dedicated)
        # A live migration and its instance are two consumers.
        if remaining and remaining.uuid not in listed:
            listed.add(remaining.uuid)
            yield remaining


def _is_low(flavor: objects.Flavor | None) -> bool:
    """Return whether a flavor has low priority; False without a flavor."""
    return bool(flavor and flavor_specs.get_priority(
        flavor.extra_specs) == cpu_capacity.LOW)


def _needs_dedicated(instance: objects.Instance) -> bool:
    """Return whether an instance on its way to a host will be pinned there."""
    flavor, topology = instance.flavor, instance.numa_topology
    if instance.new_flavor:
        # It arrives by a resize.
        flavor = instance.new_flavor
        topology = hardware.numa_get_constraints(
            flavor, instance.image_meta)
    return demand.get_demand(flavor, topology).dedicated > 0


def _find_remaining(
        context: nova_context.RequestContext, uuid: str,
        old_dedicated: frozenset[int] | None) -> RemainingInstance | None:
    """Return the RemainingInstance of a consumer, or None.

    The consumer has an allocation at the host, but its instance is not on the
    host. The instance may be on the way to the host, or may return. The result
    is None if the plan can be undone with the instance on the host.

    :param uuid: UUID of the consumer, an instance or a migration
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
            # The host is the source of a move. A revert of the move brings
            # the instance back.
            uuid, reason = migration.instance_uuid, UNCONFIRMED
            instance = host_view.find_instance(context, uuid)
    except host_view.NotScheduledYet:
        try:
            instance = objects.BuildRequest.get_by_instance_uuid(
                context, uuid).instance
        except exception.BuildRequestNotFound:
            # Meanwhile, the instance was created in a cell. Count it until the
            # next call reads it there.
            return RemainingInstance(uuid, CREATED)
    except host_view.CellUnreachable:
        return RemainingInstance(uuid, UNKNOWN)
    if instance is None:
        return None
    # A resize brings the new flavor, and its revert the old one.
    must_leave = any(_is_low(flavor) for flavor in (
        instance.flavor, instance.old_flavor, instance.new_flavor))
    if not must_leave and old_dedicated is not None:
        if reason == CREATED:
            # nova-compute chooses later which CPUs the instance is pinned to,
            # and may choose others than the old dedicated ones.
            must_leave = _needs_dedicated(instance)
        elif instance.migration_context:
            # A revert of the resize pins the instance to these CPUs again.
            old_pins = demand.get_topology_pins(
                instance.migration_context.old_numa_topology)
            must_leave = bool(old_pins - old_dedicated)
    if not must_leave:
        return None
    return RemainingInstance(uuid=uuid, reason=reason, instance=instance)
