# SPDX-License-Identifier: Apache-2.0

"""What only the host itself knows of a plan: its kernel and its guests."""

from nova.compute import vm_states
from nova.objects import fields
from nova.virt import hardware

from nova_prio.admin.audit import guests
from nova_prio.admin.host import plan_format
from nova_prio.compute import config_checks
from nova_prio.model import capacity
from nova_prio.virt import demand
from nova_prio.virt.libvirt import guest_xml

#: States in which an instance has a guest, or comes back with the one it had.
_WITH_GUEST = (vm_states.ACTIVE, vm_states.PAUSED, vm_states.SUSPENDED,
               vm_states.RESCUED, vm_states.RESIZED)

#: What is done about an instance that cannot stay.
MOVE = 'Migrate it, live or cold, before.'

#: The host was not looked at.
NOT_SEEN = plan_format.PlanRow(
    plan_format.HOST, 'not seen', remedy='Guests are taken to float on the CPU sets '
    'that the host has now; kernel, cgroups and options were not looked at.')


def check_host(conf, cpus, of_cgroups):
    """Yield the Rows of what speaks against the plan on this host.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :param of_cgroups: list of sentences that nova-prio-host says
    """
    for name in 'reserved_host_cpus', 'vcpu_pin_set':
        if conf[name]:
            yield plan_format.PlanRow(
                plan_format.HOST, name, str(
                    conf[name]), '', 'Take it out with the '
                'step that sets the CPU sets: Nova does not start with both.')
    of_mix = config_checks.find_mix_problems(
        conf, cpus.dedicated, cpus.shared, cpus.ratio) if cpus.mix else ()
    of_set = config_checks.find_low_emulator_problems(conf, cpus.dedicated)
    for name, problems in ('mix', of_mix), ('low_emulator_set', of_set):
        for problem in problems:
            yield plan_format.PlanRow(plan_format.HOST, name, 'nova-compute would not start',
                                      remedy=_sentence(problem), is_in_the_way=True)
    for problem in of_cgroups:
        yield plan_format.PlanRow(plan_format.HOST, 'partitions', 'not prepared', 'prepared',
                                  _sentence(problem))


def _sentence(text):
    return '%s%s.' % (text[0].upper(), text[1:].rstrip('.'))


def check_guests(host, running, cpus):
    """Yield the Rows of guests, where no database tells of instances.

    :param host: ``audit.guests.Host`` as it is
    :param running: list of ``audit.guests.Guest``
    """
    for guest in running:
        pinned = frozenset().union(*(
            each for each in guest.vcpus if guests.is_pinned(host, each)))
        if pinned - cpus.dedicated:
            yield plan_format.PlanRow(
                plan_format.OUTSIDE, guest.uuid, format_cpus(
                    pinned - cpus.dedicated),
                remedy=MOVE, is_in_the_way=True)
        floating = cpus.dedicated & guest_xml.find_blocking_cpus(
            guest, guest.priority == capacity.LOW, cpus.dedicated) - pinned
        if floating:
            yield describe_floating_guest(guest.uuid, floating)


def describe_floating_guest(uuid, cpus):
    """Return the Row of a guest that goes on to float on dedicated CPUs."""
    return plan_format.PlanRow(
        plan_format.FLOATS, uuid, format_cpus(cpus), '',
        'Reboot it hard, or migrate it, after nova-compute was restarted: '
        'nobody is pinned to these CPUs before its next update, within a '
        'minute after that.')


def format_cpus(numbers):
    """Return CPUs as a plan shows them."""
    return 'CPUs ' + hardware.format_cpu_spec(numbers) if numbers else 'none'


def find_floating_cpus(instance, needs, view, now, cpus, guests):
    """Return the CPUs on which a guest floats, as ``compute.guests`` counts.

    Where libvirt was not asked, it is taken to have been started with the CPU
    sets that the host has now, and without low_emulator_set, which only the
    host knows.

    :param needs: ``capacity.Demand`` of the instance
    :returns: frozenset
    """
    is_low = needs.priority == capacity.LOW
    guest = (guests or {}).get(instance.uuid)
    if guest is not None:
        return guest_xml.find_blocking_cpus(
            guest, is_low, cpus.dedicated) - demand.get_instance_pins(instance)
    if instance.vm_state not in _WITH_GUEST or (
            # It does not run, and comes back as it was from one state alone.
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
