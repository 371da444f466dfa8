# SPDX-License-Identifier: Apache-2.0

"""The admission checks of a host that the filter and the claim share.

The NUMA fit is not among them: Nova decides it (:mod:`nova_prio.virt.numa`).
"""

import typing

from nova_prio.model import capacity


class Refusal(typing.NamedTuple):
    """One reason why a host cannot take an instance.

    ``reason`` is its short name. ``detail`` becomes a sentence with ``str``.
    """

    reason: str
    detail: object
    needed: int | None = None
    available: int | None = None

    def __str__(self):
        """Return reason, detail and the numbers that are not None."""
        numbers = ', '.join(
            '%s %d' % (name, getattr(self, name))
            for name in ('needed', 'available')
            if getattr(self, name) is not None)
        return '%s: %s%s' % (
            self.reason, self.detail, numbers and ' (%s)' % numbers)


class _LazyText(typing.NamedTuple):
    """A text that is formatted only if a log line or an answer needs it."""

    template: str
    values: tuple

    def __str__(self):
        return self.template % self.values


def find_refusals(host, request, remaining, free_memory_mb):
    """Yield each Refusal of an instance by a host.

    If the host is not a mix host, call this for priority instances only.

    :param host: object with the attributes ``mix``, ``floating_cpus`` and
        ``shared_cpus`` (both int), ``sellable``, ``blocked``, ``blocked_by``,
        ``problem`` and ``partition_problem``
    :param request: object with ``priority``, ``needed_rows``, ``vcpus``,
        ``memory_mb`` and ``wants_whole_cores`` of the instance
    :param remaining: ``capacity.Rows`` of the host
    :param free_memory_mb: memory of the host that no instance has
    """
    if request.priority is not None and host.problem:
        yield Refusal('problem', host.problem)
    if request.priority is not None and host.partition_problem:
        yield Refusal('no_partition', host.partition_problem)
    if host.mix and request.wants_whole_cores:
        yield Refusal(
            'whole_cores', 'low-priority instances float on the dedicated '
            'CPUs of the host, so it cannot take a real-time instance or one '
            'with hw:cpu_thread_policy=isolate')
    if ((host.mix or request.priority == capacity.HIGH) and
            request.memory_mb > free_memory_mb):
        available = max(free_memory_mb, 0)
        yield Refusal('memory', _LazyText(
            'the host has %d MB of memory free, without overcommit; the '
            'instance needs %d MB', (available, request.memory_mb)),
            request.memory_mb, available)
    if request.priority == capacity.LOW and request.vcpus > host.floating_cpus:
        yield Refusal(
            'too_many_vcpus', 'the instance has more vCPUs than the host has '
            'floating CPUs', request.vcpus, host.floating_cpus)
    # On stock Nova max_unit of VCPU, the number of shared CPUs, sets this
    # limit. A mix host has a larger max_unit for its low-priority instances.
    if host.mix and request.needed_rows.ordinary > host.shared_cpus:
        yield Refusal(
            'too_many_shared_vcpus', 'the instance has more shared vCPUs '
            'than the host has shared CPUs', request.needed_rows.ordinary,
            host.shared_cpus)
    for row, needed, available in capacity.find_shortages(
            request.needed_rows, remaining):
        yield Refusal('%s_capacity' % row, _LazyText(
            'the %s row has %d of %d vCPUs free, %d are needed%s',
            (row, available, getattr(host.sellable, row), needed,
             _format_blocked(host) if row == capacity.HIGH else '')),
            needed, available)


def _format_blocked(host):
    """Return a clause about the dedicated CPUs that other guests use."""
    if not host.blocked:
        return ''
    text = (' (guests on stale CPU sets use %d more until a hard reboot or a '
            'move of these guests)' % len(host.blocked))
    if host.blocked_by:
        text += ' (orphan guests among them: %s)' % host.blocked_by
    return text
