# SPDX-License-Identifier: Apache-2.0


"""Compare the guests that run on this host with what they should have."""

import collections
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
    """The guests of this host cannot be read, said in one sentence."""


class GuestHost(typing.NamedTuple):
    """The CPUs of this host.

    ``cpus`` are its ``capacity.HostCPUs``, of which the ratio is not read;
    ``cells`` is a list of the frozensets of the CPUs of each NUMA cell;
    ``low_emulator`` is the frozenset of the CPUs of emulator and I/O threads
    of low-priority guests.
    """

    cpus: capacity.HostCPUs
    cells: list
    low_emulator: frozenset

    @classmethod
    def from_libvirt(cls, conf, capabilities):
        """Return this host.

        :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
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


def check(name, host, guests, view=None):
    """Yield the findings of the guests of a host.

    :param name: name of the host
    :param host: Host
    :param guests: list of ``guest_xml.Guest``
    :param view: HostView, or None if Nova is not asked
    """
    instances = {instance.uuid: instance
                 for instance in (view.at_rest if view else ())}
    seen = []
    for guest in guests:
        if view and guest.uuid not in view.consumers:
            yield finding.Finding(
                name, finding.UNKNOWN_GUEST, guest.uuid, needed='no guest',
                libvirt='running')
            continue
        if view and guest.uuid not in instances:
            # It is changed or moved right now.
            continue
        seen.append(guest)
        instance = instances.get(guest.uuid)
        priority = guest.priority
        if instance:
            priority = flavor_specs.get_priority(instance.flavor.extra_specs)
            yield from _other_cpus(name, guest, instance)
        wanted = guest_xml.PARTITIONS.get(priority)
        if wanted != guest.partition and (
                wanted or guest.partition in guest_xml.PARTITIONS.values()):
            yield finding.Finding(
                name, finding.WRONG_PARTITION, guest.uuid,
                needed=wanted or 'none of a priority',
                libvirt=guest.partition or 'none')
        yield from _placement(name, host, guest, priority)
    users = collections.defaultdict(set)
    for guest in seen:
        for cpus in guest.vcpus:
            if is_pinned(host, cpus):
                users[min(cpus)].add(guest.uuid)
    for uuid, text in finding.find_shared_cpus(users):
        yield finding.Finding(name, finding.SAME_CPU, uuid, libvirt=text)


def _other_cpus(name, guest, instance):
    """Yield a finding if vCPUs are pinned otherwise than in Nova."""
    pinned = {vcpu: cpu for cell in (
        instance.numa_topology.cells if instance.numa_topology else [])
        for vcpu, cpu in (cell.cpu_pinning or {}).items()}
    there = {vcpu: guest.vcpus[vcpu] for vcpu in pinned
             if vcpu < len(guest.vcpus)}
    if any(there.get(vcpu) != {cpu} for vcpu, cpu in pinned.items()):
        yield finding.Finding(
            name, finding.OTHER_CPUS, guest.uuid,
            compute=_text(pinned.values()),
            libvirt=_text(None if None in there.values()
                          else frozenset().union(*there.values())))


def _placement(name, host, guest, priority):
    """Yield the findings of the CPUs of a guest."""
    if not (host.cpus.dedicated or host.cpus.shared):
        # Nova does not limit guests that float.
        return
    outside = frozenset().union(*(
        cpus for cpus in guest.vcpus if is_pinned(host, cpus))
    ) - host.cpus.dedicated
    if outside:
        yield finding.Finding(
            name, finding.CPU_OUTSIDE, guest.uuid,
            needed=_text(host.cpus.dedicated), libvirt=_text(outside))
    wanted = [(_wanted(host, guest, cpus, priority), cpus, host.cpus.shared)
              for cpus in guest.vcpus if not is_pinned(host, cpus)]
    if priority == capacity.LOW:
        wanted += [(host.low_emulator & (cpus or frozenset()), cpus,
                    host.low_emulator) for cpus in guest.threads]
    for needed, cpus, allowed in wanted:
        if cpus != needed or not cpus:
            yield finding.Finding(
                name, finding.OLD_CPUSET, guest.uuid,
                needed=_text(needed or allowed), libvirt=_text(cpus))
            break


def _wanted(host, guest, cpus, priority):
    """Return the CPUs on which a floating vCPU should run.

    An ordinary guest may have been started on fewer than there are now.
    """
    if priority != capacity.LOW:
        return cpus & host.cpus.shared if cpus else host.cpus.shared
    if not guest.has_cells or cpus is None:
        return host.cpus.floating
    return host.cpus.floating & frozenset().union(*(
        cell for cell in host.cells if cell & cpus))


def is_pinned(host, cpus):
    """Return whether a vCPU runs on a CPU that is not shared, alone.

    :param host: Host
    :param cpus: frozenset of CPU numbers or None, of the vCPU
    """
    return (cpus is not None and len(cpus) == 1 and
            not cpus <= host.cpus.shared)


def summarize(host, guests):
    """Return how many vCPUs are pinned and how many float, as a text."""
    pinned = [is_pinned(host, cpus) for guest in guests
              for cpus in guest.vcpus]
    return finding.format_amounts({'pinned': pinned.count(True),
                                   'floating': pinned.count(False)})


def read_guests(conf):
    """Return this host and the guests that run on it.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :returns: (Host, list of ``guest_xml.Guest``)
    :raises NotRead: if libvirt does not answer
    """
    libvirt = importutils.try_import('libvirt')
    if libvirt is None:
        raise GuestsUnreadable('The Python module libvirt is not installed')
    # What it would write to the terminal is said by its errors.
    libvirt.registerErrorHandler(lambda *args: None, None)
    try:
        connection = libvirt.openReadOnly(
            conf.libvirt.connection_uri or 'qemu:///system')
        try:
            return (GuestHost.from_libvirt(conf, connection.getCapabilities()),
                    select_nova_guests(domain.XMLDesc(0) for domain in
                                       connection.listAllDomains(
                        libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)))
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        raise GuestsUnreadable(
            'libvirt cannot be asked: %s' % error) from error


def select_nova_guests(xmls):
    """Return the guests that Nova made, a list of ``guest_xml.Guest``.

    :param xmls: iterable of str, domain XML
    """
    # An unusual domain of somebody else must not stop the audit.
    return [guest_xml.Guest.from_xml(xml) for xml in xmls
            if guest_xml.is_made_by_nova(xml)]


def _text(cpus):
    return 'all CPUs' if cpus is None else (
        'CPUs ' + hardware.format_cpu_spec(cpus))
