# SPDX-License-Identifier: Apache-2.0

"""The tests of a host that filter and claim share.

Numbers in, refusals out, without Nova objects. Nova decides the NUMA fit
(:mod:`nova_prio.virt.numa`).
"""

import typing

from nova_prio.model import capacity


class Refusal(typing.NamedTuple):
    """One reason why a host cannot take an instance.

    ``reason`` is a name for it, ``detail`` says it in words when it is made a
    str, ``needed`` and ``available`` are numbers or None.
    """

    reason: str
    detail: object
    needed: int | None = None
    available: int | None = None

    def __str__(self):
        """Return reason, detail and the numbers that are known."""
        numbers = ', '.join(
            '%s %d' % (name, getattr(self, name))
            for name in ('needed', 'available')
            if getattr(self, name) is not None)
        return '%s: %s%s' % (
            self.reason, self.detail, numbers and ' (%s)' % numbers)


class _Text(typing.NamedTuple):
    """A text that is formatted only if a log line or an answer needs it."""

    template: str
    values: tuple

    def __str__(self):
        return self.template % self.values


def find_refusals(host, request, room, free_memory_mb):
    """Yield each Refusal of an instance by a host.

    On a host without mix, call it for priority instances only.

    :param host: object with ``mix``, ``floating_cpus``, ``shared_cpus`` (both
        numbers), ``sellable``, ``blocked``, ``blocked_by``, ``problem`` and
        ``partition_problem``
    :param request: object with ``priority``, ``needed_rows``, ``vcpus``,
        ``memory_mb`` and ``wants_whole_cores`` of the instance
    :param room: ``capacity.Rows`` that are left on the host
    :param free_memory_mb: memory of the host that no instance has
    """
    if request.priority is not None and host.problem:
        yield Refusal('problem', host.problem)
    if request.priority is not None and host.partition_problem:
        yield Refusal('no_partition', host.partition_problem)
    if host.mix and request.wants_whole_cores:
        yield Refusal(
            'whole_cores', 'low-priority instances run on the dedicated CPUs '
            'of the host, so that it takes no real-time instance and none '
            'with the isolate thread policy')
    if ((host.mix or request.priority == capacity.HIGH) and
            request.memory_mb > free_memory_mb):
        available = max(free_memory_mb, 0)
        yield Refusal('memory', _Text(
            '%d MB of memory are not sold yet, %d are needed, and it is not '
            'oversold for this instance', (available, request.memory_mb)),
            request.memory_mb, available)
    if request.priority == capacity.LOW and request.vcpus > host.floating_cpus:
        yield Refusal(
            'too_many_vcpus', 'the instance has more vCPUs than the host has '
            'CPUs to float on', request.vcpus, host.floating_cpus)
    # Nova gives the VCPU inventory of a host with s shared CPUs a max_unit of
    # s. That of a mix host is larger, because low-priority instances need it.
    if host.mix and request.needed_rows.ordinary > host.shared_cpus:
        yield Refusal(
            'too_many_shared_vcpus', 'the instance has more shared vCPUs '
            'than the host has shared CPUs', request.needed_rows.ordinary,
            host.shared_cpus)
    for row, needed, available in capacity.find_shortages(
            request.needed_rows, room):
        yield Refusal('%s_capacity' % row, _Text(
            'the %s row has %d of %d CPUs left, %d are needed%s',
            (row, available, getattr(host.sellable, row), needed,
             _blocked_text(host) if row == capacity.HIGH else '')),
            needed, available)


def _blocked_text(host):
    if not host.blocked:
        return ''
    text = (' (on %d more, guests that were started with other CPU sets float '
            'until they are rebooted hard or moved)' % len(host.blocked))
    if host.blocked_by:
        text += (' (guests there that are no instances of this host: %s)'
                 % host.blocked_by)
    return text
