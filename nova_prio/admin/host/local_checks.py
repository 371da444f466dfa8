# SPDX-License-Identifier: Apache-2.0

"""Checks of a plan with data of the host itself: its kernel and guests."""

from __future__ import annotations

from collections import abc

from nova.compute import vm_states
from nova import objects
from nova.objects import fields
from nova.virt import hardware
from oslo_config import cfg

from nova_prio.admin.audit import guest_audit
from nova_prio.admin.audit import host_view
from nova_prio.admin.host import plan_format
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs
from nova_prio.virt import demand
from nova_prio.virt.libvirt import compute_checks
from nova_prio.virt.libvirt import guest_xml

#: States in which an instance has a guest, or gets the same guest back.
_STATES_WITH_GUEST = {vm_states.ACTIVE, vm_states.PAUSED, vm_states.SUSPENDED,
                      vm_states.RESCUED, vm_states.RESIZED}

#: Remedy for an instance that cannot stay.
MOVE = 'Migrate it, live or cold, first.'

NOT_SEEN = plan_format.PlanRow(
    plan_format.HOST, 'not seen',
    remedy='This plan assumes that guests float on the present CPU sets of '
    'the host. Kernel, cgroups and options were not checked: '
    '"nova-prio-status upgrade check" on the host does so.')


def check_host(conf: cfg.ConfigOpts, planned_cpus: cpu_capacity.HostCPUs,
               guests: abc.Iterable[guest_xml.Guest],
               cgroup_problems: abc.Iterable[str],
               ) -> abc.Iterator[plan_format.PlanRow]:
    """Yield a PlanRow for each problem of the plan on this host.

    The plan gives the host other CPU sets, and turns mix on or off. With mix,
    low-priority guests also run on the dedicated CPUs. The emulator threads of
    low-priority guests run on the CPUs of low_emulator_set. A partition is the
    cgroup of all guests of one priority.

    :param conf: Nova's configuration
    :param guests: the guests that run on this host
    :param cgroup_problems: sentences of nova-prio-host; each names a problem
        and its remedy
    """
    for name in 'reserved_host_cpus', 'vcpu_pin_set':
        if conf[name]:
            yield plan_format.PlanRow(
                plan_format.HOST, name, present=str(conf[name]),
                remedy='Remove it in the step that sets the CPU sets: Nova '
                'does not start with this option and CPU sets.')
    # Name of a PlanRow -> texts that name a problem and its remedy.
    problems = {}
    # Why nova-compute would refuse mix, and why the emulator threads of
    # low-priority guests could not run.
    if planned_cpus.mix:
        problems['mix'] = compute_checks.find_mix_problems(
            conf, planned_cpus.dedicated, planned_cpus.shared,
            planned_cpus.ratio)
    problems['low_emulator_set'] = compute_checks.find_low_emulator_problems(
        conf, planned_cpus.dedicated)
    for name, texts in problems.items():
        for text in texts:
            yield plan_format.PlanRow(
                plan_format.HOST, name, present='nova-compute would not start',
                remedy=text, is_blocking=True)
    for text in cgroup_problems:
        yield plan_format.PlanRow(
            plan_format.HOST, 'partitions', present='not prepared',
            planned='prepared', remedy=text)
    # Nova 33 cannot live-migrate guests that an older release started without
    # I/O threads. ``immovable`` is a sentence that names them, '' if there are
    # none.
    immovable = guest_audit.describe_immovable(guests)
    is_nova_33 = guest_audit.needs_io_threads()
    if immovable and is_nova_33:
        yield plan_format.PlanRow(
            plan_format.HOST, 'live migration',
            present='guests without I/O threads', remedy=immovable)


def check_guests(host: guest_audit.GuestHost,
                 guests: abc.Iterable[guest_xml.Guest],
                 planned_cpus: cpu_capacity.HostCPUs,
                 ) -> abc.Iterator[plan_format.PlanRow]:
    """Yield a PlanRow for each guest that the plan affects.

    :param host: this host with the present CPU sets
    :param planned_cpus: the CPU sets that the plan gives the host
    """
    dedicated = planned_cpus.dedicated
    for guest in guests:
        pinned = host.get_pins(guest)
        outside = pinned - dedicated
        if outside:
            yield plan_format.PlanRow(
                plan_format.PINNED_OUTSIDE, guest.uuid,
                present=format_cpus(outside), remedy=MOVE, is_blocking=True)
        # The dedicated CPUs to which no other guest may be pinned. This guest
        # is pinned to them, or has threads that float there but should not:
        # only the vCPUs of a low-priority guest may float there.
        blocking = guest_xml.find_blocking_cpus(
            guest, is_low=guest.priority == cpu_capacity.LOW,
            dedicated=dedicated)
        floating = blocking - pinned
        if floating:
            yield describe_floating_guest(guest.uuid, floating)


def describe_floating_guest(
        uuid: str, cpus: abc.Collection[int]) -> plan_format.PlanRow:
    """Return the PlanRow of a guest that keeps floating on dedicated CPUs.

    A guest floats on CPUs where it may run, but is not pinned.

    :param uuid: UUID of its instance
    """
    return plan_format.PlanRow(
        plan_format.FLOATING, uuid, present=format_cpus(cpus),
        remedy='Hard reboot it, or migrate it, after nova-compute is '
        'restarted. No instance is pinned to these CPUs until the next update '
        'of nova-compute after that, at most a minute later.')


def format_cpus(numbers: abc.Collection[int]) -> str:
    """Return CPU numbers as a text such as "CPUs 0-3,8", or "none"."""
    return 'CPUs ' + hardware.format_cpu_spec(numbers) if numbers else 'none'


def find_floating_cpus(
        instance: objects.Instance, view: host_view.HostView,
        present_cpus: cpu_capacity.HostCPUs, dedicated: frozenset[int],
        guests: abc.Mapping[str, guest_xml.Guest] | None) -> frozenset[int]:
    """Return the planned dedicated CPUs where an instance floats by mistake.

    Threads of a guest float if they may run on several CPUs. The vCPUs of
    low-priority guests may stay on the planned dedicated CPUs. All other
    threads that float must leave these CPUs.

    If libvirt is not available, assume that the guest was started with the
    present CPU sets. Only the host knows the option low_emulator_set, which
    may keep the emulator threads of low-priority guests off the shared CPUs:
    assume that it is not set.

    :param view: the records of the host; its ``cells`` are NUMA cells
    :param present_cpus: of the host
    :param dedicated: planned dedicated CPUs
    :param guests: UUID -> guest; None without libvirt
    """
    is_low = flavor_specs.get_priority(
        instance.flavor.extra_specs) == cpu_capacity.LOW
    pinned = demand.get_instance_pins(instance)
    states = _STATES_WITH_GUEST
    if guests is not None:
        guest = guests.get(instance.uuid)
        if guest is not None:
            # The planned dedicated CPUs to which no other guest may be pinned
            # while this one runs.
            blocking = guest_xml.find_blocking_cpus(guest, is_low, dedicated)
            return blocking - pinned
        # If libvirt lists no guest, only a suspended instance gets its old
        # guest back.
        states = {vm_states.SUSPENDED}
    if instance.vm_state not in states:
        return frozenset()
    topology = instance.numa_topology
    shares_emulator_threads = (
        topology is not None and
        topology.obj_attr_is_set('emulator_threads_policy') and
        topology.emulator_threads_policy ==
        fields.CPUEmulatorThreadsPolicy.SHARE)
    # The emulator threads of these guests may run on all shared CPUs, even if
    # vCPUs of the guest are pinned there.
    if is_low or shares_emulator_threads:
        return dedicated & present_cpus.shared
    floating = demand.find_floating_cpus(instance, present_cpus, view.cells)
    return (dedicated & floating) - pinned
