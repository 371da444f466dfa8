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
from nova_prio.model import capacity
from nova_prio.model import capacity_report
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import host_fit
from nova_prio.model.planner import resources

#: Most steps in which the CPUs of a NUMA cell are divided, and most divisions
#: for which the servers are placed.
_MOST_STEPS, _MOST_TRIALS = 32, 8
#: Equal hosts may differ by this part of an amount, or by this many MB.
_NEAR_PART, _NEAR_MB = 0.01, 1024
_NO_ROWS = capacity.Rows(high=0, low=0, ordinary=0)
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
    cpus: capacity.HostCPUs | None
    hosts: int | None
    least: float
    limit: str
    misfit: first_fit.Kind | None = None


def make_host(cpus: int, cells: int, memory_mb: int,
              usable_mb: int, disk_gb: int | None) -> host_fit.HostFit:
    """Return an empty host, whose CPUs are shared.

    :param cpus: number of CPUs, a multiple of ``cells``
    :param cells: number of equal NUMA cells
    :param usable_mb: memory of the host that servers can have
    :param disk_gb: None if disks do not limit the servers
    """
    size = cpus // cells
    of_host = capacity.HostCPUs(
        dedicated=frozenset(), shared=frozenset(range(cpus)),
        ratio=capacity.parse_ratio(1), mix=False)
    all_cells = []
    for first in range(0, cpus, size):
        own = dataclasses.replace(
            of_host, shared=frozenset(range(first, first + size)))
        all_cells.append(resources.Cell(
            cpus=own, used=_NO_ROWS, free_memory_mb=memory_mb // cells))
    return host_fit.HostFit.from_host(resources.Host(
        name='', report=_make_report(of_host), free_memory_mb=usable_mb,
        free_disk_gb=disk_gb, cells=tuple(all_cells)))


def group_hosts(hosts: abc.Iterable[host_fit.HostFit],
                ) -> list[first_fit.HostGroup]:
    """Return the groups of equal empty hosts, those with most CPUs first.

    Hosts are equal if they have as many CPUs in as many cells, and nearly the
    same memory and disks. The first host in the order of memory stands for
    its group.
    """
    by_shape = collections.defaultdict(list)
    for fit in hosts:
        by_shape[_get_shape(fit)].append(fit)
    groups: list[first_fit.HostGroup] = []
    for shape in sorted(by_shape, reverse=True):
        of_shape: list[first_fit.HostGroup] = []
        for fit in sorted(by_shape[shape], key=_list_amounts):
            for place, group in enumerate(of_shape):
                if _are_near(fit, group.fit):
                    of_shape[place] = group._replace(number=group.number + 1)
                    break
            else:
                of_shape.append(first_fit.HostGroup(fit, number=1))
        groups += reversed(of_shape)
    return groups


def _get_shape(fit: host_fit.HostFit) -> tuple[typing.Any, ...]:
    """Return what equal hosts have exactly in common, to be sorted.

    Which CPUs are dedicated, their ratio and mix do not matter: the CPUs are
    divided anew.
    """
    page_kb = 0
    if fit.small_pages is not None:
        page_kb = fit.small_pages.page_kb
    sizes = tuple([_count_cpus(cell.cpus) for cell in fit.cells])
    return (_count_cpus(fit.host.report.cpus), sizes,
            fit.host.free_disk_gb is None, page_kb)


def _count_cpus(cpus: capacity.HostCPUs) -> int:
    """Return the number of CPUs, of both kinds."""
    return len(cpus.dedicated | cpus.shared)


def _list_amounts(fit: host_fit.HostFit) -> list[int]:
    """Return the amounts of an empty host in MB, its memory first."""
    amounts = [fit.free_memory_mb, fit.host.overcommit_mb,
               fit.free_disk_gb * 1024]
    if fit.small_pages is not None:
        amounts.append(fit.small_pages.free_mb)
    for cell in fit.cells:
        amounts += cell.free_memory_mb, cell.overcommit_mb
    return amounts


def _are_near(fit: host_fit.HostFit, other: host_fit.HostFit) -> bool:
    """Return whether hosts of one shape have nearly the same amounts."""
    pairs = zip(_list_amounts(fit), _list_amounts(other), strict=True)
    return all(math.isclose(amount, of_other, rel_tol=_NEAR_PART,
                            abs_tol=_NEAR_MB) for amount, of_other in pairs)


def _make_report(
        cpus: capacity.HostCPUs) -> capacity_report.CapacityReport:
    """Return the report of an empty host."""
    return capacity_report.CapacityReport.from_usage(
        cpus=cpus, used=_NO_ROWS, vcpus_used=0, low_by_cell={})


def configure(fit: host_fit.HostFit, cpus: capacity.HostCPUs,
              ) -> host_fit.HostFit:
    """Return an empty host with other CPU sets, which takes all classes.

    :param fit: the host without instances
    """
    cells = []
    for cell in fit.cells:
        own = cell.cpus.dedicated | cell.cpus.shared
        cells.append(cell._replace(used=_NO_ROWS, cpus=dataclasses.replace(
            cpus, dedicated=cpus.dedicated & own, shared=cpus.shared & own)))
    host = dataclasses.replace(
        fit.host, report=_make_report(cpus), aggregates=(_PRIORITY,),
        is_enabled=True)
    return fit._replace(host=host, used=_NO_ROWS, cells=tuple(cells))


def divide(fit: host_fit.HostFit, setup: Setup, step: int,
           steps: int) -> capacity.HostCPUs | None:
    """Return the CPU sets of a host: step / steps of each cell is dedicated.

    :returns: None if nova-compute would refuse to start with them
    """
    cells = [cell.cpus for cell in fit.cells] or [fit.host.report.cpus]
    dedicated: frozenset[int] = frozenset()
    shared: frozenset[int] = frozenset()
    for cell in cells:
        ordered = sorted(cell.dedicated | cell.shared)
        first = len(ordered) - len(ordered) * step // steps
        shared |= frozenset(ordered[:first])
        dedicated |= frozenset(ordered[first:])
    cpus = capacity.HostCPUs(dedicated=dedicated, shared=shared,
                             ratio=setup.ratio, mix=setup.mix)
    if setup.mix and not (dedicated and shared and cpus.sellable.low):
        return None
    return cpus


def list_divisions(groups: abc.Sequence[first_fit.HostGroup],
                   setup: Setup) -> list[list[first_fit.HostGroup]]:
    """Return the groups of hosts with each division of the CPUs to try.

    A division makes some CPUs dedicated and the others shared. All hosts
    dedicate the same part of their CPUs.

    :param groups: the hosts, each a number of equal ones
    :returns: list with the groups for each division
    """
    largest = 0
    for group in groups:
        cpus = _count_cpus(group.fit.host.report.cpus)
        largest = max(largest, cpus // (len(group.fit.cells) or 1))
    steps = max(min(largest, _MOST_STEPS), 1)
    divisions = []
    for step in range(steps + 1):
        configured = []
        for group in groups:
            divided = divide(group.fit, setup, step, steps)
            if divided is not None:
                configured.append(group._replace(
                    fit=configure(group.fit, divided)))
        # nova-compute would start on all hosts.
        if len(configured) == len(groups):
            divisions.append(configured)
    return divisions


def find_misfits(groups: abc.Sequence[first_fit.HostGroup],
                 kinds: abc.Iterable[first_fit.Kind],
                 ratios: abc.Iterable[decimal.Decimal],
                 ) -> list[first_fit.Kind]:
    """Return the servers that, without or with mix, fit on no empty host.

    An example is a server that needs whole cores, which no mix host takes: its
    low-priority instances run on all cores.

    :param groups: all hosts, each a number of equal ones
    :param kinds: the servers, each a number of equal ones
    """
    # For each ratio, without and with mix: the hosts with each division of
    # their CPUs.
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
    Those with the smallest lower bounds of the number of hosts are tried.

    :param kinds: the servers, each a number of equal ones
    :param groups: all hosts, which are at least one. More hosts like those of
        each group are used after them, if they are not enough.
    """
    # Each server needs at most one more host.
    more = sum(kind.number for kind in kinds)
    supply = list(groups)
    for group in groups:
        supply.append(group._replace(number=more))
    divisions = list_divisions(supply, setup)
    trials = []
    for number, division in enumerate(divisions):
        bound = first_fit.calculate_bound(division, kinds)
        trials.append((bound, number, division))
    # No two numbers are equal, so that no divisions are compared.
    trials.sort()
    best = Forecast(
        setup=setup, cpus=None, hosts=None, least=math.inf, limit='')
    if trials:
        best = best._replace(least=trials[0][0].hosts)
    for bound, _, division in trials[:_MOST_TRIALS]:
        # This division, and all later ones, cannot be better.
        if best.hosts is not None and bound.hosts >= best.hosts:
            break
        hosts = first_fit.pack(division, kinds)
        if hosts is not None and (best.hosts is None or hosts < best.hosts):
            best = best._replace(
                cpus=division[0].fit.host.report.cpus, hosts=hosts,
                limit=bound.resource)
    # Without mix, some equal hosts can have only dedicated CPUs, the others
    # only shared ones.
    if not setup.mix and len(groups) == 1:
        best = _separate(divisions[-1], divisions[0], kinds, best)
    if best.hosts is None and trials:
        _, _, division = trials[0]
        best = best._replace(misfit=next(
            (kind for kind in kinds if _fits_on_none(kind, division)), None))
    return best


def _separate(dedicated: abc.Sequence[first_fit.HostGroup],
              shared: abc.Sequence[first_fit.HostGroup],
              kinds: abc.Iterable[first_fit.Kind],
              answer: Forecast) -> Forecast:
    """Return the better Forecast if pinned servers have hosts of their own.

    :param dedicated: equal hosts, all CPUs of which are dedicated
    :param shared: the same hosts, all CPUs of which are shared
    :param answer: the Forecast without such hosts
    """
    pinned, others = [], []
    for kind in kinds:
        if kind.needs.request.needed_rows.high:
            pinned.append(kind)
        else:
            others.append(kind)
    bounds = (first_fit.calculate_bound(dedicated, pinned),
              first_fit.calculate_bound(shared, others))
    answer = answer._replace(
        least=min(answer.least, bounds[0].hosts + bounds[1].hosts))
    first = first_fit.pack(dedicated, pinned)
    second = first_fit.pack(shared, others)
    if first is None or second is None:
        return answer
    if answer.hosts is not None and answer.hosts <= first + second:
        return answer
    # The larger bound is that of the servers that need more hosts.
    return answer._replace(cpus=None, hosts=first + second,
                           limit=max(bounds).resource)


def change_priority(needs: resources.Needs,
                    priority: str | None) -> resources.Needs:
    """Return the needs of an equal server of another priority.

    It has as many pinned and shared vCPUs, and may use all hosts.
    """
    request = needs.request
    demand = dataclasses.replace(request.demand, priority=priority)
    cells = []
    for cell in needs.cells:
        # The low row has the shared vCPUs of all classes.
        of_cell = capacity.Demand(priority, dedicated=cell.rows.high,
                                  shared=cell.rows.low)
        cells.append(cell._replace(
            rows=capacity.calculate_needed_rows(of_cell)))
    return dataclasses.replace(
        needs, cells=tuple(cells), aggregates=frozenset(),
        refused_hosts=frozenset(), is_new=False,
        request=dataclasses.replace(
            request, demand=demand, priority=priority,
            needed_rows=capacity.calculate_needed_rows(demand)))


def grow(kinds: abc.Iterable[first_fit.Kind],
         percent: decimal.Decimal) -> list[first_fit.Kind]:
    """Return the servers, more of them by some percent.

    Their sum is rounded up, and the number of each kind to a neighbour.
    """
    factor = 1 + fractions.Fraction(percent) / 100
    exact = [(kind, kind.number * factor) for kind in kinds]
    grown = [kind._replace(number=math.floor(number))
             for kind, number in exact]
    missing = math.ceil(sum(number for _, number in exact)) - sum(
        kind.number for kind in grown)
    # Those with the largest remainders get one more.
    places = sorted(range(len(exact)), reverse=True,
                    key=lambda place: exact[place][1] % 1)
    for place in places[:missing]:
        kind = grown[place]
        grown[place] = kind._replace(number=kind.number + 1)
    return grown


def count_vcpus(kinds: abc.Iterable[first_fit.Kind]) -> dict[str, int]:
    """Return priority -> the vCPUs of all its servers."""
    vcpus = dict.fromkeys(capacity.PRIORITIES, 0)
    for kind in kinds:
        request = kind.needs.request
        if request.priority is not None:
            vcpus[request.priority] += kind.number * request.vcpus
    return vcpus


def change_share(kinds: abc.Sequence[first_fit.Kind], vcpus: int,
                 percent: int) -> list[first_fit.Kind]:
    """Return servers with another part of high-priority vCPUs.

    Only the numbers of the servers with a priority change. The sizes of each
    priority keep their shares. Both priorities must have servers.

    :param kinds: the servers, each a number of equal ones
    :param vcpus: the vCPUs of all servers with a priority
    :param percent: the part of these vCPUs that has high priority
    """
    present = count_vcpus(kinds)
    # Priority -> hundredths of vCPUs.
    wanted = {capacity.HIGH: vcpus * percent,
              capacity.LOW: vcpus * (100 - percent)}
    changed = []
    for kind in kinds:
        priority = kind.needs.request.priority
        if priority is not None:
            number = kind.number * wanted[priority]
            kind = kind._replace(
                number=round(number / (100 * present[priority])))
        changed.append(kind)
    return changed
