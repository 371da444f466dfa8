# SPDX-License-Identifier: Apache-2.0

"""The guests of libvirt on this host, and the dedicated CPUs that they block.

No instance may be pinned on a blocked CPU. Two kinds of guests block CPUs:

* Guests on stale CPU sets. A guest that floats keeps the CPUs that it had at
  its start until it is rebooted hard or moved, even if the CPU sets change.
* Orphan guests, which run although their instances are not on this host. Nova
  leaves such a guest if the instance was deleted while nova-compute seemed to
  be down, if Nova takes a live migration for failed, or if libvirt or the
  database went away right after the start of the guest. Domains that Nova did
  not create are orphan guests too.

A recount is one run of the periodic task of nova-compute, which counts the
resources of the host from zero.
"""

import contextlib
import operator
import os

from lxml import etree
from nova.compute import vm_states
from nova import exception
from nova.virt import hardware
from nova.virt.libvirt import host as libvirt_host
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging

from nova_prio.model import cpu_capacity
from nova_prio.virt import demand
from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt import partitions
from nova_prio.virt.libvirt import supply_meter

LOG = logging.getLogger(__name__)

# If a guest is off, Nova makes a new domain XML for its next start, but keeps
# the old one in these states: the guest is suspended or is being rebooted.
_KEEPS_XML = (vm_states.ACTIVE, vm_states.PAUSED, vm_states.SUSPENDED,
              vm_states.RESCUED)


class HostGuests:
    """Finds the dedicated CPUs of the host that guests block.

    ``blocked`` is the frozenset of these CPUs, and ``blocked_by`` the list of
    the names of the orphan guests that use them.

    :param host: nova.virt.libvirt.host.Host
    :param steps: ``containment.Steps`` of the service
    """

    def __init__(self, host, steps):
        """Know no guests yet; the class describes the parameters.

        A recount is one run of the periodic task that counts the resources of
        the host. An orphan guest is one whose instance is not on this host.
        """
        # CPUs on which no instance may be pinned, because guests use them, and
        # the names of the orphan guests among these guests.
        self.blocked = frozenset()
        self.blocked_by = []
        self._host = host
        self._steps = steps
        # The last read: a list of guest_xml.Guest, and the dedicated CPUs.
        self._last_read = [], frozenset()
        # UUID of an orphan guest -> number of recounts that have found it, one
        # after the other.
        self._recounts = {}
        self._supply_meter = supply_meter.SupplyMeter(host)

    def read_guests(self, dedicated):
        """Read all guests from libvirt, for ``update_blocked``.

        If libvirt does not show one guest, log the error, and keep what the
        last read has found of it.

        Call this before the recount, which is the periodic count of the host's
        resources, takes the lock of the tracker: libvirt may hang.

        :param dedicated: set of the dedicated CPUs of the host now, which
            ``update_blocked`` compares with the CPUs of the guests
        :raises: the errors of libvirt, if it does not list its guests
        """
        last_guests, _ = self._last_read
        last_by_uuid = {guest.uuid: guest for guest in last_guests}
        guests = []
        # One call tells which guests run, in place of one for each guest.
        running = {
            domain.UUIDString() for domain
            in self._host.list_instance_domains(only_running=True)}
        for domain in self._host.list_instance_domains(only_running=False):
            with self._steps.contain('read a guest of libvirt',
                                     refuse_on_error=False) as outcome:
                guest = _read(domain, domain.UUIDString() in running)
            if outcome.problem:
                # The error is logged, and the problem is a sentence about it.
                guest = _assume(domain, last_by_uuid, outcome.problem)
            # It is None if the domain is gone by now.
            if guest is not None:
                guests.append(guest)
        self._last_read = guests, frozenset(dedicated)

    def measure_supply(self, floating):
        """Update ``low_supply`` of this object for the last read guests.

        This is the CPU time that low-priority guests can get.

        Call this before the recount, which is the periodic count of the host's
        resources, takes the lock of the tracker: libvirt may hang.

        :param floating: set of the CPUs where low-priority guests may run
        """
        self._supply_meter.measure(floating, self.list_last_read())

    @property
    def low_supply(self):
        """The CPU time that low-priority guests can get on this host.

        It is a ``model.low_supply.LowSupply``; None if it is unknown.
        """
        return self._supply_meter.reported

    def list_last_read(self):
        """Return the last read guests, a list of ``guest_xml.Guest``."""
        return self._last_read[0]

    def update_blocked(self, instances, is_counted, moving):
        """Update ``blocked`` and ``blocked_by`` from the last read guests.

        A blocked CPU is a dedicated CPU on which no instance may be pinned.
        It is used by a guest of an older configuration, or by an orphan guest:
        one whose instance is not on this host.

        :param instances: list of nova.objects.Instance, on this host
        :param is_counted: function that takes a UUID and returns whether the
            tracker counts the instance on this host, or a call of Nova claims
            for it or starts its guest
        :param moving: set of the UUIDs of instances that move from or to this
            host; do not warn of their guests, which Nova itself ends
        """
        guests, dedicated = self._last_read
        by_uuid = {instance.uuid: instance for instance in instances}
        blocked = frozenset()
        # An unrescue starts a guest on the CPUs that it had before the rescue:
        # these must stay free, too.
        for guest in guests + _read_guests_after_unrescue(instances):
            if guest.uuid in by_uuid:
                blocked |= _find_stale_cpus(
                    guest, by_uuid[guest.uuid], dedicated)
        orphans = []
        for guest in guests:
            if guest.uuid not in by_uuid and self._is_orphan(
                    guest, is_counted):
                cpus = _find_orphan_cpus(guest, dedicated)
                orphans.append((guest, cpus))
                blocked |= cpus
        self.blocked_by = sorted(guest.name for guest, cpus in orphans if cpus)
        self._warn_of_orphans(orphans, moving)
        self.blocked = blocked

    def _is_orphan(self, guest, is_counted):
        """Return whether a guest that has no instance on this host still runs.

        Such a guest is an orphan. A guest is none if Nova counts its instance
        here or works with the instance, or if it is a test guest of this
        package. Ask libvirt again at the end: the guest may have stopped since
        it was read.

        :param is_counted: function that takes a UUID and returns whether the
            tracker counts the instance on this host, or a call of Nova claims
            for it or starts its guest
        """
        return (guest.is_up and not is_counted(guest.uuid) and
                not guest.name.startswith(partitions.PROBE_PREFIX) and
                self.is_running(guest.uuid))

    def find_cpus_in_use(self, uuid, cpus):
        """Return the CPUs of a lease where the guest may run.

        A lease is the CPUs that this host keeps for an instance.

        Call this without the lock of the tracker: libvirt may hang.

        :param uuid: UUID of the instance
        :param cpus: frozenset of the CPU numbers of the lease
        :returns: frozenset, empty if libvirt has no such guest, and all of
            ``cpus`` if libvirt does not answer
        """
        if not cpus:
            return cpus
        # Without an answer, assume a guest that is up and may use all CPUs:
        # these are the defaults of a Guest.
        guest = self._ask(uuid, _read, default=guest_xml.Guest('', uuid))
        # It is None if libvirt has no such guest.
        if guest is None or not guest.is_up:
            return frozenset()
        # The guest may have changed its CPUs since the lease began: count
        # those on which it may run, as for a guest of no instance.
        return _find_orphan_cpus(guest, cpus)

    def is_running(self, uuid):
        """Return whether the guest of an instance runs, or may run.

        It may run if libvirt does not answer. A guest that libvirt does not
        know does not run.

        :param uuid: UUID of the instance
        """
        return bool(self._ask(
            uuid, operator.methodcaller('isActive'), default=True))

    def _ask(self, uuid, question, default):
        """Return the answer of libvirt to a question about a guest.

        :param question: function that takes a libvirt.virDomain
        :returns: None if the guest does not exist, and ``default`` if libvirt
            does not answer
        """
        try:
            connection = self._host.get_connection()
            return question(connection.lookupByUUIDString(uuid))
        except libvirt_host.libvirt.libvirtError as error:
            return None if partitions.is_missing_domain(error) else default
        except exception.HypervisorUnavailable:
            return default

    def _warn_of_orphans(self, orphans, moving):
        """Warn of each orphan guest that must be removed, once while it runs.

        An orphan guest is one whose instance is not on this host. If Nova made
        the guest, it must go, unless its instance moves: then Nova ends it. If
        Nova did not, it must go if libvirt shows that it blocks CPUs.

        :param orphans: list of (Guest, frozenset of the CPUs that it blocks)
        :param moving: set of the UUIDs of instances that move from or to this
            host
        """
        last_recounts, self._recounts = self._recounts, {}
        for guest, cpus in orphans:
            if guest.is_of_nova:
                must_go = guest.uuid not in moving
            else:
                # Without a readable domain XML, its CPUs are only assumed.
                must_go = guest.is_readable and bool(cpus)
            if not must_go:
                continue
            recounts = last_recounts.get(guest.uuid, 0) + 1
            self._recounts[guest.uuid] = recounts
            # A recount is a run of the periodic task. When the first one finds
            # the guest, Nova may be about to end it.
            if guest.is_of_nova and recounts == 2:
                LOG.warning(
                    'The guest %s runs here, but its instance is not on this '
                    'host. Check first whether the instance runs on its host: '
                    'after a live migration that Nova takes for failed, this '
                    'guest may be the only one. If it is of no use, and Nova '
                    'does not end it, destroy and undefine it with virsh.',
                    guest.name, instance_uuid=guest.uuid)
            elif not guest.is_of_nova and recounts == 1:
                LOG.warning(
                    'The libvirt domain %(name)s (%(uuid)s), which Nova did '
                    'not create, may run on the dedicated CPUs %(cpus)s. '
                    'Pinned instances do not get these CPUs. Pin the vCPUs '
                    'and the emulator threads of the domain to CPUs outside '
                    'of [compute] cpu_dedicated_set (virsh vcpupin, virsh '
                    'emulatorpin), or shut it down.',
                    {'name': guest.name, 'uuid': guest.uuid,
                     'cpus': hardware.format_cpu_spec(cpus)})


def _read(domain, is_up=False):
    """Return the Guest of a libvirt.virDomain; None if it does not exist.

    A guest is up if it runs, or if it is saved to disk and will resume on the
    CPUs that it had.

    :param is_up: whether libvirt has just said that the guest runs; if it has
        not, ask
    """
    try:
        # Ask twice whether it is active: it may be suspended or resumed
        # between the calls.
        is_up = bool(is_up or domain.isActive() or
                     domain.hasManagedSaveImage(0) or domain.isActive())
        return guest_xml.Guest.from_xml(domain.XMLDesc(0), is_up)
    except libvirt_host.libvirt.libvirtError as error:
        if partitions.is_missing_domain(error):
            return None
        raise


def _assume(domain, last_by_uuid, problem):
    """Return a Guest for a domain whose XML libvirt does not show.

    Assume that the guest runs, on the CPUs that the last read has found, or
    else on all CPUs, the default of a Guest. Then no instance is pinned there.
    Warn of it once.

    :param domain: libvirt.virDomain
    :param last_by_uuid: dict, UUID -> Guest of the last read
    :param problem: sentence about the error of libvirt
    """
    # libvirt-python knows name and UUID without a call of libvirt.
    name, uuid = domain.name(), domain.UUIDString()
    last = last_by_uuid.get(uuid)
    # If it was not readable before, the warning is in the log already.
    if last is None or last.is_readable:
        cpus = 'any free dedicated CPU'
        if last is not None:
            cpus = 'the dedicated CPUs that the guest had last'
        LOG.warning(
            'Guest %s: libvirt does not show its domain XML. Pinned instances '
            'do not get %s: %s. If "virsh dumpxml" fails as well, restart '
            'libvirtd, or stop the guest.', name, cpus, problem,
            instance_uuid=uuid)
    return (last or guest_xml.Guest(name, uuid))._replace(
        is_up=True, is_readable=False)


def _find_stale_cpus(guest, instance, dedicated):
    """Return the dedicated CPUs where the guest of an instance floats.

    No instance may be pinned on these. The guest floats there if these CPUs
    were shared when the guest was started. The vCPUs of a low-priority guest
    do not count: they may run beside a pinned guest. The CPUs to which the
    instance itself is pinned do not count either. If a guest is off, Nova
    makes new XML for its next start, unless the guest is suspended or is being
    rebooted. During a reboot, the instance keeps the vm_state that it had
    while it ran.

    :param dedicated: frozenset of the dedicated CPUs of the host
    """
    if not guest.is_up and instance.vm_state not in _KEEPS_XML:
        return frozenset()
    is_low = demand.get_priority(instance) == cpu_capacity.LOW
    return guest_xml.find_blocking_cpus(
        guest, is_low, dedicated) - demand.get_instance_pins(instance)


def _find_orphan_cpus(guest, dedicated):
    """Return the dedicated CPUs that an orphan guest blocks, a frozenset.

    An orphan guest is one whose instance is not on this host. The vCPUs of a
    low-priority guest may run beside a pinned guest, and block nothing.

    :param dedicated: frozenset of the dedicated CPUs of the host
    """
    # The partition is the cgroup of all guests of one priority.
    is_low = guest.partition == guest_xml.PARTITIONS[cpu_capacity.LOW]
    return guest_xml.find_blocking_cpus(guest, is_low, dedicated)


def _read_guests_after_unrescue(instances):
    """Return the Guests to which rescued instances will return, a list.

    Nova keeps the domain XML of such a guest in a file. Leave out a guest
    whose file cannot be read.
    """
    guests = []
    for instance in instances:
        if instance.vm_state == vm_states.RESCUED:
            path = os.path.join(
                libvirt_utils.get_instance_path(instance), 'unrescue.xml')
            # Nova may be writing or removing the file now.
            with contextlib.suppress(OSError, etree.XMLSyntaxError):
                xml = libvirt_utils.load_file(path)
                guests.append(guest_xml.Guest.from_xml(xml))
    return guests
