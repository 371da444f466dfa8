# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Whether a host takes an instance of a class; asked by filter and claim.

Pure: numbers in, refusals out. What concerns the NUMA topology is Nova's to
decide (:mod:`nova_prio.numa_view`).
"""

import typing

from nova_prio import capacity

#: Reasons of a refusal, as they stand in the log.
PROBLEM = 'problem'
NO_PARTITION = 'no_partition'
TOO_MANY_VCPUS = 'too_many_vcpus'
TOO_MANY_SHARED_VCPUS = 'too_many_shared_vcpus'
WHOLE_CORES = 'whole_cores'
MEMORY = 'memory'
CAPACITY = {'high': 'high_capacity', 'low': 'low_capacity',
            'ordinary': 'ordinary_capacity'}


class Refusal(typing.NamedTuple):
    """One thing that speaks against a host.

    ``reason`` is one of the constants, ``detail`` puts it into words when it
    is made a str, ``needed`` and ``available`` are numbers or None.
    """

    reason: str
    detail: object
    needed: int | None = None
    available: int | None = None

    def __str__(self):
        """Return reason, detail and the numbers that there are."""
        numbers = ', '.join(
            '%s %d' % (name, getattr(self, name))
            for name in ('needed', 'available')
            if getattr(self, name) is not None)
        return '%s: %s%s' % (
            self.reason, self.detail, numbers and ' (%s)' % numbers)


class _RowText(typing.NamedTuple):
    """What is said of a row without room."""

    shortage: capacity.Shortage
    sellable: int
    blocked: int
    blocked_by: str

    def __str__(self):
        said = 'the %s row has %d of %d CPUs left, %d are needed' % (
            self.shortage.row, self.shortage.available, self.sellable,
            self.shortage.needed)
        if self.shortage.row == capacity.HIGH and self.blocked:
            said += (' (on %d more, guests that were started with other CPU '
                     'sets float until they are rebooted hard or moved)'
                     % self.blocked)
            if self.blocked_by:
                said += (' (guests there that are no instances of this host: '
                         '%s)' % self.blocked_by)
        return said


class _MemoryText(typing.NamedTuple):
    """What is said of a host whose memory is sold."""

    needed: int
    available: int

    def __str__(self):
        return ('%d MB of memory are not sold yet, %d are needed, and it is '
                'not oversold for this instance' % (
                    self.available, self.needed))


def refusals(host, wish, room, free_memory_mb):
    """Yield what speaks against a host, in the order in which it is tested.

    On a host without mix, ask for priority instances only.

    :param host: object with ``mix``, ``floating_cpus``, ``shared_cpus`` (both
        numbers), ``sellable``, ``blocked``, ``blocked_by``, ``problem`` and
        ``partition_problem``
    :param wish: object with ``priority``, ``drawn``, ``vcpus``, ``memory_mb``
        and ``wants_whole_cores`` of the instance
    :param room: ``capacity.Rows`` that are left on the host
    :param free_memory_mb: memory of the host that is sold to nobody
    """
    if wish.priority is not None and host.problem:
        yield Refusal(PROBLEM, host.problem)
    if wish.priority is not None and host.partition_problem:
        yield Refusal(NO_PARTITION, host.partition_problem)
    if host.mix and wish.wants_whole_cores:
        yield Refusal(
            WHOLE_CORES, 'low-priority instances run on the dedicated CPUs of '
            'the host, so that it takes no real-time instance and none with '
            'the isolate thread policy')
    if ((host.mix or wish.priority == capacity.HIGH) and
            wish.memory_mb > free_memory_mb):
        available = max(free_memory_mb, 0)
        yield Refusal(MEMORY, _MemoryText(wish.memory_mb, available),
                      wish.memory_mb, available)
    if wish.priority == capacity.LOW and wish.vcpus > host.floating_cpus:
        yield Refusal(
            TOO_MANY_VCPUS, 'the instance has more vCPUs than the host has '
            'CPUs to float on', wish.vcpus, host.floating_cpus)
    # Nova gives the VCPU inventory of a host with s shared CPUs a max_unit of
    # s. That of a mix host is larger, because low-priority instances need it.
    if host.mix and wish.drawn.ordinary > host.shared_cpus:
        yield Refusal(
            TOO_MANY_SHARED_VCPUS, 'the instance has more shared vCPUs than '
            'the host has shared CPUs', wish.drawn.ordinary, host.shared_cpus)
    for shortage in capacity.shortages(wish.drawn, room):
        yield Refusal(
            CAPACITY[shortage.row],
            _RowText(shortage, getattr(host.sellable, shortage.row),
                     len(host.blocked), host.blocked_by),
            shortage.needed, shortage.available)
