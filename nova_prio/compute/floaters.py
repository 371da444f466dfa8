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
sets are by now, until it is rebooted hard or moved. And a guest may run on
when Nova counts it no longer. libvirt alone knows them.
"""

import contextlib
import os
import typing

from lxml import etree
from nova.compute import vm_states
from nova.virt.libvirt import host as libvirt_host
from nova.virt.libvirt import utils as libvirt_utils

from nova_prio import capacity
from nova_prio.compute import guest_xml
from nova_prio import demand
from nova_prio import policy

#: States in which Nova starts a guest that is off as it was before: it was
#: suspended, or is being rebooted. In all others it makes it anew.
_COMES_BACK = (vm_states.ACTIVE, vm_states.PAUSED, vm_states.SUSPENDED,
               vm_states.RESCUED)


class Seen(typing.NamedTuple):
    """A guest as libvirt has it.

    ``uuid`` is that of its instance; ``vcpus`` and ``threads`` are the CPUs on
    which each vCPU, and each of the emulator and I/O threads, may run:
    frozensets, None for all CPUs; ``is_of_nova`` tells whether Nova made it.
    """

    name: str
    uuid: str
    partition: str | None
    vcpus: list
    threads: list
    is_up: bool
    is_of_nova: bool

    @classmethod
    def of(cls, xml, is_up):
        """Return the guest of a domain XML."""
        domain = etree.fromstring(xml)
        return cls(domain.findtext('name'), domain.findtext('uuid'),
                   domain.findtext('resource/partition'),
                   guest_xml.cpus_of_vcpus(domain),
                   guest_xml.cpus_of_threads(domain), is_up,
                   guest_xml.of_nova(domain) is not None)


def look(host):
    """Return the guests that libvirt has, a list of Seen.

    :param host: nova.virt.libvirt.host.Host
    :raises: what libvirt raises: nobody knows then
    """
    found = []
    for domain in host.list_instance_domains(only_running=False):
        try:
            # It may be suspended or resumed between the questions.
            is_up = bool(domain.isActive() or domain.hasManagedSaveImage(0) or
                         domain.isActive())
            found.append(Seen.of(domain.XMLDesc(0), is_up))
        except libvirt_host.libvirt.libvirtError as error:
            if (error.get_error_code() !=
                    libvirt_host.libvirt.VIR_ERR_NO_DOMAIN):
                raise
    return found


def floated(seen, dedicated, instances, strangers):
    """Return the dedicated CPUs on which guests run that are not pinned there.

    :param seen: list of Seen
    :param dedicated: set of CPU numbers
    :param instances: list of nova.objects.Instance, on this host
    :param strangers: list of Seen, guests that run and are none of these: they
        count with all their CPUs
    :returns: frozenset of CPU numbers
    """
    known = {instance.uuid: instance for instance in instances}
    found = set()
    for guest in [*seen, *_rescued(instances)]:
        instance = known.get(guest.uuid)
        if instance and (guest.is_up or instance.vm_state in _COMES_BACK):
            is_low = policy.in_force(
                instance.flavor.extra_specs) == capacity.LOW
            found |= guest_xml.cpus_of_users(
                guest, is_low, dedicated) - demand.pins(instance)
    for guest in strangers:
        is_low = guest.partition == guest_xml.PARTITIONS[capacity.LOW]
        found |= guest_xml.cpus_of_users(guest, is_low, dedicated)
    return frozenset(found & dedicated)


def _rescued(instances):
    """Yield the guests that come back when they are no longer rescued."""
    for instance in instances:
        if instance.vm_state == vm_states.RESCUED:
            path = os.path.join(
                libvirt_utils.get_instance_path(instance), 'unrescue.xml')
            # It may go this moment, for the guest is coming back.
            with contextlib.suppress(OSError, etree.XMLSyntaxError):
                yield Seen.of(libvirt_utils.load_file(path), True)
