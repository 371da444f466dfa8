# SPDX-License-Identifier: Apache-2.0

"""Calculate a plan with the code of nova-compute; change nothing."""

from nova.virt import hardware
import os_resource_classes as orc

from nova_prio.admin.host import local_checks
from nova_prio.admin.host import plan_format
from nova_prio.model import capacity
from nova_prio.model import inventory
from nova_prio.placement import allocations
from nova_prio.placement import traits as prio_traits
from nova_prio.virt import demand
from nova_prio.virt import driver_alias


def get_current_cpus(view):
    """Return the present HostCPUs; without CPU sets, all are shared."""
    ratio = capacity.parse_ratio(
        view.inventories.get(orc.VCPU, {}).get('allocation_ratio', 1.0))
    return capacity.HostCPUs(
        frozenset().union(*(cell.pcpuset for cell in view.cells))
        if orc.PCPU in view.inventories else frozenset(),
        frozenset().union(*(cell.cpuset for cell in view.cells)),
        ratio, bool(view.report and view.report.mix))


def plan_inventories(view, cpus):
    """Return the planned inventories, dict, resource class -> inventory."""
    others = {name: present for name, present in view.inventories.items()
              if name not in (orc.VCPU, orc.PCPU)}
    return inventory.build_priority_inventories(
        {**others, **inventory.build_cpu_inventories(cpus, {})}, cpus,
        view.usage)


def make_plan(host_state, cpus, guests=None):
    """Yield the PlanRows of a plan, without local_checks and steps.

    :param host_state: ``state.HostState``
    :param guests: dict, UUID -> ``guest_xml.Guest``, or None if this is not
        the host
    """
    view = host_state.view
    now, then = get_current_cpus(view), plan_inventories(view, cpus)
    yield from _list_options(view, now, cpus, then)
    for name in orc.MEMORY_MB, orc.PCPU, orc.VCPU:
        if name in view.inventories or name in then:
            yield plan_format.PlanRow(
                plan_format.INVENTORY, name, view.inventories.get(name, {}),
                then.get(name, {}))
    yield plan_format.PlanRow(
        plan_format.TRAITS, plan_format.TRAITS,
        ' '.join(prio_traits.select_ours(view.traits)),
        ' '.join(sorted(prio_traits.list_for_host(cpus.mix, False))))
    floating = {
        instance.uuid: cpus.dedicated & local_checks.find_floating_cpus(
            instance, needs, view, now, cpus, guests)
        for instance, needs in zip(view.instances, view.demands)}
    all_floating = frozenset().union(*floating.values())
    # nova-compute also reports guests without an instance.
    blocked = cpus.dedicated & (
        view.report.blocked if view.report else frozenset())
    yield from _list_capacity(view, now, cpus, blocked | all_floating)
    for instance, needs in zip(view.instances, view.demands):
        yield from _check_instance(
            instance, needs, view, cpus, floating[instance.uuid])
    yield from _list_allocations(view, then)
    for is_present, *row in (
            (not host_state.is_up, 'nova-compute', 'down', 'up', 'Start it, '
             'and plan again: this plan uses its last report.', True),
            (not view.is_idle, 'in motion', '', '', 'Instances are being '
             'changed or moved: plan again when they are at rest.', True),
            (blocked - all_floating, 'kept CPUs',
             local_checks.format_cpus(blocked), '', 'Guests on stale CPU sets '
             'float on these CPUs. Run the audit on the host: it lists them '
             'as old_cpuset.'),
            (not host_state.is_marked, 'aggregate',
             'none for priority instances', 'priority_mix=true', 'Add the '
             'host to a host aggregate with that metadata as the last step: '
             'it gets no priority instance before.')):
        if is_present:
            yield plan_format.PlanRow(plan_format.HOST, *row)


def _list_options(view, now, cpus, then):
    """Yield the options; the present value is '' if it was not set."""
    undo = 'To undo all, restore the present value.'
    is_ours = prio_traits.has_our_driver(view.traits)
    before = _get_options(driver_alias.DRIVER if is_ours
                          else 'libvirt.LibvirtDriver', now)
    after = _get_options(driver_alias.DRIVER, cpus)
    if orc.PCPU not in view.inventories and any(
            cell.pcpuset for cell in view.cells):
        before['cpu_shared_set'] = ''
    reserved = view.inventories.get(orc.VCPU, {}).get('reserved', 0)
    if reserved and not is_ours:
        before['reserved_host_cpus'], after['reserved_host_cpus'] = (
            str(reserved), '')
    for name, value in before.items():
        yield plan_format.PlanRow(
            plan_format.OPTION, name, value, after[name], undo)
    memory = [str(inventories[orc.MEMORY_MB]['allocation_ratio'])
              for inventories in (view.inventories, then)
              if orc.MEMORY_MB in inventories]
    remedy = ''
    if memory[:1] != memory[1:]:
        remedy = 'Mix does not oversell memory. ' + undo
    elif now.mix and not cpus.mix:
        remedy = 'The ratio stays as mix set it, unless the option is set.'
    yield plan_format.PlanRow(plan_format.OPTION, 'ram_allocation_ratio',
                              *memory, remedy=remedy)


def _get_options(driver, cpus):
    """Return the options of nova-compute for CPUs, dict, name -> str."""
    return {
        'compute_driver': driver,
        'cpu_dedicated_set': hardware.format_cpu_spec(cpus.dedicated),
        'cpu_shared_set': hardware.format_cpu_spec(cpus.shared),
        'cpu_allocation_ratio': str(cpus.ratio),
        'cpu_priority_mix_enable': str(cpus.mix).lower()}


def _list_capacity(view, now, cpus, floating):
    """Yield the sellable, sold and remaining vCPUs of each row, and memory."""
    pinned = set().union(*map(demand.get_instance_pins, view.instances))
    sold = view.used_rows
    before = (now.sellable, sold,
              capacity.calculate_remaining(now.sellable, sold))
    if view.report:
        before = now.sellable, view.report.used, view.report.remaining
    sold_then = sold._replace(high=len(pinned & cpus.dedicated))
    unavailable = sold_then._replace(
        high=sold_then.high + len(floating - pinned))
    after = (cpus.sellable, sold_then,
             capacity.calculate_remaining(cpus.sellable, unavailable))
    for row, *amounts in zip(
            capacity.Rows._fields, zip(*before), zip(*after)):
        yield plan_format.PlanRow(plan_format.ROOM, row, *(
            dict(zip(('sellable', 'sold', 'left'), each))
            for each in amounts))
    free_mb = view.node.free_ram_mb
    yield plan_format.PlanRow(
        plan_format.ROOM, 'memory', {'left': free_mb},
        {'left': max(free_mb, 0)},
        'The memory is oversold: with mix, the host takes no instance until '
        '%d MB have moved away.' % -free_mb
        if cpus.mix and free_mb < 0 else '')


def _check_instance(instance, needs, view, cpus, floating):
    """Yield the effects of the plan on an instance."""
    outside = demand.get_instance_pins(instance) - cpus.dedicated
    if outside:
        yield plan_format.PlanRow(
            plan_format.OUTSIDE, instance.uuid,
            local_checks.format_cpus(outside),
            local_checks.format_cpus(cpus.dedicated),
            local_checks.MOVE + ' Otherwise nova-compute does not start.',
            True)
    if cpus.mix and demand.needs_whole_cores(
            instance.flavor, instance.numa_topology):
        yield plan_format.PlanRow(
            plan_format.WHOLE_CORES, instance.uuid,
            remedy=local_checks.MOVE + ' Otherwise low-priority guests run on '
            'its cores, which must be its own.', is_blocking=True)
    for row in capacity.find_oversold_rows(cpus.sellable, view.used_rows):
        needed = getattr(capacity.calculate_needed_rows(needs), row)
        if needed:
            yield plan_format.PlanRow(
                plan_format.OVER, instance.uuid, {row: needed},
                '%s: %d of %d sold' % (row, getattr(view.used_rows, row),
                                       getattr(cpus.sellable, row)),
                'Migrate instances away until the rest fits: the row takes no '
                'instance before.')
    if floating:
        yield local_checks.describe_floating_guest(instance.uuid, floating)
    if cpus.mix and needs.priority is None and needs.dedicated:
        yield plan_format.PlanRow(
            plan_format.JOINED, instance.uuid,
            remedy='Low-priority guests will float on its CPUs, too. To '
            'protect it, resize it to a flavor with hw:cpu_priority = high, '
            'which puts it in the partition of high-priority guests.')


def _list_allocations(view, then):
    """Yield the allocations that nova-compute will change.

    :param then: resource classes that the host will report
    """
    remedy = 'nova-compute heals the allocation by itself.'
    if orc.PCPU not in view.inventories:
        remedy += (' To undo the plan, the instance must leave first: Nova '
                   'does not start without CPU sets if PCPU is allocated.')
    for instance, expected in allocations.find_drifted(
            view.context, view.idle_instances, view.total_allocations,
            {*then, *view.classes.difference(view.inventories)}):
        yield plan_format.PlanRow(
            plan_format.ALLOCATION, instance.uuid,
            allocations.select_managed(
                view.total_allocations.get(instance.uuid, {})),
            expected, remedy)


def list_steps(host, cpus, rows):
    """Return the PlanRows of the ordered steps, and last of the verdict.

    :param rows: list of the other PlanRows of the plan
    """
    blocking = sorted({row.name if row.part == plan_format.HOST else row.part
                       for row in rows if row.is_blocking})
    parts = {row.part for row in rows}
    names = {row.name for row in rows if row.part == plan_format.HOST}
    has_inventories = plan_format.INVENTORY in parts
    steps = [text for is_needed, text in (
        (blocking, 'Solve the problems first (%s), and plan again.'
         % ', '.join(blocking)),
        (local_checks.NOT_SEEN.name in names,
         'Run "nova-prio host plan" with the same arguments on %s, too: this '
         'plan lacks its kernel and guests.' % host),
        (True, 'Run "nova-prio-host prepare" on %s as root.' % host),
        (True, 'Set for nova-compute on %s: [DEFAULT] compute_driver = %s, '
         'cpu_priority_mix_enable = %s, cpu_allocation_ratio = %s; [compute] '
         'cpu_dedicated_set = %s, cpu_shared_set = %s. Remove '
         'reserved_host_cpus and vcpu_pin_set if they are set: Nova does not '
         'start with them beside CPU sets.' % (
             host, driver_alias.DRIVER, str(cpus.mix).lower(), cpus.ratio,
             hardware.format_cpu_spec(cpus.dedicated),
             hardware.format_cpu_spec(cpus.shared))),
        (True, 'Restart nova-compute on %s.' % host),
        (plan_format.OVER in parts, 'Migrate instances away until the '
         'instances of part "over" fit.'),
        (plan_format.FLOATS in parts, 'Hard reboot or migrate the instances '
         'of part "floats".'),
        ('aggregate' in names, 'Add %s to a host aggregate with '
         'priority_mix=true.' % host),
        (has_inventories, 'Run "nova-prio host verify %s --plan FILE", with '
         'the output of this plan with -f json.' % host),
        (not has_inventories, 'Continue with the plan from a host where '
         'nova-manage runs: only that plan is complete and can be kept.'),
    ) if is_needed]
    return [
        *(plan_format.PlanRow(plan_format.STEP, str(number), remedy=text)
          for number, text in enumerate(steps, 1)),
        plan_format.PlanRow(
            plan_format.VERDICT, host,
            then=plan_format.NOT_READY if blocking else plan_format.READY)]
