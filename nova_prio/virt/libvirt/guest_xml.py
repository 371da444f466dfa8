# SPDX-License-Identifier: Apache-2.0

"""Read the domain XML of a guest, and add to it. Pure: no call of libvirt.

Source: the co-location design names the two slices. openEuler's Skylark
daemon reads the text of ``<partition>``.
"""

import itertools
import typing

from lxml import etree
from nova.virt import hardware

from nova_prio.model import capacity
from nova_prio.model import flavor_specs

# The namespace of Nova's metadata about an instance.
_NOVA = '{http://openstack.org/xmlns/libvirt/nova/1.1}'
_INSTANCE = 'metadata/%sinstance' % _NOVA
PARTITIONS = {capacity.HIGH: '/high_prio_machine',
              capacity.LOW: '/low_prio_machine'}


def apply_priority(xml, priority, threads=None):
    """Return the domain XML of a guest with the settings of its priority.

    These are the partition, and the CPUs of emulator and I/O threads. A
    low-priority guest could neither start nor migrate if these threads had to
    run beside a busy high-priority guest.

    :param xml: str, domain XML as Nova's driver makes it
    :param priority: 'high', 'low', or None: nothing changes then
    :param threads: set of CPU numbers for these threads, or None to leave
        them as in the XML
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

    ``uuid`` is the UUID of its instance. ``vcpus`` and ``threads`` list the
    CPUs of each vCPU, and of each emulator or I/O thread: a frozenset, or
    None for all CPUs. ``has_cells`` tells whether the guest has a NUMA
    topology, ``is_of_nova`` whether Nova made it. ``extra_specs`` are those
    at its start, None if Nova wrote none. ``is_up`` is false if the guest
    neither runs nor is saved, ``is_readable`` if libvirt did not show it.
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
        default = domain.find('vcpu')
        pins = {pin.get('vcpu'): pin
                for pin in domain.iterfind('cputune/vcpupin')}
        emulator = domain.find('cputune/emulatorpin')
        instance = domain.find(_INSTANCE)
        specs = None if instance is None else instance.find(
            '{0}flavor/{0}extraSpecs'.format(_NOVA))
        return cls(
            domain.findtext('name'), domain.findtext('uuid'),
            domain.findtext('resource/partition'),
            [_parse_cpuset(pins.get(str(vcpu), default))
             for vcpu in range(int(default.text))],
            [_parse_cpuset(pin) for pin in (
                default if emulator is None else emulator,
                *domain.iterfind('cputune/iothreadpin'))],
            domain.find('cpu/numa') is not None, instance is not None,
            None if specs is None else {
                spec.get('name'): spec.text for spec in specs}, is_up)

    @property
    def priority(self):
        """The priority at the start of the guest, or None."""
        if self.extra_specs is not None:
            return flavor_specs.get_priority(self.extra_specs)
        # Nova 31 does not write the extra specs.
        return {path: priority for priority, path in
                PARTITIONS.items()}.get(self.partition)


def is_made_by_nova(xml):
    """Return whether Nova made the guest of a domain XML."""
    return etree.fromstring(xml).find(_INSTANCE) is not None


def find_blocking_cpus(guest, is_low, all_cpus):
    """Return the CPUs of a guest on which no other guest may be pinned.

    The vCPUs of a low-priority guest may run beside a high-priority guest.
    Its emulator and I/O threads must not.

    :param guest: Guest
    :param is_low: whether the guest has low priority
    :param all_cpus: frozenset, the result if the guest may use all CPUs
    :returns: frozenset of CPU numbers
    """
    users = guest.threads if is_low else [*guest.threads, *guest.vcpus]
    return frozenset().union(*(
        all_cpus if cpus is None else cpus for cpus in users))


def _parse_cpuset(element):
    """Return the ``cpuset`` of an element as a frozenset; None for all."""
    text = element.get('cpuset')
    return None if text is None else frozenset(hardware.parse_cpu_spec(text))


def _get_child(parent, name, **attributes):
    """Return the child with these attributes, after adding it if missing."""
    condition = ''.join('[@%s="%s"]' % item for item in attributes.items())
    child = parent.find(name + condition)
    return (etree.SubElement(parent, name, attributes)
            if child is None else child)


def _list_iothreads(domain):
    """Return the ids of the I/O threads, str, as libvirt numbers them."""
    total = int(domain.findtext('iothreads') or 0)
    ids = [thread.get('id')
           for thread in domain.iterfind('iothreadids/iothread')]
    unused = (str(number) for number in itertools.count(1)
              if str(number) not in ids)
    return ids + list(itertools.islice(unused, max(total - len(ids), 0)))
