# SPDX-License-Identifier: Apache-2.0

import re

import hypothesis
from hypothesis import strategies as st
from lxml import etree
import pytest

from nova_prio.virt.libvirt import guest_xml

GUEST = ('<domain type="kvm">\n  <name>instance-1</name>\n'
         '  <vcpu cpuset="0-3">2</vcpu>\n  <os><type>hvm</type></os>\n'
         '</domain>\n')


def apply(xml, priority, threads=None):
    return etree.fromstring(guest_xml.apply_priority(xml, priority, threads))


def test_ordinary_guest_is_untouched():
    assert GUEST is guest_xml.apply_priority(GUEST, None, {0, 1})


@pytest.mark.parametrize('priority, partition', [
    ('high', '/high_prio_machine'), ('low', '/low_prio_machine')])
def test_partition(priority, partition):
    domain = apply(GUEST, priority)
    assert partition == domain.findtext('resource/partition')
    assert domain.find('cputune') is None


def test_existing_partition_is_replaced():
    twice = apply(guest_xml.apply_priority(GUEST, 'low'), 'high')
    assert ['/high_prio_machine'] == [
        found.text for found in twice.iterfind('resource/partition')]


def test_skylark_reads_the_partition():
    """Skylark searches the text of the whole XML with this expression."""
    assert ['low_prio_machine'] == re.findall(
        '<partition>/(.*)</partition>', guest_xml.apply_priority(GUEST, 'low'))


@pytest.mark.parametrize('iothreads, ids', [
    ('', []),
    ('<iothreads>2</iothreads>', ['1', '2']),
    ('<iothreads>3</iothreads><iothreadids><iothread id="2"/></iothreadids>',
     ['1', '2', '3']),
    ('<iothreadids><iothread id="7"/></iothreadids>', ['7']),
])
def test_emulator_and_io_threads_get_given_cpus(iothreads, ids):
    xml = GUEST.replace('</domain>', iothreads + '</domain>')
    for once in xml, guest_xml.apply_priority(xml, 'low', {7, 8}):
        domain = apply(once, 'low', {0, 1, 3})
        assert ['0-1,3'] == [
            pin.get('cpuset') for pin in domain.iter('emulatorpin')]
        pins = {pin.get('iothread'): pin.get('cpuset')
                for pin in domain.iter('iothreadpin')}
        assert dict.fromkeys(ids, '0-1,3') == pins
        assert len(ids) == len(domain.findall('cputune/iothreadpin'))


GUESTS = st.builds(
    lambda parts: '<domain type="kvm">%s</domain>' % ''.join(parts),
    st.permutations([
        '<name>a</name>', '<vcpu cpuset="0-7">4</vcpu>',
        '<iothreads>2</iothreads>',
        '<description>  two\n  lines </description>',
        '<metadata><a:b xmlns:a="urn:a">\n <a:c/> text</a:b></metadata>',
        '<resource><fibrechannel appid="x"/></resource>',
        '<cputune><shares>9</shares><vcpupin vcpu="0" cpuset="1"/>'
        '<iothreadpin iothread="2" cpuset="5"/></cputune>',
        '<devices><disk type="file"><source file="/a&amp;b"/></disk>'
        '</devices>']).flatmap(
            lambda parts: st.integers(0, len(parts)).map(
                lambda number: parts[:number])))


@hypothesis.given(GUESTS, st.sampled_from(['high', 'low']),
                  st.sampled_from([None, {0}, {2, 3}]))
def test_only_partition_and_thread_pins_change(xml, priority, shared):
    before, after = etree.fromstring(xml), apply(xml, priority, shared)
    paths = ['resource/partition']
    if shared:
        paths += ['cputune/emulatorpin', 'cputune/iothreadpin']
    for domain in before, after:
        for path in paths:
            for element in domain.findall(path):
                element.getparent().remove(element)
        for name in 'resource', 'cputune':
            for element in domain.findall(name):
                for space in element, *element:
                    space.tail = None
                element.text = None
                if not len(element):
                    domain.remove(element)
    assert etree.tostring(before, method='c14n') == etree.tostring(
        after, method='c14n')


def test_guest_from_domain_xml():
    """A vCPU without its own pin uses the CPUs of the guest."""
    guest = guest_xml.Guest.from_xml(add_and_apply(
        GUEST, 'low', '<cputune><vcpupin vcpu="1" cpuset="7"/>'
        '<iothreadpin iothread="1" cpuset="5"/></cputune>'))
    assert ('instance-1', '/low_prio_machine', 'low') == (
        guest.name, guest.partition, guest.priority)
    assert [{0, 1, 2, 3}, {7}] == guest.vcpus
    assert [{0, 1, 2, 3}, {5}] == guest.threads
    assert (False, False, True) == (
        guest.has_cells, guest.is_of_nova, guest.is_up)
    dedicated = frozenset({2, 3, 4, 5, 7})
    assert {2, 3, 5, 7} == guest_xml.find_blocking_cpus(
        guest, False, dedicated)
    assert {2, 3, 5} == guest_xml.find_blocking_cpus(guest, True, dedicated)


def test_guest_without_cpuset_runs_on_all_cpus():
    guest = guest_xml.Guest.from_xml(GUEST.replace(' cpuset="0-3"', ''))
    assert [None, None] == guest.vcpus
    assert {8, 9} == guest_xml.find_blocking_cpus(guest, True, {8, 9})


@pytest.mark.parametrize('specs, priority', [
    ('<a:extraSpecs><a:extraSpec name="hw:cpu_priority">low</a:extraSpec>'
     '<a:extraSpec name="hw:cpu_policy">shared</a:extraSpec></a:extraSpecs>',
     'low'),
    ('<a:extraSpecs/>', None),
    # Nova 31 writes no extra specs: the partition tells the priority.
    ('', 'high')])
def test_priority_at_start_of_guest(specs, priority):
    guest = guest_xml.Guest.from_xml(add_and_apply(
        GUEST, 'high',
        '<metadata><a:instance xmlns:a="http://openstack.org/xmlns/libvirt/'
        'nova/1.1"><a:flavor>%s</a:flavor></a:instance></metadata>' % specs))
    assert guest.is_of_nova
    assert priority == guest.priority


def add_and_apply(xml, priority, more):
    """Return the text of a domain with another element and a partition."""
    return guest_xml.apply_priority(
        xml.replace('</domain>', more + '</domain>'), priority)
