# SPDX-License-Identifier: Apache-2.0

"""Compare the guests that run on this host with their expected state."""

import typing

from lxml import etree
from nova.virt import hardware
from oslo_utils import importutils

from nova_prio.admin.audit import finding
from nova_prio.compute import config_checks
from nova_prio.model import capacity
from nova_prio.model import flavor_specs
from nova_prio.virt.libvirt import guest_xml


class GuestsUnreadable(Exception):
    """The guests of this host cannot be read; a sentence says why."""


class GuestHost(typing.NamedTuple):
    """The CPUs of this host.

    ``cpus`` are its ``capacity.HostCPUs``, with a ratio of 1; ``cells`` is a
    list of frozensets, the CPUs of each NUMA cell; ``low_emulator`` is the
    frozenset of CPUs for emulator and I/O threads of low-priority guests.
    """

    cpus: capacity.HostCPUs
    cells: list
    low_emulator: frozenset

    @classmethod
    def from_libvirt(cls, conf, capabilities):
        """Return this host.

        :param capabilities: str, libvirt's capabilities XML
        """
        dedicated, shared = (frozenset(cpus or ()) for cpus in (
            hardware.get_cpu_dedicated_set(), hardware.get_cpu_shared_set()))
        return cls(
            capacity.HostCPUs(dedicated, shared, capacity.parse_ratio(1),
                              conf.cpu_priority_mix_enable),
            [frozenset(int(cpu.get('id')) for cpu in cell.iter('cpu'))
             for cell in etree.fromstring(capabilities).iterfind(
                 'host/topology/cells/cell')],
            frozenset(config_checks.get_low_emulator_set(conf) or shared))

    def is_pinned(self, cpus):
        """Return whether a vCPU is pinned to one CPU that is not shared.

        :param cpus: frozenset of the CPUs of the vCPU, None for all CPUs
        """
        return (cpus is not None and len(cpus) == 1 and
                not cpus <= self.cpus.shared)

    def get_pins(self, guest):
        """Return the frozenset of CPUs to which vCPUs are pinned."""
        return frozenset().union(*filter(self.is_pinned, guest.vcpus))


def check(name, host, guests, view=None):
    """Yield the findings of the guests of a host.

    :param name: name of the host
    :param host: GuestHost
    :param guests: list of ``guest_xml.Guest``
    :param view: HostView, or None without Nova's databases
    """
    if view:
        for guest in guests:
            if guest.uuid not in view.consumers:
                yield finding.Finding(
                    name, finding.UNKNOWN_GUEST, guest.uuid, needed='no guest',
                    libvirt='running')
    instances = {instance.uuid: instance
                 for instance in (view.idle_instances if view else ())}
    pins = {}
    for guest in guests:
        priority = guest.priority
        if view:
            instance = instances.get(guest.uuid)
            if instance is None:
                # The instance is unknown, or is being changed or moved.
                continue
            priority = flavor_specs.get_priority(instance.flavor.extra_specs)
            yield from _check_pins(name, guest, instance)
        partition = guest_xml.PARTITIONS.get(priority)
        if partition != guest.partition and (
                partition or
                guest.partition in guest_xml.PARTITIONS.values()):
            yield finding.Finding(
                name, finding.WRONG_PARTITION, guest.uuid,
                needed=partition or 'none of a priority',
                libvirt=guest.partition or 'none')
        yield from _check_cpus(name, host, guest, priority)
        pins[guest.uuid] = host.get_pins(guest)
    for uuid, text in finding.find_shared_cpus(pins):
        yield finding.Finding(name, finding.SAME_CPU, uuid, libvirt=text)


def _check_pins(name, guest, instance):
    """Yield a finding if the pins of the guest differ from those in Nova."""
    topology = instance.numa_topology
    pins = {vcpu: cpu for cell in (topology.cells if topology else ())
            for vcpu, cpu in (cell.cpu_pinning or {}).items()}
    running = dict(enumerate(guest.vcpus))
    if any(running.get(vcpu) != {cpu} for vcpu, cpu in pins.items()):
        present = [running[vcpu] for vcpu in pins if vcpu in running]
        yield finding.Finding(
            name, finding.OTHER_CPUS, guest.uuid,
            compute=_format_cpus(pins.values()),
            libvirt=_format_cpus(None if None in present
                                 else frozenset().union(*present)))


def _check_cpus(name, host, guest, priority):
    """Yield the findings of pinned vCPUs, then of floating ones."""
    if not (host.cpus.dedicated or host.cpus.shared):
        # Without CPU sets, Nova does not limit guests that float.
        return
    outside = host.get_pins(guest) - host.cpus.dedicated
    if outside:
        yield finding.Finding(
            name, finding.CPU_OUTSIDE, guest.uuid,
            needed=_format_cpus(host.cpus.dedicated),
            libvirt=_format_cpus(outside))
    checked = [
        (cpus, _get_expected_cpus(host, guest, cpus, priority),
         host.cpus.shared)
        for cpus in guest.vcpus if not host.is_pinned(cpus)]
    if priority == capacity.LOW:
        checked += [(cpus, host.low_emulator & (cpus or frozenset()),
                     host.low_emulator) for cpus in guest.threads]
    for cpus, expected, allowed in checked:
        if cpus != expected or not cpus:
            yield finding.Finding(
                name, finding.OLD_CPUSET, guest.uuid,
                needed=_format_cpus(expected or allowed),
                libvirt=_format_cpus(cpus))
            break


def _get_expected_cpus(host, guest, cpus, priority):
    """Return the CPUs on which a floating vCPU should run.

    An ordinary guest may run on fewer CPUs if the shared set was smaller when
    it started.
    """
    if priority != capacity.LOW:
        return cpus & host.cpus.shared if cpus else host.cpus.shared
    if not guest.has_cells or cpus is None:
        return host.cpus.floating
    return host.cpus.floating & frozenset().union(*(
        cell for cell in host.cells if cell & cpus))


def summarize(host, guests):
    """Return the numbers of pinned and of floating vCPUs as a text."""
    pinned = [host.is_pinned(cpus) for guest in guests for cpus in guest.vcpus]
    return finding.format_amounts({'pinned': pinned.count(True),
                                   'floating': pinned.count(False)})


def read_guests(conf):
    """Return this host and the guests that run on it.

    :returns: (GuestHost, list of ``guest_xml.Guest``)
    :raises GuestsUnreadable: if libvirt does not answer
    """
    libvirt = importutils.try_import('libvirt')
    if libvirt is None:
        raise GuestsUnreadable('The Python module libvirt is not installed')
    # Without a handler, libvirt writes its errors to the terminal.
    libvirt.registerErrorHandler(lambda *args: None, None)
    try:
        connection = libvirt.openReadOnly(
            conf.libvirt.connection_uri or 'qemu:///system')
        try:
            domains = connection.listAllDomains(
                libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
            return (GuestHost.from_libvirt(conf, connection.getCapabilities()),
                    select_nova_guests(domain.XMLDesc(0)
                                       for domain in domains))
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        raise GuestsUnreadable(
            'libvirt does not answer: %s' % error) from error


def select_nova_guests(xmls):
    """Return a ``guest_xml.Guest`` for each domain XML that Nova made.

    An unusual domain of other software must not stop the audit.
    """
    return [guest_xml.Guest.from_xml(xml) for xml in xmls
            if guest_xml.is_made_by_nova(xml)]


def _format_cpus(cpus):
    return 'all CPUs' if cpus is None else (
        'CPUs ' + hardware.format_cpu_spec(cpus))
