# SPDX-License-Identifier: Apache-2.0

"""Calculate a plan with the code of nova-compute; change nothing.

``floating`` are planned dedicated CPUs where guests float. A CPU is blocked
if no instance is pinned on it, but a guest floats there: the high row cannot
sell it (see :mod:`nova_prio.model.cpu_capacity`).
"""

from __future__ import annotations

from collections import abc

from nova import objects
from nova.virt import hardware
import os_resource_classes as orc

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import host_view
from nova_prio.admin.host import local_checks
from nova_prio.admin.host import plan_format
from nova_prio.admin.host import state
from nova_prio.model import cpu_capacity
from nova_prio.model import inventory
from nova_prio.model import traits as prio_traits
from nova_prio.placement import allocations
from nova_prio.virt import demand
from nova_prio.virt import driver_alias
from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt import numa

_PlanRows = abc.Iterator[plan_format.PlanRow]

#: The first step of a plan that is ready, if the plan is complete.
KEEP = ('Keep this plan: repeat the command with "-f json > FILE". Only a '
        'plan from before the change can undo it.')
_OF_PLACEMENT = ('The present value is the ratio in Placement, even if the '
                 'option is not set. To undo the plan, restore nova.conf.')


def make_plan(view: host_view.HostView, planned_cpus: cpu_capacity.HostCPUs,
              guests: dict[str, guest_xml.Guest] | None = None) -> _PlanRows:
    """Yield all PlanRows but those of ``check_host`` and ``list_steps``.

    A guest floats on a CPU if it may run there, but is not pinned to it. A CPU
    is blocked if a guest floats there that should not, and no instance is
    pinned there. An orphan guest belongs to no instance of the host.

    :param guests: UUID -> guest; None if the command does not run on the host
    """
    present_cpus = state.get_present_cpus(view)
    inventories = state.plan_inventories(view, planned_cpus)
    yield from _list_options(view, present_cpus, planned_cpus, inventories)
    for name in orc.MEMORY_MB, orc.PCPU, orc.VCPU:
        if name in view.inventories or name in inventories:
            yield plan_format.PlanRow(
                plan_format.INVENTORY, name,
                present=view.inventories.get(name, {}),
                planned=inventories.get(name, {}))
    # After the plan, the host is to take priority instances.
    planned_traits = prio_traits.list_for_host(
        planned_cpus.mix, is_disabled=False)
    # An earlier conversion may have left traits in Placement.
    present_traits = []
    if view.has_our_driver:
        present_traits = prio_traits.select_ours(view.traits)
    yield plan_format.PlanRow(
        plan_format.TRAITS, plan_format.TRAITS,
        present=' '.join(present_traits),
        planned=' '.join(planned_traits))
    # UUID of an instance -> planned dedicated CPUs where it floats by mistake.
    floating = {}
    all_floating: frozenset[int] = frozenset()
    for instance in view.instances:
        cpus = local_checks.find_floating_cpus(
            instance, view, present_cpus, planned_cpus.dedicated, guests)
        floating[instance.uuid] = cpus
        all_floating |= cpus
    blocked: frozenset[int] = frozenset()
    if view.report:
        blocked = planned_cpus.dedicated & view.report.blocked
    yield from _list_capacity(
        view, present_cpus, planned_cpus, blocked | all_floating)
    for instance in view.instances:
        yield from _check_instance(
            instance, view, planned_cpus, floating[instance.uuid])
    yield from _list_allocations(view, inventories)
    # If instances float on all blocked CPUs, their PlanRows explain them.
    # Otherwise an orphan guest blocks a CPU. The report does not say which
    # CPUs it blocks, so name all blocked CPUs then.
    are_all_explained = blocked <= all_floating
    if are_all_explained:
        blocked = frozenset()
    yield from _list_host_problems(view, blocked)
    yield from _list_split_cores(view.cells, planned_cpus)


def _list_options(view: host_view.HostView,
                  present_cpus: cpu_capacity.HostCPUs,
                  planned_cpus: cpu_capacity.HostCPUs,
                  planned_inventories: inventory.Inventories) -> _PlanRows:
    """Yield a PlanRow for each option; '' stands for "not set".

    With mix, which is the option cpu_priority_mix_enable, low-priority guests
    also run on the dedicated CPUs, and memory is not overcommitted.

    :param planned_inventories: resource class -> inventory in Placement
    """
    undo = 'To undo the plan, restore the present value.'
    planned = {'compute_driver': driver_alias.DRIVER}
    present = dict(planned)
    if not view.has_our_driver:
        present['compute_driver'] = 'libvirt.LibvirtDriver'
    present.update(plan_format.format_options(present_cpus))
    planned.update(plan_format.format_options(planned_cpus))
    # If neither CPU set is configured, the NUMA cells have each CPU in both
    # sets, but Placement has no PCPU. The format of the present options then
    # names all CPUs as shared, although cpu_shared_set is not set.
    has_pcpuset = any(cell.pcpuset for cell in view.cells)
    if has_pcpuset and orc.PCPU not in view.inventories:
        present['cpu_shared_set'] = ''
    reserved = view.inventories.get(orc.VCPU, {}).get('reserved', 0)
    # With our driver, ``reserved`` does not come from reserved_host_cpus.
    if reserved and not view.has_our_driver:
        present['reserved_host_cpus'] = str(reserved)
        planned['reserved_host_cpus'] = ''
    for name, value in present.items():
        remedy = undo
        if name == 'cpu_allocation_ratio':
            remedy = _OF_PLACEMENT
        yield plan_format.PlanRow(
            plan_format.OPTION, name, present=value, planned=planned[name],
            remedy=remedy)
    old_ratio = _get_memory_ratio(view.inventories)
    new_ratio = _get_memory_ratio(planned_inventories)
    remedy = ''
    if old_ratio != new_ratio:
        remedy = 'Mix does not oversell memory. ' + _OF_PLACEMENT
    elif present_cpus.mix and not planned_cpus.mix:
        # The ratios are equal: mix has set 1.0, which Placement keeps when mix
        # ends.
        remedy = 'Without mix, the ratio stays 1.0 until the option is set.'
    yield plan_format.PlanRow(
        plan_format.OPTION, 'ram_allocation_ratio', present=old_ratio,
        planned=new_ratio, remedy=remedy)


def _get_memory_ratio(inventories: inventory.Inventories) -> str:
    """Return the allocation ratio of the memory, '' without an inventory."""
    return str(inventories.get(orc.MEMORY_MB, {}).get('allocation_ratio', ''))


def _list_capacity(view: host_view.HostView,
                   present_cpus: cpu_capacity.HostCPUs,
                   planned_cpus: cpu_capacity.HostCPUs,
                   floating: frozenset[int]) -> _PlanRows:
    """Yield the sellable, sold and remaining vCPUs of each row, and memory.

    A row is a number of vCPUs that the host may sell: high for pinned vCPUs,
    low for all others, ordinary for the others without low priority.

    :param floating: planned dedicated CPUs where guests float, or that are
        blocked by guests now
    """
    # The CPUs to which instances are pinned now.
    pinned: set[int] = set()
    for instance in view.instances:
        pinned |= demand.get_instance_pins(instance)
    if view.report:
        present_sold, present_left = view.report.used, view.report.left
    else:
        # With another driver, nova-compute does not report these numbers.
        present_sold = view.used_rows
        present_left = cpu_capacity.calculate_left(
            present_cpus.sellable, present_sold)
    # Instances on other pins than the planned ones must leave.
    planned_sold = view.used_rows._replace(
        high=len(pinned & planned_cpus.dedicated))
    # The high row cannot sell a CPU while a guest floats there. A CPU to which
    # an instance is pinned, too, counts as sold already.
    withheld = floating - pinned
    sold_or_withheld = planned_sold._replace(
        high=planned_sold.high + len(withheld))
    planned_left = cpu_capacity.calculate_left(
        planned_cpus.sellable, sold_or_withheld)
    for row in cpu_capacity.Rows._fields:
        yield plan_format.PlanRow(
            plan_format.CAPACITY, row,
            present=_get_amounts(row, present_cpus.sellable, present_sold,
                                 present_left),
            planned=_get_amounts(row, planned_cpus.sellable, planned_sold,
                                 planned_left))
    free_mb = view.node.free_ram_mb
    remedy = ''
    if planned_cpus.mix and free_mb < 0:
        remedy = ('The memory is oversold: with mix, the host takes no '
                  'instance until %d MB have moved away.' % -free_mb)
    # Nova's free memory is negative if the memory is overcommitted. The plan
    # shows what new instances can get: at least 0.
    yield plan_format.PlanRow(
        plan_format.CAPACITY, 'memory', present={'left': free_mb},
        planned={'left': max(free_mb, 0)}, remedy=remedy)
    # The memory outside of the pools of huge pages, which is a limit only with
    # mix; None without mix or huge pages. The record of the node counts all
    # instances that the plan can know: none is uncounted.
    small = numa.read_small_pages(view.node, planned_cpus.mix, uncounted=())
    if small:
        remedy = ('Guests without huge pages, such as most low-priority ones, '
                  'get only the memory in small pages.')
        if small.free_mb < 0:
            remedy += (' It is oversold: with mix, the host takes no such '
                       'guest until %d MB have moved away.' % -small.free_mb)
        yield plan_format.PlanRow(
            plan_format.CAPACITY, 'small pages',
            present={'total': small.total_mb, 'left': small.free_mb},
            planned={'total': small.total_mb, 'left': max(small.free_mb, 0)},
            remedy=remedy)


def _get_amounts(row: str, sellable: cpu_capacity.Rows,
                 sold: cpu_capacity.Rows,
                 left: cpu_capacity.Rows) -> dict[str, int]:
    """Return the vCPUs of one row: 'sellable', 'sold' or 'left' -> number.

    :param row: 'high', 'low' or 'ordinary': the vCPUs of one kind
    """
    return {'sellable': getattr(sellable, row), 'sold': getattr(sold, row),
            'left': getattr(left, row)}


def _check_instance(instance: objects.Instance, view: host_view.HostView,
                    planned_cpus: cpu_capacity.HostCPUs,
                    floating: frozenset[int]) -> _PlanRows:
    """Yield a PlanRow for each effect of the plan on an instance.

    With mix, low-priority guests also run on the dedicated CPUs. The vCPUs of
    an instance count in rows: numbers of vCPUs that the host may sell. An
    oversold row sells no vCPU until instances have left.

    :param floating: planned dedicated CPUs where the guest may run, although
        it is not pinned there and should not be there
    """
    needs = demand.get_demand(instance.flavor, instance.numa_topology)
    outside = demand.get_instance_pins(instance) - planned_cpus.dedicated
    if outside:
        yield plan_format.PlanRow(
            plan_format.PINNED_OUTSIDE, instance.uuid,
            present=local_checks.format_cpus(outside),
            planned=local_checks.format_cpus(planned_cpus.dedicated),
            remedy=local_checks.MOVE + ' Otherwise nova-compute does not '
            'start.', is_blocking=True)
    if planned_cpus.mix and demand.needs_whole_cores(
            instance.flavor, instance.numa_topology):
        yield plan_format.PlanRow(
            plan_format.WHOLE_CORES, instance.uuid,
            remedy=local_checks.MOVE + ' Otherwise low-priority guests run on '
            'its cores, which must be its own.', is_blocking=True)
    needed_rows = cpu_capacity.calculate_needed_rows(needs)
    # The rows that will be oversold, because more is sold now than they will
    # sell: (name of a row, sold vCPUs, sellable vCPUs).
    oversold_rows = cpu_capacity.find_shortages(
        view.used_rows, planned_cpus.sellable)
    for row, sold, sellable in oversold_rows:
        needed = getattr(needed_rows, row)
        if needed:
            yield plan_format.PlanRow(
                plan_format.OVERSOLD, instance.uuid, present={row: needed},
                planned='%s: %d of %d sold' % (row, sold, sellable),
                remedy='Migrate instances away until the rest fits: the row '
                'takes no instance before.')
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
    """Yield a PlanRow for each allocation that nova-compute will change.

    It changes only allocations of instances at rest: these have no task and no
    open migration.

    :param inventories: planned ones, resource class -> inventory
    """
    # Resource classes that Placement will offer: those of the planned
    # inventories, and DISK_GB if another provider shares disks with the host.
    from_other_providers = view.classes.difference(view.inventories)
    classes = inventories.keys() | from_other_providers
    remedy = 'nova-compute heals the allocation by itself.'
    if orc.PCPU not in view.inventories:
        remedy += (' To undo the plan, the instance must leave first: Nova '
                   'does not start without CPU sets if PCPU is allocated.')
    present = view.total_allocations
    # Each instance whose allocation is not the expected one.
    for instance, expected in allocations.find_drifted(
            view.context, view.instances_at_rest, present, classes):
        # Only VCPU, PCPU, MEMORY_MB and DISK_GB, which the flavor decides.
        compared = allocations.select_managed(present.get(instance.uuid, {}))
        yield plan_format.PlanRow(
            plan_format.ALLOCATION, instance.uuid, present=compared,
            planned=expected, remedy=remedy)


def _list_host_problems(view: host_view.HostView,
                        blocked: frozenset[int]) -> _PlanRows:
    """Yield a PlanRow for each problem of the host.

    An orphan guest runs although its instance is not on the host.

    :param blocked: dedicated CPUs to which no instance is pinned, because
        guests that should not run there use them; empty if other PlanRows name
        these guests
    """
    if not view.is_up:
        yield plan_format.PlanRow(
            plan_format.HOST, 'nova-compute', present='down', planned='up',
            remedy='Start it, and plan again: this plan uses its last report.',
            is_blocking=True)
    if view.has_tasks_or_moves:
        yield plan_format.PlanRow(
            plan_format.HOST, 'in motion', remedy='Instances are being '
            'changed or moved: plan again when they are at rest.',
            is_blocking=True)
    if blocked:
        assert view.report is not None
        # A text with the names of the orphan guests among these guests.
        names = view.report.blocked_by
        remedy = '%s %s' % (finding.describe_orphans(names),
                            finding.REMEDIES['blocked_cpus'])
        yield plan_format.PlanRow(
            plan_format.HOST, 'blocked CPUs',
            present=local_checks.format_cpus(blocked), remedy=remedy.strip())
    if not view.allows_priority:
        yield plan_format.PlanRow(
            plan_format.HOST, 'aggregate',
            present='none for priority instances', planned='priority_mix=true',
            remedy='Add the host to a host aggregate with that metadata as '
            'the last step: it gets no priority instance before.')


def _list_split_cores(cells: abc.Iterable[objects.NUMACell],
                      planned_cpus: cpu_capacity.HostCPUs) -> _PlanRows:
    """Yield a PlanRow if cores have both dedicated and shared CPUs.

    The threads of a core share its execution units and its caches, which no
    CPU set divides.

    :param cells: the NUMA cells of the host
    """
    # The CPUs of all such cores.
    dedicated: set[int] = set()
    shared: set[int] = set()
    for cell in cells:
        # The siblings are the CPUs of each core with several threads.
        for threads in cell.siblings:
            pinned = threads & planned_cpus.dedicated
            floating = threads & planned_cpus.shared
            if pinned and floating:
                dedicated |= pinned
                shared |= floating
    if dedicated:
        yield plan_format.PlanRow(
            plan_format.HOST, 'SMT siblings',
            planned='dedicated %s, shared %s' % (
                hardware.format_cpu_spec(dedicated),
                hardware.format_cpu_spec(shared)),
            remedy='These CPUs are threads of the same cores: a guest that '
            'floats on the shared thread slows the vCPU that is pinned to the '
            'other one. Put all threads of a core into one set.')


def list_steps(host: str, planned_cpus: cpu_capacity.HostCPUs,
               rows: list[plan_format.PlanRow]) -> list[plan_format.PlanRow]:
    """Return the PlanRows of the ordered steps, and last of the verdict.

    A PlanRow is a line of the plan. Its ``part`` is what the line is about.
    The ``planned`` of the verdict is READY or NOT_READY.

    :param rows: the other rows of the plan
    """
    # Parts and problems that the plan has, and those of them that the operator
    # must solve before the first step.
    subjects, blocking = set(), set()
    for row in rows:
        # A row about the host has the name of a problem.
        subject = row.name if row.part == plan_format.HOST else row.part
        subjects.add(subject)
        if row.is_blocking:
            blocking.add(subject)
    steps = []
    if blocking:
        steps.append('Solve the problems first (%s), and plan again.'
                     % ', '.join(sorted(blocking)))
    # A plan without Nova's databases has no inventories.
    is_complete = plan_format.INVENTORY in subjects
    if is_complete and not blocking:
        steps.append(KEEP)
    options = plan_format.format_options(planned_cpus)
    options.update(host=host, compute_driver=driver_alias.DRIVER)
    steps += [
        'Run "nova-prio-host prepare" on %s as root.' % host,
        'Set for nova-compute on %(host)s: [DEFAULT] compute_driver = '
        '%(compute_driver)s, cpu_priority_mix_enable = '
        '%(cpu_priority_mix_enable)s, cpu_allocation_ratio = '
        '%(cpu_allocation_ratio)s; [compute] cpu_dedicated_set = '
        '%(cpu_dedicated_set)s, cpu_shared_set = %(cpu_shared_set)s. Remove '
        'reserved_host_cpus and vcpu_pin_set if they are set: Nova does not '
        'start with them beside CPU sets.' % options,
        'Run "nova-prio-status upgrade check" on %s. It checks the kernel, '
        'the cgroups, the guests and the options, and must show no failure.'
        % host,
        'Restart nova-compute on %s.' % host]
    if plan_format.OVERSOLD in subjects:
        steps.append('Migrate instances away until the instances of part '
                     '"over" fit.')
    if plan_format.FLOATING in subjects:
        steps.append('Hard reboot or migrate the instances of part "floats".')
    if 'aggregate' in subjects:
        steps.append(
            'Add %s to a host aggregate with priority_mix=true.' % host)
    if is_complete:
        steps.append('Run "nova-prio host verify %s --plan FILE".' % host)
    else:
        steps.append('Continue with the plan from a host where nova-manage '
                     'runs: only that plan is complete and can be kept.')
    readiness = plan_format.NOT_READY if blocking else plan_format.READY
    verdict = plan_format.PlanRow(plan_format.VERDICT, host, planned=readiness)
    return [plan_format.PlanRow(plan_format.STEP, str(number), remedy=text)
            for number, text in enumerate(steps, 1)] + [verdict]
