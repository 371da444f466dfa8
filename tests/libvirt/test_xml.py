# SPDX-License-Identifier: Apache-2.0

"""libvirt accepts and keeps the domain XML of the priority driver."""

import itertools
import pathlib
import re
import tempfile

from lxml import etree
import pytest

from nova_prio.virt.libvirt import guest_xml
from tests.functional import test_requests
from tests.libvirt import daemon

# Nova always writes some elements of a domain. The others depend on the
# request: each shape has some of them.
DOMAIN = '''\
<domain type="%(type)s">
  <name>guest</name>
  <memory>524288</memory>
  %(backing)s
  <vcpu%(cpuset)s>%(vcpus)d</vcpu>
  %(iothreads)s
  %(cputune)s
  %(numatune)s
  <os><type>hvm</type></os>
  %(cpu)s
  <devices/>
</domain>
'''

PINS = ('<vcpupin vcpu="0" cpuset="%s"/>'
        '<vcpupin vcpu="1" cpuset="%s"/>')

SHAPES = {
    'plain': {'cpuset': ' cpuset="0-1"'},
    'weighted': {'cpuset': ' cpuset="0-1"',
                 'cputune': '<cputune><shares>2048</shares></cputune>'},
    'with a topology': {
        'cputune': '<cputune>%s<emulatorpin cpuset="0-1"/></cputune>' %
        PINS % ('0-1', '2-3'),
        'numatune': '<numatune><memory mode="strict" nodeset="0-1"/>'
        '<memnode cellid="0" mode="strict" nodeset="0"/>'
        '<memnode cellid="1" mode="strict" nodeset="1"/></numatune>',
        'cpu': '<cpu><topology sockets="2" cores="1" threads="1"/><numa>'
        '<cell id="0" cpus="0" memory="262144"/>'
        '<cell id="1" cpus="1" memory="262144"/></numa></cpu>'},
    'real-time': {
        'backing': '<memoryBacking><hugepages><page size="2048" unit="KiB" '
        'nodeset="0"/></hugepages><nosharepages/><locked/></memoryBacking>',
        'cputune': '<cputune>%s<emulatorpin cpuset="0"/><vcpusched vcpus="1" '
        'scheduler="fifo" priority="1"/></cputune>' % PINS % ('0', '1'),
        'cpu': '<cpu><numa><cell id="0" cpus="0-1" memory="524288"/></numa>'
        '</cpu>'},
}

IOTHREADS = {
    'no': '',
    'two': '<iothreads>2</iothreads>',
    'two numbered': '<iothreads>2</iothreads><iothreadids>'
    '<iothread id="3"/><iothread id="1"/></iothreadids>',
}


def document(shape, iothreads, domain_type='qemu'):
    """Return domain XML as Nova writes it, without a priority.

    :param shape: key of SHAPES
    :param iothreads: key of IOTHREADS
    """
    parts = dict.fromkeys(
        ('backing', 'cpuset', 'cputune', 'numatune', 'cpu'), '')
    return DOMAIN % {**parts, 'type': domain_type, 'vcpus': 2,
                     'iothreads': IOTHREADS[iothreads], **SHAPES[shape]}


@pytest.mark.parametrize('shape', SHAPES)
def test_xml_matches_schema(shape, tmp_path):
    file = tmp_path / 'domain.xml'
    for iothreads, priority in itertools.product(IOTHREADS, ('high', 'low')):
        file.write_text(guest_xml.apply_priority(
            document(shape, iothreads), priority, {0, 2}))
        daemon.run('virt-xml-validate', str(file), 'domain')


@pytest.mark.parametrize('shape', SHAPES)
def test_libvirt_keeps_settings_of_priority(shape, connection):
    """libvirt shows all settings that the driver wrote."""
    for iothreads, priority in itertools.product(IOTHREADS, ('high', 'low')):
        xml = guest_xml.apply_priority(
            document(shape, iothreads, 'test'), priority, {0, 2})
        domain = connection.defineXML(xml)
        text = domain.XMLDesc()
        domain.undefine()
        kept = etree.fromstring(text)
        assert read_settings(etree.fromstring(xml)) == read_settings(kept)
        # Skylark reads the output of libvirt with this expression.
        assert ['%s_prio_machine' % priority] == re.findall(
            '<partition>/(.*)</partition>', text)
        assert '/%s_prio_machine' % priority == kept.findtext(
            'resource/partition')
        assert '0,2' == kept.find('cputune/emulatorpin').get('cpuset')
        assert ['0,2'] * (0 if iothreads == 'no' else 2) == [
            pin.get('cpuset') for pin in kept.iterfind('cputune/iothreadpin')]


def read_settings(domain):
    found = {path: [dict(element.attrib) for element in domain.iterfind(path)]
             for path in ('cputune/vcpupin', 'cputune/emulatorpin',
                          'cputune/iothreadpin', 'cputune/vcpusched',
                          'numatune/memnode', 'memoryBacking/hugepages/page')}
    found['cpuset'] = domain.find('vcpu').get('cpuset')
    found['partition'] = domain.findtext('resource/partition')
    return found


class EachRequest(test_requests.EmptyHosts):
    """The XML that the driver makes for each request.

    The hosts are those of Nova's fake libvirt.
    """

    @pytest.fixture(autouse=True)
    def _connect(self, connection):
        self.connection = connection

    def test_libvirt_accepts_xml_of_each_request(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        file = pathlib.Path(directory.name, 'domain.xml')
        seen = 0
        for vcpus, extra_specs, outcomes in test_requests.CASES:
            flavor = self.flavor(vcpus, **extra_specs)
            for host, wanted in outcomes.items():
                if wanted.islower():
                    continue
                server = self.ask(flavor, host=host)
                self.assertEqual(wanted, self.outcome(server, host))
                self._assert_accepted(self.guest_xml(server['id']), file)
                self.delete(server)
                seen += 1
        self.assertGreater(seen, 30)

    def _assert_accepted(self, xml, file):
        """Assert that the schema and the parser accept all of the XML."""
        file.write_text(xml)
        daemon.run('virt-xml-validate', str(file), 'domain')
        written = etree.fromstring(xml)
        written.set('type', 'test')
        domain = self.connection.defineXML(
            etree.tostring(written, encoding='unicode'))
        kept = etree.fromstring(domain.XMLDesc())
        domain.undefine()
        self.assertEqual(read_settings(written), read_settings(kept))
