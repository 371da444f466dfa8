# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""What a compute reports, against what is on it and what Placement has."""

import collections

from nova.virt import hardware
import os_resource_classes as orc

from nova_prio.audit import finding
from nova_prio.audit import repairs
from nova_prio import capacity
from nova_prio.compute import inventory
from nova_prio import demand
from nova_prio.objects import host_report
from nova_prio import priority_hosts

_OURS = {priority_hosts.TRAIT, priority_hosts.TRAIT_MIX}
#: What this package decides of an inventory.
_DECIDED = {orc.VCPU: ('total', 'reserved', 'max_unit'),
            orc.PCPU: ('total',),
            orc.MEMORY_MB: ('allocation_ratio',)}


def findings(view):
    """Yield what is wrong with a host.

    :param view: HostView
    """
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
        wanted = set(priority_hosts.traits(
            view.report.mix, priority_hosts.TRAIT_DISABLED in view.traits))
    there = _OURS.intersection(view.traits)
    if wanted != there:
        yield finding.Finding(
            view.name, finding.WRONG_TRAITS,
            needed=' '.join(sorted(wanted)) or 'none',
            placement=' '.join(sorted(there)) or 'none',
            repair=repairs.Write(
                view.node.uuid, 'traits', view.traits,
                [*(set(view.traits) - _OURS), *wanted]))


def _inventories(view):
    """Yield a finding for all wrong inventories of a host together.

    The allocation ratio of CPUs is what Placement has: it is in force.
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
            repair=repairs.Write(
                view.node.uuid, 'inventories', view.inventories,
                {**view.inventories,
                 **{name: wanted[name] for name in wrong}}))


def _wanted(view):
    """Return dict, resource class -> inventory, of what we decide."""
    ratio = view.inventories.get(orc.VCPU, {}).get(
        'allocation_ratio', view.report.cpu_allocation_ratio)
    host = capacity.HostCPUs(
        host_report.cpu_set(view.report.cpu_dedicated_set),
        host_report.cpu_set(view.report.cpu_shared_set),
        capacity.exact_ratio(ratio), view.report.mix)
    in_use = view.in_placement
    wanted = {}
    if host.dedicated:
        wanted[orc.PCPU] = {
            'reserved': 0, 'min_unit': 1, 'step_size': 1,
            'max_unit': len(host.dedicated), 'allocation_ratio': 1.0,
            **view.inventories.get(orc.PCPU, {}),
            'total': len(host.dedicated)}
    if host.shared:
        there = {'reserved': 0, 'min_unit': 1, 'step_size': 1,
                 'allocation_ratio': float(host.ratio),
                 **view.inventories.get(orc.VCPU, {}),
                 'total': len(host.shared), 'max_unit': len(host.shared)}
        wanted[orc.VCPU] = (
            inventory.vcpu(there, host, in_use.vcpu, in_use.largest_vcpu)
            if host.mix else
            inventory.movable_vcpu(
                there, in_use.vcpu, in_use.largest_vcpu))
    memory = view.inventories.get(orc.MEMORY_MB)
    if memory and host.mix:
        wanted[orc.MEMORY_MB] = inventory.memory(memory, in_use.memory_mb)
    return wanted


def _shown(names, inventories):
    return ', '.join(
        '%s: %s' % (name, finding.text({
            key: inventories[name][key] for key in _DECIDED[name]
            if key in inventories.get(name, {})}))
        for name in names)


def _usage(view):
    """Yield what nova-compute counts otherwise than the instances say."""
    report, rows = view.report, view.rows
    if any(demand.wants_whole_cores(instance.flavor, instance.numa_topology)
           for instance in view.instances):
        # Their siblings are pinned too: nova-compute knows how many.
        rows = rows._replace(high=report.used.high)
    ratio = view.inventories.get(orc.VCPU, {}).get('allocation_ratio')
    # Where there are no shared CPUs, no ratio is in force.
    same_ratio = ratio is None or capacity.exact_ratio(
        ratio) == capacity.exact_ratio(report.cpu_allocation_ratio)
    if rows != report.used or not same_ratio:
        yield finding.Finding(
            view.name, finding.OLD_REPORT,
            needed=finding.text(rows._asdict()),
            placement='' if same_ratio else 'ratio=%s' % ratio,
            compute=finding.text({
                **report.used._asdict(),
                **({} if same_ratio else {
                    'ratio': report.cpu_allocation_ratio})}))


def _oversold(view):
    sellable, used = view.report.sellable, view.report.used
    over = [row for row in capacity.Rows._fields
            if getattr(used, row) > getattr(sellable, row)]
    if over:
        yield finding.Finding(
            view.name, finding.OVERSOLD, compute=', '.join(
                '%s: %d of %d sold' % (row, getattr(used, row),
                                       getattr(sellable, row))
                for row in over))


def _pins(view):
    """Yield CPUs that Nova gave to two instances, or that are not D's."""
    users = collections.defaultdict(list)
    for instance in view.at_rest:
        for cpu in sorted(demand.pins(instance)):
            users[cpu].append(instance.uuid)
    for uuids, shared in _by_value(
            {cpu: tuple(uuids) for cpu, uuids in users.items()
             if len(uuids) > 1}).items():
        for uuid in uuids:
            yield finding.Finding(
                view.name, finding.SAME_CPU, uuid,
                compute='CPUs %s, with %s' % (shared, ' '.join(
                    other for other in uuids if other != uuid)))
    if view.report is None:
        return
    dedicated = host_report.cpu_set(view.report.cpu_dedicated_set)
    for uuids, outside in _by_value(
            {cpu: (uuids[0],) for cpu, uuids in users.items()
             if cpu not in dedicated}).items():
        yield finding.Finding(
            view.name, finding.CPU_OUTSIDE, uuids[0],
            needed='CPUs %s' % view.report.cpu_dedicated_set,
            compute='CPUs %s' % outside)


def _by_value(values):
    """Return dict, value -> keys with it as Nova writes a set of CPUs."""
    found = collections.defaultdict(set)
    for cpu, value in values.items():
        found[value].add(cpu)
    return {value: hardware.format_cpu_spec(keys)
            for value, keys in found.items()}
