# SPDX-License-Identifier: Apache-2.0

"""Read the domain XML of a guest, and add to it. Pure: no call of libvirt.

Source: the co-location design names the two slices; the text of
``<partition>`` is read by openEuler's Skylark daemon.
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
    """Return the domain XML as the priority of the guest asks for it.

    The guest is put into the partition of its priority. Its emulator and I/O
    threads are put on CPUs without high-priority guests: beside a busy one, a
    low-priority guest could neither start nor migrate.

    :param xml: str, domain XML as Nova's driver makes it
    :param priority: 'high', 'low', or None: nothing changes then
    :param threads: set of CPU numbers for these threads, or None to leave
        them as in the XML
    :returns: str
    """
    if priority is None:
        return xml
    domain = etree.fromstring(xml)
    resource = _child(domain, 'resource')
    _child(resource, 'partition').text = PARTITIONS[priority]
    etree.indent(resource, level=1)
    if threads:
        cpuset = hardware.format_cpu_spec(threads)
        cputune = _child(domain, 'cputune')
        _child(cputune, 'emulatorpin').set('cpuset', cpuset)
        for iothread in _iothreads(domain):
            _child(cputune, 'iothreadpin', iothread=iothread).set(
                'cpuset', cpuset)
        etree.indent(cputune, level=1)
    return etree.tostring(domain, encoding='unicode')


class Guest(typing.NamedTuple):
    """A guest as libvirt has it.

    ``uuid`` is that of its instance. ``vcpus`` and ``threads`` are the CPUs on
    which each vCPU, and each of the emulator and I/O threads, may run:
    frozensets, None for all CPUs. ``has_cells`` tells whether the guest has a
    NUMA topology, ``is_of_nova`` whether Nova made it, ``extra_specs`` the
    extra specs that it was started with, or None if Nova wrote none. ``is_up``
    is false if it neither runs nor is saved. If ``is_readable`` is false,
    libvirt did not show the guest this time.
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
        """Return the guest of a domain XML.

        :param xml: str, as libvirt shows it
        """
        domain = etree.fromstring(xml)
        default = domain.find('vcpu')
        pins = {pin.get('vcpu'): pin
                for pin in domain.iterfind('cputune/vcpupin')}
        emulator = domain.find('cputune/emulatorpin')
        of_nova = domain.find(_INSTANCE)
        specs = None if of_nova is None else of_nova.find(
            '{0}flavor/{0}extraSpecs'.format(_NOVA))
        return cls(
            domain.findtext('name'), domain.findtext('uuid'),
            domain.findtext('resource/partition'),
            [_cpus_of(pins.get(str(vcpu), default))
             for vcpu in range(int(default.text))],
            [_cpus_of(pin) for pin in (
                default if emulator is None else emulator,
                *domain.iterfind('cputune/iothreadpin'))],
            domain.find('cpu/numa') is not None, of_nova is not None,
            None if specs is None else {
                spec.get('name'): spec.text for spec in specs}, is_up)

    @property
    def priority(self):
        """The priority that the guest was started with, or None."""
        if self.extra_specs is not None:
            return flavor_specs.get_priority(self.extra_specs)
        # Nova 31 does not write them.
        return {path: priority for priority, path in
                PARTITIONS.items()}.get(self.partition)


def is_made_by_nova(xml):
    """Return whether Nova made the guest of a domain XML."""
    return etree.fromstring(xml).find(_INSTANCE) is not None


def find_blocking_cpus(guest, is_low, everywhere):
    """Return the CPUs on which a guest is in the way of one that is pinned.

    Of a low-priority guest only the emulator and I/O threads count, which
    must never be beside a high-priority one.

    :param guest: Guest
    :param is_low: whether it is of low priority
    :param everywhere: CPUs that stand for all, if it is not limited
    :returns: frozenset of CPU numbers
    """
    users = [*guest.threads, *(() if is_low else guest.vcpus)]
    return frozenset().union(*(
        everywhere if cpus is None else cpus for cpus in users))


def _cpus_of(element):
    """Return the ``cpuset`` of an element as a frozenset; None for all."""
    text = element.get('cpuset')
    return None if text is None else frozenset(hardware.parse_cpu_spec(text))


def _child(parent, name, **attributes):
    """Return a child element with these attributes, made if missing."""
    condition = ''.join(
        '[@%s="%s"]' % item for item in attributes.items())
    found = parent.find(name + condition)
    return (etree.SubElement(parent, name, attributes)
            if found is None else found)


def _iothreads(domain):
    """Yield the ids of the I/O threads, str, as libvirt numbers them."""
    total = int(domain.findtext('iothreads') or 0)
    given = [thread.get('id')
             for thread in domain.iterfind('iothreadids/iothread')]
    yield from given
    others = (str(number) for number in itertools.count(1)
              if str(number) not in given)
    yield from itertools.islice(others, max(total - len(given), 0))
