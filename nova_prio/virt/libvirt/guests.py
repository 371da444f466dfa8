# SPDX-License-Identifier: Apache-2.0

"""The guests of libvirt on this host, and the dedicated CPUs that they block.

Guests on stale CPU sets: a guest that floats keeps the CPUs of its start until
it is rebooted hard or moved, even if the CPU sets change.

Orphan guests: guests that run although their instances are not on this host.
Nova leaves such a guest if the instance was deleted while nova-compute seemed
to be down, if Nova takes a live migration for failed, or if libvirt or the
database went away right after the start of the guest. A domain that Nova did
not create blocks CPUs as well.
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

# In these states Nova starts a guest that is off with its old domain XML: the
# guest was suspended, or is being rebooted. Otherwise Nova makes a new one.
_KEEPS_XML = (vm_states.ACTIVE, vm_states.PAUSED, vm_states.SUSPENDED,
              vm_states.RESCUED)

# In the first recount that finds an orphan, Nova may be about to end it.
_WARN_AT = 2


class HostGuests:
    """Finds the dedicated CPUs of the host that guests block.

    ``blocked`` is the frozenset of these CPUs, ``blocked_by`` a list of the
    names of the orphan guests on them.

    :param host: nova.virt.libvirt.host.Host
    :param steps: ``containment.Steps`` of the service
    """

    def __init__(self, host, steps):
        self.blocked = frozenset()
        self.blocked_by = []
        self._host = host
        self._steps = steps
        # The guests at the last read, and the dedicated CPUs and the value of
        # _released just before it.
        self._last_read = [], frozenset(), frozenset()
        # (UUID, CPUs) of each released claim whose guest may still run.
        self._released = set()
        # UUID of an orphan guest of Nova -> number of recounts that found it.
        self._recounts = {}
        # UUIDs of the foreign domains that are in the log.
        self._foreign = set()

    def read_guests(self, dedicated):
        """Read all guests from libvirt.

        Call this before the recount takes the lock of the tracker: libvirt
        may hang. A guest that libvirt cannot show counts as up, with the CPUs
        of the read before, or with all CPUs.

        :param dedicated: set of the dedicated CPUs of the host
        :raises: the errors of libvirt, if it does not list its guests
        """
        released = frozenset(self._released)
        previous = {guest.uuid: guest for guest in self._last_read[0]}
        guests = []
        for domain in self._host.list_instance_domains(only_running=False):
            with self._steps.contain('read a guest of libvirt',
                                     refuses=False) as outcome:
                guest = _read(domain)
            if outcome.problem:
                guest = _assume(domain, previous, outcome.problem)
            if guest is not None:
                guests.append(guest)
        self._last_read = guests, frozenset(dedicated), released

    def update_blocked(self, instances, is_counted, moving):
        """Find the blocked CPUs, from the last read of the guests.

        :param instances: list of nova.objects.Instance, on this host
        :param is_counted: function that takes a UUID and returns whether the
            tracker counts the instance on this host
        :param moving: UUIDs of instances that move from or to this host
        """
        guests, dedicated, released = self._last_read
        known = {instance.uuid: instance for instance in instances}
        blocked = [_find_stale_cpus(guest, known[guest.uuid], dedicated)
                   for guest in [*guests, *_read_unrescue_xml(instances)]
                   if guest.uuid in known]
        orphans = [(guest, _find_orphan_cpus(guest, dedicated))
                   for guest in guests
                   if guest.is_up and guest.uuid not in known and
                   not is_counted(guest.uuid) and
                   not guest.name.startswith(partitions.PROBE_PREFIX) and
                   # The guest may have stopped since the read.
                   self.is_running(guest.uuid)]
        self.blocked_by = sorted(guest.name for guest, cpus in orphans if cpus)
        self._warn_of_orphans([guest for guest, _ in orphans if
                               guest.is_of_nova and guest.uuid not in moving])
        self._warn_of_foreign([
            (guest, cpus) for guest, cpus in orphans
            if cpus and guest.is_readable and not guest.is_of_nova])
        self._released -= released
        self.blocked = frozenset().union(
            *blocked, *(cpus for _, cpus in [*orphans, *self._released]))

    def find_cpus_in_use(self, uuid, cpus):
        """Return the CPUs of a claim on which the guest may still run.

        This asks libvirt: do not hold the lock of the tracker.

        :param uuid: UUID of the instance
        :param cpus: frozenset of the CPU numbers that the claim has pinned
        :returns: frozenset, empty if libvirt has no such guest, and all of
            ``cpus`` if libvirt does not answer
        """
        guest = self._query(
            lambda connection: _read(connection.lookupByUUIDString(uuid)),
            default=guest_xml.Guest('', uuid))
        if guest is None or not guest.is_up:
            return frozenset()
        return _find_orphan_cpus(guest, cpus)

    def block(self, uuid, cpus):
        """Block CPUs until the next recount.

        :param uuid: UUID of the instance whose claim on the CPUs is released
        :param cpus: frozenset of CPU numbers
        """
        if cpus:
            self._released.add((uuid, cpus))
            self.blocked |= cpus

    def is_running(self, uuid):
        """Return whether a guest runs; True if libvirt does not answer.

        :param uuid: UUID of its instance
        """
        return bool(self._query(
            lambda connection: connection.lookupByUUIDString(uuid).isActive(),
            default=True))

    def _query(self, query, default):
        """Return an answer of libvirt, or None if it has no such guest."""
        try:
            return query(self._host.get_connection())
        except libvirt_host.libvirt.libvirtError as error:
            return None if partitions.is_missing_domain(error) else default
        except exception.HypervisorUnavailable:
            return default

    def _warn_of_orphans(self, guests):
        self._recounts = {guest.uuid: 1 + self._recounts.get(guest.uuid, 0)
                          for guest in guests}
        for guest in guests:
            if self._recounts[guest.uuid] == _WARN_AT:
                LOG.warning(
                    'The guest %s runs here, but its instance is not on this '
                    'host. Check first whether the instance runs on its host: '
                    'after a live migration that Nova takes for failed, this '
                    'guest may be the only one. If it is of no use, and Nova '
                    'does not end it, destroy and undefine it with virsh.',
                    guest.name, instance_uuid=guest.uuid)

    def _warn_of_foreign(self, orphans):
        for guest, cpus in orphans:
            if guest.uuid not in self._foreign:
                LOG.warning(
                    'The libvirt domain %(name)s (%(uuid)s), which Nova did '
                    'not create, may run on the dedicated CPUs %(cpus)s. '
                    'Pinned instances do not get these CPUs. Pin the vCPUs '
                    'and the emulator threads of the domain to CPUs outside '
                    'of [compute] cpu_dedicated_set (virsh vcpupin, virsh '
                    'emulatorpin), or shut it down.',
                    {'name': guest.name, 'uuid': guest.uuid,
                     'cpus': hardware.format_cpu_spec(cpus)})
        self._foreign = {guest.uuid for guest, _ in orphans}


def _read(domain):
    """Return the Guest of a libvirt.virDomain, or None if it is gone."""
    try:
        # The guest may be suspended or resumed between the questions.
        is_up = bool(domain.isActive() or domain.hasManagedSaveImage(0) or
                     domain.isActive())
        return guest_xml.Guest.from_xml(domain.XMLDesc(0), is_up)
    except libvirt_host.libvirt.libvirtError as error:
        if partitions.is_missing_domain(error):
            return None
        raise


def _assume(domain, previous, problem):
    """Return the Guest to assume for a domain that libvirt cannot show."""
    # libvirt-python knows both without a call of libvirt.
    name, uuid = domain.name(), domain.UUIDString()
    last = previous.get(uuid)
    if last is None or last.is_readable:
        LOG.warning(
            'Guest %s: libvirt does not show its domain XML. Pinned instances '
            'do not get %s: %s. If "virsh dumpxml" fails as well, restart '
            'libvirtd, or stop the guest.', name,
            'the dedicated CPUs that the guest had last' if last else
            'any free dedicated CPU', problem, instance_uuid=uuid)
    return (last or guest_xml.Guest(name, uuid))._replace(
        is_up=True, is_readable=False)


def _find_stale_cpus(guest, instance, dedicated):
    """Return the dedicated CPUs on which a guest of an instance floats."""
    if not guest.is_up and instance.vm_state not in _KEEPS_XML:
        return frozenset()
    is_low = flavor_specs.get_priority(
        instance.flavor.extra_specs) == capacity.LOW
    return (dedicated & guest_xml.find_blocking_cpus(guest, is_low, dedicated)
            ) - demand.get_instance_pins(instance)


def _find_orphan_cpus(guest, dedicated):
    """Return the dedicated CPUs that an orphan guest blocks, a frozenset."""
    is_low = guest.partition == guest_xml.PARTITIONS[capacity.LOW]
    return dedicated & guest_xml.find_blocking_cpus(guest, is_low, dedicated)


def _read_unrescue_xml(instances):
    """Yield the guests to which rescued instances will return."""
    for instance in instances:
        if instance.vm_state == vm_states.RESCUED:
            path = os.path.join(
                libvirt_utils.get_instance_path(instance), 'unrescue.xml')
            # Nova removes the file when the guest returns.
            with contextlib.suppress(OSError, etree.XMLSyntaxError):
                yield guest_xml.Guest.from_xml(libvirt_utils.load_file(path))
