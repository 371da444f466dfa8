# SPDX-License-Identifier: Apache-2.0

"""Checks of a plan with data of the host itself: its kernel and guests."""

from nova.compute import vm_states
from nova.objects import fields
from nova.virt import hardware

from nova_prio.admin.host import plan_format
from nova_prio.compute import config_checks
from nova_prio.model import capacity
from nova_prio.virt import demand
from nova_prio.virt.libvirt import guest_xml

#: States in which an instance has a guest, or gets the same guest back.
_STATES_WITH_GUEST = (vm_states.ACTIVE, vm_states.PAUSED, vm_states.SUSPENDED,
                      vm_states.RESCUED, vm_states.RESIZED)

#: Remedy for an instance that cannot stay.
MOVE = 'Migrate it, live or cold, first.'

NOT_SEEN = plan_format.PlanRow(
    plan_format.HOST, 'not seen',
    remedy='This plan assumes that guests float on the present CPU sets of '
    'the host. Kernel, cgroups and options were not checked.')


def check_host(conf, cpus, cgroup_problems):
    """Yield a PlanRow for each problem of the plan on this host.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param cgroup_problems: list of sentences of nova-prio-host
    """
    for name in 'reserved_host_cpus', 'vcpu_pin_set':
        if conf[name]:
            yield plan_format.PlanRow(
                plan_format.HOST, name, str(conf[name]),
                remedy='Remove it in the step that sets the CPU sets: Nova '
                'does not start with both.')
    mix_problems = config_checks.find_mix_problems(
        conf, cpus.dedicated, cpus.shared, cpus.ratio) if cpus.mix else ()
    emulator_problems = config_checks.find_low_emulator_problems(
        conf, cpus.dedicated)
    for name, before, after, problems, is_blocking in (
            ('mix', 'nova-compute would not start', '', mix_problems, True),
            ('low_emulator_set', 'nova-compute would not start', '',
             emulator_problems, True),
            ('partitions', 'not prepared', 'prepared', cgroup_problems,
             False)):
        for problem in problems:
            remedy = '%s%s.' % (problem[0].upper(), problem[1:].rstrip('.'))
            yield plan_format.PlanRow(plan_format.HOST, name, before, after,
                                      remedy, is_blocking)


def check_guests(host, running, cpus):
    """Yield the PlanRows of guests, if Nova's databases are not available.

    :param host: ``audit.guests.GuestHost`` as it is
    :param running: list of ``guest_xml.Guest``
    """
    for guest in running:
        pinned = host.get_pins(guest)
        if pinned - cpus.dedicated:
            yield plan_format.PlanRow(
                plan_format.OUTSIDE, guest.uuid,
                format_cpus(pinned - cpus.dedicated),
                remedy=MOVE, is_blocking=True)
        floating = cpus.dedicated & guest_xml.find_blocking_cpus(
            guest, guest.priority == capacity.LOW, cpus.dedicated) - pinned
        if floating:
            yield describe_floating_guest(guest.uuid, floating)


def describe_floating_guest(uuid, cpus):
    """Return the PlanRow of a guest that keeps floating on dedicated CPUs."""
    return plan_format.PlanRow(
        plan_format.FLOATS, uuid, format_cpus(cpus),
        remedy='Hard reboot it, or migrate it, after nova-compute is '
        'restarted. No instance is pinned to these CPUs until the next update '
        'of nova-compute after that, at most a minute later.')


def format_cpus(numbers):
    """Return CPU numbers as a plan shows them."""
    return 'CPUs ' + hardware.format_cpu_spec(numbers) if numbers else 'none'


def find_floating_cpus(instance, needs, view, now, cpus, guests):
    """Return the CPUs on which a guest floats, a frozenset.

    If libvirt is not available, assume that the guest was started with the
    present CPU sets and without low_emulator_set, which only the host knows.

    :param needs: ``capacity.Demand`` of the instance
    :param now: present ``capacity.HostCPUs``
    :param guests: dict, UUID -> ``guest_xml.Guest``, or None
    """
    is_low = needs.priority == capacity.LOW
    guest = (guests or {}).get(instance.uuid)
    if guest is not None:
        return guest_xml.find_blocking_cpus(
            guest, is_low, cpus.dedicated) - demand.get_instance_pins(instance)
    if instance.vm_state not in _STATES_WITH_GUEST or (
            # Only a suspended instance gets its old guest back.
            guests is not None and instance.vm_state != vm_states.SUSPENDED):
        return frozenset()
    topology = instance.numa_topology
    if topology is None or is_low or (
            topology.obj_attr_is_set('emulator_threads_policy') and
            topology.emulator_threads_policy ==
            fields.CPUEmulatorThreadsPolicy.SHARE):
        return now.shared
    host_cells = {cell.id: cell.cpuset for cell in view.cells}
    return frozenset().union(*(
        host_cells.get(cell.id, ()) for cell in topology.cells
        if cell.cpuset)) - demand.get_instance_pins(instance)
