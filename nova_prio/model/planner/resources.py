# SPDX-License-Identifier: Apache-2.0

"""The hosts and the needs of instances, as the planner of moves reads them.

A row is a number of vCPUs that a host may sell
(:mod:`nova_prio.model.cpu_capacity`).
"""

from __future__ import annotations

import dataclasses
import functools
import typing

from nova_prio.model import admission
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_cpus


class Cell(typing.NamedTuple):
    """A NUMA cell of a host.

    ``used`` are the rows that guests with a NUMA topology use, and blocked
    CPUs. ``overcommit_mb`` is the memory that guests without pinned vCPUs may
    use beyond ``free_memory_mb``.
    """

    cpus: cpu_capacity.HostCPUs
    used: cpu_capacity.Rows
    free_memory_mb: int
    overcommit_mb: int = 0

    @property
    def remaining(self) -> cpu_capacity.Rows:
        """The remaining rows."""
        return cpu_capacity.calculate_remaining(self.cpus.sellable, self.used)


@dataclasses.dataclass(frozen=True)
class Host:
    """A compute host with the usage of all its instances.

    ``free_memory_mb`` is the memory that no instance has; it is negative if
    memory is overcommitted. Placement sells ``overcommit_mb`` more.
    ``free_disk_gb`` is None if the disks of instances are elsewhere. A host
    that is not enabled takes no instance. ``report.problem`` must be set for a
    host with another compute driver, which takes no priority instance.
    ``report.small_pages`` may also be set without mix, and then limit none.
    """

    name: str
    report: capacity_report.CapacityReport
    free_memory_mb: int
    overcommit_mb: int = 0
    free_disk_gb: int | None = None
    cells: tuple[Cell, ...] = ()
    aggregates: tuple[aggregate_metadata.Aggregate, ...] = ()
    is_enabled: bool = True


class GuestCell(typing.NamedTuple):
    """The vCPUs of each row, and the memory, of a guest NUMA cell."""

    rows: cpu_capacity.Rows
    memory_mb: int


@dataclasses.dataclass(frozen=True)
class Needs:
    """The resources that an instance needs, and the hosts it may use.

    ``request`` must be hashable, as ``demand.ResourceRequest`` is. ``cells``
    is empty if the guest has no NUMA topology. A destination must be in each
    of the named ``aggregates``, and none of the ``refused_hosts``, which Nova
    refused before. A new ordinary instance may not use the hosts that exclude
    ordinary instances.
    """

    request: admission.Request
    disk_gb: int = 0
    cells: tuple[GuestCell, ...] = ()
    aggregates: frozenset[str] = frozenset()
    refused_hosts: frozenset[str] = frozenset()
    is_new: bool = False

    def __hash__(self) -> int:
        """Return the hash, which the planner needs very often."""
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        """The hash of the values that mostly differ."""
        return hash((self.request, self.disk_gb, self.cells,
                     self.refused_hosts))

    @property
    def class_name(self) -> str:
        """The class of the instance, one of ``flavor_cpus.CLASSES``."""
        return self.request.priority or flavor_cpus.ORDINARY
