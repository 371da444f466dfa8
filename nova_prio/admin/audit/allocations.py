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

# From this version on, consumers have a type. Nova sets none.
_TYPE_VERSION, _NO_TYPE = '1.38', 'unknown'


def check(view, context, client):
    """Yield the findings of the allocations at the host of a HostView.

    :param context: nova.context.RequestContext that targets no cell
    :param client: nova.scheduler.client.report.SchedulerReportClient
    """
    for consumer in sorted(view.allocations.keys() - view.consumers):
        resources = view.allocations[consumer]
        if not allocations.select_managed(resources):
            continue
        find_fault = functools.partial(
            _find_fault, view, context, client, consumer)
        try:
            fault = find_fault()
        except host_view.CellUnreachable as error:
            yield finding.Finding(
                view.name, finding.UNREAD, consumer,
                placement=finding.format_amounts(resources), note=str(error))
            continue
        if fault:
            yield finding.Finding(
                view.name, fault[0], consumer, finding.format_amounts({}),
                finding.format_amounts(resources), repair=functools.partial(
                    repairs.delete_allocations, view, consumer, fault,
                    find_fault))
    # Repair instances last: they may need the capacity that is freed above.
    yield from _check_instances(view, client)


def _check_instances(view, client):
    for instance, expected in allocations.find_drifted(
            view.context, view.idle_instances, view.total_allocations,
            view.classes):
        present = allocations.select_managed(
            view.total_allocations.get(instance.uuid, {}))
        if view.sharing:
            # The allocations at the sharing providers may be out of date.
            present, expected = allocation_repair.get_present_and_expected(
                view.context, client, view.node.uuid, view.sharing, instance)
            if present == expected:
                continue
        (pcpu, vcpu), (expected_pcpu, expected_vcpu) = (
            (amounts.get(orc.PCPU, 0), amounts.get(orc.VCPU, 0))
            for amounts in (present, expected))
        kind = finding.WRONG_AMOUNT
        if not present:
            kind = finding.MISSING_ALLOCATION
        elif (pcpu != expected_pcpu and
              pcpu + vcpu == expected_pcpu + expected_vcpu):
            kind = finding.WRONG_CLASS
        notes = []
        if _is_pinned_by_image(instance):
            notes.append('"nova-manage placement heal_allocations" would ask '
                         'for VCPU, because it ignores that the image pins '
                         'this instance.')
        if view.sharing and present.get(orc.DISK_GB) != expected.get(
                orc.DISK_GB):
            notes.append('DISK_GB is the sum of the host and of the resource '
                         'providers that share disks with it (%s).'
                         % ', '.join(view.sharing))
        yield finding.Finding(
            view.name, kind, instance.uuid, finding.format_amounts(expected),
            finding.format_amounts(present), note=' '.join(notes),
            repair=functools.partial(
                repairs.repair_instance, view, instance.uuid))


def _is_pinned_by_image(instance):
    policy = fields.CPUAllocationPolicy
    return (instance.image_meta.properties.get('hw_cpu_policy') in (
            policy.DEDICATED, policy.MIXED) and
            'hw:cpu_policy' not in instance.flavor.extra_specs)


def _find_fault(view, context, client, consumer):
    """Return why a consumer must not have an allocation at the host.

    :returns: (kind of finding, whether to delete all its allocations), or None
        if the allocation is right, or may become right
    :raises nova_prio.admin.audit.host_view.CellUnreachable: if the owner of
        the allocation cannot be determined
    """
    try:
        cctxt, instance = host_view.find_instance(context, consumer)
    except host_view.NotScheduledYet:
        return None
    if instance is None:
        migration = host_view.find_migration(context, consumer)
        if migration is None:
            return (None if _is_of_other_service(client, consumer) else
                    (finding.ORPHANED_ALLOCATION, True))
        uuid = migration.instance_uuid
        cctxt, instance = host_view.find_instance(context, uuid)
        # A deleted instance may have left its migration open.
        if instance is not None and (
                allocations.is_open_migration(migration) or
                allocations.get_if_idle(cctxt, uuid) is None or
                migrations.keeps_claim(instance, migration)):
            return None
        return finding.LEFT_ALLOCATION, True
    if allocations.get_if_idle(cctxt, consumer) is None:
        return None
    if instance.host is None:
        # An instance has its allocation before its host when it is built.
        return ((finding.LEFT_ALLOCATION, True)
                if allocations.is_on_no_host(instance) else None)
    # The instance may have arrived after the HostView was read.
    if instance.host == view.name or _was_evacuated(
            cctxt, consumer, view.name):
        return None
    return finding.LEFT_ALLOCATION, False


def _is_of_other_service(client, consumer):
    """Return whether the type of a consumer is set, and is not of Nova."""
    answer = allocations.get_json(
        client, '/allocations/' + consumer, _TYPE_VERSION)
    return answer.get('consumer_type', _NO_TYPE) not in (
        _NO_TYPE, 'INSTANCE', 'MIGRATION')


def _was_evacuated(context, uuid, host):
    """Return whether nova-compute of a host must still delete an instance.

    Nova deletes the allocation of an evacuated instance when the source host
    starts again.
    """
    moves = objects.MigrationList.get_by_filters(
        context, {'instance_uuid': uuid, 'source_compute': host,
                  'migration_type': fields.MigrationType.EVACUATION})
    return any(move.status == 'done' for move in moves)
