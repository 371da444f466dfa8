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
from oslo_log import log as logging

from nova_prio import capacity
from nova_prio.compute import guest_xml
from nova_prio import demand
from nova_prio import policy

LOG = logging.getLogger(__name__)

#: States in which Nova starts a guest that is off as it was before: it was
#: suspended, or is being rebooted. In all others it makes it anew.
_COMES_BACK = (vm_states.ACTIVE, vm_states.PAUSED, vm_states.SUSPENDED,
               vm_states.RESCUED)


class Seen(typing.NamedTuple):
    """A guest as libvirt has it.

    ``uuid`` is that of its instance; ``vcpus`` and ``threads`` are the CPUs on
    which each vCPU, and each of the emulator and I/O threads, may run:
    frozensets, None for all CPUs; ``is_of_nova`` tells whether Nova made it.
    If ``is_readable`` is false, libvirt did not show the guest this time.
    """

    name: str
    uuid: str
    partition: str | None
    vcpus: list
    threads: list
    is_up: bool
    is_of_nova: bool
    is_readable: bool = True

    @classmethod
    def of(cls, xml, is_up):
        """Return the guest of a domain XML."""
        domain = etree.fromstring(xml)
        return cls(domain.findtext('name'), domain.findtext('uuid'),
                   domain.findtext('resource/partition'),
                   guest_xml.cpus_of_vcpus(domain),
                   guest_xml.cpus_of_threads(domain), is_up,
                   guest_xml.of_nova(domain) is not None)


def look(host, before, steps):
    """Return the guests that libvirt has, a list of Seen.

    If libvirt cannot show a guest, the guest counts as up, with the CPUs that
    it had before, or with all CPUs.

    :param host: nova.virt.libvirt.host.Host
    :param before: list of Seen, of the last look
    :param steps: nova_prio.containment.Steps of the service
    :raises: the errors of libvirt, if it does not list its guests
    """
    known = {guest.uuid: guest for guest in before}
    found = []
    for domain in host.list_instance_domains(only_running=False):
        with steps.contain('read a guest of libvirt',
                           refuses=False) as outcome:
            guest = seen_of(domain)
        if outcome.problem:
            guest = _unreadable(domain, known, outcome.problem)
        if guest is not None:
            found.append(guest)
    return found


def seen_of(domain):
    """Return the Seen of a libvirt domain, or None if it is gone by now.

    :param domain: libvirt.virDomain
    :raises: the errors of libvirt
    """
    try:
        # It may be suspended or resumed between the questions.
        is_up = bool(domain.isActive() or domain.hasManagedSaveImage(0) or
                     domain.isActive())
        return Seen.of(domain.XMLDesc(0), is_up)
    except libvirt_host.libvirt.libvirtError as error:
        if error.get_error_code() == libvirt_host.libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def _unreadable(domain, known, problem):
    """Return a Seen for a guest that libvirt cannot show."""
    # Both are known without asking libvirt.
    name, uuid = domain.name(), domain.UUIDString()
    last = known.get(uuid)
    if last is None or last.is_readable:
        LOG.warning(
            'Guest %s: libvirt does not show its domain XML. Pinned instances '
            'do not get %s: %s. If "virsh dumpxml" fails as well, restart '
            'libvirtd, or stop the guest.', name,
            'the dedicated CPUs that it had last' if last else
            'any dedicated CPU that is free', problem, instance_uuid=uuid)
    if last is None:
        last = Seen(name, uuid, None, [None], [None], True, False)
    return last._replace(is_up=True, is_readable=False)


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
        found |= cpus_of_stranger(guest, dedicated)
    return frozenset(found & dedicated)


def cpus_of_stranger(guest, dedicated):
    """Return the dedicated CPUs that an orphan guest keeps from others.

    :param guest: Seen, without an instance on this host
    :param dedicated: frozenset of CPU numbers
    :returns: frozenset of CPU numbers
    """
    is_low = guest.partition == guest_xml.PARTITIONS[capacity.LOW]
    return dedicated & guest_xml.cpus_of_users(guest, is_low, dedicated)


def _rescued(instances):
    """Yield the guests that come back when they are no longer rescued."""
    for instance in instances:
        if instance.vm_state == vm_states.RESCUED:
            path = os.path.join(
                libvirt_utils.get_instance_path(instance), 'unrescue.xml')
            # It may go this moment, for the guest is coming back.
            with contextlib.suppress(OSError, etree.XMLSyntaxError):
                yield Seen.of(libvirt_utils.load_file(path), True)
