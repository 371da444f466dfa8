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

import re

import hypothesis
from hypothesis import strategies as st
from lxml import etree
import pytest

from nova_prio.compute import guest_xml

GUEST = ('<domain type="kvm">\n  <name>instance-1</name>\n'
         '  <vcpu cpuset="0-3">2</vcpu>\n  <os><type>hvm</type></os>\n'
         '</domain>\n')


def changed(xml, priority, threads=None):
    return etree.fromstring(guest_xml.of_priority(xml, priority, threads))


def test_ordinary_guest_is_untouched():
    assert GUEST is guest_xml.of_priority(GUEST, None, {0, 1})


@pytest.mark.parametrize('priority, partition', [
    ('high', '/high_prio_machine'), ('low', '/low_prio_machine')])
def test_partition(priority, partition):
    domain = changed(GUEST, priority)
    assert partition == domain.findtext('resource/partition')
    assert domain.find('cputune') is None


def test_an_existing_partition_is_replaced():
    twice = changed(guest_xml.of_priority(GUEST, 'low'), 'high')
    assert ['/high_prio_machine'] == [
        found.text for found in twice.iterfind('resource/partition')]


def test_skylark_reads_the_partition():
    """Its expression, with which it looks at the text of the whole XML."""
    assert ['low_prio_machine'] == re.findall(
        '<partition>/(.*)</partition>', guest_xml.of_priority(GUEST, 'low'))


@pytest.mark.parametrize('iothreads, ids', [
    ('', []),
    ('<iothreads>2</iothreads>', ['1', '2']),
    ('<iothreads>3</iothreads><iothreadids><iothread id="2"/></iothreadids>',
     ['1', '2', '3']),
    ('<iothreadids><iothread id="7"/></iothreadids>', ['7']),
])
def test_threads_beside_the_vcpus_stay_on_the_shared_cpus(iothreads, ids):
    xml = GUEST.replace('</domain>', iothreads + '</domain>')
    for once in xml, guest_xml.of_priority(xml, 'low', {7, 8}):
        domain = changed(once, 'low', {0, 1, 3})
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
def test_only_what_is_ours_changes(xml, priority, shared):
    before, after = etree.fromstring(xml), changed(xml, priority, shared)
    ours = ['resource/partition']
    if shared:
        ours += ['cputune/emulatorpin', 'cputune/iothreadpin']
    for domain in before, after:
        for path in ours:
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
