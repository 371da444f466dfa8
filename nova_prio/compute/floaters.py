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


"""The dedicated CPUs on which guests of other times still float.

A guest that floats keeps the CPUs that it was started on, whatever the CPU
sets are by now, until it is rebooted hard or moved. libvirt alone knows them.
"""

from lxml import etree
from nova.virt.libvirt import host as libvirt_host

from nova_prio import capacity
from nova_prio.compute import guest_xml
from nova_prio import demand
from nova_prio import policy


def floated(host, instances, dedicated):
    """Return the dedicated CPUs on which guests float that are not low.

    Low-priority guests are left out: they float there by right, or weigh
    nothing beside a high-priority guest. Suspended ones count, for they come
    back as they were.

    :param host: nova.virt.libvirt.host.Host
    :param instances: list of nova.objects.Instance, on this host
    :param dedicated: set of CPU numbers
    :returns: frozenset of CPU numbers
    """
    if not dedicated:
        return frozenset()
    known = {instance.uuid: instance for instance in instances}
    found = set()
    for domain in host.list_instance_domains(only_running=False):
        try:
            if domain.isActive() or domain.hasManagedSaveImage(0):
                found |= _floated_by(
                    etree.fromstring(domain.XMLDesc(0)),
                    known.get(domain.UUIDString()), dedicated)
        except libvirt_host.libvirt.libvirtError:
            # It is gone by now, or asked for again in the next update.
            continue
    return frozenset(found)


def _floated_by(domain, instance, dedicated):
    """Return the dedicated CPUs on which one guest floats, a set."""
    vcpus = guest_xml.cpus_of_vcpus(domain)
    if instance is not None:
        is_low = policy.in_force(instance.flavor.extra_specs) == capacity.LOW
        pinned = demand.pins(instance)
    else:
        is_low = (domain.findtext('resource/partition') ==
                  guest_xml.PARTITIONS[capacity.LOW])
        pinned = set().union(*(
            cpus for cpus in vcpus if cpus and len(cpus) == 1))
    if is_low:
        return set()
    return set().union(*(
        dedicated if cpus is None else cpus & dedicated for cpus in vcpus
    )) - pinned
