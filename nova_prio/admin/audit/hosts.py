# SPDX-License-Identifier: Apache-2.0


"""Compare the report of a compute with its instances and with Placement."""

import collections
import dataclasses
import functools

from nova.virt import hardware
import os_resource_classes as orc

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import repairs
from nova_prio.model import capacity
from nova_prio.model import inventory
from nova_prio.placement import traits as prio_traits
from nova_prio.virt import demand

_OURS = {prio_traits.TRAIT, prio_traits.TRAIT_MIX}
#: What this package decides of an inventory.
_DECIDED = {orc.VCPU: ('total', 'reserved', 'max_unit'),
            orc.PCPU: ('total',),
            orc.MEMORY_MB: ('allocation_ratio',)}


def check(view):
    """Yield the findings of a HostView."""
    yield from _traits(view)
    yield from _pins(view)
    if view.problem:
        yield finding.Finding(view.name, finding.UNREADABLE_REPORT,
                              compute=view.problem)
    if view.report is None:
        return
    if view.is_at_rest:
        yield from _inventories(view)
        yield from _usage(view)
    yield from _oversold(view)


def _traits(view):
    if view.problem:
        return
    wanted = set()
    if view.report:
        wanted = set(prio_traits.list_for_host(
            view.report.mix, prio_traits.TRAIT_DISABLED in view.traits))
    there = _OURS.intersection(view.traits)
    if wanted != there:
        yield finding.Finding(
            view.name, finding.WRONG_TRAITS,
            needed=' '.join(sorted(wanted)) or 'none',
            placement=' '.join(sorted(there)) or 'none',
            repair=functools.partial(
                repairs.replace_provider_data, view.node.uuid, 'traits', view.traits,
                [*(set(view.traits) - _OURS), *wanted]))


def _inventories(view):
    """Yield a finding for all wrong inventories of a host together.

    The allocation ratio of CPUs in Placement is the one in force.
    """
    wanted = _wanted(view)
    wrong = [name for name in wanted if any(
        wanted[name][key] != view.inventories.get(name, {}).get(key)
        for key in _DECIDED[name])]
    if wrong:
        yield finding.Finding(
            view.name, finding.WRONG_INVENTORY,
            needed=_shown(wrong, wanted),
            placement=_shown(wrong, view.inventories),
            repair=functools.partial(
                repairs.replace_provider_data, view.node.uuid, 'inventories',
                view.inventories, {
                    **view.inventories,
                    **{name: wanted[name] for name in wrong}}))


def _wanted(view):
    """Return the inventories that this package decides, by resource class."""
    ratio = view.inventories.get(orc.VCPU, {}).get(
        'allocation_ratio', view.report.cpu_allocation_ratio)
    host = dataclasses.replace(
        view.report.cpus, ratio=capacity.parse_ratio(ratio))
    decided = inventory.build_cpu_inventories(host, view.inventories)
    if host.mix and orc.MEMORY_MB in view.inventories:
        decided[orc.MEMORY_MB] = view.inventories[orc.MEMORY_MB]
    return inventory.build_priority_inventories(decided, host, view.usage)


def _shown(names, inventories):
    return ', '.join(
        '%s: %s' % (name, finding.format_amounts({
            key: inventories[name][key] for key in _DECIDED[name]
            if key in inventories.get(name, {})}))
        for name in names)


def _usage(view):
    """Yield a finding if nova-compute reports another usage."""
    report, rows = view.report, view.rows
    if any(demand.needs_whole_cores(instance.flavor, instance.numa_topology)
           for instance in view.instances):
        # Their siblings are pinned too: nova-compute knows how many.
        rows = rows._replace(high=report.used.high)
    ratio = view.inventories.get(orc.VCPU, {}).get('allocation_ratio')
    # Where there are no shared CPUs, no ratio is in force.
    same_ratio = ratio is None or capacity.parse_ratio(
        ratio) == capacity.parse_ratio(report.cpu_allocation_ratio)
    if rows != report.used or not same_ratio:
        yield finding.Finding(
            view.name, finding.OLD_REPORT,
            needed=finding.format_amounts(rows._asdict()),
            placement='' if same_ratio else 'ratio=%s' % ratio,
            compute=finding.format_amounts({
                **report.used._asdict(),
                **({} if same_ratio else {
                    'ratio': report.cpu_allocation_ratio})}))


def _oversold(view):
    sellable, used = view.report.sellable, view.report.used
    over = capacity.find_oversold_rows(sellable, used)
    if over:
        yield finding.Finding(
            view.name, finding.OVERSOLD, compute=', '.join(
                '%s: %d of %d sold' % (row, getattr(used, row),
                                       getattr(sellable, row))
                for row in over))


def _pins(view):
    """Yield CPUs that Nova gave to two instances, or that are not D's."""
    users = collections.defaultdict(set)
    for instance in view.at_rest:
        for cpu in demand.get_instance_pins(instance):
            users[cpu].add(instance.uuid)
    for uuid, text in finding.find_shared_cpus(users):
        yield finding.Finding(view.name, finding.SAME_CPU, uuid, compute=text)
    for instance in view.at_rest if view.report else ():
        outside = demand.get_instance_pins(
            instance) - view.report.cpus.dedicated
        if outside:
            yield finding.Finding(
                view.name, finding.CPU_OUTSIDE, instance.uuid,
                needed='CPUs %s' % view.report.cpu_dedicated_set,
                compute='CPUs %s' % hardware.format_cpu_spec(outside))
