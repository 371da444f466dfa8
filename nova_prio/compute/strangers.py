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


"""Guests that run on the host, though their instances are not on it.

Nova leaves one where its instance was deleted while nova-compute seemed to be
down, where a live migration was taken for failed, and where libvirt or the
database went away when it had just been started: the instance may have been
built anew on another host by then.
"""

from nova import exception
from nova.virt import hardware
from nova.virt.libvirt import host as libvirt_host
from oslo_log import log as logging

from nova_prio.compute import floaters
from nova_prio.compute import partitions

LOG = logging.getLogger(__name__)

# The first time, Nova may be about to end it.
_WARN_AT = 2


class Strangers:
    """Finds them, and warns of each once while it lasts.

    What Nova did not make is found as well: it has CPUs too.
    """

    def __init__(self):
        # UUID -> how many times in turn one of Nova's was found.
        self._times = {}
        # UUIDs of the domains of others that were warned of.
        self._foreign = set()
        # Names of all that keep dedicated CPUs from pinned instances.
        self.blocking = []

    def find(self, host, seen, dedicated, is_counted, moving):
        """Return the guests that run on the host and do not count there.

        :param host: nova.virt.libvirt.host.Host
        :param seen: list of nova_prio.compute.floaters.Seen
        :param dedicated: frozenset of the dedicated CPUs
        :param is_counted: function that says of a UUID whether what the
            instance has of the host is in Nova's books
        :param moving: UUIDs of instances that move from or to there
        :returns: list of those of ``seen``
        """
        found = [guest for guest in seen
                 if guest.is_up and not is_counted(guest.uuid) and
                 not guest.name.startswith(partitions.PROBE) and
                 # It may have been deleted just now.
                 is_there(host, guest.uuid)]
        self._times = {
            guest.uuid: 1 + self._times.get(guest.uuid, 0)
            for guest in found
            if guest.is_of_nova and guest.uuid not in moving}
        for guest in found:
            if self._times.get(guest.uuid) == _WARN_AT:
                LOG.warning(
                    'The guest %s runs here, but its instance is not on this '
                    'host. See where that runs: after a live migration that '
                    'Nova takes for failed, this may be its only guest. One '
                    'that is of no use, and that Nova does not end by itself, '
                    'is to be destroyed and undefined with virsh.',
                    guest.name, instance_uuid=guest.uuid)
        self._warn_of_foreign(found, dedicated)
        return found

    def _warn_of_foreign(self, found, dedicated):
        blocking = [(guest, cpus) for guest in found if (
            cpus := floaters.cpus_of_stranger(guest, dedicated))]
        self.blocking = sorted(guest.name for guest, _ in blocking)
        warned, self._foreign = self._foreign, set()
        for guest, cpus in blocking:
            if guest.is_of_nova or not guest.is_readable:
                continue
            self._foreign.add(guest.uuid)
            if guest.uuid not in warned:
                LOG.warning(
                    'The libvirt domain %(name)s (%(uuid)s), which Nova did '
                    'not create, may run on the dedicated CPUs %(cpus)s: '
                    'pinned instances do not get them. Pin its vCPUs and its '
                    'emulator threads to CPUs outside of [compute] '
                    'cpu_dedicated_set (virsh vcpupin, virsh emulatorpin), or '
                    'shut it down.',
                    {'name': guest.name, 'uuid': guest.uuid,
                     'cpus': hardware.format_cpu_spec(cpus)})


def cpus_left_behind(host, uuid, cpus):
    """Return those CPUs of a claim on which a guest may still run.

    :param host: nova.virt.libvirt.host.Host
    :param uuid: UUID of the instance
    :param cpus: frozenset of the CPU numbers that the claim has pinned
    :returns: frozenset, empty if libvirt has no such guest, and all of
        ``cpus`` if libvirt does not answer
    """
    try:
        guest = floaters.seen_of(
            host.get_connection().lookupByUUIDString(uuid))
    except libvirt_host.libvirt.libvirtError as error:
        is_gone = (error.get_error_code() ==
                   libvirt_host.libvirt.VIR_ERR_NO_DOMAIN)
        return frozenset() if is_gone else cpus
    except exception.HypervisorUnavailable:
        return cpus
    if guest is None or not guest.is_up:
        return frozenset()
    return floaters.cpus_of_stranger(guest, cpus)


def is_there(host, uuid):
    """Return whether a guest still runs; also where libvirt does not say.

    :param host: nova.virt.libvirt.host.Host
    :param uuid: that of its instance
    """
    try:
        return bool(host.get_connection().lookupByUUIDString(uuid).isActive())
    except libvirt_host.libvirt.libvirtError as error:
        return (error.get_error_code() !=
                libvirt_host.libvirt.VIR_ERR_NO_DOMAIN)
    except exception.HypervisorUnavailable:
        return True
