# SPDX-License-Identifier: Apache-2.0

"""The leases of a host: the CPUs and vCPUs that each instance has.

Nova changes its records of one move in several writes. At some moments no
record claims the CPUs of a guest that runs or is about to start. Therefore a
lease ends by evidence, never because no record names it. No CPU is leased to
two instances.
"""

import collections
from collections import abc
import dataclasses
import threading
import typing

from nova_prio.model import looks
from nova_prio.model import usage as usages


@dataclasses.dataclass(eq=False)
class LeaseSet:
    """The CPUs and vCPUs that an instance has on a host for one flavor.

    ``cpus`` are the numbers of its dedicated CPUs. ``topology`` is the
    nova.objects.InstanceNUMATopology of the set, or None without one, or if
    the set was read from a guest. Such a set has no ``usage`` either, a
    ``usage.Usage``.

    ``migration_uuid`` is that of the move that has claimed the set, or None.
    ``is_counted`` tells whether the numbers of Nova's tracker contain the set,
    and ``is_incoming`` whether the instance has not arrived yet.
    ``first_look`` is the time since when nothing in Nova needs the set, or
    None.
    """

    cpus: frozenset[int] = frozenset()
    topology: typing.Any = None
    usage: usages.Usage | None = None
    migration_uuid: str | None = None
    is_counted: bool = False
    is_incoming: bool = False
    first_look: float | None = None

    def look(self, now: float, is_sufficient: bool = False) -> bool:
        """Note that nothing needs the set; return whether that is certain.

        The caller has looked at Nova's records, and none of them needs the
        CPUs of this set. Nova changes its records of one move in several
        writes, so a look between two writes proves nothing. Only a second
        look, ``looks.LOOK_SECONDS`` after the first one, makes it certain.

        :param now: time of this look, in seconds
        :param is_sufficient: whether this look alone makes it certain
        """
        is_certain = is_sufficient or looks.is_second(self.first_look, now)
        if self.first_look is None:
            self.first_look = now
        return is_certain


class Leases:
    """The lease of each instance: a list of LeaseSets, by UUID.

    An instance that is resized on the host has two. While a call of Nova works
    with the lease, it is in hand: it does not end. The lock is taken last: no
    method calls other code while it has the lock.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # UUID of an instance -> its LeaseSets: the CPUs and vCPUs that it has
        # here, one set for each flavor.
        self._sets: dict[str, list[LeaseSet]] = {}
        # UUIDs of the instances for which Nova has made a claim in a call that
        # has not returned yet.
        self._in_claim: set[str] = set()
        # UUID -> number of the starts of its guest that have not ended.
        self._starts: collections.Counter[str] = collections.Counter()
        # UUID -> number of all starts of its guest, also of those that have
        # ended: it shows whether the guest was started since an earlier look.
        self._all_starts: collections.Counter[str] = collections.Counter()

    def get(self, uuid: str) -> list[LeaseSet]:
        """Return the LeaseSets of an instance."""
        with self._lock:
            return list(self._sets.get(uuid, ()))

    def get_cpus(self, uuid: str) -> frozenset[int]:
        """Return the CPUs that are leased to an instance."""
        return _join_cpus(self.get(uuid))

    def list_all(self) -> list[tuple[str, LeaseSet]]:
        """Return the UUID and the LeaseSet of each set."""
        found = []
        with self._lock:
            for uuid, sets in self._sets.items():
                found += [(uuid, each) for each in sets]
        return found

    def list_usages(self) -> list[tuple[str, usages.Usage]]:
        """Return the UUID and the Usage of each set that has a Usage."""
        return [(uuid, each.usage) for uuid, each in self.list_all()
                if each.usage is not None]

    def count_all(self) -> usages.Totals:
        """Return the Totals of all sets."""
        return calculate_totals(each for _, each in self.list_all())

    def count_arrived(self) -> usages.Totals:
        """Return the Totals of the arrived sets that Nova counts."""
        return calculate_totals(
            each for _, each in self.list_all()
            if each.is_counted and not each.is_incoming)

    def list_uncounted(self, but: str | None) -> list[LeaseSet]:
        """Return the sets with a Usage that Nova's tracker does not count.

        :param but: UUID of an instance whose lease is left out, or None
        """
        return [each for uuid, each in self.list_all()
                if uuid != but and each.usage and not each.is_counted]

    def find_cpus(self, but: str | None = None) -> frozenset[int]:
        """Return the CPUs that are leased.

        :param but: UUID of an instance whose lease is left out, or None
        """
        return _join_cpus(
            each for uuid, each in self.list_all() if uuid != but)

    def begin(self, uuid: str, new: LeaseSet) -> dict[str, frozenset[int]]:
        """Lease the CPUs of a LeaseSet, unless another instance has one.

        While a CPU is leased to an instance, no other instance can get it. A
        LeaseSet is the CPUs and vCPUs of an instance for one flavor.

        :param uuid: UUID of the instance that gets the CPUs
        :returns: dict, UUID of another instance -> those of the CPUs that it
            has, a frozenset; empty if the CPUs are now leased
        """
        owners: dict[str, frozenset[int]] = {}
        with self._lock:
            for owner, sets in self._sets.items():
                common = _join_cpus(sets) & new.cpus
                if common and owner != uuid:
                    owners[owner] = common
            if not owners:
                self._sets.setdefault(uuid, []).append(new)
        return owners

    def begin_free(self, uuid: str, cpus: frozenset[int]) -> None:
        """Lease to an instance those of some CPUs that no instance has.

        They become a further LeaseSet of the instance, beside those that it
        has. This set has no topology and no usage, like a set that was read
        from a guest.

        :param cpus: numbers of the CPUs; this or other instances may have some
        """
        own = self.get_cpus(uuid)
        # begin() leases nothing if other instances have some of the CPUs. It
        # returns these CPUs by instance: leave them out, and try again.
        while cpus - own:
            owners = self.begin(uuid, LeaseSet(cpus - own))
            if not owners:
                return
            for common in owners.values():
                cpus = cpus - common

    def end(self, uuid: str, ended: LeaseSet,
            starts: int | None = None) -> bool:
        """Remove a LeaseSet, unless Nova needs it again.

        The CPUs of the set are then free for other instances. The set stays
        while a call of Nova claims for the instance or starts its guest.

        :param starts: what ``count_starts`` returned before the caller looked
            whether something needs the set. The set stays if the guest was
            started since, or if Nova's tracker counts the set. None if the
            caller did not look: then these two do not matter.
        :returns: whether the set was removed
        """
        with self._lock:
            # Something needs the set that the caller cannot have seen. All
            # starts count for this, even if a start has ended since.
            has_changed = starts is not None and (
                ended.is_counted or starts != self._all_starts[uuid])
            sets = self._sets.get(uuid, [])
            if has_changed or self.is_in_hand(uuid) or ended not in sets:
                return False
            sets.remove(ended)
            if not sets:
                del self._sets[uuid]
                # The starts that have not ended, and the number of all starts.
                self._starts.pop(uuid, None)
                self._all_starts.pop(uuid, None)
            return True

    def begin_count(self) -> None:
        """Note that Nova's resource tracker begins to count from zero."""
        for _, each in self.list_all():
            each.is_counted = False

    def begin_call(self, uuid: str) -> None:
        """Note that the call of Nova that has made a claim goes on."""
        self._in_claim.add(uuid)

    def end_call(self, uuid: str) -> None:
        """Note that the call of Nova that has made a claim has ended."""
        self._in_claim.discard(uuid)

    def begin_start(self, uuid: str) -> None:
        """Note that the guest of an instance is being started.

        Count the start among those that have not ended, and among all starts.
        """
        with self._lock:
            self._starts[uuid] += 1
            self._all_starts[uuid] += 1

    def end_start(self, uuid: str) -> None:
        """Note that a start of the guest has ended."""
        with self._lock:
            self._starts[uuid] -= 1

    def count_starts(self, uuid: str) -> int:
        """Return how often the guest of an instance was started.

        If the number has grown between two calls, the guest was started.
        """
        with self._lock:
            return self._all_starts[uuid]

    def is_in_hand(self, uuid: str) -> bool:
        """Return whether a call of Nova works with the lease.

        The call has made a claim, or starts the guest.
        """
        with self._lock:
            return uuid in self._in_claim or self._starts[uuid] > 0

    def is_held(self, uuid: str) -> bool:
        """Return whether Nova counts a set, or works with the lease."""
        return self.is_in_hand(uuid) or any(
            each.is_counted for each in self.get(uuid))


def _join_cpus(sets: abc.Iterable[LeaseSet]) -> frozenset[int]:
    """Return the CPUs of all sets."""
    cpus: frozenset[int] = frozenset()
    for each in sets:
        cpus |= each.cpus
    return cpus


def calculate_totals(sets: abc.Iterable[LeaseSet]) -> usages.Totals:
    """Return the Totals of the sets that have a Usage."""
    return usages.Totals(
        each.usage for each in sets if each.usage is not None)


def find_equal(sets: abc.Iterable[LeaseSet],
               wanted: LeaseSet) -> LeaseSet | None:
    """Return the LeaseSet with the CPUs and the usage of another, or None.

    A LeaseSet has the CPUs and vCPUs that an instance has on a host. If no set
    has both the CPUs and the usage, the same CPUs are sufficient for pinned
    instances, and equal amounts for others: during a move, the record may have
    the NUMA cells of the other host.

    A set that was read from a guest has CPUs, but no usage. If it is returned,
    it also gets topology and usage of ``wanted``.

    :param sets: the LeaseSets of one instance
    :param wanted: LeaseSet that Nova's records describe
    """
    same_cpus = [each for each in sets if each.cpus == wanted.cpus]
    for each in same_cpus:
        if each.usage == wanted.usage:
            return each
    is_pinned = bool(wanted.cpus)
    for each in same_cpus:
        if is_pinned:
            was_read_from_guest = each.usage is None
            if was_read_from_guest:
                each.topology, each.usage = wanted.topology, wanted.usage
            return each
        # The amounts are all values of a usage but the NUMA cells.
        if (each.usage and wanted.usage and
                each.usage.amounts == wanted.usage.amounts):
            return each
    return None
