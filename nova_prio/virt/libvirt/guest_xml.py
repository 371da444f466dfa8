# SPDX-License-Identifier: Apache-2.0

"""Read the domain XML of a guest, and add to it, without a call of libvirt.

A partition is the cgroup of all guests of one priority. The co-location design
names the two partitions. openEuler's Skylark daemon reads the text of
``<partition>``.
"""

import typing

from lxml import etree
from nova.virt import hardware

from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_specs

# The namespace of Nova's metadata about an instance.
_NOVA = '{http://openstack.org/xmlns/libvirt/nova/1.1}'
_INSTANCE = 'metadata/%sinstance' % _NOVA
#: Priority -> libvirt's name of the cgroup of its guests.
PARTITIONS = {cpu_capacity.HIGH: '/high_prio_machine',
              cpu_capacity.LOW: '/low_prio_machine'}


def apply_priority(xml, priority, threads=None):
    """Return the domain XML of a guest with the settings of its priority.

    The settings are the partition, which is the cgroup of all guests of one
    priority, and the CPUs of emulator and I/O threads.
    If these threads ran on the CPUs of a busy high-priority guest, a
    low-priority guest could neither start nor migrate.

    :param xml: str, domain XML as Nova's driver makes it
    :param priority: 'high', 'low', or None to return ``xml`` unchanged
    :param threads: set of CPU numbers for emulator and I/O threads, or None to
        keep their CPUs
    :returns: str
    """
    if priority is None:
        return xml
    domain = etree.fromstring(xml)
    resource = _get_child(domain, 'resource')
    _get_child(resource, 'partition').text = PARTITIONS[priority]
    etree.indent(resource, level=1)
    if threads:
        cpuset = hardware.format_cpu_spec(threads)
        cputune = _get_child(domain, 'cputune')
        _get_child(cputune, 'emulatorpin').set('cpuset', cpuset)
        for iothread in _list_iothreads(domain):
            _get_child(cputune, 'iothreadpin', iothread=iothread).set(
                'cpuset', cpuset)
        etree.indent(cputune, level=1)
    return etree.tostring(domain, encoding='unicode')


class Guest(typing.NamedTuple):
    """A guest as libvirt shows it.

    ``uuid`` is the UUID of its instance. ``vcpus`` has the CPUs of each vCPU,
    and ``threads`` those of each emulator or I/O thread: a frozenset, or None
    for all CPUs. ``has_cells`` tells whether the guest has a NUMA topology,
    ``is_of_nova`` whether Nova made the guest, ``is_up`` whether it runs or is
    saved, and ``is_readable`` whether libvirt showed its XML. ``extra_specs``
    are those of the flavor at the start, or None if the XML has none.
    """

    name: str
    uuid: str
    partition: str | None = None
    vcpus: list = (None,)
    threads: list = (None,)
    has_cells: bool = False
    is_of_nova: bool = False
    extra_specs: dict | None = None
    is_up: bool = True
    is_readable: bool = True

    @classmethod
    def from_xml(cls, xml, is_up=True):
        """Return the guest of a domain XML, a str."""
        domain = etree.fromstring(xml)
        # The text is the number of vCPUs. A vCPU or an emulator thread without
        # a pin of its own has the CPUs of this element.
        vcpu_element = domain.find('vcpu')
        vcpu_pins = {pin.get('vcpu'): pin
                     for pin in domain.iterfind('cputune/vcpupin')}
        vcpus = [_parse_cpuset(vcpu_pins.get(str(vcpu), vcpu_element))
                 for vcpu in range(int(vcpu_element.text))]
        emulator = domain.find('cputune/emulatorpin')
        if emulator is None:
            emulator = vcpu_element
        threads = [_parse_cpuset(emulator)]
        # Leave out I/O threads without a pin: in a guest of Nova, its vCPUs
        # have the same CPUs.
        for pin in domain.iterfind('cputune/iothreadpin'):
            threads.append(_parse_cpuset(pin))
        instance = domain.find(_INSTANCE)
        specs = None
        if instance is not None:
            specs = instance.find('{0}flavor/{0}extraSpecs'.format(_NOVA))
        extra_specs = None
        if specs is not None:
            extra_specs = {spec.get('name'): spec.text for spec in specs}
        return cls(
            name=domain.findtext('name'), uuid=domain.findtext('uuid'),
            partition=domain.findtext('resource/partition'),
            vcpus=vcpus, threads=threads,
            has_cells=domain.find('cpu/numa') is not None,
            is_of_nova=instance is not None,
            extra_specs=extra_specs, is_up=is_up)

    @property
    def has_io_threads(self):
        """Whether the guest has I/O threads with CPUs of their own."""
        return len(self.threads) > 1

    @property
    def priority(self):
        """The priority at the start of the guest, or None."""
        if self.extra_specs is not None:
            return flavor_specs.get_priority(self.extra_specs)
        # Nova 31 does not write the extra specs into the XML. The partition,
        # the cgroup of all guests of one priority, tells the priority, too.
        for priority, partition in PARTITIONS.items():
            if partition == self.partition:
                return priority
        return None


def is_made_by_nova(xml):
    """Return whether Nova made the guest of a domain XML."""
    return etree.fromstring(xml).find(_INSTANCE) is not None


def find_blocking_cpus(guest, is_low, dedicated):
    """Return the dedicated CPUs where a guest keeps others from being pinned.

    The vCPUs of a low-priority guest may run beside a pinned guest, and do not
    count. Its emulator and I/O threads must not run there.

    :param guest: Guest, with the CPUs that libvirt shows
    :param is_low: whether the guest has low priority
    :param dedicated: frozenset of the dedicated CPUs of the host
    :returns: frozenset of CPU numbers
    """
    cpu_sets = list(guest.threads)
    if not is_low:
        cpu_sets.extend(guest.vcpus)
    # None stands for all CPUs.
    if None in cpu_sets:
        return frozenset(dedicated)
    blocking = frozenset()
    for cpus in cpu_sets:
        blocking |= dedicated & cpus
    return blocking


def find_pinned_cpus(guest, dedicated):
    """Return the dedicated CPUs on which a guest is pinned, a frozenset.

    A pinned guest has a NUMA topology, each of its pinned vCPUs has one CPU,
    and its other threads may use these CPUs and that of an isolated emulator
    thread.

    :param dedicated: set of the dedicated CPUs of the host
    """
    if not guest.has_cells or guest.priority == cpu_capacity.LOW:
        return frozenset()
    # The CPUs of a vCPU are None if it may run on all CPUs.
    pins = [cpus & dedicated for cpus in guest.vcpus if cpus]
    # A vCPU with several dedicated CPUs floats: the guest is not pinned.
    if not any(pins) or any(len(cpus) > 1 for cpus in pins):
        return frozenset()
    pins += [cpus & dedicated for cpus in guest.threads if cpus]
    pinned = frozenset()
    for cpus in pins:
        pinned |= cpus
    return pinned


def _parse_cpuset(element):
    """Return the ``cpuset`` of an element, a frozenset; None for all CPUs."""
    text = element.get('cpuset')
    return None if text is None else frozenset(hardware.parse_cpu_spec(text))


def _get_child(parent, name, **attributes):
    """Return the child element with these attributes; add it if missing.

    Of several such children, return the first.

    :param parent: element of lxml
    :param name: tag of the child
    :param attributes: dict, name -> value
    """
    condition = ''.join('[@%s="%s"]' % item for item in attributes.items())
    child = parent.find(name + condition)
    return (etree.SubElement(parent, name, attributes)
            if child is None else child)


def _list_iothreads(domain):
    """Return the ids that libvirt gives to the I/O threads, a list of str."""
    total = int(domain.findtext('iothreads') or 0)
    ids = [thread.get('id')
           for thread in domain.iterfind('iothreadids/iothread')]
    # libvirt gives the unused numbers from 1 on to the other threads.
    number = 1
    while len(ids) < total:
        if str(number) not in ids:
            ids.append(str(number))
        number += 1
    return ids
