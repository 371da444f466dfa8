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


"""What becomes of a host with other CPU sets, ratio and mix: calculated.

Nothing is changed. What nova-compute would report, and what it would say of
the instances, is calculated by the code that it uses itself.
"""

from nova.compute import vm_states
from nova.objects import fields
from nova.virt import hardware
import os_resource_classes as orc

from nova_prio import capacity
from nova_prio.colocation import rows
from nova_prio.compute import guest_xml
from nova_prio.compute import inventory
from nova_prio import demand
from nova_prio import holdings
from nova_prio import priority_hosts

#: States in which an instance has a guest, or comes back with the one it had.
_WITH_GUEST = (vm_states.ACTIVE, vm_states.PAUSED, vm_states.SUSPENDED,
               vm_states.RESCUED, vm_states.RESIZED)

#: What is done about an instance that cannot stay.
MOVE = 'Migrate it, live or cold, before.'


def cpus_now(view):
    """Return the ``capacity.HostCPUs`` of a host as it is.

    A host without any CPU set lets all its CPUs be shared.

    :param view: nova_prio.audit.views.HostView
    """
    ratio = capacity.exact_ratio(
        view.inventories.get(orc.VCPU, {}).get('allocation_ratio', 1.0))
    return capacity.HostCPUs(
        frozenset().union(*(cell.pcpuset for cell in view.cells))
        if orc.PCPU in view.inventories else frozenset(),
        frozenset().union(*(cell.cpuset for cell in view.cells)),
        ratio, bool(view.report and view.report.mix))


def inventories(view, cpus):
    """Return the inventories that Placement will have, dict by class.

    :param view: HostView
    :param cpus: ``capacity.HostCPUs`` as they are to be
    """
    found = {name: there for name, there in view.inventories.items()
             if name not in (orc.VCPU, orc.PCPU)}
    in_use = view.in_placement
    if cpus.dedicated:
        found[orc.PCPU] = _stock(len(cpus.dedicated), 1.0)
    if cpus.shared:
        vcpu = _stock(len(cpus.shared), float(cpus.ratio))
        found[orc.VCPU] = (
            inventory.vcpu(vcpu, cpus, in_use.vcpu, in_use.largest_vcpu)
            if cpus.mix else inventory.movable_vcpu(
                vcpu, in_use.vcpu, in_use.largest_vcpu))
    if cpus.mix and orc.MEMORY_MB in found:
        found[orc.MEMORY_MB] = inventory.memory(
            found[orc.MEMORY_MB], in_use.memory_mb)
    return found


def _stock(cpus, ratio):
    """Return an inventory of CPUs as Nova's driver reports it.

    Nova reserves none beside CPU sets.
    """
    return {'total': cpus, 'reserved': 0, 'min_unit': 1,
            'max_unit': cpus, 'step_size': 1, 'allocation_ratio': ratio}


def make(view, cpus, is_marked, is_up, guests=None):
    """Yield the Rows of a plan, but for those of ``local`` and the steps.

    :param view: HostView
    :param cpus: ``capacity.HostCPUs`` as they are to be
    :param is_marked: whether an aggregate of the host is one for priority
        instances
    :param is_up: whether its nova-compute is
    :param guests: dict, UUID -> ``audit.guests.Guest`` of what runs there, or
        None where only the host knows
    """
    now = cpus_now(view)
    then = inventories(view, cpus)
    yield from _options(view, now, cpus, then)
    for name in sorted({*view.inventories, *then} & {
            orc.VCPU, orc.PCPU, orc.MEMORY_MB}):
        yield rows.Row(rows.INVENTORY, name, view.inventories.get(name, {}),
                       then.get(name, {}))
    yield rows.Row(
        rows.TRAITS, rows.TRAITS,
        ' '.join(priority_hosts.ours(view.traits)),
        ' '.join(sorted(priority_hosts.traits(cpus.mix, False))))
    floating = {
        instance.uuid: cpus.dedicated & _floats_on(
            instance, needs, view, now, cpus, guests)
        for instance, needs in zip(view.instances, view.demands)}
    # What nova-compute has seen, of whatever guest.
    kept = cpus.dedicated & (
        view.report.blocked if view.report else frozenset())
    yield from _room(view, now, cpus, kept.union(*floating.values()))
    yield from _instances(view, cpus, floating)
    yield from _allocations(view, then)
    if not is_up:
        yield rows.Row(
            rows.HOST, 'nova-compute', 'down', 'up', 'Start it, and plan '
            'again: all this is what it said before.', True)
    if not view.is_at_rest:
        yield rows.Row(
            rows.HOST, 'in motion', remedy='Instances are changed or moved '
            'there right now: plan again when they are at rest.',
            is_in_the_way=True)
    if kept - frozenset().union(*floating.values()):
        yield rows.Row(
            rows.HOST, 'kept CPUs', _cpus(kept), '',
            'Guests float there that were started with other CPU sets. The '
            'audit names them on the host, as old_cpuset.')
    if not is_marked:
        yield rows.Row(
            rows.HOST, 'aggregate', 'none for priority instances',
            'priority_mix=true', 'Put it into a host aggregate with that '
            'metadata at the end: it gets no priority instance before.')


def _options(view, now, cpus, then):
    """Yield what is set and what is to be, where it was set at all."""
    undo = 'To undo all, set it to what it was.'
    is_ours = priority_hosts.is_ours(view.traits)
    had_sets = orc.PCPU in view.inventories or not any(
        cell.pcpuset for cell in view.cells)
    before = {
        'compute_driver': priority_hosts.DRIVER if is_ours
        else 'libvirt.LibvirtDriver',
        'cpu_dedicated_set': hardware.format_cpu_spec(now.dedicated),
        'cpu_shared_set': hardware.format_cpu_spec(now.shared)
        if had_sets else '',
        'cpu_allocation_ratio': str(now.ratio),
        'cpu_priority_mix_enable': str(now.mix).lower()}
    after = {
        'compute_driver': priority_hosts.DRIVER,
        'cpu_dedicated_set': hardware.format_cpu_spec(cpus.dedicated),
        'cpu_shared_set': hardware.format_cpu_spec(cpus.shared),
        'cpu_allocation_ratio': str(cpus.ratio),
        'cpu_priority_mix_enable': str(cpus.mix).lower()}
    reserved = view.inventories.get(orc.VCPU, {}).get('reserved', 0)
    if reserved and not is_ours:
        before['reserved_host_cpus'], after['reserved_host_cpus'] = (
            str(reserved), '')
    for name, value in before.items():
        yield rows.Row(rows.OPTION, name, value, after[name], undo)
    memory = [str(found[orc.MEMORY_MB]['allocation_ratio'])
              for found in (view.inventories, then) if orc.MEMORY_MB in found]
    remedy = ''
    if memory[:1] != memory[1:]:
        remedy = 'Memory is not oversold with mix. ' + undo
    elif now.mix and not cpus.mix:
        remedy = 'It stays as mix has made it, unless the option is set.'
    yield rows.Row(rows.OPTION, 'ram_allocation_ratio', *memory,
                   remedy=remedy)


def _room(view, now, cpus, floating):
    """Yield the rows of what is sold and what is left, before and after."""
    pinned = set().union(*map(demand.pins, view.instances))
    sold = view.rows
    blocked = len(floating - pinned)
    for row, *numbers in zip(
            capacity.Rows._fields,
            now.sellable, view.report.used if view.report else sold,
            view.report.room if view.report else capacity.room(
                now.sellable, sold),
            cpus.sellable,
            sold._replace(high=len(pinned & cpus.dedicated)),
            capacity.room(cpus.sellable, sold._replace(
                high=len(pinned & cpus.dedicated) + blocked))):
        before, after = (dict(zip(('sellable', 'sold', 'left'), half))
                         for half in (numbers[:3], numbers[3:]))
        yield rows.Row(rows.ROOM, row, before, after)
    free = view.node.free_ram_mb
    yield rows.Row(
        rows.ROOM, 'memory', {'left': free}, {'left': max(free, 0)},
        'More is sold than there is: with mix, the host takes no instance '
        'until %d MB have moved away.' % -free
        if cpus.mix and free < 0 else '')


def _instances(view, cpus, floating):
    """Yield what is to be known of each instance."""
    over = [row for row, sold, sellable in zip(
        capacity.Rows._fields, view.rows, cpus.sellable) if sold > sellable]
    for instance, needs in zip(view.instances, view.demands):
        uuid = instance.uuid
        outside = demand.pins(instance) - cpus.dedicated
        if outside:
            yield rows.Row(
                rows.OUTSIDE, uuid, _cpus(outside), _cpus(cpus.dedicated),
                MOVE + ' nova-compute does not start otherwise.', True)
        if cpus.mix and demand.wants_whole_cores(
                instance.flavor, instance.numa_topology):
            yield rows.Row(
                rows.WHOLE_CORES, uuid, remedy=MOVE + ' Low-priority guests '
                'would run on the cores that it was promised.',
                is_in_the_way=True)
        for row in over:
            drawn = getattr(capacity.drawn(needs), row)
            if drawn:
                yield rows.Row(
                    rows.OVER, uuid, {row: drawn},
                    '%s: %d of %d sold' % (row, getattr(view.rows, row),
                                           getattr(cpus.sellable, row)),
                    'Move instances away until they fit: the row admits '
                    'nothing before.')
        if floating.get(uuid):
            yield floats(uuid, floating[uuid])
        if cpus.mix and needs.priority is None and needs.dedicated:
            yield rows.Row(
                rows.JOINED, uuid, remedy='Low-priority guests will float on '
                'its CPUs, too: a resize to a flavor with hw:cpu_priority = '
                'high gives it the partition of the high ones.')


def floats(uuid, cpus):
    """Return the Row of a guest that goes on to float on dedicated CPUs."""
    return rows.Row(
        rows.FLOATS, uuid, _cpus(cpus), '',
        'Reboot it hard, or migrate it, after nova-compute was restarted: '
        'nobody is pinned to these CPUs before its next update, within a '
        'minute after that.')


def _cpus(numbers):
    return 'CPUs ' + hardware.format_cpu_spec(numbers) if numbers else 'none'


def _floats_on(instance, needs, view, now, cpus, guests):
    """Return the CPUs on which a guest floats, as ``floaters`` counts them.

    Where libvirt was not asked, it is taken to have been started with the CPU
    sets that the host has now, and without low_emulator_set, which only the
    host knows.

    :param needs: ``capacity.Demand`` of the instance
    :returns: frozenset
    """
    is_low = needs.priority == capacity.LOW
    guest = (guests or {}).get(instance.uuid)
    if guest is not None:
        return guest_xml.cpus_of_users(
            guest, is_low, cpus.dedicated) - demand.pins(instance)
    if instance.vm_state not in _WITH_GUEST or (
            # It does not run, and comes back as it was from one state alone.
            guests is not None and instance.vm_state != vm_states.SUSPENDED):
        return frozenset()
    topology = instance.numa_topology
    if topology is None or is_low or _shares_emulator(topology):
        return now.shared
    host_cells = {cell.id: cell.cpuset for cell in view.cells}
    return frozenset().union(*(
        host_cells.get(cell.id, ()) for cell in topology.cells
        if cell.cpuset)) - demand.pins(instance)


def _shares_emulator(topology):
    """Return whether the emulator threads of a guest are on shared CPUs."""
    return (topology.obj_attr_is_set('emulator_threads_policy') and
            topology.emulator_threads_policy ==
            fields.CPUEmulatorThreadsPolicy.SHARE)


def _allocations(view, then):
    """Yield what instances will hold that hold something else now."""
    remedy = 'nova-compute puts it right by itself.'
    if orc.PCPU not in view.inventories:
        remedy += (' On the way back it has to leave first: Nova does not '
                   'start without CPU sets where PCPU is held.')
    for instance, needs in holdings.differing(
            view.context, view.at_rest, view.held,
            {*then, *view.classes.difference(view.inventories)}):
        yield rows.Row(
            rows.ALLOCATION, instance.uuid,
            holdings.own(view.held.get(instance.uuid, {})), needs, remedy)


def steps(host, cpus, found):
    """Return the Rows of what to do, in its order, and of the verdict.

    :param host: name of the host
    :param cpus: ``capacity.HostCPUs`` as they are to be
    :param found: list of the Rows of the plan
    """
    in_the_way = [row for row in found if row.is_in_the_way]
    parts = {row.part for row in found}
    names = {row.name for row in found if row.part == rows.HOST}
    knows_all = rows.INVENTORY in parts
    todo = []
    if in_the_way:
        todo.append('See to what is in the way (%s), and plan again.'
                    % ', '.join(sorted({row.part if row.part != rows.HOST
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
        % (host, priority_hosts.DRIVER, str(cpus.mix).lower(),
           cpus.ratio, hardware.format_cpu_spec(cpus.dedicated),
           hardware.format_cpu_spec(cpus.shared)),
        'Restart nova-compute on %s.' % host]
    if rows.OVER in parts:
        todo.append('Migrate instances away until those that are listed as '
                    '"over" fit.')
    if rows.FLOATS in parts:
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
        *(rows.Row(rows.STEP, str(number), remedy=each)
          for number, each in enumerate(todo, 1)),
        rows.Row(rows.VERDICT, host,
                 then=rows.NOT_READY if in_the_way else rows.READY)]
