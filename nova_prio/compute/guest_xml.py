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

from lxml import etree

from nova_prio import capacity

PARTITIONS = {capacity.HIGH: '/high_prio_machine',
              capacity.LOW: '/low_prio_machine'}


def with_partition(xml, priority):
    """Return the domain XML with the guest in the partition of its priority.

    :param xml: str, domain XML as Nova's driver makes it
    :param priority: 'high', 'low', or None: nothing changes then
    :returns: str
    """
    if priority is None:
        return xml
    domain = etree.fromstring(xml)
    resource = domain.find('resource')
    if resource is None:
        resource = etree.SubElement(domain, 'resource')
    partition = resource.find('partition')
    if partition is None:
        partition = etree.SubElement(resource, 'partition')
    partition.text = PARTITIONS[priority]
    etree.indent(resource, level=1)
    return etree.tostring(domain, encoding='unicode', pretty_print=True)
