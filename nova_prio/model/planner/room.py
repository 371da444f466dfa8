# SPDX-License-Identifier: Apache-2.0

"""Move guests of a Fleet away, so that other instances fit."""

from __future__ import annotations

from collections import abc
import itertools
import typing

from nova_prio.model.planner import fleet as fleet_module
from nova_prio.model.planner import search

#: Numbers of guests that make room together; 0 stands for any number.
_SIZES = (1, 2, 0)
#: Maximum number of evictions of one size, or of hosts, that are tried.
_MAX_TRIALS = 300


class Eviction(typing.NamedTuple):
    """Guests whose departure makes room on a host, and the expected cost."""

    cost: search.Cost
    host: str
    uuids: tuple[str, ...]


class Room:
    """The room that a fleet has for equal instances.

    :param wanted: one of the instances. It is in the fleet, on a host that
        takes no instances or on no host.
    :param most: wanted number of instances
    """

    def __init__(self, of_search: search.Search,
                 wanted: fleet_module.Instance, most: int) -> None:
        self._search = of_search
        self._fleet = of_search.fleet
        self._wanted = wanted
        self._most = most
        self._policy = self._fleet.get_policy(wanted)
        self._watch = of_search.watch()
        self._counts = dict.fromkeys(of_search.open_hosts, 0)
        # (host, number of guests, kinds of movable guests) -> sets of guests
        self._victims: dict[str, dict[typing.Any, list[tuple[str, ...]]]] = {}

    def count(self) -> int:
        """Return how many instances fit, up to the wanted number."""
        counts = self._count_by_host().values()
        if self._must_share_host():
            return max(counts, default=0)
        return min(sum(counts), self._most)

    def list_hosts(self) -> list[str]:
        """Return the host of each instance that fits."""
        counts = sorted(self._count_by_host().items(),
                        key=lambda pair: -pair[1])
        if self._must_share_host():
            counts = counts[:1]
        return [host for host, count in counts
                for _ in range(count)][:self._most]

    def _must_share_host(self) -> bool:
        """Return whether all instances must be on one host.

        If the server group has members, all their hosts are allowed.
        """
        return (self._policy == fleet_module.AFFINITY and
                not self._fleet.has_members(self._wanted))

    def _count_by_host(self) -> dict[str, int]:
        """Return how many instances fit on each open host now."""
        changed = self._watch.pop_changed()
        if changed and self._policy == fleet_module.AFFINITY:
            # A member on one host decides about all hosts.
            changed = self._search.open_hosts
        for host in changed:
            self._counts[host] = self._count(host, self._most)
            self._victims.pop(host, None)
        return self._counts

    def _count(self, host: str, most: int,
               without: abc.Sequence[str] = ()) -> int:
        """Return how many instances would fit on a host without guests.

        :param without: UUIDs of the guests
        """
        usage = self._fleet.get_usage(host)
        allowed = self._fleet.count_allowed(self._wanted, host, without)
        if allowed is not None:
            most = min(most, allowed)
        for uuid in without:
            usage = usage.add(self._fleet.instances[uuid].needs,
                              self._fleet.get_place(uuid).cells, sign=-1)
        for count in range(most):
            cells = self._fleet.hosts[host].choose_cells(
                self._wanted.needs, usage)
            if cells is None:
                return count
            usage = usage.add(self._wanted.needs, cells)
        return most

    def extend(self) -> bool:
        """Move guests so that more instances fit than before, if possible.

        Try one guest of each kind, then pairs, then a larger number of guests
        of one host. The guests must fit on other hosts as these are.
        """
        before, length = self.count(), len(self._fleet.log)
        for size in _SIZES:
            evictions = sorted(self._list_evictions(size))
            for eviction in evictions[:_MAX_TRIALS]:
                # Leave the free room to guests that cannot be shelved.
                if (all(self._search.move_away(uuid, search.PACK)
                        for uuid in sorted(
                            eviction.uuids, key=self._can_be_shelved)) and
                        self.count() > before):
                    return True
                self._fleet.rollback(length)
        return False

    def _can_be_shelved(self, uuid: str) -> bool:
        return fleet_module.SHELVE in self._search.list_ways(uuid)

    def extend_simply(self) -> bool:
        """Do the same as :meth:`extend`, by the first choice that works.

        Empty the hosts in their order, one guest after the other.
        """
        before, length = self.count(), len(self._fleet.log)
        hosts = list(dict.fromkeys(
            eviction.host for eviction in self._list_evictions(size=0)))
        if self._policy == fleet_module.AFFINITY:
            # If all members of the group are shelved, each host is allowed.
            hosts = self._search.open_hosts
        for host in hosts[:_MAX_TRIALS]:
            for uuid in self._fleet.list_guests(host):
                if (self._search.move_away(uuid, search.FIRST) and
                        self.count() > before):
                    return True
            self._fleet.rollback(length)
        return False

    def _list_evictions(self, size: int) -> abc.Iterator[Eviction]:
        """Yield the evictions of one size of all open hosts."""
        moved = {move.uuid for move in self._fleet.log}
        total = self.count()
        for host, count in self._counts.items():
            target = 1 + (total if self._must_share_host() else count)
            kinds = self._search.group_movable(host)
            found = self._victims.setdefault(host, {})
            key = (size, target, tuple(kinds))
            if key not in found:
                found[key] = self._find_victims(host, target, size, kinds)
            for uuids in found[key]:
                # A second move of an instance will be merged with the first.
                yield Eviction(search.calculate_cost(
                    (self._search.expect_way(uuid),
                     self._search.get_class(uuid))
                    for uuid in uuids if uuid not in moved), host, uuids)

    def _find_victims(self, host: str, target: int, size: int,
                      kinds: dict[typing.Any, list[str]],
                      ) -> list[tuple[str, ...]]:
        """Return sets of guests without which ``target`` instances fit."""
        def suffices(uuids: abc.Sequence[str]) -> bool:
            """Return whether they fit without these guests."""
            return self._count(host, target, uuids) >= target

        movable = list(itertools.chain.from_iterable(kinds.values()))
        if not suffices(movable):
            return []
        if size:
            return list(filter(suffices, _combine(kinds, size)))
        by_size = sorted(movable, key=self._search.get_size, reverse=True)
        return [_reduce(movable, suffices), _reduce(by_size, suffices)]


def _combine(kinds: dict[typing.Any, list[str]],
             size: int) -> abc.Iterator[tuple[str, ...]]:
    """Yield the different choices of ``size`` guests."""
    for chosen in itertools.combinations_with_replacement(kinds, size):
        numbers = {kind: chosen.count(kind) for kind in chosen}
        if all(number <= len(kinds[kind])
               for kind, number in numbers.items()):
            yield tuple(uuid for kind, number in numbers.items()
                        for uuid in kinds[kind][:number])


def _reduce(order: abc.Sequence[str],
            suffices: abc.Callable[[abc.Sequence[str]], bool],
            ) -> tuple[str, ...]:
    """Return guests from the beginning of a list, as few as suffice."""
    chosen: list[str] = []
    for uuid in order:
        chosen.append(uuid)
        if suffices(chosen):
            break
    for uuid in list(chosen):
        fewer = [each for each in chosen if each != uuid]
        if suffices(fewer):
            chosen = fewer
    return tuple(chosen)
