# SPDX-License-Identifier: Apache-2.0

"""Whether an instance fits on a host, for the planner of moves.

The rows and the checks of the filter and the claim are those of
:mod:`nova_prio.model.capacity` and :mod:`nova_prio.model.admission`. This
module adds the checks of Placement and Nova that a plan depends on: sellable
memory, disk, aggregates and NUMA cells.

Not considered are page sizes, PCI devices, networks and thread siblings. Nova
may therefore refuse a planned move of an instance that needs one of them.
"""

from __future__ import annotations

from collections import abc
import itertools
import operator
import typing

from nova_prio.model import admission
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity
from nova_prio.model.planner import resources


class Obstacle(typing.NamedTuple):
    """A reason why a host cannot take an instance.

    ``resource`` is the row or resource class that lacks ``missing`` units. It
    is None if no move of other instances can remove the obstacle.
    """

    text: str
    resource: str | None = None
    missing: int = 0


class _CellSize(typing.NamedTuple):
    """The constant values of a NUMA cell."""

    sellable: capacity.Rows
    floating_cpus: int
    shared_cpus: int
    overcommit_mb: int


class HostFit:
    """Decide whether instances fit on one host, at any usage.

    ``initial`` is the usage before the first move.
    """

    def __init__(self, host: resources.Host) -> None:
        self.host = host
        self.report = host.report
        self._cells = [_CellSize(
            cell.cpus.sellable, len(cell.cpus.floating),
            len(cell.cpus.shared), cell.overcommit_mb) for cell in host.cells]
        self._aggregate_names = {each.name for each in host.aggregates}
        self._allows_priority = any(
            map(aggregate_metadata.allows_priority, host.aggregates))
        self._excludes_ordinary = any(
            map(aggregate_metadata.excludes_ordinary, host.aggregates))
        self.initial = resources.Usage(
            self.report.used_or_blocked, host.free_memory_mb,
            host.free_disk_gb or 0,
            tuple(resources.CellUsage(cell.used, cell.free_memory_mb)
                  for cell in host.cells))

    def get_remaining(self, usage: resources.Usage) -> capacity.Rows:
        """Return the remaining rows of the host."""
        return capacity.calculate_remaining(self.report.sellable, usage.used)

    def measure_room(self, needs: resources.Needs,
                     usage: resources.Usage) -> tuple[int, int]:
        """Return the room of the host for equal instances.

        :returns: (remaining vCPUs of the smallest row that the instance uses,
            free memory in MB)
        """
        return (_find_smallest(needs.request.needed_rows,
                               self.get_remaining(usage)),
                usage.free_memory_mb)

    def choose_cells(self, needs: resources.Needs,
                     usage: resources.Usage) -> tuple[int, ...] | None:
        """Return the host cells of an instance, or None if it does not fit.

        :returns: index of the host cell of each guest cell
        """
        # Stop at the first obstacle.
        if (any(self._check_amounts(needs, usage)) or
                any(self._check_policy(needs))):
            return None
        return self._choose_cells(needs, usage)

    def find_obstacles(self, needs: resources.Needs,
                       usage: resources.Usage) -> list[Obstacle]:
        """Return all obstacles; an empty list if the instance fits."""
        obstacles = [*self._check_policy(needs),
                     *self._check_amounts(needs, usage)]
        if self._choose_cells(needs, usage) is None:
            obstacles.append(self._describe_cells(needs, usage))
        return obstacles

    def _check_policy(self, needs: resources.Needs) -> abc.Iterator[Obstacle]:
        """Yield the obstacles that depend on no usage."""
        if not self.host.is_enabled:
            yield Obstacle('the host is disabled')
        for name in sorted(needs.aggregates - self._aggregate_names):
            yield Obstacle('the host is not in aggregate %s' % name)
        if self.host.name in needs.refused_hosts:
            yield Obstacle('Nova refused the host before')
        if needs.request.priority:
            if not self._allows_priority:
                yield Obstacle('no aggregate of the host allows priority '
                               'instances')
        elif needs.is_new and self._excludes_ordinary:
            yield Obstacle('an aggregate of the host excludes new ordinary '
                           'instances')
        # Placement refuses this by max_unit of VCPU. A mix host has a larger
        # max_unit, so that there the admission check refuses it.
        shared = needs.request.needed_rows.ordinary
        if not self.report.mix and shared > self.report.shared_cpus:
            yield Obstacle('the instance has more shared vCPUs than the host '
                           'has shared CPUs')

    def _check_amounts(self, needs: resources.Needs,
                       usage: resources.Usage) -> abc.Iterator[Obstacle]:
        """Yield the obstacles of the rows, memory and disk."""
        request = needs.request
        refused = set()
        for each in admission.find_refusals(
                self.report, request, self.get_remaining(usage),
                usage.free_memory_mb):
            refused.add(each.reason)
            yield self._convert_refusal(each)
        sellable_mb = usage.free_memory_mb + self.host.overcommit_mb
        if request.memory_mb > sellable_mb and 'memory' not in refused:
            yield Obstacle(
                'the host has %d MB of sellable memory free, %d MB are needed'
                % (sellable_mb, request.memory_mb), 'MEMORY_MB',
                request.memory_mb - sellable_mb)
        if (self.host.free_disk_gb is not None and
                needs.disk_gb > usage.free_disk_gb):
            yield Obstacle(
                'the host has %d GB of disk free, %d GB are needed'
                % (usage.free_disk_gb, needs.disk_gb), 'DISK_GB',
                needs.disk_gb - usage.free_disk_gb)

    def _convert_refusal(self, refusal: admission.Refusal) -> Obstacle:
        """Return the Obstacle of a Refusal of the admission checks."""
        needed, available = refusal.needed or 0, refusal.available or 0
        if refusal.reason == 'memory':
            return Obstacle(refusal.detail, 'MEMORY_MB', needed - available)
        row = refusal.reason.removesuffix('_capacity')
        # More than the host sells can never be free.
        if (row not in capacity.Rows._fields or
                needed > getattr(self.report.sellable, row)):
            return Obstacle(refusal.detail)
        return Obstacle(refusal.detail, row + ' row', needed - available)

    def _choose_cells(self, needs: resources.Needs,
                      usage: resources.Usage) -> tuple[int, ...] | None:
        """Return the host cells that Nova chooses by default, or None.

        If the host has more cells than the guest, Nova prefers the cells with
        the most free CPUs, then those with the most free memory
        (``numa_fit_instance_to_host`` in nova/virt/hardware.py). For a guest
        of several cells, Nova may miss a fit that is found here.
        """
        if not needs.cells:
            return ()
        indexes = list(range(len(self._cells)))
        if len(indexes) > len(needs.cells):
            rows = needs.cells[0].rows
            # Nova prefers by the dedicated CPUs of a guest, if it has some.
            if rows.high:
                rows = capacity.Rows(rows.high, 0, 0)
            indexes.sort(reverse=True, key=lambda index: (
                _find_smallest(
                    rows, self._get_remaining_of_cell(index, usage)),
                usage.cells[index].free_memory_mb))
        for chosen in itertools.permutations(indexes, len(needs.cells)):
            if not any(self._count_missing(guest, index, needs, usage)
                       for index, guest in zip(chosen, needs.cells)):
                return chosen
        return None

    def _get_remaining_of_cell(self, index: int,
                               usage: resources.Usage) -> capacity.Rows:
        return capacity.calculate_remaining(
            self._cells[index].sellable, usage.cells[index].used)

    def _count_missing(self, guest: resources.GuestCell, index: int,
                       needs: resources.Needs, usage: resources.Usage) -> int:
        """Return the vCPUs that a host cell lacks; 1 if it lacks memory."""
        size, cell = self._cells[index], usage.cells[index]
        missing = sum(wanted - free for _, wanted, free in
                      capacity.find_shortages(
                          guest.rows,
                          self._get_remaining_of_cell(index, usage)))
        # A guest cell may not have more floating vCPUs than CPUs to float on.
        usable = (size.floating_cpus
                  if needs.request.priority == capacity.LOW
                  else size.shared_cpus)
        missing = max(missing, guest.rows.low - usable)
        free_mb = cell.free_memory_mb
        # Nova never overcommits the memory of pinned guests.
        if not guest.rows.high:
            free_mb += size.overcommit_mb
        return max(missing, int(guest.memory_mb > free_mb))

    def _describe_cells(self, needs: resources.Needs,
                        usage: resources.Usage) -> Obstacle:
        """Return the Obstacle if the guest cells fit on no host cells."""
        if len(needs.cells) > len(self._cells):
            return Obstacle('the host has %d NUMA cells, %d are needed' % (
                len(self._cells), len(needs.cells)))
        largest = max(needs.cells, key=operator.attrgetter('rows'))
        missing = min(self._count_missing(largest, index, needs, usage)
                      for index in range(len(self._cells)))
        return Obstacle('no NUMA cells of the host fit', 'NUMA cell',
                        max(missing, 1))


def _find_smallest(needed: capacity.Rows, remaining: capacity.Rows) -> int:
    """Return the remaining vCPUs of the smallest row that is needed."""
    return min((free for wanted, free in zip(needed, remaining) if wanted),
               default=0)
