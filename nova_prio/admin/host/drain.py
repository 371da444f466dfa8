# SPDX-License-Identifier: Apache-2.0

"""A host that is to be one of Nova's own again: closed, emptied, taken back.

What was done is kept in Placement, as traits of the host: each step can be
left and taken up again.
"""

import typing

from nova import exception
from nova import objects
import os_resource_classes as orc

from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import repairs
from nova_prio.admin.host import plan_format
from nova_prio.admin.host import verify
from nova_prio.admin import host_inventory
from nova_prio.model import admission
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity
from nova_prio.model import flavor_specs
from nova_prio.objects import host_report
from nova_prio.placement import allocations
from nova_prio.placement import traits as prio_traits
from nova_prio.virt import demand

#: Why something has to leave.
LOW, OUTSIDE = 'low priority', 'pinned outside'
CREATED, UNCONFIRMED = 'being created', 'to be confirmed or reverted'
UNKNOWN = 'unknown'

_DISABLED = 'COMPUTE_STATUS_DISABLED'


class RemainingInstance(typing.NamedTuple):
    """An instance that has to leave, and ``why``.

    ``instance`` is a nova.objects.Instance, or None where its cell does not
    answer.
    """

    uuid: str
    why: str
    instance: objects.Instance | None


def list_remaining(context, view, plan=None):
    """Yield what has to leave a host: a Left each.

    These are low-priority instances, those that are to come or may come back
    too, and those that are pinned where the CPU sets of before would not let
    them be.
    """
    dedicated = plan and host_report.parse_cpu_set(
        plan.now[plan_format.OPTION, 'cpu_dedicated_set'])
    named = set()
    for instance in view.instances:
        why = None
        if _is_low(instance.flavor):
            why = LOW
        elif plan and demand.get_instance_pins(instance) - dedicated:
            why = OUTSIDE
        if why:
            named.add(instance.uuid)
            yield RemainingInstance(instance.uuid, why, instance)
    for consumer in sorted(set(view.allocations) - {
            instance.uuid for instance in view.instances}):
        found = _of_consumer(context, consumer, dedicated)
        # A live migration holds what its instance has, too.
        if found and found.uuid not in named:
            named.add(found.uuid)
            yield found


def _is_low(flavor):
    return bool(flavor) and flavor_specs.get_priority(
        flavor.extra_specs or {}) == capacity.LOW


def _of_consumer(context, uuid, dedicated):
    """Return the Left of a consumer that is no instance of the host, or None.

    :param dedicated: CPUs that instances may be pinned to, or None for any
    """
    why = CREATED
    try:
        _, instance = host_view.find_instance(context, uuid)
        if instance is None:
            migration = host_view.find_migration(context, uuid)
            if migration is None:
                return None
            uuid, why = migration.instance_uuid, UNCONFIRMED
            _, instance = host_view.find_instance(context, uuid)
    except host_view.NotScheduledYet:
        try:
            instance = objects.BuildRequest.get_by_instance_uuid(
                context, uuid).instance
        except exception.BuildRequestNotFound:
            # It is in a cell by now, which the next look sees.
            return RemainingInstance(uuid, CREATED, None)
    except host_view.CellUnreachable:
        return RemainingInstance(uuid, UNKNOWN, None)
    if instance is None:
        return None
    if any(map(_is_low, (instance.flavor, instance.old_flavor))) or (
            dedicated is not None and
            _may_be_outside(instance, why, dedicated)):
        return RemainingInstance(uuid, why, instance)
    return None


def _may_be_outside(instance, why, dedicated):
    """Return whether an instance that comes may be pinned to other CPUs."""
    if why == CREATED:
        # Nobody knows yet which it gets.
        return bool(demand.get_demand(
            instance.flavor, instance.numa_topology).dedicated)
    before = instance.migration_context
    return bool(before and demand.get_topology_pins(
        before.old_numa_topology) - dedicated)


def find_destinations(context, client, view, leaving):
    """Return where those that have to leave would fit, all of them together.

    Placement is asked for hosts, and their reports are held against each
    instance; what one takes, the next does not have. Neither NUMA cells nor
    devices are looked at.

    :param leaving: list of Left
    :returns: dict, UUID -> name of a host; those that fit nowhere are left out
    """
    found, _ = host_inventory.list_hosts(context)
    hosts = {host.uuid: host for host in found if host.name != view.name}
    rooms = {uuid: (host.report.room, host.free_memory_mb)
             for uuid, host in hosts.items() if host.report}
    volumes = allocations.find_volume_backed(
        view.context, [each.instance for each in leaving if each.instance])
    answers, fits = {}, {}
    for each in sorted(leaving, key=_size, reverse=True):
        if each.instance is None or each.why in (CREATED, UNCONFIRMED):
            continue
        kind = demand.ResourceRequest.from_flavor(
            each.instance.flavor, each.instance.numa_topology)
        resources = allocations.get_expected(
            each.instance, each.uuid in volumes)
        key = kind.priority is not None, tuple(sorted(resources.items()))
        if key not in answers:
            answers[key] = _candidates(client, *key)
        able = [uuid for uuid in answers[key]
                if uuid in hosts and _takes(hosts[uuid], rooms, kind)]
        if not able:
            continue
        # The emptiest first, so that as many as can be find a place.
        best = max(able, key=lambda uuid: rooms.get(uuid, ((0, 0, 0), 0)))
        fits[each.uuid] = hosts[best].name
        if best in rooms:
            room, memory_mb = rooms[best]
            rooms[best] = (capacity.calculate_remaining(room, kind.needed_rows),
                           memory_mb - kind.memory_mb)
    return fits


def _size(leaving):
    return leaving.instance.vcpus if leaving.instance else 0


def _candidates(client, has_priority, resources):
    """Return the UUIDs of the hosts that Placement has for an instance."""
    required = '!' + _DISABLED
    if has_priority:
        required = '%s,%s' % (prio_traits.TRAIT, required)
    return list(allocations.get_json(
        client, '/allocation_candidates?resources=%s&required=%s' % (
            ','.join('%s:%d' % each for each in resources), required)
    )['provider_summaries'])


def _takes(host, rooms, kind):
    """Return whether a host takes an instance, by what it reports."""
    if kind.priority and not any(
            map(aggregate_metadata.is_marked, host.aggregates)):
        return False
    if host.report is None:
        return kind.priority is None and not host.problem
    room, memory_mb = rooms[host.uuid]
    return not any(admission.find_refusals(host.report, kind, room, memory_mb))


def set_traits(context, client, view, wanted):
    """Give a host those of our traits that are wanted, and no others.

    :param wanted: iterable of names of traits
    :raises holdings.NotMended: where Placement does not take it
    """
    def change(there):
        after = (set(there) - set(prio_traits.TRAITS)).union(wanted)
        return there if after == set(there) else sorted(after)

    allocations.update_provider(
        context, client, view.node.uuid, 'traits', change)


def disable(context, client, view):
    """Let a host admit no priority instance any more; see set_traits()."""
    set_traits(context, client, view, [
        prio_traits.TRAIT_DISABLED, *prio_traits.list_for_host(
            prio_traits.TRAIT_MIX in view.traits, is_disabled=True)])


def enable(context, client, view):
    """Let a host admit priority instances again; see set_traits()."""
    set_traits(context, client, view, prio_traits.list_for_host(
        prio_traits.TRAIT_MIX in view.traits, is_disabled=False))


def restore_inventories(view, plan):
    """Return the inventories with the allocation ratios of before.

    :returns: (dict, resource class -> inventory, list of the classes of which
        more than the ratio is not as it was before)
    """
    wanted, others = dict(view.inventories), []
    for name in (orc.VCPU, orc.PCPU, orc.MEMORY_MB):
        before = plan.now.get((plan_format.INVENTORY, name)) or None
        there = view.inventories.get(name)
        if before and there and {
                **there, 'allocation_ratio': before['allocation_ratio']
                } == before:
            wanted[name] = before
        elif before != there:
            others.append(name)
    return wanted, others


def is_restored(view, plan):
    """Return whether a host that was ours before is again what it was."""
    return bool(
        plan and view.report and
        prio_traits.has_our_driver(plan.now[plan_format.TRAITS, plan_format.TRAITS].split()) and
        all(verify.are_equal(name, plan.now.get((plan_format.OPTION, name), ''), value)
            for name, value in verify.get_options(view.report).items()))


def undo_colocation(context, client, view, inventories, plan=None):
    """Give a host the traits and inventories that it had.

    :param inventories: dict, resource class -> inventory, all of them
    :raises holdings.NotMended: where Placement does not take it
    """
    set_traits(context, client, view,
               plan.now[plan_format.TRAITS, plan_format.TRAITS].split() if plan else ())
    if inventories != view.inventories:
        repairs.replace_provider_data(view.node.uuid, 'inventories', view.inventories,
                                      inventories, context, client)
