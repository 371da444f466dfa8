# SPDX-License-Identifier: Apache-2.0

"""Whether an instance fits on a host, for the planner of moves.

The rows and the checks of the filter and the claim are those of
:mod:`nova_prio.model.cpu_capacity` and :mod:`nova_prio.model.admission`. This
module adds the checks of Placement and Nova that a plan depends on: sellable
memory, disk, aggregates and NUMA cells.

Not considered are the page sizes of NUMA cells, PCI devices, networks and
thread siblings. Nova may therefore refuse a planned move of an instance that
needs one of them.
"""

from __future__ import annotations

from collections import abc
import itertools
import operator
import typing

from nova_prio.model import admission
from nova_prio.model import aggregate_metadata
from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages
from nova_prio.model.planner import resources


class HostObstacle(typing.NamedTuple):
    """A reason why a host cannot take an instance.

    ``resource`` is the row, the small pages (``memory_pages.RESOURCE``) or the
    resource class that lacks ``missing`` units. It is None if no move of other
    instances can remove the obstacle.
    """

    text: str
    resource: str | None = None
    missing: int = 0


class HostFit(typing.NamedTuple):
    """A host at one point of a plan, which decides whether instances fit.

    ``used`` are the used vCPUs of each row. ``free_memory_mb`` and
    ``free_disk_gb`` are as those of the Host, but the latter is 0 if the disks
    are elsewhere. ``small_pages`` are as in a report. ``cells`` are the NUMA
    cells at this point of the plan.
    """

    host: resources.Host
    used: cpu_capacity.Rows
    free_memory_mb: int
    free_disk_gb: int
    cells: tuple[resources.Cell, ...]
    small_pages: memory_pages.SmallPages | None

    @classmethod
    def from_host(cls, host: resources.Host) -> HostFit:
        """Return a host before the first move."""
        return cls(host=host, used=host.report.used_or_blocked,
                   free_memory_mb=host.free_memory_mb,
                   free_disk_gb=host.free_disk_gb or 0, cells=host.cells,
                   small_pages=host.report.small_pages)

    def add(self, needs: resources.Needs, cells: tuple[int, ...],
            sign: int = 1) -> HostFit:
        """Return the host after an instance arrives, or leaves.

        :param needs: of the instance
        :param cells: index of the host cell of each guest cell
        :param sign: 1, or -1 if the instance leaves
        """
        changed = list(self.cells)
        for index, guest in zip(cells, needs.cells, strict=True):
            cell = changed[index]
            # This runs very often, and _replace() takes twice the time.
            changed[index] = resources.Cell(
                cpus=cell.cpus,
                used=cpu_capacity.add_rows(cell.used, guest.rows, sign),
                free_memory_mb=cell.free_memory_mb - sign * guest.memory_mb,
                overcommit_mb=cell.overcommit_mb)
        request = needs.request
        # The memory that is not set aside for huge pages; None if the host has
        # no huge pages, or does not report them.
        small = self.small_pages
        if small is not None:
            # The parts are (page size, memory in MB) of each guest cell.
            needed_mb = memory_pages.calculate_needed(
                request.memory_parts, small.page_kb)
            small = small._replace(free_mb=small.free_mb - sign * needed_mb)
        return HostFit(
            host=self.host,
            used=cpu_capacity.add_rows(self.used, request.needed_rows, sign),
            free_memory_mb=self.free_memory_mb - sign * request.memory_mb,
            free_disk_gb=self.free_disk_gb - sign * needs.disk_gb,
            cells=tuple(changed), small_pages=small)

    def fill(self, needs: resources.Needs, most: int) -> tuple[HostFit, int]:
        """Return the host with equal instances, and how many of them fit.

        :param needs: of each instance
        :param most: maximum number of instances
        :returns: (the host with these instances, their number)
        """
        # An obstacle such as a disabled host does not depend on the usage:
        # look for it once.
        is_forbidden = any(self._find_fixed_obstacles(needs))
        if is_forbidden:
            return self, 0
        filled = self
        for count in range(most):
            cells = filled._choose_free_cells(needs)
            if cells is None:
                return filled, count
            filled = filled.add(needs, cells)
        return filled, most

    @property
    def remaining(self) -> cpu_capacity.Rows:
        """The remaining vCPUs of each row."""
        return cpu_capacity.calculate_remaining(
            self.host.report.sellable, self.used)

    def measure_room(self, needs: resources.Needs) -> tuple[int, int]:
        """Return the room of the host for an instance.

        A row is a number of vCPUs that the host may sell. An instance may use
        several, such as pinned and shared vCPUs.

        :returns: (remaining vCPUs of the smallest row that the instance uses,
            free memory in MB)
        """
        vcpus = _find_smallest(needs.request.needed_rows, self.remaining)
        return vcpus, self.free_memory_mb

    def choose_cells(self, needs: resources.Needs) -> tuple[int, ...] | None:
        """Return the host cells of an instance, or None if it does not fit.

        :returns: index of the host cell of each guest cell; empty without a
            NUMA topology
        """
        cells = self._choose_free_cells(needs)
        # The host may have an obstacle that does not depend on the usage, such
        # as that it is disabled.
        if cells is None or any(self._find_fixed_obstacles(needs)):
            return None
        return cells

    def _choose_free_cells(
            self, needs: resources.Needs) -> tuple[int, ...] | None:
        """Return the same as :meth:`choose_cells`, by the usage alone.

        The state of the host and its aggregates are not checked.
        """
        # any() stops at the first obstacle.
        if any(self._find_usage_obstacles(needs)):
            return None
        return self._choose_cells(needs)

    def find_obstacles(self, needs: resources.Needs) -> list[HostObstacle]:
        """Return why an instance does not fit, all HostObstacles.

        :returns: an empty list if it fits
        """
        # Those that no move of other instances changes come first.
        obstacles = list(self._find_fixed_obstacles(needs))
        obstacles += self._find_usage_obstacles(needs)
        if self._choose_cells(needs) is None:
            obstacles.append(self._describe_cells(needs))
        return obstacles

    def _find_fixed_obstacles(self, needs: resources.Needs,
                              ) -> abc.Iterator[HostObstacle]:
        """Yield the obstacles that do not depend on what other guests use.

        They are about the state of the host, its aggregates, earlier refusals
        of Nova, and its number of shared CPUs.
        """
        host, request = self.host, needs.request
        if not host.is_enabled:
            yield HostObstacle('the host is disabled')
        # A destination must be in each aggregate that the needs name.
        aggregate_names = {each.name for each in host.aggregates}
        for name in sorted(needs.aggregates - aggregate_names):
            yield HostObstacle('the host is not in aggregate %s' % name)
        if host.name in needs.refused_hosts:
            yield HostObstacle('Nova refused the host before')
        if request.priority:
            if not any(aggregate_metadata.allows_priority(each)
                       for each in host.aggregates):
                yield HostObstacle(
                    'no aggregate of the host allows priority instances')
        elif needs.is_new and any(aggregate_metadata.excludes_ordinary(each)
                                  for each in host.aggregates):
            yield HostObstacle(
                'an aggregate of the host excludes new ordinary instances')
        # The shared vCPUs of the instance; 0 if it has low priority.
        shared_vcpus = request.needed_rows.ordinary
        # Placement refuses too many of them by max_unit of VCPU. On a mix
        # host, max_unit is larger, because low-priority instances may also use
        # its dedicated CPUs. There, _find_usage_obstacles has the same rule.
        if not host.report.mix and shared_vcpus > host.report.shared_cpus:
            yield HostObstacle(
                'the instance has more shared vCPUs than the host has shared '
                'CPUs')

    def _find_usage_obstacles(self, needs: resources.Needs,
                              ) -> abc.Iterator[HostObstacle]:
        """Yield the obstacles of the admission checks, memory and disk.

        Most of them depend on what the present guests use, such as the rows. A
        row is a number of vCPUs that the host may sell. The filter and the
        claim refuse oversold memory to some instances, and Placement refuses
        to sell more than the allocation ratio allows to any.
        """
        needed_mb = needs.request.memory_mb
        # Names of reasons, such as 'memory'.
        refused = set()
        for each in admission.find_refusals(
                self.host.report, needs.request, self.remaining,
                self.free_memory_mb, self.small_pages):
            refused.add(each.reason)
            yield self._convert_refusal(each)
        # The memory that Placement can still sell.
        sellable_mb = self.free_memory_mb + self.host.overcommit_mb
        if needed_mb > sellable_mb and 'memory' not in refused:
            yield HostObstacle(
                text='the host has %d MB of sellable memory free, %d MB are '
                     'needed' % (sellable_mb, needed_mb),
                resource='MEMORY_MB', missing=needed_mb - sellable_mb)
        # That of ``host`` is before the first move, and None if the disks are
        # elsewhere. That of ``self`` is the disk at this point of the plan.
        if (self.host.free_disk_gb is not None and
                needs.disk_gb > self.free_disk_gb):
            yield HostObstacle(
                text='the host has %d GB of disk free, %d GB are needed'
                     % (self.free_disk_gb, needs.disk_gb),
                resource='DISK_GB', missing=needs.disk_gb - self.free_disk_gb)

    def _convert_refusal(self, refusal: admission.Refusal) -> HostObstacle:
        """Return the HostObstacle of a Refusal of the admission checks.

        It names small pages or vCPUs only if moves of other instances can free
        enough. It always names the memory, of which the host does not tell the
        total.

        :param refusal: its reason is "memory", "small_pages", the name of a
            row of vCPUs with the suffix "_capacity", such as "high_capacity",
            or one that no move can cure
        """
        needed, available = refusal.needed or 0, refusal.available or 0
        row = refusal.reason.removesuffix('_capacity')
        # The vCPUs that the host sells of this row; -1 if it is not a row.
        sellable = getattr(self.host.report.sellable, row, -1)
        if refusal.reason == 'memory':
            resource = 'MEMORY_MB'
        elif (refusal.reason == 'small_pages' and self.small_pages and
                needed <= self.small_pages.total_mb):
            resource = memory_pages.RESOURCE
        elif needed <= sellable:
            resource = row + ' row'
        else:
            # No move helps: the reason is no shortage, or the host could not
            # have enough without any instance.
            return HostObstacle(refusal.detail)
        return HostObstacle(text=refusal.detail, resource=resource,
                            missing=needed - available)

    def _choose_cells(self, needs: resources.Needs) -> tuple[int, ...] | None:
        """Return the host cells that Nova chooses by default, or None.

        If the host has more cells than the guest, Nova prefers the cells with
        the most free CPUs, then those with the most free memory
        (``numa_fit_instance_to_host`` in nova/virt/hardware.py). For a guest
        of several cells, Nova may miss a fit that is found here.

        :returns: index of the host cell of each guest cell; empty without a
            NUMA topology
        """
        if not needs.cells:
            return ()
        indexes = list(range(len(self.cells)))
        if len(indexes) > len(needs.cells):
            # Nova orders the cells by the first guest cell: by the dedicated
            # CPUs if it needs some, otherwise by the vCPUs that float. Its
            # rows are its vCPUs by kind: high are the pinned ones, low all
            # shared ones, ordinary the shared ones without low priority.
            rows = needs.cells[0].rows
            if rows.high:
                rows = cpu_capacity.Rows(high=rows.high, low=0, ordinary=0)
            # Of the kinds that the guest cell needs, the one of which a host
            # cell has fewest left counts. Minus, because the most come first.
            ranks = [(-_find_smallest(rows, cell.remaining),
                      -cell.free_memory_mb) for cell in self.cells]
            indexes.sort(key=ranks.__getitem__)
        for chosen in itertools.permutations(indexes, len(needs.cells)):
            lacks_something = any(
                self._count_missing(guest, index, needs)
                for index, guest in zip(chosen, needs.cells))
            if not lacks_something:
                return chosen
        return None

    def _count_missing(self, guest: resources.GuestCell, index: int,
                       needs: resources.Needs) -> int:
        """Return the vCPUs that a host cell lacks for a guest cell.

        :param index: index of the host cell
        :param needs: of the whole guest
        :returns: 0 if the guest cell fits; 1 if only memory is missing
        """
        cell = self.cells[index]
        missing = sum(wanted - free for _, wanted, free in
                      cpu_capacity.find_shortages(guest.rows, cell.remaining))
        # A guest cell may not have more vCPUs that are not pinned than the
        # host cell has CPUs for them. The number rows.low counts all these
        # vCPUs. Those of low priority use the floating CPUs: the shared ones,
        # and on a mix host also the dedicated ones.
        usable = cell.cpus.shared
        if needs.request.priority == cpu_capacity.LOW:
            usable = cell.cpus.floating
        missing = max(missing, guest.rows.low - len(usable))
        free_mb = cell.free_memory_mb
        # Nova never overcommits the memory of pinned guests.
        is_pinned = guest.rows.high > 0
        if not is_pinned:
            free_mb += cell.overcommit_mb
        return max(missing, int(guest.memory_mb > free_mb))

    def _describe_cells(self, needs: resources.Needs) -> HostObstacle:
        """Return the HostObstacle of a guest that fits on no NUMA cells.

        It tells how many vCPUs are missing for the largest guest cell, on the
        host cell that comes closest.
        """
        if len(needs.cells) > len(self.cells):
            return HostObstacle('the host has %d NUMA cells, %d are needed' % (
                len(self.cells), len(needs.cells)))
        # The rows are the vCPUs of a guest cell by kind. As a tuple, they are
        # compared by the pinned vCPUs first, then by the shared ones.
        largest = max(needs.cells, key=operator.attrgetter('rows'))
        missing = min(self._count_missing(largest, index, needs)
                      for index in range(len(self.cells)))
        # The largest guest cell alone may fit, but not all together: 0 would
        # mean that nothing is missing.
        return HostObstacle(text='no NUMA cells of the host fit',
                            resource='NUMA cell', missing=max(missing, 1))


def _find_smallest(needed: cpu_capacity.Rows,
                   remaining: cpu_capacity.Rows) -> int:
    """Return the smallest number of remaining vCPUs of the needed rows.

    :param needed: vCPUs of an instance in each row; 0 if it needs none there
    """
    return min((free for wanted, free in zip(needed, remaining) if wanted),
               default=0)
