# SPDX-License-Identifier: Apache-2.0

"""The admission checks of a host that the filter and the claim share.

Nova decides the NUMA fit (:mod:`nova_prio.virt.numa`).
"""

from collections import abc
import dataclasses
import typing

from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages
from nova_prio.model import reasons


@dataclasses.dataclass(frozen=True)
class Request:
    """The resources that an instance requests.

    ``priority`` is 'high', 'low' or None for an ordinary instance.
    ``needed_rows`` are the vCPUs of each row that the instance needs, and
    ``memory_parts`` its memory by page size. ``wants_whole_cores`` tells
    whether it needs cores of its own.
    """

    demand: cpu_capacity.Demand
    priority: str | None
    needed_rows: cpu_capacity.Rows
    vcpus: int
    memory_mb: int
    memory_parts: memory_pages.MemoryParts
    wants_whole_cores: bool


class Refusal(typing.NamedTuple):
    """One reason why a host cannot take an instance.

    ``reason`` is a key of ``reasons.REASONS``. ``values`` fill its text.
    """

    reason: str
    values: tuple[str | int, ...] = ()
    needed: int | None = None
    available: int | None = None

    @property
    def detail(self) -> str:
        """Return the text of the reason as a sentence with the values."""
        return reasons.REASONS[self.reason].text % self.values

    def __str__(self) -> str:
        """Return reason, detail and the amounts that are not None.

        The end of the text is such as ' (needed 8, available 4)'.
        """
        amounts = []
        if self.needed is not None:
            amounts.append('needed %d' % self.needed)
        if self.available is not None:
            amounts.append('available %d' % self.available)
        text = '%s: %s' % (self.reason, self.detail)
        if amounts:
            text += ' (%s)' % ', '.join(amounts)
        return text


def find_refusals(
        host: capacity_report.CapacityReport, request: Request,
        remaining: cpu_capacity.Rows, free_memory_mb: int,
        small: memory_pages.SmallPages | None,
) -> abc.Iterator[Refusal]:
    """Yield each Refusal of an instance by a host.

    Call this for priority instances, and on a mix host for all instances. The
    low-priority instances of a mix host may also run on its dedicated CPUs. A
    row is a number of vCPUs that a host may sell
    (:mod:`nova_prio.model.cpu_capacity`). Floating CPUs are those where
    low-priority instances may run. A partition is the cgroup of all guests of
    one priority.

    :param remaining: remaining vCPUs of each row of the host
    :param free_memory_mb: memory of the host that no instance has, in MB;
        negative if the memory is overcommitted
    :param small: memory of the host in small pages; None if it does not limit
        the instance
    """
    # Why the host refuses all priority instances, and why it cannot start
    # their guests: sentences, or '' if there is no problem.
    if request.priority is not None and host.problem:
        yield Refusal('problem', (host.problem,))
    if request.priority is not None and host.partition_problem:
        yield Refusal('no_partition', (host.partition_problem,))
    # Low-priority guests would run on the cores of such an instance.
    if host.mix and request.wants_whole_cores:
        yield Refusal('whole_cores')
    # On a mix host and for high priority, memory is never overcommitted.
    if ((host.mix or request.priority == cpu_capacity.HIGH) and
            request.memory_mb > free_memory_mb):
        available = max(free_memory_mb, 0)
        yield Refusal('memory', (available, request.memory_mb),
                      needed=request.memory_mb, available=available)
    if host.mix and small is not None:
        needed_mb = memory_pages.calculate_needed(
            request.memory_parts, small.page_kb)
        available = max(small.free_mb, 0)
        if needed_mb > available:
            yield Refusal(
                'small_pages', (available, small.total_mb, needed_mb),
                needed=needed_mb, available=available)
    if (request.priority == cpu_capacity.LOW and
            request.vcpus > host.floating_cpus):
        yield Refusal('too_many_vcpus', needed=request.vcpus,
                      available=host.floating_cpus)
    # The shared vCPUs of the instance; 0 if it has low priority.
    shared = request.needed_rows.ordinary
    # Stock Nova sets this limit by max_unit of VCPU. A mix host has a larger
    # max_unit for its low-priority instances.
    if host.mix and shared > host.shared_cpus:
        yield Refusal('too_many_shared_vcpus', needed=shared,
                      available=host.shared_cpus)
    for row, needed, available in cpu_capacity.find_shortages(
            request.needed_rows, remaining):
        values: tuple[str | int, ...] = (
            available, getattr(host.sellable, row), needed)
        if row == cpu_capacity.HIGH:
            # Only the text of this reason has a fourth value.
            values += (_describe_blocked(host),)
        yield Refusal('%s_capacity' % row, values, needed=needed,
                      available=available)


def _describe_blocked(host: capacity_report.CapacityReport) -> str:
    """Return the end of the refusal for lack of dedicated CPUs, or ''.

    It says how many dedicated CPUs are blocked: no instance is pinned on them,
    but guests run there. These are guests on stale CPU sets, which still float
    on the CPUs of an earlier configuration, and orphan guests, for which Nova
    has no instance on the host.
    """
    if not host.blocked:
        return ''
    orphan_names = host.blocked_by
    if orphan_names:
        return (' (guests use %d more until those on stale CPU sets are hard '
                'rebooted or moved, and the others are pinned to other CPUs '
                'or shut down with virsh) (orphan guests among them: %s)'
                % (len(host.blocked), orphan_names))
    return (' (guests on stale CPU sets use %d more until a hard reboot or a '
            'move of these guests)' % len(host.blocked))
