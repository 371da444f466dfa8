# SPDX-License-Identifier: Apache-2.0

"""How many hosts are enough for the servers of a cloud.

First fit decreasing takes the largest server first, and puts each server on
the first host where it fits. The result is a heuristic: another arrangement
may need fewer hosts. The lower bound is a number that no arrangement beats.

Equal servers and equal hosts are counted, not listed, so that the work grows
with the number of different servers.
"""

from __future__ import annotations

from collections import abc
import math
import typing

from nova_prio.model.planner import host_fit
from nova_prio.model.planner import resources

#: The resources of a host that may limit the number of servers.
CPUS, MEMORY, DISK = 'CPUs', 'memory', 'disk'
#: No NUMA cell has enough CPUs or memory, although the host has.
CELLS = 'NUMA cells'
#: Resources of a ``host_fit.HostObstacle`` that are neither rows nor memory.
_NAMES = {'DISK_GB': DISK, 'NUMA cell': CELLS}
#: The resource of each amount of :func:`_measure_host`: the high, the low and
#: the ordinary row, MB and GB.
_RESOURCES = (CPUS, CPUS, CPUS, MEMORY, DISK)


class Kind(typing.NamedTuple):
    """A number of servers with equal needs."""

    needs: resources.Needs
    number: int


class HostGroup(typing.NamedTuple):
    """A number of equal hosts, which follow each other in their order.

    ``fit`` is one of them, to which servers can be added. ``is_used`` says
    whether a server was placed on each of them.
    """

    fit: host_fit.HostFit
    number: int
    is_used: bool = False


class Bound(typing.NamedTuple):
    """A lower bound of the number of hosts, and the resource that sets it.

    ``hosts`` is infinite if all hosts together have too little of it. ``sum``
    adds up the bounds of all resources: less of it leaves more to spare.
    """

    hosts: float
    sum: float
    resource: str


def pack(groups: abc.Sequence[HostGroup],
         kinds: abc.Iterable[Kind]) -> int | None:
    """Return how many hosts first fit decreasing uses.

    Parameters are those of :func:`place`.

    :returns: None if a server fits on none of them
    """
    placed = place(groups, kinds)
    if placed is None:
        return None
    return count_used(placed)


def count_used(groups: abc.Iterable[HostGroup]) -> int:
    """Return how many hosts have servers."""
    return sum(group.number for group in groups if group.is_used)


def place(groups: abc.Sequence[HostGroup],
          kinds: abc.Iterable[Kind]) -> list[HostGroup] | None:
    """Return the hosts with servers, which first fit decreasing has placed.

    Take the largest server first, and put each server on the first host where
    it fits.

    :param groups: all hosts, each a number of equal ones, in the order in
        which they are tried. The ``fit`` of a group is one of its hosts, a
        HostFit, to which servers can be added.
    :param kinds: the servers, each a number of equal ones
    :returns: None if a server fits on none of them
    """
    # The amounts of CPUs, memory and disk that the first host has. Servers are
    # measured by them to be sorted; any other host would do, too.
    totals = _measure_host(groups[0].fit) if groups else ()

    def measure(kind: Kind) -> float:
        """Return how large a server is.

        This is the part that it takes of the first host's CPUs, memory or
        disk, whichever part is the largest.
        """
        largest = 0.0
        for amount, total in zip(_measure_needs(kind.needs), totals):
            largest = max(largest, _divide(amount, total))
        return largest

    packed = list(groups)
    for kind in sorted(kinds, key=measure, reverse=True):
        # The number of these servers that have no host yet.
        left = kind.number
        # A group is split if only some of its hosts get a server: they are no
        # longer equal.
        packed_next: list[HostGroup] = []
        for group in packed:
            parts, placed = _fill(group, kind.needs, left)
            packed_next += parts
            left -= placed
        if left:
            return None
        packed = packed_next
    return packed


def _fill(group: HostGroup, needs: resources.Needs,
          number: int) -> tuple[list[HostGroup], int]:
    """Put equal servers on a group of equal hosts, one host after the other.

    :param group: its ``fit`` is one of the hosts
    :param needs: of each server
    :param number: number of the servers
    :returns: (the groups of equal hosts after this, the number of servers that
        fit)
    """
    # One host with as many of the servers as fit, and their number.
    full_host, most = group.fit.fill(needs, number)
    if not most:
        return [group], 0
    full_hosts = min(number // most, group.number)
    parts = [HostGroup(fit=full_host, number=full_hosts, is_used=True)]
    placed = full_hosts * most
    rest = group.number - full_hosts
    # The last servers do not fill a host.
    if rest and placed < number:
        last_host, fitting = group.fit.fill(needs, number - placed)
        parts.append(HostGroup(fit=last_host, number=1, is_used=True))
        placed += fitting
        rest -= 1
    if rest:
        parts.append(group._replace(number=rest))
    return parts, placed


def calculate_bound(groups: abc.Iterable[HostGroup],
                    kinds: abc.Iterable[Kind]) -> Bound:
    """Return the lower bound of the hosts for all servers together.

    For each resource, add up the hosts with the most of it until they have
    enough. The resource that needs the most hosts sets the bound.

    :param groups: all hosts, each a number of equal ones; the ``fit`` of a
        group is one of its hosts
    :param kinds: the servers, each a number of equal ones
    :returns: a Bound. Its ``sum`` adds up the hosts that each resource needs.
        It decides between equal bounds: less of it leaves more to spare.
    """
    # The sum of each resource that the servers need. The index of a resource
    # is the same in all lists and tuples.
    needed = [0.0] * len(_RESOURCES)
    for kind in kinds:
        for index, amount in enumerate(_measure_needs(kind.needs)):
            needed[index] += kind.number * amount
    # (the amounts of a host, number of such hosts)
    measured = [(_measure_host(group.fit), group.number) for group in groups]
    bound = Bound(hosts=0, sum=0, resource=CPUS)
    for index, resource in enumerate(_RESOURCES):
        # (the amount of this resource, number of such hosts)
        amounts = [(of_host[index], number) for of_host, number in measured]
        hosts = _count_hosts(amounts, needed[index])
        bound = bound._replace(sum=bound.sum + hosts)
        if hosts > bound.hosts:
            bound = bound._replace(hosts=hosts, resource=resource)
    return bound


def _count_hosts(amounts: abc.Iterable[tuple[float, int]],
                 needed: float) -> float:
    """Return the fewest hosts that have an amount of a resource together.

    :param amounts: (amount of a host, number of such hosts)
    :param needed: the amount that they must have
    :returns: infinite if all hosts together have less
    """
    hosts = 0
    # Take the hosts with most of it first.
    for amount, number in sorted(amounts, reverse=True):
        if needed <= 0:
            return hosts
        # These hosts have enough.
        if needed <= number * amount:
            return hosts + math.ceil(needed / amount)
        hosts += number
        needed -= number * amount
    return hosts if needed <= 0 else math.inf


def _measure_host(fit: host_fit.HostFit) -> tuple[float, ...]:
    """Return the remaining amounts of a host, as in ``_RESOURCES``.

    The first three are vCPUs: pinned ones, shared ones, and shared ones of
    servers without low priority. MB of memory and GB of disk follow.
    """
    memory_mb = fit.free_memory_mb
    # A mix host, whose low-priority instances may also run on the dedicated
    # CPUs, never overcommits memory.
    if not fit.host.report.mix:
        memory_mb += fit.host.overcommit_mb
    disk_gb: float = fit.free_disk_gb
    # The disks are elsewhere, and limit nothing.
    if fit.host.free_disk_gb is None:
        disk_gb = math.inf
    rows = fit.remaining
    return rows.high, rows.low, rows.ordinary, memory_mb, disk_gb


def _measure_needs(needs: resources.Needs) -> tuple[float, ...]:
    """Return the amounts of a server, as in ``_RESOURCES``."""
    rows = needs.request.needed_rows
    return (rows.high, rows.low, rows.ordinary, needs.request.memory_mb,
            needs.disk_gb)


def _divide(amount: float, total: float) -> float:
    """Return the part of a total that an amount is.

    :returns: infinite if there is an amount, but no total
    """
    if not amount:
        return 0
    return amount / total if total > 0 else math.inf


def find_limit(fit: host_fit.HostFit, needs: resources.Needs) -> str:
    """Return the resources for lack of which a server does not fit on a host.

    :param fit: the host
    :param needs: of a server that does not fit
    :returns: their names as a text, such as 'CPUs, memory'
    """
    names = set()
    for obstacle in fit.find_obstacles(needs):
        resource = obstacle.resource
        # The resource is None if the server has more vCPUs than the host has
        # CPUs. A row is a number of vCPUs that the host may sell: 'high row'
        # of pinned ones, 'low row' and 'ordinary row' of shared ones.
        if resource is None or resource.endswith(' row'):
            names.add(CPUS)
        else:
            # What is neither disk nor NUMA cell is MEMORY_MB, or the memory in
            # small pages.
            names.add(_NAMES.get(resource, MEMORY))
    # If the host lacks something, its NUMA cells lack it too.
    if len(names) > 1:
        names.discard(CELLS)
    return ', '.join(sorted(names))
