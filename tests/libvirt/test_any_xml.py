# SPDX-License-Identifier: Apache-2.0

"""libvirt accepts domain XML to which the driver has added a priority."""

import hypothesis
from hypothesis import strategies as st
import libvirt
from lxml import etree

from nova_prio.virt.libvirt import guest_xml

CPUSETS = st.sampled_from(['0', '0-1', '1,3', '0-3,^2', '7'])
NUMBERS = st.integers(0, 5)


def element(template, *values):
    """Return a strategy for an optional element."""
    return st.one_of(st.just(''), st.builds(template.format, *values))


def several(template, *values):
    """Return a strategy for elements that differ in the first value."""
    return st.lists(st.tuples(*values), max_size=3,
                    unique_by=lambda pair: pair[0]).map(
        lambda pairs: ''.join(template.format(*pair) for pair in pairs))


TUNE = st.tuples(
    element('<shares>{}</shares>', st.integers(2, 262144)),
    element('<period>{}</period>', st.integers(1000, 1000000)),
    element('<quota>{}</quota>', st.integers(1000, 100000)),
    several('<vcpupin vcpu="{}" cpuset="{}"/>', NUMBERS, CPUSETS),
    element('<emulatorpin cpuset="{}"/>', CPUSETS),
    several('<iothreadpin iothread="{}" cpuset="{}"/>', NUMBERS, CPUSETS),
    element('<vcpusched vcpus="{}" scheduler="{}" priority="1"/>', NUMBERS,
            st.sampled_from(['fifo', 'rr'])),
    element('<emulatorsched scheduler="{}"/>',
            st.sampled_from(['batch', 'idle'])),
).flatmap(st.permutations).map(''.join)

PARTS = st.tuples(
    element('<vcpu placement="static" cpuset="{}">{}</vcpu>', CPUSETS,
            st.integers(1, 6)),
    element('<iothreads>{}</iothreads>', NUMBERS),
    several('<iothread id="{}"/>', st.integers(1, 9)).map(
        lambda ids: '<iothreadids>%s</iothreadids>' % ids if ids else ''),
    st.one_of(st.just(''), TUNE.map('<cputune>{}</cputune>'.format)),
    element('<resource><partition>{}</partition></resource>',
            st.sampled_from(['/machine', '/virtualmachines/production'])),
    element('<numatune><memory mode="{}" nodeset="0"/></numatune>',
            st.sampled_from(['strict', 'preferred'])),
    element('<memoryBacking><{}/></memoryBacking>',
            st.sampled_from(['hugepages', 'locked', 'nosharepages'])),
    element('<cpu><numa><cell id="0" cpus="0-{}" memory="8192"/></numa></cpu>',
            NUMBERS),
    element('<description>{}</description>', st.text('ab <&'.replace(
        '<', '').replace('&', ''), max_size=4)),
    element('<metadata><n:instance xmlns:n="urn:n"><n:flavor name="{}"/>'
            '</n:instance></metadata>', st.sampled_from(['a', 'b'])),
    st.just('<name>guest</name><memory>8192</memory>'
            '<os><type>hvm</type></os>'),
).flatmap(st.permutations).map(''.join)


def define(connection, xml):
    """Return domain XML as libvirt stores it, or None if invalid."""
    try:
        domain = connection.defineXML(xml)
    except libvirt.libvirtError:
        return None
    found = etree.fromstring(
        domain.XMLDesc(), etree.XMLParser(remove_blank_text=True))
    domain.undefine()
    return found


def strip_priority(domain, is_pinned):
    """Return the text of a domain without the changes of apply_priority."""
    names = ['uuid', 'resource']
    if is_pinned:
        names += ['cputune/emulatorpin', 'cputune/iothreadpin']
    for name in names:
        for found in domain.findall(name):
            found.getparent().remove(found)
    tune = domain.find('cputune')
    if tune is not None and not len(tune):
        domain.remove(tune)
    return etree.tostring(domain)


def test_libvirt_accepts_any_domain_xml_with_priority(connection):
    seen = {True: 0, False: 0}

    @hypothesis.settings(
        max_examples=400, deadline=None, derandomize=True,
        suppress_health_check=[hypothesis.HealthCheck.filter_too_much])
    @hypothesis.given(PARTS, st.sampled_from(['high', 'low']),
                      st.sampled_from([None, {0}, {1, 2}]))
    def check(parts, priority, shared):
        xml = '<domain type="test">%s</domain>' % parts
        before = define(connection, xml)
        seen[before is not None] += 1
        hypothesis.assume(before is not None)
        after = define(connection, guest_xml.apply_priority(
            xml, priority, shared))
        assert after is not None
        assert guest_xml.PARTITIONS[priority] == after.findtext(
            'resource/partition')
        if shared:
            threads = [pin.get('cpuset') for name in (
                'emulatorpin', 'iothreadpin') for pin in after.iter(name)]
            assert {guest_xml.hardware.format_cpu_spec(shared)} == {*threads}
            assert 1 + int(after.findtext('iothreads') or 0) == len(threads)
        assert strip_priority(before, shared) == strip_priority(
            after, shared)

    check()
    assert seen[True] > 200
