# SPDX-License-Identifier: Apache-2.0

"""The guests of libvirt on this host, and the dedicated CPUs that they block.

Guests on stale CPU sets: a guest that floats keeps the CPUs that it was
started on until it is rebooted hard or moved, even if the CPU sets change.

Orphan guests: guests that run although their instances are not on this host.
Nova leaves one if the instance was deleted while nova-compute seemed to be
down, if a live migration was taken for failed, and if libvirt or the database
went away when the guest had just been started. A domain that Nova did not
create blocks CPUs as well.
"""

import contextlib
import os

from lxml import etree
from nova.compute import vm_states
from nova import exception
from nova.virt import hardware
from nova.virt.libvirt import host as libvirt_host
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging

from nova_prio.model import capacity
from nova_prio.model import flavor_specs
from nova_prio.virt import demand
from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt import partitions

LOG = logging.getLogger(__name__)

# States in which Nova starts a guest that is off as it was before: it was
# suspended, or is being rebooted. In all others it makes it anew.
_COMES_BACK = (vm_states.ACTIVE, vm_states.PAUSED, vm_states.SUSPENDED,
               vm_states.RESCUED)

# In the first recount that finds an orphan, Nova may be about to end it.
_WARN_AT = 2


class HostGuests:
    """Finds the dedicated CPUs of the host that guests block.

    ``blocked`` is the frozenset of these CPUs, ``blocked_by`` a list of the
    names of the orphan guests on them.
    """

    def __init__(self, host, steps):
        """Look at no guest yet.

        :param host: nova.virt.libvirt.host.Host
        :param steps: nova_prio.compute.containment.Steps of the service
        """
        self.blocked = frozenset()
        self.blocked_by = []
        self._host = host
        self._steps = steps
        # The guests as libvirt showed them last, the dedicated CPUs then, and
        # what was in _kept before this look at the guests.
        self._seen = [], frozenset(), frozenset()
        # (UUID, CPUs) of each claim that was given back although its guest
        # may still run on them.
        self._kept = set()
        # UUID of an orphan guest of Nova -> number of recounts that found it.
        self._times = {}
        # UUIDs of the domains of others that were warned of.
        self._foreign = set()

    def read_guests(self, dedicated):
        """Ask libvirt for its guests.

        This happens before the recount begins, so that a call that hangs does
        not stop the recount half-way. If libvirt cannot show a guest, the
        guest counts as up, with the CPUs that it had before, or with all CPUs.

        :param dedicated: set of the dedicated CPUs of the host
        :raises: the errors of libvirt, if it does not list its guests
        """
        kept = frozenset(self._kept)
        known = {guest.uuid: guest for guest in self._seen[0]}
        found = []
        for domain in self._host.list_instance_domains(only_running=False):
            with self._steps.contain('read a guest of libvirt',
                                     refuses=False) as outcome:
                guest = _read(domain)
            if outcome.problem:
                guest = _unreadable(domain, known, outcome.problem)
            if guest is not None:
                found.append(guest)
        self._seen = found, frozenset(dedicated), kept

    def update_blocked(self, instances, is_counted, moving):
        """Find the blocked CPUs, from the last look at the guests.

        :param instances: list of nova.objects.Instance, on this host
        :param is_counted: function that tells of a UUID whether the tracker
            counts the instance on this host
        :param moving: UUIDs of instances that move from or to this host
        """
        seen, dedicated, taken_over = self._seen
        known = {instance.uuid for instance in instances}
        blocked = find_blocked_by_instances(seen, dedicated, instances).union(
            *self._find_orphans(
                lambda uuid: uuid in known or is_counted(uuid), moving))
        self._kept -= taken_over
        self.blocked = blocked.union(*(cpus for _, cpus in self._kept))

    def _find_orphans(self, is_counted, moving):
        """Return the dedicated CPUs that each orphan guest blocks, a list.

        Warn of each orphan once while it lasts.
        """
        seen, dedicated, _ = self._seen
        found = [(guest, _blocked_by_orphan(guest, dedicated))
                 for guest in seen
                 if guest.is_up and not is_counted(guest.uuid) and
                 not guest.name.startswith(partitions.PROBE_PREFIX) and
                 # It may have been deleted just now.
                 self.is_running(guest.uuid)]
        self.blocked_by = sorted(guest.name for guest, cpus in found if cpus)
        self._warn_of_nova(
            [guest for guest, _ in found
             if guest.is_of_nova and guest.uuid not in moving])
        self._warn_of_foreign(
            {guest.uuid: (guest.name, cpus) for guest, cpus in found
             if cpus and guest.is_readable and not guest.is_of_nova})
        return [cpus for _, cpus in found]

    def find_cpus_in_use(self, uuid, cpus):
        """Return those CPUs of a claim on which the guest may still run.

        This asks libvirt: do not hold the lock of the tracker.

        :param uuid: UUID of the instance
        :param cpus: frozenset of the CPU numbers that the claim has pinned
        :returns: frozenset, empty if libvirt has no such guest, and all of
            ``cpus`` if libvirt does not answer
        """
        guest = self._ask(
            lambda connection: _read(connection.lookupByUUIDString(uuid)),
            if_unknown=guest_xml.Guest('', uuid))
        if guest is None or not guest.is_up:
            return frozenset()
        return _blocked_by_orphan(guest, cpus)

    def block(self, uuid, cpus):
        """Block CPUs until the next look at the guests.

        :param uuid: UUID of the instance that has left them
        :param cpus: frozenset of CPU numbers
        """
        if cpus:
            self._kept.add((uuid, cpus))
            self.blocked |= cpus

    def is_running(self, uuid):
        """Return whether a guest still runs; True if libvirt does not say.

        :param uuid: UUID of its instance
        """
        return bool(self._ask(
            lambda connection: connection.lookupByUUIDString(uuid).isActive(),
            if_unknown=True))

    def _ask(self, question, if_unknown):
        """Return an answer of libvirt, or None if it has no such guest."""
        try:
            return question(self._host.get_connection())
        except libvirt_host.libvirt.libvirtError as error:
            return None if _is_gone(error) else if_unknown
        except exception.HypervisorUnavailable:
            return if_unknown

    def _warn_of_nova(self, orphans):
        self._times = {guest.uuid: 1 + self._times.get(guest.uuid, 0)
                       for guest in orphans}
        for guest in orphans:
            if self._times[guest.uuid] == _WARN_AT:
                LOG.warning(
                    'The guest %s runs here, but its instance is not on this '
                    'host. See where that runs: after a live migration that '
                    'Nova takes for failed, this may be its only guest. One '
                    'that is of no use, and that Nova does not end by itself, '
                    'is to be destroyed and undefined with virsh.',
                    guest.name, instance_uuid=guest.uuid)

    def _warn_of_foreign(self, found):
        for uuid, (name, cpus) in found.items():
            if uuid not in self._foreign:
                LOG.warning(
                    'The libvirt domain %(name)s (%(uuid)s), which Nova did '
                    'not create, may run on the dedicated CPUs %(cpus)s: '
                    'pinned instances do not get them. Pin its vCPUs and its '
                    'emulator threads to CPUs outside of [compute] '
                    'cpu_dedicated_set (virsh vcpupin, virsh emulatorpin), or '
                    'shut it down.',
                    {'name': name, 'uuid': uuid,
                     'cpus': hardware.format_cpu_spec(cpus)})
        self._foreign = set(found)


def _read(domain):
    """Return the Guest of a libvirt domain, or None if it is gone by now.

    :param domain: libvirt.virDomain
    :raises: the errors of libvirt
    """
    try:
        # It may be suspended or resumed between the questions.
        is_up = bool(domain.isActive() or domain.hasManagedSaveImage(0) or
                     domain.isActive())
        return guest_xml.Guest.from_xml(domain.XMLDesc(0), is_up)
    except libvirt_host.libvirt.libvirtError as error:
        if _is_gone(error):
            return None
        raise


def _is_gone(error):
    return (error.get_error_code() ==
            libvirt_host.libvirt.VIR_ERR_NO_DOMAIN)


def _unreadable(domain, known, problem):
    """Return a Guest for one that libvirt cannot show."""
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
    return (last or guest_xml.Guest(name, uuid))._replace(
        is_up=True, is_readable=False)


def find_blocked_by_instances(seen, dedicated, instances):
    """Return the dedicated CPUs on which guests of instances float.

    :param seen: list of guest_xml.Guest
    :param dedicated: frozenset of CPU numbers
    :param instances: list of nova.objects.Instance, on this host
    :returns: frozenset of CPU numbers
    """
    known = {instance.uuid: instance for instance in instances}
    found = frozenset()
    for guest in [*seen, *_rescued(instances)]:
        instance = known.get(guest.uuid)
        if instance and (guest.is_up or instance.vm_state in _COMES_BACK):
            is_low = flavor_specs.get_priority(
                instance.flavor.extra_specs) == capacity.LOW
            found |= guest_xml.find_blocking_cpus(
                guest, is_low, dedicated) - demand.get_instance_pins(instance)
    return found & dedicated


def _blocked_by_orphan(guest, dedicated):
    """Return the dedicated CPUs that an orphan guest blocks, a frozenset."""
    is_low = guest.partition == guest_xml.PARTITIONS[capacity.LOW]
    return dedicated & guest_xml.find_blocking_cpus(guest, is_low, dedicated)


def _rescued(instances):
    """Yield the guests that come back when they are no longer rescued."""
    for instance in instances:
        if instance.vm_state == vm_states.RESCUED:
            path = os.path.join(
                libvirt_utils.get_instance_path(instance), 'unrescue.xml')
            # It may go this moment, for the guest is coming back.
            with contextlib.suppress(OSError, etree.XMLSyntaxError):
                yield guest_xml.Guest.from_xml(libvirt_utils.load_file(path))
