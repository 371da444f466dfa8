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

"""What this package adds to the domain XML of a guest. Pure: XML in, XML out.

Source: the co-location design names the two slices; the text of
``<partition>`` is what openEuler's Skylark daemon reads.
"""

import itertools

from lxml import etree
from nova.virt import hardware

from nova_prio import capacity

#: The namespace of what Nova writes about an instance.
NOVA = '{http://openstack.org/xmlns/libvirt/nova/1.1}'
PARTITIONS = {capacity.HIGH: '/high_prio_machine',
              capacity.LOW: '/low_prio_machine'}


def of_priority(xml, priority, threads=None):
    """Return the domain XML as the priority of the guest asks for it.

    The guest is put into the partition of its priority. Its emulator and I/O
    threads are put on CPUs without high-priority guests: beside a busy one, a
    low-priority guest could neither start nor migrate.

    :param xml: str, domain XML as Nova's driver makes it
    :param priority: 'high', 'low', or None: nothing changes then
    :param threads: set of CPU numbers for these threads, or None to leave
        them where the XML has them
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


def of_nova(domain):
    """Return the element that Nova writes about an instance, or None.

    :param domain: lxml.etree.Element of a guest, whosever it is
    """
    return domain.find('metadata/%sinstance' % NOVA)


def cpus_of_vcpus(domain):
    """Return the CPUs on which each vCPU of a guest may run.

    :param domain: element of a domain XML
    :returns: list of frozensets of CPU numbers, None for all CPUs
    """
    default = domain.find('vcpu').get('cpuset')
    pins = {pin.get('vcpu'): pin.get('cpuset')
            for pin in domain.iterfind('cputune/vcpupin')}
    return [cpu_numbers(pins.get(str(vcpu), default))
            for vcpu in range(int(domain.findtext('vcpu')))]


def cpus_of_threads(domain):
    """Return the CPUs on which emulator and I/O threads of a guest may run.

    :param domain: element of a domain XML
    :returns: list of frozensets of CPU numbers, None for all CPUs; that of
        the emulator first, and of I/O threads those that are pinned
    """
    emulator = domain.find('cputune/emulatorpin')
    if emulator is None:
        emulator = domain.find('vcpu')
    return [cpu_numbers(pin.get('cpuset')) for pin in (
        emulator, *domain.iterfind('cputune/iothreadpin'))]


def cpus_of_users(guest, is_low, everywhere):
    """Return the CPUs on which a guest is in the way of one that is pinned.

    Of a low-priority guest only the emulator and I/O threads count, which are
    never to be beside high-priority ones.

    :param guest: object with ``vcpus`` and ``threads``, as the functions above
        return them
    :param is_low: whether it is of low priority
    :param everywhere: CPUs that stand for all, where it is not limited
    :returns: frozenset of CPU numbers
    """
    users = guest.threads + ([] if is_low else guest.vcpus)
    return frozenset().union(*(
        everywhere if cpus is None else cpus for cpus in users))


def cpu_numbers(text):
    """Return a CPU set of libvirt as a frozenset; None for all CPUs.

    :param text: str or None, where it is not limited
    """
    return None if text is None else frozenset(hardware.parse_cpu_spec(text))


def _child(parent, name, **attributes):
    """Return a child element with these attributes, made where missing."""
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
