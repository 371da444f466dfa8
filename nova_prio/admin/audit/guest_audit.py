# SPDX-License-Identifier: Apache-2.0

"""Compare the guests that run on this host with their expected state.

A vCPU of a guest is pinned if it may run on one CPU only, which is not in the
shared set. Otherwise it floats.
"""

from __future__ import annotations

from collections import abc
import contextlib
import typing

from lxml import etree
from nova.virt import hardware
from oslo_utils import importutils

from nova_prio.admin.audit import finding
from nova_prio.compat import contract
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs
from nova_prio.virt.libvirt import compute_checks
from nova_prio.virt.libvirt import guest_xml

if typing.TYPE_CHECKING:
    from nova import objects
    from oslo_config import cfg

    from nova_prio.admin.audit import host_view


class GuestsUnreadable(Exception):
    """The guests of this host cannot be read; the text says why."""


class GuestHost(typing.NamedTuple):
    """The CPUs of this host.

    The ratio in ``cpus`` is not used. ``cells`` has the CPUs of each NUMA
    cell, and ``low_emulator`` the CPUs for the emulator and I/O threads of
    low-priority guests.
    """

    cpus: cpu_capacity.HostCPUs
    cells: list[frozenset[int]]
    low_emulator: frozenset[int]

    @classmethod
    def from_libvirt(
            cls, conf: cfg.ConfigOpts, capabilities: str) -> GuestHost:
        """Return this host.

        :param conf: Nova's configuration
        :param capabilities: libvirt's capabilities XML
        """
        dedicated = frozenset(hardware.get_cpu_dedicated_set() or ())
        shared = frozenset(hardware.get_cpu_shared_set() or ())
        cells = []
        for cell in etree.fromstring(capabilities).iterfind(
                'host/topology/cells/cell'):
            cpus = [int(cpu.get('id')) for cpu in cell.iter('cpu')]
            cells.append(frozenset(cpus))
        # The checks of guests need no allocation ratio, so any value will do.
        # With mix, low-priority guests also float on the dedicated CPUs.
        host_cpus = cpu_capacity.HostCPUs(
            dedicated, shared, ratio=cpu_capacity.parse_ratio(1),
            mix=conf.cpu_priority_mix_enable)
        # The emulator and I/O threads of low-priority guests run on the CPUs
        # of the option low_emulator_set, if it is set.
        low_emulator = compute_checks.get_low_emulator_set(conf) or shared
        return cls(cpus=host_cpus, cells=cells,
                   low_emulator=frozenset(low_emulator))

    def is_pinned(self, cpus: frozenset[int] | None) -> bool:
        """Return whether a vCPU is pinned to one CPU that is not shared.

        If the set of shared CPUs has one CPU, vCPUs that float also have one.

        :param cpus: CPUs of the vCPU, None for all CPUs
        """
        return (cpus is not None and len(cpus) == 1 and
                not cpus <= self.cpus.shared)

    def get_pins(self, guest: guest_xml.Guest) -> frozenset[int]:
        """Return the CPUs to which vCPUs of a guest are pinned.

        :param guest: ``vcpus`` has the CPUs of each vCPU, None for all CPUs
        """
        pins: set[int] = set()
        for cpus in guest.vcpus:
            if cpus and self.is_pinned(cpus):
                pins |= cpus
        return frozenset(pins)


def check(host: GuestHost, guests: abc.Collection[guest_xml.Guest],
          view: host_view.HostView | None = None) -> finding.Findings:
    """Yield the findings of the guests of a host.

    :param view: None without Nova's databases. Without it, a guest has the
        priority with which it was started.
    """
    instances = {}
    if view:
        # The consumers are the UUIDs of the instances on the host, and of
        # those that move from or to it.
        for guest in guests:
            if guest.uuid not in view.consumers:
                yield finding.Finding(
                    'unknown_guest', guest.uuid, needed='no guest',
                    libvirt='running')
        # These instances have no task and no open migration.
        instances = {instance.uuid: instance
                     for instance in view.instances_at_rest}
        # Skip guests whose instance is unknown, or is being changed or moved.
        guests = [guest for guest in guests if guest.uuid in instances]
    for guest in guests:
        priority = guest.priority
        if view:
            instance = instances[guest.uuid]
            priority = flavor_specs.get_priority(instance.flavor.extra_specs)
            yield from _check_pins(guest, instance)
        # The partition is the cgroup of all guests of a priority.
        expected = guest_xml.PARTITIONS.get(priority)
        if expected is None:
            # The guest has no priority, so it may be in any other partition.
            is_wrong = guest.partition in guest_xml.PARTITIONS.values()
        else:
            is_wrong = guest.partition != expected
        if is_wrong:
            yield finding.Finding(
                'wrong_partition', guest.uuid,
                needed=expected or 'none of a priority',
                libvirt=guest.partition or 'none')
        yield from _check_cpus(host, guest, priority)
    pins = {guest.uuid: host.get_pins(guest) for guest in guests}
    for uuid, text in finding.find_pin_conflicts(pins):
        yield finding.Finding('same_cpu', uuid, libvirt=text)


def _check_pins(guest: guest_xml.Guest,
                instance: objects.Instance) -> finding.Findings:
    """Yield a finding if the pins of the guest differ from those in Nova.

    The finding has all CPUs of the pinned vCPUs: ``compute`` those in Nova,
    and ``libvirt`` those of the guest.
    """
    if instance.numa_topology is None:
        return
    # vCPU -> CPU to which it should be pinned.
    pins: dict[int, int] = {}
    for cell in instance.numa_topology.cells:
        pins.update(cell.cpu_pinning or {})
    # vCPU -> CPUs where it may run, None for all CPUs.
    cpus_of_vcpu = dict(enumerate(guest.vcpus))
    if all(cpus_of_vcpu.get(vcpu) == {cpu} for vcpu, cpu in pins.items()):
        return
    # The CPUs where the vCPUs run that should be pinned.
    limited: set[int] = set()
    has_unlimited_vcpu = False
    for vcpu in pins.keys() & cpus_of_vcpu.keys():
        cpus = cpus_of_vcpu[vcpu]
        if cpus is None:
            has_unlimited_vcpu = True
        else:
            limited |= cpus
    present = None if has_unlimited_vcpu else limited
    yield finding.Finding(
        'other_cpus', guest.uuid, compute=_format_cpus(pins.values()),
        libvirt=_format_cpus(present))


def _check_cpus(host: GuestHost, guest: guest_xml.Guest,
                priority: str | None) -> finding.Findings:
    """Yield a finding for pinned vCPUs, and one for all other threads.

    A vCPU that is not pinned to one CPU floats: it may run on several. This
    package chooses the CPUs of the emulator and I/O threads only for
    low-priority guests, so that these threads do not run beside pinned vCPUs.

    :param priority: 'high', 'low', or None for an ordinary guest
    """
    if not (host.cpus.dedicated or host.cpus.shared):
        # Without CPU sets, Nova does not limit guests that float.
        return
    outside = host.get_pins(guest) - host.cpus.dedicated
    if outside:
        yield finding.Finding(
            'cpu_outside', guest.uuid,
            needed=_format_cpus(host.cpus.dedicated),
            libvirt=_format_cpus(outside))
    # (present CPUs, expected CPUs) of each vCPU or thread that floats.
    floating = []
    for cpus in guest.vcpus:
        if not host.is_pinned(cpus):
            expected = _get_expected_cpus(host, guest, cpus, priority)
            floating.append((cpus, expected))
    if priority == cpu_capacity.LOW:
        # These threads may run on the CPUs of ``low_emulator``, a set. It may
        # have been smaller when the guest started, so that some are enough.
        for cpus in guest.threads:
            expected = _select_allowed(cpus, host.low_emulator)
            floating.append((cpus, expected))
    for cpus, expected in floating:
        if cpus != expected:
            # One finding is enough: the remedy restarts the whole guest.
            yield finding.Finding(
                'old_cpuset', guest.uuid, needed=_format_cpus(expected),
                libvirt=_format_cpus(cpus))
            break


def _get_expected_cpus(
        host: GuestHost, guest: guest_xml.Guest, cpus: frozenset[int] | None,
        priority: str | None) -> frozenset[int]:
    """Return the CPUs where a vCPU of a guest should float.

    A vCPU that is not pinned to one CPU floats: it may run on several. Those
    of low-priority guests float on the shared CPUs and, with the option
    cpu_priority_mix_enable, on the dedicated CPUs, too: ``floating`` has both.
    Those of other guests float on the shared CPUs, or on fewer of them if the
    shared set was smaller when the guest started.

    :param cpus: present CPUs of the vCPU, None for all CPUs
    :param priority: 'high', 'low', or None for an ordinary guest
    """
    if priority != cpu_capacity.LOW:
        return _select_allowed(cpus, host.cpus.shared)
    if cpus is None or not guest.has_cells:
        return host.cpus.floating
    # The guest has a NUMA topology: it stays in its NUMA cells of the host.
    cpus_of_cells: set[int] = set()
    for cell in host.cells:
        if cell & cpus:
            cpus_of_cells |= cell
    expected = host.cpus.floating & cpus_of_cells
    if not expected:
        # No CPU of these cells is allowed any more. Expect the shared CPUs,
        # where every guest may float: low-priority guests use dedicated CPUs
        # only in their own cells.
        return host.cpus.shared
    return expected


def _select_allowed(cpus: frozenset[int] | None,
                    allowed: frozenset[int]) -> frozenset[int]:
    """Return those of some CPUs that are allowed.

    If none of them is allowed, return all allowed CPUs: the vCPU or thread
    must leave its present CPUs, and may run on any of these.

    :param cpus: present CPUs of a vCPU or thread, None for all CPUs
    :param allowed: CPUs of the host where it may run
    """
    if cpus is None:
        return allowed
    return (cpus & allowed) or allowed


def summarize(host: GuestHost, guests: abc.Iterable[guest_xml.Guest]) -> str:
    """Return the numbers of pinned and of floating vCPUs as a text.

    A pinned vCPU may run on one CPU only, a floating one on several.

    :param host: knows the shared CPUs. A vCPU with one CPU of these floats:
        the set of shared CPUs has only this one.
    """
    amounts = {'pinned': 0, 'floating': 0}
    for guest in guests:
        for cpus in guest.vcpus:
            kind = 'pinned' if host.is_pinned(cpus) else 'floating'
            amounts[kind] += 1
    return finding.format_amounts(amounts)


def read_guests(
        conf: cfg.ConfigOpts) -> tuple[GuestHost, list[guest_xml.Guest]]:
    """Return this host and the guests that run on it.

    :param conf: Nova's configuration
    :raises GuestsUnreadable: if libvirt does not answer
    """
    libvirt = importutils.try_import('libvirt')
    if libvirt is None:
        raise GuestsUnreadable('The Python module libvirt is not installed')
    # Without a handler, libvirt writes its errors to the terminal.
    libvirt.registerErrorHandler(lambda *args: None, None)
    uri = conf.libvirt.connection_uri or 'qemu:///system'
    try:
        with contextlib.closing(libvirt.openReadOnly(uri)) as connection:
            domains = connection.listAllDomains(
                libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
            xmls = [domain.XMLDesc(0) for domain in domains]
            capabilities = connection.getCapabilities()
    except libvirt.libvirtError as error:
        raise GuestsUnreadable(
            'libvirt does not answer: %s' % error) from error
    return (GuestHost.from_libvirt(conf, capabilities),
            select_nova_guests(xmls))


def needs_io_threads() -> bool:
    """Return whether a guest must have an I/O thread to be live-migrated.

    In Nova 33, each guest with a NUMA topology must (Launchpad bug 2152697).
    An older release starts its guests without I/O threads.
    """
    return contract.get_nova_release().startswith('33.')


def precedes_nova_33() -> bool:
    """Return whether Nova 33 may be the next release of this host."""
    return int(contract.get_nova_release().split('.')[0]) < 33


def describe_immovable(running: abc.Iterable[guest_xml.Guest]) -> str:
    """Return a sentence about guests that Nova 33 cannot live-migrate, or ''.

    Nova 33 live-migrates a guest with a NUMA topology only if the guest has
    I/O threads. The guest gets them if Nova 33 or a later release starts it.

    :param running: the guests of this host
    """
    # A guest has cells if it has a NUMA topology.
    uuids = [guest.uuid for guest in running
             if guest.has_cells and not guest.has_io_threads]
    if not uuids:
        return ''
    return ('Nova 33 cannot live-migrate the instances %s, whose guests an '
            'older release started without I/O threads (Launchpad bug '
            '2152697); when this host has Nova 33, hard reboot each before '
            'its first live migration, or migrate it cold.'
            % ', '.join(uuids))


def select_nova_guests(xmls: abc.Iterable[str]) -> list[guest_xml.Guest]:
    """Return the guest of each domain XML that Nova made.

    Leave out the domains of other software: one with unusual content must not
    stop the audit.
    """
    return [guest_xml.Guest.from_xml(xml) for xml in xmls
            if guest_xml.is_made_by_nova(xml)]


def _format_cpus(cpus: abc.Iterable[int] | None) -> str:
    """Return CPU numbers as a text; None means all CPUs."""
    if cpus is None:
        return 'all CPUs'
    return 'CPUs ' + hardware.format_cpu_spec(cpus)
