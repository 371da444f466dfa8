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


"""What libvirt runs on this host, against what its guests should have."""

import collections
import typing

from lxml import etree
from nova.virt import hardware
from oslo_utils import importutils

from nova_prio.audit import finding
from nova_prio import capacity
from nova_prio.compute import checks
from nova_prio.compute import guest_xml
from nova_prio import policy


class NotRead(Exception):
    """The guests of this host cannot be read, said in one sentence."""


class Guest(typing.NamedTuple):
    """A guest that Nova made, as libvirt describes it.

    ``priority`` is that which it was started with, ``vcpus`` and
    ``threads`` are the frozensets of CPUs on which each vCPU, and each of the
    emulator and I/O threads, runs: None where it may run on all.
    ``has_cells`` tells whether it has a NUMA topology.
    """

    uuid: str
    priority: str | None
    partition: str | None
    vcpus: list
    threads: list
    has_cells: bool


class Host(typing.NamedTuple):
    """The CPUs of this host.

    ``dedicated`` and ``shared`` are frozensets of CPU numbers, ``shared`` is
    None where Nova does not limit floating guests; ``mix`` tells whether
    low-priority guests float on the former too; ``cells`` is a list of the
    frozensets of the CPUs of each NUMA cell; ``low_emulator`` is the frozenset
    of the CPUs of emulator and I/O threads of low-priority guests.
    """

    dedicated: frozenset
    shared: frozenset | None
    mix: bool
    cells: list
    low_emulator: frozenset

    @classmethod
    def of(cls, conf, capabilities):
        """Return this host.

        :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
        :param capabilities: str, libvirt's capabilities XML
        """
        shared = hardware.get_cpu_shared_set()
        dedicated = frozenset(hardware.get_cpu_dedicated_set() or ())
        return cls(
            dedicated,
            frozenset(shared) if shared or dedicated else None,
            conf.cpu_priority_mix_enable,
            [frozenset(int(cpu.get('id')) for cpu in cell.iter('cpu'))
             for cell in etree.fromstring(capabilities).iterfind(
                 'host/topology/cells/cell')],
            frozenset(checks.low_emulator_set(conf) or shared or ()))

    @property
    def floating(self):
        """The CPUs that a low-priority guest floats on, or None for all."""
        if self.shared is None or not self.mix:
            return self.shared
        return self.shared | self.dedicated


def parse(xml):
    """Return the Guest that a domain XML is of, or None for others' guests.

    :param xml: str
    """
    domain = etree.fromstring(xml)
    made = guest_xml.of_nova(domain)
    if made is None:
        return None
    partition = domain.findtext('resource/partition')
    specs = made.find('{0}flavor/{0}extraSpecs'.format(guest_xml.NOVA))
    if specs is None:
        # Nova 31 does not write them: the partition tells what is left.
        priority = {path: each for each, path in
                    guest_xml.PARTITIONS.items()}.get(partition)
    else:
        priority = policy.in_force(
            {spec.get('name'): spec.text for spec in specs})
    return Guest(
        domain.findtext('uuid'), priority, partition,
        guest_xml.cpus_of_vcpus(domain), guest_xml.cpus_of_threads(domain),
        domain.find('cpu/numa') is not None)


def findings(name, host, guests, view=None):
    """Yield what is wrong with the guests of a host.

    :param name: name of the host
    :param host: Host
    :param guests: list of Guest
    :param view: HostView, or None where Nova is not asked
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
            priority = policy.in_force(instance.flavor.extra_specs)
            yield from _other_cpus(name, guest, instance)
        wanted = guest_xml.PARTITIONS.get(priority)
        if wanted != guest.partition and (
                wanted or guest.partition in guest_xml.PARTITIONS.values()):
            yield finding.Finding(
                name, finding.WRONG_PARTITION, guest.uuid,
                needed=wanted or 'none of a priority',
                libvirt=guest.partition or 'none')
        yield from _placement(name, host, guest, priority)
    yield from _same_cpus(name, host, seen)


def _other_cpus(name, guest, instance):
    """Yield where vCPUs are pinned otherwise than Nova says."""
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
    """Yield what is wrong with the CPUs of a guest."""
    if host.shared is None:
        return
    outside = frozenset().union(*(
        cpus for cpus in guest.vcpus if is_pinned(host, cpus))
    ) - host.dedicated
    if outside:
        yield finding.Finding(
            name, finding.CPU_OUTSIDE, guest.uuid,
            needed=_text(host.dedicated), libvirt=_text(outside))
    wanted = [(_wanted(host, guest, cpus, priority), cpus, host.shared)
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
        return cpus & host.shared if cpus else host.shared
    if not guest.has_cells or cpus is None:
        return host.floating
    return host.floating & frozenset().union(*(
        cell for cell in host.cells if cell & cpus))


def is_pinned(host, cpus):
    """Return whether a vCPU runs on a CPU that is not shared, alone.

    :param host: Host
    :param cpus: frozenset of CPU numbers or None, of the vCPU
    """
    return (cpus is not None and len(cpus) == 1 and
            not (host.shared is not None and cpus <= host.shared))


def _same_cpus(name, host, guests):
    users = collections.defaultdict(set)
    for guest in guests:
        for cpus in guest.vcpus:
            if is_pinned(host, cpus):
                users[min(cpus)].add(guest.uuid)
    for guest in guests:
        shared = {cpu: others for cpu, others in users.items()
                  if guest.uuid in others and len(others) > 1}
        if shared:
            yield finding.Finding(
                name, finding.SAME_CPU, guest.uuid,
                libvirt='CPUs %s, with %s' % (
                    hardware.format_cpu_spec(shared), ' '.join(sorted(
                        set().union(*shared.values()) - {guest.uuid}))))


def summary(host, guests):
    """Return how many vCPUs are pinned and how many float, as it is shown.

    :param host: Host
    :param guests: list of Guest
    """
    pinned = [is_pinned(host, cpus) for guest in guests
              for cpus in guest.vcpus]
    return finding.text({'pinned': pinned.count(True),
                         'floating': pinned.count(False)})


def read(conf):
    """Return this host and the guests that run on it.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :returns: (Host, list of Guest)
    :raises NotRead: where libvirt does not answer
    """
    libvirt = importutils.try_import('libvirt')
    if libvirt is None:
        raise NotRead('The Python module libvirt is not installed')
    # What it would write to the terminal is said by its errors.
    libvirt.registerErrorHandler(lambda *args: None, None)
    try:
        connection = libvirt.openReadOnly(
            conf.libvirt.connection_uri or 'qemu:///system')
        try:
            return (Host.of(conf, connection.getCapabilities()),
                    list(filter(None, (
                        parse(domain.XMLDesc(0)) for domain in
                        connection.listAllDomains(
                            libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)))))
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        raise NotRead('libvirt cannot be asked: %s' % error) from error


def _text(cpus):
    return 'all CPUs' if cpus is None else (
        'CPUs ' + hardware.format_cpu_spec(cpus))
