# SPDX-License-Identifier: Apache-2.0

"""Move guests of a Fleet away, so that other instances fit.

Guests of one kind are interchangeable: they have equal needs, the same server
group, the same ways to move and the same NUMA cells of the host.
"""

from __future__ import annotations

from collections import abc
import typing

from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import search

#: Numbers of guests that make room together; 0 stands for any number.
_SIZES = (1, 2, 0)
#: Maximum number of evictions of one size, or of hosts, that are tried.
_MAX_TRIALS = 300
#: UUIDs of guests of a host.
Guests = tuple[str, ...]


class Eviction(typing.NamedTuple):
    """Guests whose departure makes room on a host, and the expected cost."""

    cost: search.Cost
    host: str
    uuids: Guests


class Room:
    """The room that a fleet has for equal instances.

    :param wanted: one of the instances. It is in the fleet, on a host that
        takes no instances or on no host.
    :param number: wanted number of instances
    """

    def __init__(self, of_search: search.Search,
                 wanted: fleet_module.Instance, number: int) -> None:
        self._search = of_search
        self._fleet = of_search.fleet
        self._wanted = wanted
        # The number of instances equal to this one that are wanted.
        self._number = number
        self._has_affinity = (
            self._fleet.get_policy(wanted) == fleet_module.AFFINITY)
        # Number of changes of the fleet, from its beginning, that the dicts
        # below consider.
        self._considered = 0
        # Host that takes instances -> how many instances equal to ``wanted``
        # fit on it.
        self._counts = dict.fromkeys(of_search.open_hosts, 0)
        # Host -> UUIDs of its guests, a list for each kind. The guests of one
        # kind are interchangeable.
        self._kinds: dict[str, list[list[str]]] = {}
        # Host -> key -> sets of guests that make enough room when they leave.
        # The key is (number of guests of a set, wanted number of instances on
        # the host, UUIDs of the guests that can leave).
        self._victims: dict[str, dict[abc.Hashable, list[Guests]]] = {}

    def count(self) -> int:
        """Return how many instances fit, up to the wanted number."""
        counts = self._count_by_host().values()
        if self._must_share_host():
            return max(counts, default=0)
        return min(sum(counts), self._number)

    def is_sufficient(self) -> bool:
        """Return whether the wanted number of instances fits."""
        return self.count() == self._number

    def list_hosts(self) -> list[str]:
        """Return the host of each wanted instance that fits.

        :returns: a host occurs once for each of the instances that it can take
        """
        counts = self._count_by_host()
        hosts: list[str] = []
        for host in sorted(counts, key=counts.__getitem__, reverse=True):
            hosts += counts[host] * [host]
            # With affinity, the host that takes most must take all. Otherwise
            # add hosts until all wanted instances have one.
            if self._must_share_host() or len(hosts) >= self._number:
                break
        return hosts[:self._number]

    def _must_share_host(self) -> bool:
        """Return whether all wanted instances must be on one host.

        The policy affinity requires this while no member of the server group
        is on a host. If some are, all their hosts are allowed.
        """
        return (self._has_affinity and
                not self._fleet.has_members(self._wanted))

    def _count_by_host(self) -> dict[str, int]:
        """Return how many wanted instances fit on each open host now.

        An open host is one that takes instances. Only hosts whose usage has
        changed since the last call are counted anew.
        """
        # Pass the number of changes of the fleet that are considered in the
        # counts, and get the number of all changes.
        self._considered, changed = self._search.find_changed(self._considered)
        if changed and self._has_affinity:
            # With affinity, a member on one host decides whether the other
            # hosts are allowed: count them all.
            changed = self._search.open_hosts
        for host in changed:
            self._counts[host] = self._count(host, self._number)
            # Forget its guests, and which of them can make room: both are
            # found anew when they are needed.
            self._kinds.pop(host, None)
            self._victims.pop(host, None)
        return self._counts

    def _count(self, host: str, most: int,
               without: abc.Sequence[str] = ()) -> int:
        """Return how many instances would fit if some guests had left a host.

        :param most: where to stop counting
        :param without: UUIDs of these guests
        """
        emptied = self._fleet.hosts[host]
        # The limit of the server group, or None.
        allowed = self._fleet.count_allowed(self._wanted, host, without)
        if allowed is not None:
            most = min(most, allowed)
        for uuid in without:
            # Sign -1 takes the guest away.
            emptied = emptied.add(self._fleet.instances[uuid].needs,
                                  self._fleet.get_place(uuid).cells, sign=-1)
        _, count = emptied.fill(self._wanted.needs, most)
        return count

    def extend(self) -> bool:
        """Move guests so that more instances fit than before, if possible.

        Try one guest of each kind, then pairs, then a larger number of guests
        of one host. The guests must fit on the other hosts without further
        moves. They go to the host with the least room that suffices, so that
        large rooms stay.

        :returns: False if this is not possible; then nothing has moved
        """
        # How many of the wanted instances fit, and the number of moves so far.
        fitting, moves_before = self.count(), len(self._fleet.log)
        for size in _SIZES:
            # An eviction is guests that make room when they leave their host.
            # The one with the smallest cost comes first.
            evictions = sorted(self._list_evictions(size))
            for eviction in evictions[:_MAX_TRIALS]:
                # Guests that cannot be shelved come first: they need the room.
                order = sorted(eviction.uuids, key=self._can_be_shelved)
                # Move one after the other, until one cannot move.
                have_moved = all(self._search.move_away(uuid, search.PACK)
                                 for uuid in order)
                if have_moved and self.count() > fitting:
                    return True
                self._fleet.rollback(moves_before)
        return False

    def _can_be_shelved(self, uuid: str) -> bool:
        """Return whether shelving is an allowed way to move an instance."""
        return fleet_module.SHELVE in self._search.list_ways(uuid)

    def extend_simply(self) -> bool:
        """Move guests so that more instances fit; take the first way found.

        :meth:`extend` does the same with better choices. Here, empty the hosts
        in their order, one guest after the other.

        :returns: False if this is not possible; then nothing has moved
        """
        # How many of the wanted instances fit, and the number of moves so far.
        fitting, moves_before = self.count(), len(self._fleet.log)
        if self._has_affinity:
            # With affinity, a host without members of the server group is not
            # allowed until all members are shelved. To allow for that, try all
            # hosts that take instances.
            hosts = list(self._search.open_hosts)
        else:
            # The hosts where guests can make room; size 0 stands for any
            # number of guests.
            hosts = list(dict.fromkeys(
                eviction.host for eviction in self._list_evictions(size=0)))
        for host in hosts[:_MAX_TRIALS]:
            for uuid in self._fleet.list_guests(host):
                has_moved = self._search.move_away(uuid, search.FIRST)
                if has_moved and self.count() > fitting:
                    return True
            self._fleet.rollback(moves_before)
        return False

    def _list_evictions(self, size: int) -> abc.Iterator[Eviction]:
        """Yield the evictions of all hosts that take instances.

        The guests of an eviction make room for one more wanted instance when
        they leave their host.

        :param size: number of guests of an eviction; 0 for as few as suffice
        """
        moved = {move.uuid for move in self._fleet.log}
        # How many of the wanted instances fit now.
        total = self.count()
        for host, fitting in self._counts.items():
            # With affinity, all instances must be on this host. It must take
            # more than the host that takes most now, which takes ``total``.
            if self._must_share_host():
                fitting = total
            for uuids in self._find_victims(host, fitting + 1, size):
                # (UUID, how Nova would move it). A second move of an instance
                # costs nothing: it will be merged with the first.
                ways = [(uuid, self._search.expect_way(uuid))
                        for uuid in uuids if uuid not in moved]
                yield Eviction(cost=self._search.calculate_cost(ways),
                               host=host, uuids=uuids)

    def _find_victims(self, host: str, target: int,
                      size: int) -> list[Guests]:
        """Return sets of guests without which ``target`` instances fit.

        :param target: wanted number of instances on the host
        :param size: number of guests of each set; 0 for as few as suffice
        :returns: tuples of UUIDs; empty if the host cannot be emptied enough
        """
        if host not in self._kinds:
            self._kinds[host] = self._search.group_guests(host)
        # Each kind is a list of UUIDs of interchangeable guests: if the first
        # one can leave the host, all can.
        kinds = [uuids for uuids in self._kinds[host]
                 if self._search.can_leave(uuids[0])]
        movable = sum(kinds, [])
        # Answers from before, as long as the host has not changed.
        found = self._victims.setdefault(host, {})
        key = size, target, tuple(movable)
        if key in found:
            return found[key]
        choices: list[Guests] = []
        # Without all movable guests, do enough instances fit?
        if self._suffices(host, target, movable):
            if size == 0:
                # Two orders: by class, low priority first, whose moves cost
                # least; and the largest first, so that few guests suffice.
                by_size = sorted(
                    movable, key=self._search.get_size, reverse=True)
                choices = [self._reduce(host, target, movable),
                           self._reduce(host, target, by_size)]
            else:
                choices = [each for each in _combine(kinds, size)
                           if self._suffices(host, target, each)]
        found[key] = choices
        return choices

    def _suffices(self, host: str, target: int,
                  without: abc.Sequence[str]) -> bool:
        """Return whether ``target`` instances fit without some guests."""
        return self._count(host, target, without) >= target

    def _reduce(self, host: str, target: int,
                order: abc.Iterable[str]) -> Guests:
        """Return few guests of a host without which the instances fit.

        Take guests from the beginning of ``order`` until the instances fit.
        Then leave out each that is not needed.

        :param target: number of wanted instances that must fit
        :param order: UUIDs of the guests to choose from
        """
        chosen: list[str] = []
        for uuid in order:
            chosen.append(uuid)
            if self._suffices(host, target, chosen):
                break
        for uuid in list(chosen):
            fewer = [each for each in chosen if each != uuid]
            if self._suffices(host, target, fewer):
                chosen = fewer
        return tuple(chosen)


def _combine(kinds: list[list[str]], size: int) -> abc.Iterator[Guests]:
    """Yield the different choices of one guest, or of two guests.

    :param kinds: lists of UUIDs; the guests of one list are interchangeable
    :param size: 1 or 2
    """
    for number, uuids in enumerate(kinds):
        # One guest, or two of one kind.
        if len(uuids) >= size:
            yield tuple(uuids[:size])
        # Two guests of different kinds.
        if size == 2:
            for others in kinds[number + 1:]:
                yield uuids[0], others[0]
