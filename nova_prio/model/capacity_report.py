# SPDX-License-Identifier: Apache-2.0

"""What the nova-compute of a host reports about its CPUs.

All readers use this record. ``nova_prio.objects.host_report`` stores it. Rows
and mix hosts are explained in :mod:`nova_prio.model.cpu_capacity`.

guest on a stale CPU set
    A guest that still runs on CPUs that a change of the configuration made
    dedicated. No instance is pinned to these CPUs until the guest is rebooted
    hard or moved.
orphan guest
    A libvirt domain for which Nova has no instance on the host.
partition
    The cgroup of all guests of one priority on a host.
"""

from __future__ import annotations

from collections import abc
import dataclasses
import decimal
import functools
import typing

from nova_prio.model import cpu_capacity
from nova_prio.model import low_supply as supply
from nova_prio.model import memory_pages

#: Limits of ``blocked_by``: number of names, and characters of each.
_MAX_NAMES, _MAX_NAME = 3, 64


@dataclasses.dataclass(frozen=True)
class CapacityReport:
    """The CPUs of a host, and the sellable and used vCPUs of each row.

    ``vcpus_used`` are the vCPUs of all instances, as Nova counts them at the
    time of the report. ``low_by_cell`` is NUMA cell of the host -> vCPUs of
    the low-priority guests with a NUMA topology on this cell, without zeros.

    ``blocked`` are dedicated CPUs that no instance is pinned on, but that
    guests on stale CPU sets or orphan guests use. ``blocked_by`` names the
    orphan guests among them. ``leased`` are dedicated CPUs that count as used,
    but that Nova's topology of the host does not show as pinned: the instance
    moves, or has just left.

    ``small_pages`` are those of a mix host with huge pages. They are None on
    other hosts, and if the nova-compute is too old to report them.

    ``low_supply`` is the CPU time that low-priority guests can get. It is None
    if it could not be measured, or if the nova-compute is too old.

    ``partition_problem`` is why the host cannot start guests with a priority,
    and ``problem`` why it refuses all priority instances: a sentence or ''.
    """

    cpus: cpu_capacity.HostCPUs
    sellable: cpu_capacity.Rows
    used: cpu_capacity.Rows
    vcpus_used: int
    low_by_cell: abc.Mapping[int, int]
    partition_problem: str = ''
    blocked: frozenset[int] = frozenset()
    blocked_by: str = ''
    problem: str = ''
    leased: frozenset[int] = frozenset()
    small_pages: memory_pages.SmallPages | None = None
    low_supply: supply.LowSupply | None = None

    @classmethod
    def from_usage(
            cls, cpus: cpu_capacity.HostCPUs, used: cpu_capacity.Rows,
            vcpus_used: int, low_by_cell: abc.Mapping[int, int],
            **more: typing.Any) -> CapacityReport:
        """Return a report of a host that sells what its CPUs allow.

        The sellable vCPUs are calculated from ``cpus``. A report that is read
        from a record has the stored numbers instead.

        :param used: used vCPUs of each row; a row is a number of vCPUs that
            the host may sell
        :param vcpus_used: vCPUs of all instances, as Nova counts them
        :param low_by_cell: dict, NUMA cell -> floating vCPUs of its
            low-priority guests
        :param more: dict, name of a further field -> value
        """
        return cls(cpus=cpus, sellable=cpus.sellable, used=used,
                   vcpus_used=vcpus_used, low_by_cell=low_by_cell, **more)

    @classmethod
    def from_problem(cls, problem: str, vcpus_used: int) -> CapacityReport:
        """Return a report for a host whose usage could not be counted.

        A scheduler that does not know the field ``problem`` must refuse
        priority instances, too. Therefore the report has no CPUs. Ordinary
        instances are scheduled as in stock Nova.

        :param problem: sentence for the field ``problem``
        :param vcpus_used: vCPUs of all instances, as Nova counts them
        """
        no_cpus = cpu_capacity.HostCPUs(
            dedicated=frozenset(), shared=frozenset(),
            ratio=cpu_capacity.parse_ratio(1), mix=False)
        return cls.from_usage(
            cpus=no_cpus, used=cpu_capacity.Rows(high=0, low=0, ordinary=0),
            vcpus_used=vcpus_used, low_by_cell={}, problem=problem)

    @property
    def mix(self) -> bool:
        """Whether it is a mix host."""
        return self.cpus.mix

    @property
    def ratio(self) -> decimal.Decimal:
        """The CPU allocation ratio."""
        return self.cpus.ratio

    @functools.cached_property
    def floating_cpus(self) -> int:
        """The number of floating CPUs."""
        return len(self.cpus.floating)

    @property
    def shared_cpus(self) -> int:
        """The number of shared CPUs."""
        return len(self.cpus.shared)

    @property
    def low_vcpus(self) -> int:
        """The vCPUs of the low-priority instances, which share low_supply."""
        return self.used.low - self.used.ordinary

    @property
    def hidden(self) -> frozenset[int]:
        """The free CPUs in Nova's topology that no instance may be pinned on.

        These are the blocked and the leased CPUs.
        """
        return self.blocked | self.leased

    @property
    def used_or_blocked(self) -> cpu_capacity.Rows:
        """The vCPUs of each row that are used or blocked."""
        return self.used._replace(high=self.used.high + len(self.blocked))

    @functools.cached_property
    def remaining(self) -> cpu_capacity.Rows:
        """The remaining vCPUs of each row."""
        return cpu_capacity.calculate_remaining(
            self.sellable, self.used_or_blocked)

    @property
    def left(self) -> cpu_capacity.Rows:
        """The remaining vCPUs of each row that new instances can have."""
        return cpu_capacity.calculate_left(self.sellable, self.used_or_blocked)


def shorten_names(names: abc.Sequence[str]) -> str:
    """Return names of guests as a text of bounded length.

    It shortens long names, and counts the names after the first few.
    """
    shortened = []
    for name in names[:_MAX_NAMES]:
        if len(name) > _MAX_NAME:
            name = name[:_MAX_NAME] + '...'
        shortened.append(name)
    text = ', '.join(shortened)
    if len(names) > _MAX_NAMES:
        text += ' and %d more' % (len(names) - _MAX_NAMES)
    return text
