# SPDX-License-Identifier: Apache-2.0

"""Compare the report of a compute with its instances and with Placement."""

from __future__ import annotations

from collections import abc
import dataclasses
import functools
import typing

from nova.virt import hardware
import os_resource_classes as orc

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import repairs
from nova_prio.model import capacity
from nova_prio.model import inventory
from nova_prio.model import traits as prio_traits
from nova_prio.virt import demand

if typing.TYPE_CHECKING:
    from nova_prio.admin.audit import host_view

#: The traits that the report of a host decides.
_TRAITS = {prio_traits.CPU_PRIORITY, prio_traits.CPU_PRIORITY_MIX}
#: The fields of inventories that this package decides.
_FIELDS = {orc.PCPU: ('total',),
           orc.VCPU: ('total', 'reserved', 'max_unit'),
           orc.MEMORY_MB: ('allocation_ratio',)}


def check(view: host_view.HostView) -> abc.Iterator[finding.Finding]:
    """Yield the findings of a host.

    The rows of the capacity are explained in :mod:`nova_prio.model.capacity`.
    A host of another driver has neither a report nor a problem.
    """
    if view.problem:
        yield finding.Finding(view.name, 'unreadable_report',
                              compute=view.problem)
    else:
        yield from _check_traits(view)
    if view.report:
        yield from _check_pins(view)
    if view.report and not view.has_tasks_or_moves:
        yield from _check_inventories(view)
        yield from _check_report(view)
    if view.report:
        sellable, used = view.report.sellable, view.report.used
        oversold = ['%s: %d of %d sold' % (
                        row, getattr(used, row), getattr(sellable, row))
                    for row in capacity.find_oversold_rows(sellable, used)]
        if oversold:
            yield finding.Finding(
                view.name, 'oversold', compute=', '.join(oversold))
        if view.report.blocked:
            yield finding.Finding(
                view.name, 'blocked_cpus',
                compute='CPUs ' + hardware.format_cpu_spec(
                    view.report.blocked),
                libvirt=view.report.blocked_by, note=_note_if_down(view))


def _check_traits(view: host_view.HostView) -> abc.Iterator[finding.Finding]:
    """Yield a finding if Placement has other traits than expected."""
    expected = set()
    if view.report:
        # "nova-prio host disable" has set this trait.
        is_disabled = prio_traits.CPU_PRIORITY_DISABLED in view.traits
        expected = set(
            prio_traits.list_for_host(view.report.mix, is_disabled))
    present = _TRAITS.intersection(view.traits)
    if expected != present:
        yield finding.Finding(
            view.name, 'wrong_traits',
            needed=' '.join(sorted(expected)) or 'none',
            placement=' '.join(sorted(present)) or 'none',
            repair=functools.partial(
                repairs.replace_provider_data, view, 'traits', view.traits,
                [*(set(view.traits) - _TRAITS), *expected]))


def _check_inventories(
        view: host_view.HostView) -> abc.Iterator[finding.Finding]:
    """Yield one finding for all wrong inventories of a host."""
    expected = _build_expected_inventories(view)
    expected_fields = _select_fields(expected)
    present_fields = _select_fields(view.inventories)
    wrong = [name for name, fields in expected_fields.items()
             if fields != present_fields.get(name)]
    if wrong:
        yield finding.Finding(
            view.name, 'wrong_inventory',
            needed=_format_inventories(wrong, expected_fields),
            placement=_format_inventories(wrong, present_fields),
            repair=functools.partial(
                repairs.replace_provider_data, view, 'inventories',
                view.inventories, {
                    **view.inventories,
                    **{name: expected[name] for name in wrong}}))


def _build_expected_inventories(
        view: host_view.HostView) -> inventory.Inventories:
    """Return the inventories that this package decides, by resource class.

    The CPU allocation ratio in Placement is the ratio in force. The host must
    have a report.
    """
    assert view.report is not None
    ratio: typing.Any = view.inventories.get(orc.VCPU, {}).get(
        'allocation_ratio', view.report.ratio)
    cpus = dataclasses.replace(
        view.report.cpus, ratio=capacity.parse_ratio(ratio))
    stock = inventory.build_cpu_inventories(cpus, view.inventories)
    if cpus.mix and orc.MEMORY_MB in view.inventories:
        stock[orc.MEMORY_MB] = view.inventories[orc.MEMORY_MB]
    return inventory.build_priority_inventories(stock, cpus, view.usage)


def _select_fields(
        inventories: inventory.Inventories) -> inventory.Inventories:
    """Return the inventories with only the fields of ``_FIELDS``."""
    return {name: {field: inventories[name][field] for field in fields}
            for name, fields in _FIELDS.items() if name in inventories}


def _format_inventories(names: abc.Iterable[str],
                        inventories: inventory.Inventories) -> str:
    """Return the inventories of some resource classes as a text."""
    return ', '.join('%s: %s' % (
        name, finding.format_amounts(inventories.get(name, {})))
        for name in names)


def _check_report(view: host_view.HostView) -> abc.Iterator[finding.Finding]:
    """Yield a finding if the report differs from instances or Placement.

    The host must have a report.
    """
    report, used = view.report, view.used_rows
    assert report is not None
    if any(demand.needs_whole_cores(instance.flavor, instance.numa_topology)
           for instance in view.instances):
        # Only nova-compute knows which siblings of pinned CPUs are taken.
        used = used._replace(high=report.used.high)
    present = report.used._asdict()
    placement = ''
    # A host without shared CPUs has no VCPU inventory and needs no ratio.
    ratio = view.inventories.get(orc.VCPU, {}).get('allocation_ratio')
    if ratio is not None and capacity.parse_ratio(ratio) != report.ratio:
        placement = 'ratio=%s' % ratio
        present['ratio'] = str(report.ratio)
    if used != report.used or placement:
        yield finding.Finding(
            view.name, 'old_report',
            needed=finding.format_amounts(used._asdict()),
            placement=placement, compute=finding.format_amounts(present),
            note=_note_if_down(view))


def _note_if_down(view: host_view.HostView) -> str:
    """Return a sentence if the nova-compute of a host is down, else ''."""
    if view.is_up:
        return ''
    return 'nova-compute is down, and its report is out of date: start it.'


def _check_pins(view: host_view.HostView) -> abc.Iterator[finding.Finding]:
    """Yield pins to CPUs that are not dedicated.

    The host must have a report.
    """
    assert view.report is not None
    pins = {instance.uuid: demand.get_instance_pins(instance)
            for instance in view.instances_at_rest}
    for uuid, text in finding.find_pins_outside(
            pins, view.report.cpus.dedicated):
        yield finding.Finding(
            view.name, 'cpu_outside', uuid,
            needed='CPUs %s' % hardware.format_cpu_spec(
                view.report.cpus.dedicated), compute=text)
