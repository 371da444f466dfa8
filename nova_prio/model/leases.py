# SPDX-License-Identifier: Apache-2.0

"""The leases of a host: the CPUs and vCPUs that each instance has.

Nova changes its records of one move in several writes. At some moments no
record claims the CPUs of a guest that runs or is about to start. Therefore a
lease ends by evidence, never because no record names it. No CPU is leased to
two instances.
"""

from collections import abc
import dataclasses
import threading
import typing

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
    ``is_in_claim`` is true from the claim until Nova's call that made it has
    ended. ``starts`` is the number of starts of the guest in progress, and
    ``starts_begun`` that of all starts. ``first_look`` is the time since when
    nothing in Nova needs the set, or None.
    """

    cpus: frozenset[int] = frozenset()
    topology: typing.Any = None
    usage: usages.Usage | None = None
    migration_uuid: str | None = None
    is_counted: bool = False
    is_incoming: bool = False
    is_in_claim: bool = False
    starts: int = 0
    starts_begun: int = 0
    first_look: float | None = None

    @property
    def is_in_hand(self) -> bool:
        """Whether a call of Nova is working with the set."""
        return self.is_in_claim or self.starts > 0


class Leases:
    """The lease of each instance: a list of LeaseSets, by UUID.

    An instance that is resized on the host has two. The lock is taken last:
    no method calls other code while it has the lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sets: dict[str, list[LeaseSet]] = {}

    def get(self, uuid: str) -> list[LeaseSet]:
        """Return the LeaseSets of an instance."""
        with self._lock:
            return list(self._sets.get(uuid, ()))

    def get_cpus(self, uuid: str) -> frozenset[int]:
        """Return the CPUs that are leased to an instance."""
        return frozenset().union(*[each.cpus for each in self.get(uuid)])

    def list_all(self) -> list[tuple[str, LeaseSet]]:
        """Return the UUID and the LeaseSet of each set."""
        with self._lock:
            return [(uuid, each) for uuid, sets in self._sets.items()
                    for each in sets]

    def list_usages(self) -> list[tuple[str, usages.Usage]]:
        """Return the UUID and the Usage of each set that has a Usage."""
        return [(uuid, each.usage) for uuid, each in self.list_all()
                if each.usage is not None]

    def find_cpus(self, but: str | None = None) -> frozenset[int]:
        """Return the CPUs that are leased.

        :param but: UUID of an instance whose lease is left out, or None
        """
        return frozenset().union(*(
            each.cpus for uuid, each in self.list_all() if uuid != but))

    def begin(self, uuid: str, new: LeaseSet) -> dict[str, frozenset[int]]:
        """Add a LeaseSet, unless another instance has one of its CPUs.

        :returns: dict, UUID of another instance -> frozenset of the common
            CPUs; empty if the set was added
        """
        owners: dict[str, frozenset[int]] = {}
        with self._lock:
            for owner, sets in self._sets.items():
                for each in sets:
                    common = each.cpus & new.cpus
                    if common and owner != uuid:
                        owners[owner] = owners.get(owner, frozenset()) | common
            if not owners:
                self._sets.setdefault(uuid, []).append(new)
        return owners

    def begin_free(self, uuid: str, cpus: frozenset[int]) -> None:
        """Lease those CPUs to an instance that no other instance has.

        They become a LeaseSet without topology, as of a guest.
        """
        own = self.get_cpus(uuid)
        while cpus - own:
            owners = self.begin(uuid, LeaseSet(cpus - own))
            if not owners:
                return
            cpus = cpus.difference(*owners.values())

    def end(self, uuid: str, ended: LeaseSet,
            starts_begun: int | None = None) -> bool:
        """Remove a LeaseSet, unless a call works with it.

        :param starts_begun: its value when the evidence was gathered; the set
            stays if its guest was started or it was counted since. None if
            there is no such evidence
        :returns: whether the set was removed
        """
        with self._lock:
            has_changed = starts_begun is not None and (
                ended.is_counted or starts_begun != ended.starts_begun)
            sets = self._sets.get(uuid, [])
            if has_changed or ended.is_in_hand or ended not in sets:
                return False
            sets.remove(ended)
            if not sets:
                del self._sets[uuid]
            return True

    def begin_count(self) -> None:
        """Note that Nova's tracker begins to count from zero."""
        for _, each in self.list_all():
            each.is_counted = False

    def hold(self, uuid: str,
             but: abc.Container[LeaseSet] = ()) -> list[LeaseSet]:
        """Keep the lease of an instance while its guest starts.

        :param but: LeaseSets that are held already
        :returns: LeaseSets for ``let_go``
        """
        with self._lock:
            held = [each for each in self._sets.get(uuid, ())
                    if each not in but]
            for each in held:
                each.starts += 1
                each.starts_begun += 1
        return held

    def let_go(self, held: list[LeaseSet]) -> None:
        """Note that the start of a guest has ended.

        :param held: the result of ``hold``
        """
        with self._lock:
            for each in held:
                each.starts -= 1
