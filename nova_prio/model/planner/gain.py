# SPDX-License-Identifier: Apache-2.0

"""What mix gains: the hosts that are enough without and with it.

Mix is the option ``cpu_priority_mix_enable``: low-priority instances may also
run on the dedicated CPUs of a host. The hosts are empty, and their CPUs are
divided anew into dedicated and shared CPUs. All other rules are those of
:mod:`nova_prio.model.planner.host_fit`.
"""

from __future__ import annotations

import collections
from collections import abc
import dataclasses
import decimal
import fractions
import math
import typing

from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import host_fit
from nova_prio.model.planner import resources

#: Most steps in which the CPUs of a NUMA cell are divided, and most divisions
#: for which the servers are placed.
_MOST_STEPS, _MOST_TRIALS = 32, 8
#: Equal hosts may differ by this part of an amount, or by this many MB.
_NEAR_PART, _NEAR_MB = 0.01, 1024
#: No used vCPUs of any kind: pinned, shared, and shared without low priority.
_NO_VCPUS = cpu_capacity.Rows(high=0, low=0, ordinary=0)
#: Index of a division of the CPUs, and the servers of its hosts.
_Part = tuple[int, abc.Sequence[first_fit.Kind]]
#: Aggregate of all hosts: the question is what they would gain.
_PRIORITY = aggregate_metadata.Aggregate('priority', {'priority_mix': 'true'})


class Setup(typing.NamedTuple):
    """A ratio, and whether the hosts are mix hosts."""

    ratio: decimal.Decimal
    mix: bool


class Forecast(typing.NamedTuple):
    """The fewest hosts of a Setup that were found.

    ``hosts`` is None if no division of the CPUs suits all servers. ``cpus``
    are those of the first host. They are None without such a division, and if
    the pinned servers have hosts of their own. No arrangement that was tried
    needs fewer hosts than ``least``. ``limit`` is the resource of which the
    hosts have least to spare. Without ``hosts``, ``misfit`` are servers that
    do not fit with the division that needs the fewest hosts for the others.
    """

    setup: Setup
    cpus: cpu_capacity.HostCPUs | None
    hosts: int | None
    least: float
    limit: str
    misfit: first_fit.Kind | None = None


def make_host(cpus: int, cells: int, memory_mb: int,
              usable_mb: int, disk_gb: int | None) -> host_fit.HostFit:
    """Return an empty host, whose CPUs are shared.

    :param cpus: number of CPUs, a multiple of ``cells``
    :param cells: number of equal NUMA cells
    :param memory_mb: memory of all NUMA cells together
    :param usable_mb: memory of the host that servers can have
    :param disk_gb: None if disks do not limit the servers
    """
    cpus_per_cell = cpus // cells
    host_cpus = cpu_capacity.HostCPUs(
        dedicated=frozenset(), shared=frozenset(range(cpus)),
        ratio=cpu_capacity.parse_ratio(1), mix=False)
    all_cells = []
    for first in range(0, cpus, cpus_per_cell):
        cell_cpus = dataclasses.replace(
            host_cpus, shared=frozenset(range(first, first + cpus_per_cell)))
        all_cells.append(resources.Cell(
            cpus=cell_cpus, used=_NO_VCPUS, free_memory_mb=memory_mb // cells))
    return host_fit.HostFit.from_host(resources.Host(
        name='', report=_make_report(host_cpus), free_memory_mb=usable_mb,
        free_disk_gb=disk_gb, cells=tuple(all_cells)))


def group_hosts(hosts: abc.Iterable[host_fit.HostFit],
                ) -> list[first_fit.HostGroup]:
    """Return the groups of equal empty hosts, those with most CPUs first.

    Hosts are equal if they have as many CPUs in as many cells, and nearly the
    same memory and disks. The host with the least memory stands for its group.
    Among groups with the same CPUs, the one with most memory comes first.
    """
    # Shape, such as the number of CPUs -> hosts.
    by_shape = collections.defaultdict(list)
    for fit in hosts:
        by_shape[_get_shape(fit)].append(fit)
    groups: list[first_fit.HostGroup] = []
    for shape in sorted(by_shape, reverse=True):
        # Groups in the order of their memory, the least first.
        of_shape: list[first_fit.HostGroup] = []
        for fit in sorted(by_shape[shape], key=_list_amounts):
            for index, group in enumerate(of_shape):
                if _are_near(fit, group.fit):
                    of_shape[index] = group._replace(number=group.number + 1)
                    break
            else:
                of_shape.append(first_fit.HostGroup(fit, number=1))
        groups += reversed(of_shape)
    return groups


def _get_shape(fit: host_fit.HostFit) -> tuple[typing.Any, ...]:
    """Return what equal hosts have exactly in common, as a sortable key.

    Which CPUs are dedicated, and their allocation ratio, do not matter: the
    planner divides the CPUs anew into dedicated and shared ones.

    :returns: (number of CPUs, their numbers in each NUMA cell, whether disks
        do not limit the servers, size of the small pages in KiB or 0)
    """
    page_kb = 0
    if fit.small_pages is not None:
        page_kb = fit.small_pages.page_kb
    cpus_per_cell = tuple([_count_cpus(cell.cpus) for cell in fit.cells])
    has_no_disk_limit = fit.host.free_disk_gb is None
    return (_count_cpus(fit.host.report.cpus), cpus_per_cell,
            has_no_disk_limit, page_kb)


def _count_cpus(cpus: cpu_capacity.HostCPUs) -> int:
    """Return the number of CPUs, of both kinds."""
    return len(cpus.dedicated | cpus.shared)


def _list_amounts(fit: host_fit.HostFit) -> list[int]:
    """Return the amounts of an empty host in MB, its memory first.

    Hosts are sorted by them, and compared amount by amount: two hosts of one
    shape have lists of equal length. The memory comes as the free amount and
    what overcommit adds to it, then the disk, the small pages if the host has
    huge pages, and the memory of each NUMA cell, likewise.
    """
    amounts = [fit.free_memory_mb, fit.host.overcommit_mb,
               fit.free_disk_gb * 1024]
    if fit.small_pages is not None:
        amounts.append(fit.small_pages.free_mb)
    for cell in fit.cells:
        amounts += cell.free_memory_mb, cell.overcommit_mb
    return amounts


def _are_near(fit: host_fit.HostFit, other: host_fit.HostFit) -> bool:
    """Return whether hosts of one shape have nearly the same amounts.

    Hosts of one shape have as many CPUs and NUMA cells, and equal small pages.
    """
    pairs = zip(_list_amounts(fit), _list_amounts(other), strict=True)
    return all(math.isclose(amount, of_other, rel_tol=_NEAR_PART,
                            abs_tol=_NEAR_MB) for amount, of_other in pairs)


def _make_report(
        cpus: cpu_capacity.HostCPUs) -> capacity_report.CapacityReport:
    """Return the report of an empty host."""
    return capacity_report.CapacityReport.from_usage(
        cpus=cpus, used=_NO_VCPUS, vcpus_used=0, low_by_cell={})


def configure(fit: host_fit.HostFit, cpus: cpu_capacity.HostCPUs,
              ) -> host_fit.HostFit:
    """Return an empty host with other CPU sets.

    The host takes instances of both priorities and ordinary ones.

    :param fit: the host without instances
    :param cpus: the new CPU sets, of the CPUs that the host has
    """
    cells = []
    for cell in fit.cells:
        numbers = cell.cpus.dedicated | cell.cpus.shared
        cell_cpus = dataclasses.replace(
            cpus, dedicated=cpus.dedicated & numbers,
            shared=cpus.shared & numbers)
        cells.append(cell._replace(used=_NO_VCPUS, cpus=cell_cpus))
    # The metadata priority_mix=true of the aggregate admit priority instances.
    # An aggregate excludes ordinary ones only by priority_ordinary=false.
    host = dataclasses.replace(
        fit.host, report=_make_report(cpus), aggregates=(_PRIORITY,),
        is_enabled=True)
    return fit._replace(host=host, used=_NO_VCPUS, cells=tuple(cells))


def divide(fit: host_fit.HostFit, setup: Setup, step: int,
           steps: int) -> cpu_capacity.HostCPUs | None:
    """Return the CPU sets of a host: step / steps of each cell is dedicated.

    :param setup: allocation ratio, and whether low-priority instances may also
        run on the dedicated CPUs (mix)
    :param step: from 0, all CPUs shared, to ``steps``, all CPUs dedicated
    :returns: None if nova-compute would refuse to start with them
    """
    # The CPUs of each NUMA cell. A host without cells counts as one.
    cpus_of_cells = ([cell.cpus for cell in fit.cells] or
                     [fit.host.report.cpus])
    dedicated: frozenset[int] = frozenset()
    shared: frozenset[int] = frozenset()
    for of_cell in cpus_of_cells:
        ordered = sorted(of_cell.dedicated | of_cell.shared)
        shared_count = len(ordered) - len(ordered) * step // steps
        shared |= frozenset(ordered[:shared_count])
        dedicated |= frozenset(ordered[shared_count:])
    cpus = cpu_capacity.HostCPUs(dedicated=dedicated, shared=shared,
                                 ratio=setup.ratio, mix=setup.mix)
    # Mix needs CPUs of both kinds, and vCPUs of low priority to sell.
    if setup.mix and not (dedicated and shared and cpus.sellable.low):
        return None
    return cpus


def list_divisions(groups: abc.Sequence[first_fit.HostGroup],
                   setup: Setup) -> list[list[first_fit.HostGroup]]:
    """Return the groups of hosts with each division of the CPUs to try.

    A division makes some CPUs dedicated and the others shared. All hosts
    dedicate the same part of their CPUs.

    :param groups: the hosts, each a number of equal ones
    :param setup: allocation ratio, and whether low-priority instances may also
        run on the dedicated CPUs (mix)
    :returns: list with the groups for each division
    """
    # The most CPUs of a NUMA cell.
    largest = 0
    for group in groups:
        cpus = _count_cpus(group.fit.host.report.cpus)
        largest = max(largest, cpus // (len(group.fit.cells) or 1))
    # One CPU of a cell is a step, if these are not too many.
    steps = max(min(largest, _MOST_STEPS), 1)
    divisions = []
    for step in range(steps + 1):
        configured = []
        for group in groups:
            # None if nova-compute would refuse to start with these CPU sets.
            divided = divide(group.fit, setup, step, steps)
            if divided is not None:
                configured.append(group._replace(
                    fit=configure(group.fit, divided)))
        is_possible_on_all = len(configured) == len(groups)
        if is_possible_on_all:
            divisions.append(configured)
    return divisions


def find_misfits(groups: abc.Sequence[first_fit.HostGroup],
                 kinds: abc.Iterable[first_fit.Kind],
                 ratios: abc.Iterable[decimal.Decimal],
                 ) -> list[first_fit.Kind]:
    """Return the servers that fit on no empty host in at least one setup.

    A setup is one of the ratios, and mix or not. A server is returned even if
    it fits in the other setups: they can be compared only with the same
    servers.

    With mix, low-priority instances may also run on the dedicated CPUs.
    Therefore no host with mix takes a server that needs whole cores of its
    own.

    :param groups: all hosts, each a number of equal ones
    :param kinds: the servers, each a number of equal ones
    :param ratios: allocation ratios to try
    """
    # For each ratio, without and with mix: the hosts with each division of
    # their CPUs into dedicated and shared ones.
    by_setup = []
    for ratio in ratios:
        for mix in False, True:
            divided: list[first_fit.HostGroup] = []
            for division in list_divisions(groups, Setup(ratio, mix)):
                divided += division
            by_setup.append(divided)
    return [kind for kind in kinds
            if any(_fits_on_none(kind, divided) for divided in by_setup)]


def _fits_on_none(kind: first_fit.Kind,
                  groups: abc.Iterable[first_fit.HostGroup]) -> bool:
    """Return whether a server fits on none of some empty hosts."""
    return all(group.fit.choose_cells(kind.needs) is None for group in groups)


def find_fewest(groups: abc.Sequence[first_fit.HostGroup],
                kinds: abc.Sequence[first_fit.Kind], setup: Setup) -> Forecast:
    """Return the fewest hosts that are enough for servers, a Forecast.

    A division makes some CPUs of each host dedicated and the others shared.
    Each division has a lower bound: no placement of the servers needs fewer
    hosts. The divisions with the smallest lower bounds are tried.

    :param groups: all hosts, which are at least one. More hosts like those of
        each group are used after them, if they are not enough.
    :param kinds: the servers, each a number of equal ones
    :param setup: allocation ratio, and mix or not
    """
    # Each server needs at most one more host.
    more = sum(kind.number for kind in kinds)
    supply = list(groups)
    for group in groups:
        supply.append(group._replace(number=more))
    divisions = list_divisions(supply, setup)
    # (the lower bound, number of the division, its groups of hosts)
    trials = []
    for number, division in enumerate(divisions):
        bound = first_fit.calculate_bound(division, kinds)
        trials.append((bound, number, division))
    # Each number occurs once, so that the sort never compares divisions.
    trials.sort()
    best = Forecast(
        setup=setup, cpus=None, hosts=None, least=math.inf, limit='')
    if trials:
        best = best._replace(least=trials[0][0].hosts)
    for bound, _, division in trials[:_MOST_TRIALS]:
        # This division, and all later ones, cannot need fewer hosts.
        if best.hosts is not None and bound.hosts >= best.hosts:
            break
        hosts = first_fit.pack(division, kinds)
        if hosts is not None and (best.hosts is None or hosts < best.hosts):
            best = best._replace(
                cpus=division[0].fit.host.report.cpus, hosts=hosts,
                limit=bound.resource)
    # Without mix, some hosts can have only dedicated CPUs, the others only
    # shared ones.
    if not setup.mix:
        best = _separate(divisions, kinds, best)
    # No division suits all servers: name one that does not fit.
    if best.hosts is None and trials:
        _, _, division = trials[0]
        best = best._replace(misfit=next(
            (kind for kind in kinds if _fits_on_none(kind, division)), None))
    return best


def _separate(divisions: abc.Sequence[abc.Sequence[first_fit.HostGroup]],
              kinds: abc.Iterable[first_fit.Kind],
              answer: Forecast) -> Forecast:
    """Return the better Forecast: with hosts for pinned servers, or without.

    Try one more arrangement: pinned servers have hosts of their own, whose
    CPUs are all dedicated. All other servers share the other hosts. In its
    Forecast, ``hosts`` is the number of both, ``cpus`` is None because they do
    not have the same CPU sets, and ``limit`` is the scarcest resource. If the
    hosts differ, it matters which servers choose theirs first: try both.

    :param divisions: result of :func:`list_divisions`: all CPUs are shared in
        the first division, and dedicated in the last one
    :param kinds: the servers, each a number of equal ones
    :param answer: the Forecast without this arrangement
    """
    pinned, others = [], []
    for kind in kinds:
        is_pinned = kind.needs.request.needed_rows.high > 0
        if is_pinned:
            pinned.append(kind)
        else:
            others.append(kind)
    # (index of the division, the servers of its hosts)
    parts = [(0, others), (-1, pinned)]
    bounds = [first_fit.calculate_bound(divisions[index], servers)
              for index, servers in parts]
    answer = answer._replace(
        least=min(answer.least, sum(bound.hosts for bound in bounds)))
    for first, second in (parts, parts[::-1]):
        hosts = _count_hosts(divisions, first, second, answer.setup)
        if hosts is not None and (
                answer.hosts is None or hosts < answer.hosts):
            # The larger bound is that of the servers that need more hosts.
            answer = answer._replace(
                cpus=None, hosts=hosts, limit=max(bounds).resource)
    return answer


def _count_hosts(divisions: abc.Sequence[abc.Sequence[first_fit.HostGroup]],
                 first: _Part, second: _Part, setup: Setup) -> int | None:
    """Return the hosts of two sets of servers that share no host.

    :param divisions: result of :func:`list_divisions`
    :param first: the servers that choose their hosts first
    :param second: the servers that get hosts that are left
    :param setup: of the divisions
    :returns: None if a server fits on no host
    """
    index, servers = first
    placed = first_fit.place(divisions[index], servers)
    if placed is None:
        return None
    unused = [group for group in placed if not group.is_used]
    index, servers = second
    hosts = first_fit.pack(list_divisions(unused, setup)[index], servers)
    if hosts is None:
        return None
    return first_fit.count_used(placed) + hosts


def change_priority(needs: resources.Needs,
                    priority: str | None) -> resources.Needs:
    """Return the needs of an equal server of another priority.

    It has as many pinned and shared vCPUs, and may use all hosts: it requires
    no aggregate, no host has refused it, and it counts as not new, because
    some hosts take no new ordinary instances.

    :param priority: 'high', 'low' or None for an ordinary server
    """
    request = needs.request
    demand = dataclasses.replace(request.demand, priority=priority)
    cells = []
    for cell in needs.cells:
        # The rows are the vCPUs of the cell by kind: high are the pinned ones,
        # and low are the shared ones of all classes.
        of_cell = cpu_capacity.Demand(priority, dedicated=cell.rows.high,
                                      shared=cell.rows.low)
        cells.append(cell._replace(
            rows=cpu_capacity.calculate_needed_rows(of_cell)))
    return dataclasses.replace(
        needs, cells=tuple(cells), aggregates=frozenset(),
        refused_hosts=frozenset(), is_new=False,
        request=dataclasses.replace(
            request, demand=demand, priority=priority,
            needed_rows=cpu_capacity.calculate_needed_rows(demand)))


def grow(kinds: abc.Iterable[first_fit.Kind],
         percent: decimal.Decimal) -> list[first_fit.Kind]:
    """Return the servers, more of them by some percent.

    Their sum is rounded up, and the number of each kind up or down.

    :param kinds: the servers, each a number of equal ones
    :param percent: 20 for a fifth more
    """
    kinds = list(kinds)
    factor = 1 + fractions.Fraction(percent) / 100
    # These may be no whole numbers.
    exact = [kind.number * factor for kind in kinds]
    return [kind._replace(number=number) for kind, number
            in zip(kinds, round_to_sum(exact, math.ceil(sum(exact))))]


def round_to_sum(exact: abc.Sequence[fractions.Fraction | decimal.Decimal],
                 total: int) -> list[int]:
    """Return whole numbers with a given sum, each rounded up or down.

    :param exact: the numbers, which may be no whole numbers
    :param total: their sum, or the next larger whole number
    """
    rounded = [math.floor(number) for number in exact]
    # Those that lost most by the rounding get one more.
    indexes = sorted(range(len(exact)), reverse=True,
                     key=lambda index: exact[index] - rounded[index])
    for index in indexes[:total - sum(rounded)]:
        rounded[index] += 1
    return rounded


def count_vcpus(kinds: abc.Iterable[first_fit.Kind]) -> dict[str, int]:
    """Return the vCPUs of the servers of each priority.

    Servers without a priority do not count.

    :param kinds: the servers, each a number of equal ones
    :returns: dict, 'high' and 'low' -> number of vCPUs
    """
    vcpus = dict.fromkeys(cpu_capacity.PRIORITIES, 0)
    for kind in kinds:
        request = kind.needs.request
        if request.priority is not None:
            vcpus[request.priority] += kind.number * request.vcpus
    return vcpus


def change_share(kinds: abc.Sequence[first_fit.Kind], vcpus: int,
                 percent: int) -> list[first_fit.Kind]:
    """Return servers with another part of high-priority vCPUs.

    Only the numbers of the servers with a priority change, all those of one
    priority by the same factor. Both priorities must have servers.

    :param kinds: the servers, each a number of equal ones
    :param vcpus: the vCPUs of all servers with a priority
    :param percent: the part of these vCPUs that has high priority
    """
    # Priority -> number of vCPUs now.
    present = count_vcpus(kinds)
    # Priority -> number of vCPUs to reach, times 100.
    wanted = {cpu_capacity.HIGH: vcpus * percent,
              cpu_capacity.LOW: vcpus * (100 - percent)}
    changed = []
    for kind in kinds:
        priority = kind.needs.request.priority
        if priority is not None:
            number = kind.number * wanted[priority]
            kind = kind._replace(
                number=round(number / (100 * present[priority])))
        changed.append(kind)
    return changed
