# SPDX-License-Identifier: Apache-2.0


"""Compare the allocations in Placement with the expected allocations."""

import functools

from nova import objects
from nova.objects import fields
import os_resource_classes as orc

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import migrations
from nova_prio.admin.audit import repairs
from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations

# Consumers have types from this version on. Nova gives them none.
_WITH_TYPE, _UNTYPED = '1.38', 'unknown'

_SUM_OF_DISKS = ('DISK_GB is the sum of the host and of the resource '
                 'providers that share disks with it (%s).')


def check(view, context, client):
    """Yield the findings of the allocations at a host, of a HostView.

    :param context: nova.context.RequestContext, of no cell
    :param client: nova.scheduler.client.report.SchedulerReportClient
    """
    for consumer in sorted(set(view.allocations) - view.consumers):
        held = view.allocations[consumer]
        look = functools.partial(_stray, view, context, client, consumer)
        try:
            stray = allocations.select_own(held) and look()
        except host_view.NotScheduledYet:
            continue
        except host_view.CellUnreachable as error:
            yield finding.Finding(
                view.name, finding.UNREAD, consumer,
                placement=finding.format_amounts(held), note=str(error))
            continue
        if stray:
            kind, everywhere = stray
            yield finding.Finding(
                view.name, kind, consumer, finding.format_amounts({}),
                finding.format_amounts(held), repair=functools.partial(
                    repairs.delete_allocations, view.node.uuid, consumer, held,
                    everywhere, functools.partial(_is_still, look, stray)))
    # They may need the allocations that others have in vain.
    yield from _of_instances(view, client)


def _is_still(look, stray):
    """Return whether an allocation is still in vain."""
    try:
        return look() == stray
    except (host_view.NotScheduledYet, host_view.CellUnreachable):
        return False


def _of_instances(view, client):
    for instance, needs in allocations.find_drifted(
            view.context, view.at_rest, view.held, view.classes):
        held = allocations.select_own(view.held.get(instance.uuid, {}))
        if view.sharing:
            # The allocations at the sharing providers were read before.
            held, needs = allocation_repair.get_present_and_expected(
                view.context, client, view.node.uuid, view.sharing, instance)
            if held == needs:
                continue
        if not held:
            kind = finding.MISSING_ALLOCATION
        elif (_cpus(held) != _cpus(needs) and
              sum(_cpus(held)) == sum(_cpus(needs))):
            kind = finding.WRONG_CLASS
        else:
            kind = finding.WRONG_AMOUNT
        notes = [_note(instance)]
        if view.sharing and held.get(orc.DISK_GB) != needs.get(orc.DISK_GB):
            notes.append(_SUM_OF_DISKS % ', '.join(view.sharing))
        yield finding.Finding(
            view.name, kind, instance.uuid, finding.format_amounts(needs),
            finding.format_amounts(held), note=' '.join(filter(None, notes)),
            repair=functools.partial(
                repairs.repair_instance, view.node.uuid, view.name, instance.uuid))


def _cpus(resources):
    return [resources.get(name, 0) for name in (orc.PCPU, orc.VCPU)]


def _note(instance):
    """Return a note on an instance that its image pins, or an empty text."""
    policy = fields.CPUAllocationPolicy
    if (instance.image_meta.properties.get('hw_cpu_policy') in (
            policy.DEDICATED, policy.MIXED) and
            'hw:cpu_policy' not in instance.flavor.extra_specs):
        return ('"nova-manage placement heal_allocations" would ask for VCPU, '
                'for it does not look at the image, which pins this instance.')
    return ''


def _stray(view, context, client, consumer):
    """Return why a consumer must not have an allocation at the host.

    :returns: (kind of finding, whether all its allocations must go), or None
        if nothing is wrong
    :raises views.InNoCell, views.Unanswered: if nobody knows
    """
    cctxt, instance = host_view.find_instance(context, consumer)
    if instance is None:
        migration = host_view.find_migration(context, consumer)
        if migration is None:
            return (None if _is_of_others(client, consumer) else
                    (finding.ORPHANED_ALLOCATION, True))
        uuid = migration.instance_uuid
        cctxt, instance = host_view.find_instance(context, uuid)
        # One that was deleted may have left its migration open.
        if instance is not None and (allocations.is_open_migration(migration) or
                                     allocations.get_if_idle(cctxt, uuid) is None or
                                     migrations.keeps_claim(
                                         instance, migration)):
            return None
        return finding.LEFT_ALLOCATION, True
    if allocations.get_if_idle(cctxt, consumer) is None:
        return None
    if instance.host is None:
        # One that is being built has its allocation before its host.
        return ((finding.LEFT_ALLOCATION, True)
                if allocations.is_on_no_host(instance) else None)
    # It may have come since the instances of the host were read.
    if instance.host == view.name or _was_evacuated(
            cctxt, consumer, view.name):
        return None
    return finding.LEFT_ALLOCATION, False


def _is_of_others(client, consumer):
    """Return whether a service that is not Nova says that it is its own."""
    found = allocations.get_json(
        client, '/allocations/' + consumer, _WITH_TYPE)
    return found.get('consumer_type', _UNTYPED) not in (
        _UNTYPED, 'INSTANCE', 'MIGRATION')


def _was_evacuated(context, uuid, host):
    """Return whether a host has still to learn that an instance left it.

    Nova takes what it holds there away when nova-compute starts there.
    """
    moves = objects.MigrationList.get_by_filters(
        context, {'instance_uuid': uuid, 'source_compute': host,
                  'migration_type': fields.MigrationType.EVACUATION})
    return any(move.status == 'done' for move in moves)
