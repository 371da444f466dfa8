# SPDX-License-Identifier: Apache-2.0

"""The instances that must leave a host before co-location ends."""

import typing

from nova import exception
from nova import objects

from nova_prio.admin.audit import host_view
from nova_prio.admin.host import plan_format
from nova_prio.model import capacity
from nova_prio.model import flavor_specs
from nova_prio.objects import host_report
from nova_prio.virt import demand

#: Reasons why an instance must leave.
LOW, OUTSIDE = 'low priority', 'pinned outside'
CREATED, UNCONFIRMED = 'being created', 'to be confirmed or reverted'
UNKNOWN = 'unknown'


class RemainingInstance(typing.NamedTuple):
    """An instance that must leave, and the reason.

    ``instance`` is a nova.objects.Instance, or None if its cell does not
    answer.
    """

    uuid: str
    reason: str
    instance: objects.Instance | None

    def describe(self):
        """Return priority, vCPUs and memory in MB, each '' if unknown."""
        flavor = self.instance and self.instance.flavor
        if not flavor:
            return '', '', ''
        return (flavor_specs.get_priority(flavor.extra_specs or {}) or '',
                flavor.vcpus, flavor.memory_mb)


def list_remaining(context, view, plan=None):
    """Yield a RemainingInstance for each instance that must leave a host.

    These are low-priority instances and, if a plan is given, instances on
    CPUs that were not dedicated before. They may be on the host, on the way
    to the host, or may return to the host.
    """
    dedicated = plan and host_report.parse_cpu_set(
        plan.now[plan_format.OPTION, 'cpu_dedicated_set'])
    listed = set()
    for instance in view.instances:
        if _is_low(instance.flavor):
            reason = LOW
        elif plan and demand.get_instance_pins(instance) - dedicated:
            reason = OUTSIDE
        else:
            continue
        listed.add(instance.uuid)
        yield RemainingInstance(instance.uuid, reason, instance)
    for consumer in sorted(set(view.allocations) - {
            instance.uuid for instance in view.instances}):
        remaining = _find_consumer(context, consumer, dedicated)
        # A live migration and its instance are two consumers.
        if remaining and remaining.uuid not in listed:
            listed.add(remaining.uuid)
            yield remaining


def _is_low(flavor):
    return bool(flavor) and flavor_specs.get_priority(
        flavor.extra_specs or {}) == capacity.LOW


def _find_consumer(context, uuid, dedicated):
    """Return the RemainingInstance of a consumer without an instance here.

    :param dedicated: dedicated CPUs before the plan; None allows any CPU
    :returns: None if the instance may stay
    """
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
            # The instance was moved to a cell in between.
            return RemainingInstance(uuid, CREATED, None)
    except host_view.CellUnreachable:
        return RemainingInstance(uuid, UNKNOWN, None)
    if instance and (
            _is_low(instance.flavor) or _is_low(instance.old_flavor) or
            dedicated is not None and
            _may_be_pinned_outside(instance, reason, dedicated)):
        return RemainingInstance(uuid, reason, instance)
    return None


def _may_be_pinned_outside(instance, reason, dedicated):
    if reason == CREATED:
        # nova-compute chooses the CPUs later.
        return bool(demand.get_demand(
            instance.flavor, instance.numa_topology).dedicated)
    migration_context = instance.migration_context
    return bool(migration_context and demand.get_topology_pins(
        migration_context.old_numa_topology) - dedicated)
