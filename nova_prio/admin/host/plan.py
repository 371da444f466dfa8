# SPDX-License-Identifier: Apache-2.0

"""Calculate a plan with the code of nova-compute; change nothing.

``guests`` is UUID -> guest, None if the command does not run on the host.
``floating`` are planned dedicated CPUs where guests float.
"""

from __future__ import annotations

from collections import abc
import functools
import typing

import os_resource_classes as orc

from nova_prio.admin.audit import finding
from nova_prio.admin.host import local_checks
from nova_prio.admin.host import plan_format
from nova_prio.model import capacity
from nova_prio.model import inventory
from nova_prio.model import traits as prio_traits
from nova_prio.placement import allocations
from nova_prio.virt import demand
from nova_prio.virt import driver_alias

if typing.TYPE_CHECKING:
    from nova import objects

    from nova_prio.admin.audit import host_view
    from nova_prio.virt.libvirt import guest_xml

_PlanRows = abc.Iterator[plan_format.PlanRow]


def get_present_cpus(view: host_view.HostView) -> capacity.HostCPUs:
    """Return the present CPUs of a host."""
    ratio = capacity.parse_ratio(
        view.inventories.get(orc.VCPU, {}).get('allocation_ratio', 1.0))
    shared = frozenset().union(*(cell.cpuset for cell in view.cells))
    dedicated: frozenset[int] = frozenset()
    # Without CPU sets, Nova counts all CPUs of a cell as pcpuset, too.
    if orc.PCPU in view.inventories:
        dedicated = dedicated.union(*(cell.pcpuset for cell in view.cells))
    return capacity.HostCPUs(
        dedicated, shared, ratio,
        mix=bool(view.report and view.report.mix))


def plan_inventories(view: host_view.HostView, planned_cpus: capacity.HostCPUs,
                     ) -> inventory.Inventories:
    """Return the inventories of a host with other CPUs."""
    others = {name: present for name, present in view.inventories.items()
              if name not in (orc.VCPU, orc.PCPU)}
    return inventory.build_priority_inventories(
        {**others, **inventory.build_cpu_inventories(planned_cpus, {})},
        planned_cpus, view.usage)


def make_plan(view: host_view.HostView, planned_cpus: capacity.HostCPUs,
              guests: dict[str, guest_xml.Guest] | None = None) -> _PlanRows:
    """Yield all PlanRows but those of ``check_host`` and ``list_steps``."""
    present_cpus = get_present_cpus(view)
    inventories = plan_inventories(view, planned_cpus)
    yield from _list_options(view, present_cpus, planned_cpus, inventories)
    for name in orc.MEMORY_MB, orc.PCPU, orc.VCPU:
        if name in view.inventories or name in inventories:
            yield plan_format.PlanRow(
                plan_format.INVENTORY, name, view.inventories.get(name, {}),
                inventories.get(name, {}))
    yield plan_format.PlanRow(
        plan_format.TRAITS, plan_format.TRAITS,
        ' '.join(prio_traits.select_ours(view.traits)),
        ' '.join(sorted(prio_traits.list_for_host(
            planned_cpus.mix, is_disabled=False))))
    # UUID of an instance -> planned dedicated CPUs where its guest floats.
    floating = {
        instance.uuid: local_checks.find_floating_cpus(
            instance, view, present_cpus, planned_cpus.dedicated,
            guests)
        for instance in view.instances}
    all_floating = frozenset().union(*floating.values())
    blocked = planned_cpus.dedicated & (
        view.report.blocked if view.report else frozenset())
    yield from _list_capacity(
        view, present_cpus, planned_cpus, blocked | all_floating)
    for instance, needs in zip(view.instances, view.demands):
        yield from _check_instance(
            instance, needs, view, planned_cpus, floating[instance.uuid])
    yield from _list_allocations(view, inventories)
    # If no guest of an instance floats on a blocked CPU, an orphan guest does.
    # The report does not say on which ones it does, so list all blocked CPUs.
    has_orphan_guests = not blocked <= all_floating
    yield from _list_host_problems(
        view, blocked if has_orphan_guests else frozenset())


def _list_options(view: host_view.HostView, present_cpus: capacity.HostCPUs,
                  planned_cpus: capacity.HostCPUs,
                  planned_inventories: inventory.Inventories) -> _PlanRows:
    """Yield a PlanRow for each option; '' stands for "not set"."""
    undo = 'To undo the plan, restore the present value.'
    had_our_driver = prio_traits.has_our_driver(view.traits)
    present = {'compute_driver': driver_alias.DRIVER if had_our_driver
               else 'libvirt.LibvirtDriver',
               **plan_format.format_options(present_cpus)}
    planned = {'compute_driver': driver_alias.DRIVER,
               **plan_format.format_options(planned_cpus)}
    if orc.PCPU not in view.inventories and any(
            cell.pcpuset for cell in view.cells):
        # Without CPU sets, Nova reports all CPUs as shared, and no PCPU.
        present['cpu_shared_set'] = ''
    reserved = view.inventories.get(orc.VCPU, {}).get('reserved', 0)
    # With our driver, ``reserved`` does not come from reserved_host_cpus.
    if reserved and not had_our_driver:
        present['reserved_host_cpus'] = str(reserved)
        planned['reserved_host_cpus'] = ''
    for name, value in present.items():
        yield plan_format.PlanRow(
            plan_format.OPTION, name, value, planned[name], undo)
    old_ratio, new_ratio = (
        str(each.get(orc.MEMORY_MB, {}).get('allocation_ratio', ''))
        for each in (view.inventories, planned_inventories))
    remedy = ''
    if old_ratio != new_ratio:
        remedy = 'Mix does not oversell memory. ' + undo
    elif present_cpus.mix and not planned_cpus.mix:
        remedy = 'Without mix, the ratio stays 1.0 until the option is set.'
    yield plan_format.PlanRow(plan_format.OPTION, 'ram_allocation_ratio',
                              old_ratio, new_ratio, remedy)


def _list_capacity(view: host_view.HostView, present_cpus: capacity.HostCPUs,
                   planned_cpus: capacity.HostCPUs,
                   floating: frozenset[int]) -> _PlanRows:
    """Yield the sellable, sold and remaining vCPUs of each row, and memory."""
    pinned = set().union(*map(demand.get_instance_pins, view.instances))
    if view.report:
        sold, left = view.report.used, view.report.left
    else:
        sold = view.used_rows
        left = capacity.calculate_left(present_cpus.sellable, sold)
    # Instances on other pins than the planned ones must leave.
    planned_sold = view.used_rows._replace(
        high=len(pinned & planned_cpus.dedicated))
    # The high row cannot sell a CPU while a guest floats there.
    unavailable = planned_sold._replace(
        high=planned_sold.high + len(floating - pinned))
    planned_left = capacity.calculate_left(
        planned_cpus.sellable, unavailable)
    for row in capacity.Rows._fields:
        yield plan_format.PlanRow(
            plan_format.CAPACITY, row,
            _get_amounts(row, present_cpus.sellable, sold, left),
            _get_amounts(row, planned_cpus.sellable, planned_sold,
                         planned_left))
    free_mb = view.node.free_ram_mb
    yield plan_format.PlanRow(
        plan_format.CAPACITY, 'memory', {'left': free_mb},
        {'left': max(free_mb, 0)},
        'The memory is oversold: with mix, the host takes no instance until '
        '%d MB have moved away.' % -free_mb
        if planned_cpus.mix and free_mb < 0 else '')


def _get_amounts(row: str, sellable: capacity.Rows, sold: capacity.Rows,
                 left: capacity.Rows) -> dict[str, int]:
    """Return the amounts of one row by name."""
    return {'sellable': getattr(sellable, row), 'sold': getattr(sold, row),
            'left': getattr(left, row)}


def _check_instance(instance: objects.Instance, needs: capacity.Demand,
                    view: host_view.HostView, planned_cpus: capacity.HostCPUs,
                    floating: frozenset[int]) -> _PlanRows:
    """Yield a PlanRow for each effect of the plan on an instance."""
    outside = demand.get_instance_pins(instance) - planned_cpus.dedicated
    if outside:
        yield plan_format.PlanRow(
            plan_format.PINNED_OUTSIDE, instance.uuid,
            local_checks.format_cpus(outside),
            local_checks.format_cpus(planned_cpus.dedicated),
            local_checks.MOVE + ' Otherwise nova-compute does not start.',
            is_blocking=True)
    if planned_cpus.mix and demand.needs_whole_cores(
            instance.flavor, instance.numa_topology):
        yield plan_format.PlanRow(
            plan_format.WHOLE_CORES, instance.uuid,
            remedy=local_checks.MOVE + ' Otherwise low-priority guests run on '
            'its cores, which must be its own.', is_blocking=True)
    needed_rows = capacity.calculate_needed_rows(needs)
    for row, sold, sellable in capacity.find_shortages(
            view.used_rows, planned_cpus.sellable):
        needed = getattr(needed_rows, row)
        if needed:
            yield plan_format.PlanRow(
                plan_format.OVERSOLD, instance.uuid, {row: needed},
                '%s: %d of %d sold' % (row, sold, sellable),
                'Migrate instances away until the rest fits: the row takes no '
                'instance before.')
    if floating:
        yield local_checks.describe_floating_guest(instance.uuid, floating)
    if planned_cpus.mix and needs.priority is None and needs.dedicated:
        yield plan_format.PlanRow(
            plan_format.SHARING, instance.uuid,
            remedy='Low-priority guests will float on its CPUs, too. To '
            'protect it, resize it to a flavor with hw:cpu_priority = high, '
            'which puts it in the partition of high-priority guests.')


def _list_allocations(view: host_view.HostView,
                      inventories: inventory.Inventories) -> _PlanRows:
    """Yield a PlanRow for each allocation that nova-compute will change."""
    remedy = 'nova-compute heals the allocation by itself.'
    if orc.PCPU not in view.inventories:
        remedy += (' To undo the plan, the instance must leave first: Nova '
                   'does not start without CPU sets if PCPU is allocated.')
    for instance, expected in allocations.find_drifted(
            view.context, view.instances_at_rest, view.total_allocations,
            {*inventories, *view.classes.difference(view.inventories)}):
        present = allocations.select_managed(
            view.total_allocations.get(instance.uuid, {}))
        yield plan_format.PlanRow(
            plan_format.ALLOCATION, instance.uuid, present, expected, remedy)


def _list_host_problems(view: host_view.HostView,
                        blocked: frozenset[int]) -> _PlanRows:
    """Yield a PlanRow for each problem of the host."""
    problem = functools.partial(plan_format.PlanRow, plan_format.HOST)
    if not view.is_up:
        yield problem('nova-compute', 'down', 'up', 'Start it, and plan '
                      'again: this plan uses its last report.',
                      is_blocking=True)
    if view.has_tasks_or_moves:
        yield problem('in motion', '', '', 'Instances are being changed or '
                      'moved: plan again when they are at rest.',
                      is_blocking=True)
    if blocked:
        report = view.report
        assert report is not None
        names = report.blocked_by and ' (%s)' % report.blocked_by
        yield problem('blocked CPUs',
                      local_checks.format_cpus(blocked) + names, '',
                      finding.REMEDIES['blocked_cpus'])
    if not view.allows_priority:
        yield problem('aggregate', 'none for priority instances',
                      'priority_mix=true', 'Add the host to a host aggregate '
                      'with that metadata as the last step: it gets no '
                      'priority instance before.')


def list_steps(host: str, planned_cpus: capacity.HostCPUs,
               rows: list[plan_format.PlanRow]) -> list[plan_format.PlanRow]:
    """Return the PlanRows of the ordered steps, and last of the verdict.

    There are several steps in any case. READY or NOT_READY is the ``planned``
    of the verdict.

    :param rows: the other rows of the plan
    """
    options = plan_format.format_options(planned_cpus)
    parts = {row.part for row in rows}
    problems = {row.name for row in rows if row.part == plan_format.HOST}
    blocking = sorted({row.name if row.part == plan_format.HOST else row.part
                       for row in rows if row.is_blocking})
    # A plan without Nova's databases has no inventories.
    is_complete = plan_format.INVENTORY in parts
    steps = [text for is_needed, text in (
        (blocking, 'Solve the problems first (%s), and plan again.'
         % ', '.join(blocking)),
        (local_checks.NOT_SEEN.name in problems,
         'Run "nova-prio host plan" for this host with the same options on '
         '%s, too: this plan did not check its kernel and guests.' % host),
        (True, 'Run "nova-prio-host prepare" on %s as root.' % host),
        (True, 'Set for nova-compute on %s: [DEFAULT] compute_driver = %s, '
         'cpu_priority_mix_enable = %s, cpu_allocation_ratio = %s; [compute] '
         'cpu_dedicated_set = %s, cpu_shared_set = %s. Remove '
         'reserved_host_cpus and vcpu_pin_set if they are set: Nova does not '
         'start with them beside CPU sets.' % (
             host, driver_alias.DRIVER, options['cpu_priority_mix_enable'],
             options['cpu_allocation_ratio'], options['cpu_dedicated_set'],
             options['cpu_shared_set'])),
        (True, 'Restart nova-compute on %s.' % host),
        (plan_format.OVERSOLD in parts, 'Migrate instances away until the '
         'instances of part "over" fit.'),
        (plan_format.FLOATING in parts, 'Hard reboot or migrate the instances '
         'of part "floats".'),
        ('aggregate' in problems, 'Add %s to a host aggregate with '
         'priority_mix=true.' % host),
        (is_complete, 'Run "nova-prio host verify %s --plan FILE", with the '
         'output of this plan with -f json.' % host),
        (not is_complete, 'Continue with the plan from a host where '
         'nova-manage runs: only that plan is complete and can be kept.'),
    ) if is_needed]
    return [
        *(plan_format.PlanRow(plan_format.STEP, str(number), remedy=text)
          for number, text in enumerate(steps, 1)),
        plan_format.PlanRow(
            plan_format.VERDICT, host,
            planned=plan_format.NOT_READY if blocking else plan_format.READY)]
