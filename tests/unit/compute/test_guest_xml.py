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

from lxml import etree
import pytest

from nova_prio.compute import guest_xml

GUEST = ('<domain type="kvm">\n  <name>instance-1</name>\n'
         '  <vcpu cpuset="0-3">2</vcpu>\n  <os><type>hvm</type></os>\n'
         '</domain>\n')


def test_ordinary_guest_is_untouched():
    assert GUEST is guest_xml.with_partition(GUEST, None)


@pytest.mark.parametrize('priority, partition', [
    ('high', '/high_prio_machine'), ('low', '/low_prio_machine')])
def test_partition(priority, partition):
    domain = etree.fromstring(guest_xml.with_partition(GUEST, priority))
    assert partition == domain.findtext('resource/partition')


def test_nothing_else_changes():
    parser = etree.XMLParser(remove_blank_text=True)
    before = etree.fromstring(GUEST, parser)
    after = etree.fromstring(guest_xml.with_partition(GUEST, 'low'), parser)
    after.remove(after.find('resource'))
    assert etree.tostring(before) == etree.tostring(after)


def test_an_existing_partition_is_replaced():
    once = guest_xml.with_partition(GUEST, 'low')
    twice = etree.fromstring(guest_xml.with_partition(once, 'high'))
    assert ['/high_prio_machine'] == [
        found.text for found in twice.iterfind('resource/partition')]
