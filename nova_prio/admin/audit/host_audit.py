# SPDX-License-Identifier: Apache-2.0

"""Compare the report of a compute with its instances and with Placement."""

from __future__ import annotations

import dataclasses
import functools
import typing

from nova.virt import hardware
import os_resource_classes as orc

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import repairs
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import inventory
from nova_prio.model import traits as prio_traits
from nova_prio.virt import demand

#: The traits that the report of a host decides. Without a report, the host has
#: another driver, and no trait of this package is right.
_TRAITS = {prio_traits.CPU_PRIORITY, prio_traits.CPU_PRIORITY_MIX}
#: The fields of inventories that this package decides.
_FIELDS = {orc.PCPU: ('total',),
           orc.VCPU: ('total', 'reserved', 'max_unit'),
           orc.MEMORY_MB: ('allocation_ratio',)}


def check(view: host_view.HostView) -> finding.Findings:
    """Yield the findings of a host.

    The report, which nova-compute writes, has the sold and the sellable vCPUs
    of each row. A row is a number of vCPUs that the host may sell, see
    :mod:`nova_prio.model.cpu_capacity`. A host of another driver has neither a
    report nor a problem. ``compute`` of a finding is what the report has.
    """
    # The problem tells why the report cannot be read.
    if view.problem:
        yield finding.Finding('unreadable_report', compute=view.problem)
        return
    report = view.report
    yield from _check_traits(view)
    # The host has another driver: only its traits can be wrong.
    if report is None:
        return
    yield from _check_pins(view, report.cpus.dedicated)
    # While an instance is being changed or moved, sources may differ.
    if not view.has_tasks_or_moves:
        yield from _check_inventories(view, report)
        yield from _check_report(view, report)
    oversold = []
    for row in cpu_capacity.find_oversold_rows(report.sellable, report.used):
        oversold.append('%s: %d of %d sold' % (
            row, getattr(report.used, row), getattr(report.sellable, row)))
    # The memory outside of huge pages, None unless it is a limit of its own.
    small = report.small_pages
    if small is not None and small.free_mb < 0:
        oversold.append('small pages: %d MB too many sold' % -small.free_mb)
    if oversold:
        yield finding.Finding('oversold', compute=', '.join(oversold))
    # These are dedicated CPUs on which guests run that may not. As long as
    # they do, nova-compute pins no instance there. ``blocked_by`` has the
    # names of those guests that Nova does not know, as a text.
    if report.blocked:
        notes = [_note_if_down(view),
                 finding.describe_orphans(report.blocked_by)]
        yield finding.Finding(
            'blocked_cpus',
            compute='CPUs ' + hardware.format_cpu_spec(report.blocked),
            libvirt=report.blocked_by,
            note=' '.join(note for note in notes if note))


def _check_traits(view: host_view.HostView) -> finding.Findings:
    """Yield a finding if Placement has other traits than expected.

    Compare only traits of this package. A host without a report runs another
    driver, and must have none of them. A report decides which traits of
    priority CPUs the host must have.
    """
    traits = set(view.traits)
    expected: set[str] = set()
    compared = set(prio_traits.ALL)
    if view.report:
        # Compare all but CPU_PRIORITY_DISABLED: the command "nova-prio host
        # disable" sets that trait, and the audit must leave it as it is.
        compared = _TRAITS
        is_disabled = prio_traits.CPU_PRIORITY_DISABLED in traits
        expected = set(
            prio_traits.list_for_host(view.report.mix, is_disabled))
    present = compared & traits
    if expected != present:
        # The repair replaces all traits, so it must keep the other ones.
        wanted = list((traits - compared) | expected)
        repair = functools.partial(
            repairs.replace_provider_data, view, 'traits', view.traits, wanted)
        yield finding.Finding(
            'wrong_traits', needed=' '.join(sorted(expected)) or 'none',
            placement=' '.join(sorted(present)) or 'none', repair=repair)


def _check_inventories(
        view: host_view.HostView,
        report: capacity_report.CapacityReport) -> finding.Findings:
    """Yield one finding for all wrong inventories of a host."""
    # Both are resource class -> field of the inventory -> value.
    expected = _build_expected_inventories(view, report)
    wanted = dict(view.inventories)
    # Texts with the wrong fields of each resource class.
    needed_texts, placement_texts = [], []
    # Resource class -> names of the fields that this package decides.
    for name, fields in _FIELDS.items():
        if name not in expected:
            continue
        expected_fields = _select(expected[name], fields)
        present_fields = _select(view.inventories.get(name, {}), fields)
        if expected_fields != present_fields:
            wanted[name] = expected[name]
            needed_texts.append('%s: %s' % (
                name, finding.format_amounts(expected_fields)))
            placement_texts.append('%s: %s' % (
                name, finding.format_amounts(present_fields)))
    if needed_texts:
        repair = functools.partial(
            repairs.replace_provider_data, view, 'inventories',
            view.inventories, wanted)
        yield finding.Finding(
            'wrong_inventory', needed=', '.join(needed_texts),
            placement=', '.join(placement_texts), repair=repair)


def _select(inventory_of_class: dict[str, typing.Any],
            names: tuple[str, ...]) -> dict[str, typing.Any]:
    """Return the fields of an inventory that have one of the names.

    :param inventory_of_class: field -> value, of one resource class
    :param names: names of fields
    """
    return {name: value for name, value in inventory_of_class.items()
            if name in names}


def _build_expected_inventories(
        view: host_view.HostView,
        report: capacity_report.CapacityReport) -> inventory.Inventories:
    """Return the inventories that this package decides, by resource class.

    Start from the inventories that Nova's driver would report. Take the CPU
    allocation ratio from Placement, which applies that one even if the ratio
    in the report differs.
    """
    ratio: typing.Any = view.inventories.get(orc.VCPU, {}).get(
        'allocation_ratio', report.ratio)
    cpus = dataclasses.replace(
        report.cpus, ratio=cpu_capacity.parse_ratio(ratio))
    of_nova = inventory.build_cpu_inventories(cpus, view.inventories)
    # Mix is the option cpu_priority_mix_enable. With it, this package keeps
    # the host from overcommitting memory: pass the inventory of memory, whose
    # ratio the function below then lowers to 1.0 at most.
    if cpus.mix and orc.MEMORY_MB in view.inventories:
        of_nova[orc.MEMORY_MB] = view.inventories[orc.MEMORY_MB]
    # The usage counts too: the inventory of VCPU must cover what is in use.
    return inventory.build_priority_inventories(of_nova, cpus, view.usage)


def _check_report(
        view: host_view.HostView,
        report: capacity_report.CapacityReport) -> finding.Findings:
    """Yield a finding if the report differs from instances or Placement.

    nova-compute writes the report of a host in each periodic update.

    The used vCPUs are three numbers, named after the limit in which they
    count: ``high`` are the dedicated CPUs with a pinned vCPU, ``low`` all
    vCPUs that are not pinned, of any priority, and ``ordinary`` those of them
    without low priority.
    """
    used = view.used_rows
    if any(demand.needs_whole_cores(instance.flavor, instance.numa_topology)
           for instance in view.instances):
        # Such an instance may also take the thread siblings of its CPUs. Only
        # nova-compute knows which, so take its number of pinned CPUs.
        used = used._replace(high=report.used.high)
    present = report.used._asdict()
    placement = ''
    # A host without shared CPUs has no VCPU inventory and needs no ratio.
    ratio = view.inventories.get(orc.VCPU, {}).get('allocation_ratio')
    if ratio is not None and cpu_capacity.parse_ratio(ratio) != report.ratio:
        placement = 'ratio=%s' % ratio
        present['ratio'] = str(report.ratio)
    if used != report.used or placement:
        yield finding.Finding(
            'old_report', needed=finding.format_amounts(used._asdict()),
            placement=placement, compute=finding.format_amounts(present),
            note=_note_if_down(view))


def _note_if_down(view: host_view.HostView) -> str:
    """Return a sentence if the nova-compute of a host is down, else ''."""
    if view.is_up:
        return ''
    return 'nova-compute is down, and its report is out of date: start it.'


def _check_pins(view: host_view.HostView,
                dedicated: frozenset[int]) -> finding.Findings:
    """Yield a finding for each instance with pins to CPUs not dedicated.

    Skip instances that are being changed or moved. ``compute`` of a finding is
    the record of the instance in Nova.

    :param dedicated: the dedicated CPUs of the host
    """
    pins = {instance.uuid: demand.get_instance_pins(instance)
            for instance in view.instances_at_rest}
    for uuid, text in finding.find_pins_outside(pins, dedicated):
        yield finding.Finding(
            'cpu_outside', uuid, compute=text,
            needed='CPUs %s' % hardware.format_cpu_spec(dedicated))
