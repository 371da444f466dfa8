# SPDX-License-Identifier: Apache-2.0

"""What becomes of a host with other CPU sets, ratio and mix: calculated.

Nothing is changed. What nova-compute would report, and what it would say of
the instances, is calculated by the code that it uses itself.
"""

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
    """Return the ``capacity.HostCPUs`` of a host as it is.

    A host without any CPU set lets all its CPUs be shared.
    """
    ratio = capacity.parse_ratio(
        view.inventories.get(orc.VCPU, {}).get('allocation_ratio', 1.0))
    return capacity.HostCPUs(
        frozenset().union(*(cell.pcpuset for cell in view.cells))
        if orc.PCPU in view.inventories else frozenset(),
        frozenset().union(*(cell.cpuset for cell in view.cells)),
        ratio, bool(view.report and view.report.mix))


def plan_inventories(view, cpus):
    """Return the inventories that Placement will have, dict by class."""
    others = {name: there for name, there in view.inventories.items()
              if name not in (orc.VCPU, orc.PCPU)}
    return inventory.build_priority_inventories(
        {**others, **inventory.build_cpu_inventories(cpus, {})}, cpus, view.usage)


def make_plan(view, is_marked, is_up, cpus, guests=None):
    """Yield the Rows of a plan, but for those of ``local`` and the steps.

    :param guests: dict, UUID -> ``audit.guests.Guest`` of what runs there, or
        None where only the host knows
    """
    now = get_current_cpus(view)
    then = plan_inventories(view, cpus)
    yield from _options(view, now, cpus, then)
    for name in sorted({*view.inventories, *then} & {
            orc.VCPU, orc.PCPU, orc.MEMORY_MB}):
        yield plan_format.PlanRow(plan_format.INVENTORY, name, view.inventories.get(name, {}),
                                  then.get(name, {}))
    yield plan_format.PlanRow(
        plan_format.TRAITS, plan_format.TRAITS,
        ' '.join(prio_traits.select_ours(view.traits)),
        ' '.join(sorted(prio_traits.list_for_host(cpus.mix, False))))
    floating = {
        instance.uuid: cpus.dedicated & local_checks.find_floating_cpus(
            instance, needs, view, now, cpus, guests)
        for instance, needs in zip(view.instances, view.demands)}
    # What nova-compute has seen, of whatever guest.
    kept = cpus.dedicated & (
        view.report.blocked if view.report else frozenset())
    yield from _room(view, now, cpus, kept.union(*floating.values()))
    yield from _instances(view, cpus, floating)
    yield from _allocations(view, then)
    if not is_up:
        yield plan_format.PlanRow(
            plan_format.HOST, 'nova-compute', 'down', 'up', 'Start it, and plan '
            'again: all this is what it said before.', True)
    if not view.is_at_rest:
        yield plan_format.PlanRow(
            plan_format.HOST, 'in motion', remedy='Instances are changed or moved '
            'there right now: plan again when they are at rest.',
            is_in_the_way=True)
    if kept - frozenset().union(*floating.values()):
        yield plan_format.PlanRow(
            plan_format.HOST, 'kept CPUs', local_checks.format_cpus(kept), '',
            'Guests float there that were started with other CPU sets. The '
            'audit names them on the host, as old_cpuset.')
    if not is_marked:
        yield plan_format.PlanRow(
            plan_format.HOST, 'aggregate', 'none for priority instances',
            'priority_mix=true', 'Put it into a host aggregate with that '
            'metadata at the end: it gets no priority instance before.')


def _options(view, now, cpus, then):
    """Yield what is set and what is to be, where it was set at all."""
    undo = 'To undo all, set it to what it was.'
    is_ours = prio_traits.has_our_driver(view.traits)
    had_sets = orc.PCPU in view.inventories or not any(
        cell.pcpuset for cell in view.cells)
    before = _as_options(driver_alias.DRIVER if is_ours
                         else 'libvirt.LibvirtDriver', now)
    if not had_sets:
        before['cpu_shared_set'] = ''
    after = _as_options(driver_alias.DRIVER, cpus)
    reserved = view.inventories.get(orc.VCPU, {}).get('reserved', 0)
    if reserved and not is_ours:
        before['reserved_host_cpus'], after['reserved_host_cpus'] = (
            str(reserved), '')
    for name, value in before.items():
        yield plan_format.PlanRow(plan_format.OPTION, name, value, after[name], undo)
    memory = [str(found[orc.MEMORY_MB]['allocation_ratio'])
              for found in (view.inventories, then) if orc.MEMORY_MB in found]
    remedy = ''
    if memory[:1] != memory[1:]:
        remedy = 'Memory is not oversold with mix. ' + undo
    elif now.mix and not cpus.mix:
        remedy = 'It stays as mix has made it, unless the option is set.'
    yield plan_format.PlanRow(plan_format.OPTION, 'ram_allocation_ratio', *memory,
                              remedy=remedy)


def _as_options(driver, cpus):
    """Return the options of nova-compute for CPUs, dict, name -> str."""
    return {
        'compute_driver': driver,
        'cpu_dedicated_set': hardware.format_cpu_spec(cpus.dedicated),
        'cpu_shared_set': hardware.format_cpu_spec(cpus.shared),
        'cpu_allocation_ratio': str(cpus.ratio),
        'cpu_priority_mix_enable': str(cpus.mix).lower()}


def _room(view, now, cpus, floating):
    """Yield the rows of what is sold and what is left, before and after."""
    pinned = set().union(*map(demand.get_instance_pins, view.instances))
    sold = view.rows
    blocked = len(floating - pinned)
    for row, *numbers in zip(
            capacity.Rows._fields,
            now.sellable, view.report.used if view.report else sold,
            view.report.room if view.report else capacity.calculate_remaining(
                now.sellable, sold),
            cpus.sellable,
            sold._replace(high=len(pinned & cpus.dedicated)),
            capacity.calculate_remaining(cpus.sellable, sold._replace(
                high=len(pinned & cpus.dedicated) + blocked))):
        before, after = (dict(zip(('sellable', 'sold', 'left'), half))
                         for half in (numbers[:3], numbers[3:]))
        yield plan_format.PlanRow(plan_format.ROOM, row, before, after)
    free = view.node.free_ram_mb
    yield plan_format.PlanRow(
        plan_format.ROOM, 'memory', {'left': free}, {'left': max(free, 0)},
        'More is sold than there is: with mix, the host takes no instance '
        'until %d MB have moved away.' % -free
        if cpus.mix and free < 0 else '')


def _instances(view, cpus, floating):
    """Yield what is to be known of each instance."""
    over = capacity.find_oversold_rows(cpus.sellable, view.rows)
    for instance, needs in zip(view.instances, view.demands):
        uuid = instance.uuid
        outside = demand.get_instance_pins(instance) - cpus.dedicated
        if outside:
            yield plan_format.PlanRow(
                plan_format.OUTSIDE, uuid, local_checks.format_cpus(outside),
                local_checks.format_cpus(cpus.dedicated),
                local_checks.MOVE + ' nova-compute does not start otherwise.', True)
        if cpus.mix and demand.needs_whole_cores(
                instance.flavor, instance.numa_topology):
            yield plan_format.PlanRow(
                plan_format.WHOLE_CORES, uuid, remedy=local_checks.MOVE + ' Low-priority '
                'guests would run on the cores that it was promised.',
                is_in_the_way=True)
        for row in over:
            drawn = getattr(capacity.calculate_needed_rows(needs), row)
            if drawn:
                yield plan_format.PlanRow(
                    plan_format.OVER, uuid, {row: drawn},
                    '%s: %d of %d sold' % (row, getattr(view.rows, row),
                                           getattr(cpus.sellable, row)),
                    'Move instances away until they fit: the row admits '
                    'nothing before.')
        if floating.get(uuid):
            yield local_checks.describe_floating_guest(uuid, floating[uuid])
        if cpus.mix and needs.priority is None and needs.dedicated:
            yield plan_format.PlanRow(
                plan_format.JOINED, uuid, remedy='Low-priority guests will float on '
                'its CPUs, too: a resize to a flavor with hw:cpu_priority = '
                'high gives it the partition of the high ones.')


def _allocations(view, then):
    """Yield what instances will hold that hold something else now."""
    remedy = 'nova-compute puts it right by itself.'
    if orc.PCPU not in view.inventories:
        remedy += (' On the way back it has to leave first: Nova does not '
                   'start without CPU sets where PCPU is held.')
    for instance, needs in allocations.find_drifted(
            view.context, view.at_rest, view.held,
            {*then, *view.classes.difference(view.inventories)}):
        yield plan_format.PlanRow(
            plan_format.ALLOCATION, instance.uuid,
            allocations.select_own(view.held.get(instance.uuid, {})), needs, remedy)


def list_steps(host, cpus, found):
    """Return the Rows of what to do, in its order, and of the verdict.

    :param host: name of the host
    :param found: list of the Rows of the plan
    """
    in_the_way = [row for row in found if row.is_in_the_way]
    parts = {row.part for row in found}
    names = {row.name for row in found if row.part == plan_format.HOST}
    knows_all = plan_format.INVENTORY in parts
    todo = []
    if in_the_way:
        todo.append('See to what is in the way (%s), and plan again.'
                    % ', '.join(sorted({row.part if row.part != plan_format.HOST
                                        else row.name for row in in_the_way})))
    if 'not seen' in names:
        todo.append('Run "nova-prio host plan" with the same arguments on %s, '
                    'too: what only the host knows is not in this plan.'
                    % host)
    todo += [
        'Run "nova-prio-host prepare" on %s as root.' % host,
        'Set for nova-compute on %s: [DEFAULT] compute_driver = %s, '
        'cpu_priority_mix_enable = %s, cpu_allocation_ratio = %s; [compute] '
        'cpu_dedicated_set = %s, cpu_shared_set = %s. Take reserved_host_cpus '
        'and vcpu_pin_set out, where they are set: Nova does not start with '
        'them beside CPU sets.'
        % (host, driver_alias.DRIVER, str(cpus.mix).lower(),
           cpus.ratio, hardware.format_cpu_spec(cpus.dedicated),
           hardware.format_cpu_spec(cpus.shared)),
        'Restart nova-compute on %s.' % host]
    if plan_format.OVER in parts:
        todo.append('Migrate instances away until those that are listed as '
                    '"over" fit.')
    if plan_format.FLOATS in parts:
        todo.append('Reboot hard, or migrate, those that are listed as '
                    '"floats".')
    if 'aggregate' in names:
        todo.append('Add %s to a host aggregate with priority_mix=true.'
                    % host)
    if knows_all:
        todo.append('Run "nova-prio host verify %s --plan FILE", with this '
                    'plan, kept with -f json.' % host)
    else:
        todo.append('Go on with the plan that is made where nova-manage runs, '
                    'which knows the rest and is the one to keep.')
    return [
        *(plan_format.PlanRow(plan_format.STEP, str(number), remedy=each)
          for number, each in enumerate(todo, 1)),
        plan_format.PlanRow(plan_format.VERDICT, host,
                            then=plan_format.NOT_READY if in_the_way else plan_format.READY)]
