# SPDX-License-Identifier: Apache-2.0

"""The owner of the leases of a host, its blocked CPUs and its failures.

A lease is the CPUs and vCPUs that an instance has on the host, as one LeaseSet
for each flavor (:mod:`nova_prio.model.leases`). A blocked CPU is a dedicated
CPU that no instance may get, because a guest of an older configuration or of
no instance uses it (:mod:`nova_prio.virt.libvirt.guests`).
A row is a number of vCPUs that a host may sell, and how many of them are used
(:mod:`nova_prio.model.cpu_capacity`).

A recount of Nova's resource tracker calls, in this order:

1. ``begin_recount``: Nova counts from zero; the leases stay.
2. ``count`` for each instance and each move: Nova counts the CPUs of the
   lease. An instance without a lease gets one, if its CPUs are free.
3. ``end_recount``: find the blocked CPUs, and the instances whose CPUs another
   one has.
4. ``ends.find_ended``, without the lock of the tracker: end the leases that
   Nova has not counted, and that nothing needs.

A lease that Nova does not count is still sold: it counts in the rows of the
report, and a claim cannot have its CPUs. The inventories for Placement contain
only the leases that Nova counts: otherwise a host without mix would refuse
ordinary instances while a lease waits for its end.
"""

import contextlib
import time
import typing

from nova.virt import hardware
import os_resource_classes as orc

from nova_prio.compute import containment
from nova_prio.compute import lease_ends
from nova_prio.compute import oversold_warnings
from nova_prio.compute import start_gate
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import inventory
from nova_prio.model import leases
from nova_prio.model import looks
from nova_prio.virt import demand
from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt import guests
from nova_prio.virt.libvirt import partitions
from nova_prio.virt import numa


class Counted(typing.NamedTuple):
    """An instance, or one side of a move, that Nova counts or frees.

    ``wanted`` is the LeaseSet that Nova's records describe. ``is_resident``
    tells whether the instance itself counts, and ``is_at_rest`` whether it has
    no task, and its record has the CPUs on which its guest is. While Nova
    resizes a resident instance (``is_resizing``), its record may have the
    flavor of the other host.
    """

    uuid: str
    wanted: leases.LeaseSet
    is_resident: bool
    is_at_rest: bool
    is_resizing: bool = False


class PriorityHost:
    """The leases of a host with our driver, which makes this object.

    It knows Nova's objects, but not Nova's tracker. ``is_vcpu_oversold`` tells
    whether a host without mix has more VCPU allocations than Nova's inventory.
    """

    def __init__(self, libvirt_host, read_cpus):
        """Have no leases yet.

        :param libvirt_host: nova.virt.libvirt.host.Host
        :param read_cpus: function that takes the inventories of the host, and
            returns its ``cpu_capacity.HostCPUs``
        """
        # A step is an action of this package in the middle of Nova's work. An
        # error ends only the step. After the errors of some steps, the host
        # refuses priority instances for a while.
        self.steps = containment.Steps()
        self.leases = leases.Leases()
        self.gate = start_gate.StartGate(self.leases, self.steps)
        self.guests = guests.HostGuests(libvirt_host, self.steps)
        self.ends = lease_ends.LeaseEnds(
            host_leases=self.leases, guests=self.guests, steps=self.steps)
        self.partitions = partitions.Partitions(libvirt_host)
        self.is_vcpu_oversold = False
        self._read_cpus = read_cpus
        self.oversold_warnings = oversold_warnings.OversoldWarnings()
        # Sentences about instances with wrong CPUs; they count if several runs
        # of the periodic task find something for the same instance.
        self._wrong_pins = looks.Findings()

    def lease_cpus_of_guests(self, dedicated):
        """Lease the CPUs on which the guests of libvirt are pinned.

        Call this when the service starts: Nova starts further guests before
        its periodic task counts the instances from the records.

        :param dedicated: set of the dedicated CPUs of the host
        """
        self.guests.read_guests(dedicated)
        for guest in self.guests.list_last_read():
            if guest.is_up and guest.is_of_nova:
                # begin_free leaves out the CPUs that are leased to another
                # guest.
                self.leases.begin_free(
                    guest.uuid, guest_xml.find_pinned_cpus(guest, dedicated))

    # Claims

    @contextlib.contextmanager
    def claiming(self, uuid):
        """Return a context in which Nova makes a claim.

        If Nova raises an error before it has counted the claim, end the
        LeaseSets that the claim has added. A LeaseSet is the CPUs and vCPUs
        that this host keeps for an instance. An error of this package is
        logged, and the host then refuses priority instances until the periodic
        task has counted its resources.

        :param uuid: UUID of the instance
        """
        # get() only copies a list. If it failed nevertheless, so would the
        # next get(), and no LeaseSet would end.
        before = []
        with self.steps.contain('lease the CPUs of a claim',
                                refuse_until_recount=True):
            before = self.leases.get(uuid)
        try:
            yield
        except Exception:
            with self.steps.contain('end the lease of a failed claim',
                                    refuse_until_recount=True):
                for each in self.leases.get(uuid):
                    # is_counted: Nova's tracker has counted this set.
                    if each not in before and not each.is_counted:
                        self.leases.end(uuid, each)
            raise

    # Counts

    def count(self, counted):
        """Return the topology that Nova must count for an instance.

        It is that of the lease, which is the CPUs and vCPUs that the instance
        has on this host. Nova's record may differ in the middle of a move,
        when it has the CPUs of the other host or of the other flavor, or it
        may be wrong. If an instance has no lease, it gets one. If its CPUs are
        another instance's, count it without pins.

        :param counted: Counted, the record as Nova counts it: an instance
            (``is_resident``) or one side of its move, and ``wanted``, the
            LeaseSet of the CPUs and vCPUs in the record
        :returns: nova.objects.InstanceNUMATopology, or None
        """
        wanted = counted.wanted
        # An instance that is resized on this host has two LeaseSets, and Nova
        # counts it twice: leave out the set that was counted already, since
        # Nova began to count from zero.
        uncounted = [each for each in self.leases.get(counted.uuid)
                     if not each.is_counted]
        found = leases.find_equal(uncounted, wanted)
        # Nova cannot count a set that was read from a guest: it has no usage.
        # Take a set without CPUs only during a resize: Nova saves that the
        # instance is here before it saves the flavor that it has here.
        others = [each for each in uncounted if each.usage is not None and
                  (each.cpus or counted.is_resizing)]
        if found is None and others:
            # No set is equal to the record: the instance has another set here.
            # Usually it has only one. Of two, either keeps Nova from counting
            # the wrong CPUs or vCPUs of the record.
            found = others[0]
            if wanted.cpus:
                self.note_wrong_pins(
                    counted, 'has the CPUs %s in its record, but the CPUs %s '
                    'are leased to it' % (
                        hardware.format_cpu_spec(wanted.cpus),
                        hardware.format_cpu_spec(found.cpus)))
        if found is None:
            found = self._begin(counted, uncounted)
        if (not found.cpus and not wanted.cpus and counted.is_resident and
                counted.is_at_rest):
            # The instance is not pinned, and nothing moves it: its record is
            # right, and an older lease may have other NUMA cells. The usage is
            # the vCPUs and the memory, in all and for each NUMA cell.
            found.topology, found.usage = wanted.topology, wanted.usage
        found.is_counted = True
        if counted.is_resident:
            # It has arrived: Placement has its allocation at this host.
            found.is_incoming = False
        return found.topology

    def _begin(self, counted, uncounted):
        """Return a new LeaseSet; without pins if they are another instance's.

        A LeaseSet is the CPUs and vCPUs that this host keeps for an instance.
        If another instance has some of the CPUs, this instance gets two sets:
        one with the remaining CPUs, so that no other instance gets them, and
        the returned one with its vCPUs and memory, which Nova counts.

        :param counted: Counted, the record as Nova counts it; ``wanted`` is
            the LeaseSet of the CPUs and vCPUs in the record
        :param uncounted: list of the LeaseSets of the instance that Nova has
            not counted
        """
        uuid, wanted = counted.uuid, counted.wanted
        # Nothing is leased if other instances own some of the CPUs: owners is
        # a dict, UUID -> these CPUs.
        owners = self.leases.begin(uuid, wanted)
        if not owners:
            return wanted
        # Lease those of its CPUs to it that no other instance has: the first
        # of the two sets.
        self.leases.begin_free(uuid, wanted.cpus)
        self.note_wrong_pins(counted, 'has CPUs of %s' % ', '.join(
            'instance %s: %s' % (owner, hardware.format_cpu_spec(cpus))
            for owner, cpus in sorted(owners.items())))
        # An earlier run of the periodic task, which counts all instances, may
        # have made the set without pins already.
        for each in uncounted:
            if not each.cpus and each.usage == wanted.usage:
                return each
        unpinned = leases.LeaseSet(
            topology=numa.copy_without_pins(wanted.topology),
            usage=wanted.usage)
        self.leases.begin(uuid, unpinned)
        return unpinned

    def give_back(self, counted):
        """Note that Nova frees an instance, or one side of a move.

        The lease, which is the CPUs and vCPUs that this host keeps for the
        instance, ends, unless a call of Nova is working with it, or a guest
        still uses its CPUs. It has one LeaseSet, or two if the instance is
        resized on this host: give back the one that Nova has counted.

        :param counted: Counted, the record as Nova frees it: the instance
            (``is_resident``) or one side of its move, and ``wanted``, the
            LeaseSet of the CPUs and vCPUs in the record
        :returns: (whether Nova has counted the set, its
            nova.objects.InstanceNUMATopology or None, which Nova must free);
            (False, None) if no set fits the record
        """
        sets = self.leases.get(counted.uuid)
        are_counted = [each for each in sets if each.is_counted]
        found = (leases.find_equal(are_counted, counted.wanted) or
                 leases.find_equal(sets, counted.wanted))
        if found is None and counted.is_resident and len(sets) == 1:
            # Nova frees the whole instance: its record may have other CPUs,
            # but it has only this set. One side of a move is another matter:
            # the set may be that of the other side.
            found = sets[0]
        if found is None:
            return False, None
        was_counted = found.is_counted
        # A set that Nova's tracker counts would not end.
        found.is_counted = False
        self.ends.end_unless_used(counted.uuid, found)
        return was_counted, found.topology

    def end_lease(self, uuid):
        """Note that Nova gives back all that an instance has here.

        End its LeaseSets, which are the CPUs and vCPUs that this host keeps
        for it, except those whose CPUs a guest still uses.

        :returns: whether a lease has ended
        """
        has_ended = False
        for each in self.leases.get(uuid):
            # Nova's tracker counts the set no longer: otherwise it would stay.
            each.is_counted = False
            has_ended |= self.ends.end_unless_used(uuid, each)
        return has_ended

    def note_arriving(self, uuid):
        """Note that the move of an instance leads to this host.

        A LeaseSet is the CPUs and vCPUs that this host keeps for an instance.
        Those sets that Nova counts become ``is_incoming``: Placement had room
        for them, so that the inventories of the host need not grow for them.
        """
        for each in self.leases.get(uuid):
            if each.is_counted:
                each.is_incoming = True

    def note_wrong_pins(self, counted, text):
        """Note what is wrong with the CPUs of an instance.

        An instance that moves, or has a task, is left out: its record may be
        about to change. If a later recount, which is a run of the periodic
        task of nova-compute, agrees, the host refuses pinned instances.

        :param counted: Counted, the record as Nova counts it: the instance
            (``is_resident``) or one side of its move. ``is_at_rest`` tells
            whether the instance has no task, and its record has the CPUs on
            which its guest is.
        :param text: predicate of a sentence about the instance
        """
        if counted.is_resident and counted.is_at_rest:
            self._wrong_pins.add(
                counted.uuid, 'Instance %s %s; migrate the instance cold, or '
                'shelve and unshelve it' % (counted.uuid, text),
                time.monotonic())

    # The recount

    def begin_recount(self):
        """Note that Nova begins to count its instances from zero."""
        self.steps.begin_recount()
        self._wrong_pins.begin_recount()
        self.leases.begin_count()

    def end_recount(self, instances, moving):
        """Find the blocked CPUs, after Nova has counted all instances.

        A blocked CPU is a dedicated CPU on which no instance may be pinned: it
        is used by a guest of an older configuration, or by an orphan, which is
        a guest whose instance is not on this host.

        :param instances: list of nova.objects.Instance on this host
        :param moving: set of the UUIDs of instances that move from or to this
            host
        """
        # A guest that Nova is about to count, or starts now, is no orphan.
        self.guests.update_blocked(instances, self.leases.is_held, moving)
        self._wrong_pins.end_recount()  # keep what this recount has found
        # From now on, each instance of the host has a lease: the start gate
        # may warn of a guest that starts without one.
        self.gate.is_settled = True
        # Forget the errors of this package that only this recount repairs:
        # the host admits priority instances again.
        self.steps.end_recount()

    # The report and the inventories

    @property
    def pin_problem(self):
        """Why the host refuses pinned instances: a sentence or ''."""
        return self._wrong_pins.get_certain()

    def report(self, node, inventories, uuid=None):
        """Return the CapacityReport of the host as it is now.

        Blocked CPUs are dedicated CPUs on which no instance may be pinned,
        because a guest of an older configuration or of no instance uses them.
        Leased CPUs are kept for an instance, also if Nova counts them for none
        at the moment.

        :param node: nova.objects.ComputeNode that the tracker keeps
        :param inventories: dict, resource class -> inventory of the host; the
            VCPU inventory has the ratio in force
        :param uuid: UUID of an instance whose leased CPUs count as free, or
            None
        """
        cpus = self._read_cpus(inventories)
        pinned = demand.get_host_pins(node.numa_topology)
        # A CPU counts once: as pinned, else as blocked, else as leased. A CPU
        # may be both blocked and leased: a guest whose instance is gone blocks
        # CPUs, and the lease of the instance may not have ended.
        blocked = self.guests.blocked - pinned
        leased = self.leases.find_cpus(but=uuid) & (cpus.dedicated - blocked)
        # Nova's numbers in ``node`` lack the memory of the leases that Nova
        # does not count at the moment: ``small_pages`` subtracts it from the
        # memory that is not set aside for huge pages.
        totals = self.leases.count_all()
        return capacity_report.CapacityReport.from_usage(
            cpus=cpus,
            used=cpu_capacity.calculate_used(
                len(pinned | leased), totals.low_shared,
                totals.ordinary_shared),
            vcpus_used=node.vcpus_used,
            low_by_cell=totals.low_by_cell,
            partition_problem=self.partitions.problem,
            blocked=blocked,
            blocked_by=capacity_report.shorten_names(self.guests.blocked_by),
            problem=self.steps.problem or self.pin_problem,
            leased=leased - pinned,
            small_pages=numa.read_small_pages(
                node, cpus.mix, self.leases.list_uncounted(but=uuid)),
            low_supply=self.guests.low_supply)

    def build_inventories(self, stock):
        """Return the inventories that the driver reports, a new dict.

        Update ``is_vcpu_oversold``: whether a host without
        cpu_priority_mix_enable has more VCPU allocations than it sells.

        :param stock: dict, resource class -> inventory of Nova's driver, a
            dict with 'total' and more
        """
        # The inventories grow if the present allocations need more. They need
        # not grow for an instance that has not arrived: Placement had room for
        # its allocation. If it never arrives, Placement may have no allocation
        # of it any more. ``totals`` are the sums of the amounts of the others:
        # an inventory grows if it sells less than the sum.
        totals = self.leases.count_arrived()
        cpus = self._read_cpus(stock)
        reported = inventory.build_priority_inventories(stock, cpus, totals)
        # Without cpu_priority_mix_enable, ``reported`` exceeds Nova's total
        # only if more VCPU than that total is allocated.
        self.is_vcpu_oversold = (
            orc.VCPU in stock and not cpus.mix and
            reported[orc.VCPU]['total'] > stock[orc.VCPU]['total'])
        return reported
