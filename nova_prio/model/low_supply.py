# SPDX-License-Identifier: Apache-2.0

"""The low supply of a host: the CPU time that low-priority guests can get.

It is the idle time of the floating CPUs, where low-priority guests may run,
plus the time that these guests use now. It is measured between two readings of
counters, smoothed over some minutes, and rounded, so that the report of the
host seldom changes.
"""

from __future__ import annotations

from collections import abc
import math
import typing

#: Readings closer together than this say little: counters have 10 ms steps.
_MIN_SECONDS = 10
#: Time constant of the exponential smoothing.
_SMOOTHING_SECONDS = 180
#: The reported value stays at least this long.
KEEP_SECONDS = 300
#: Without a measurement, the low supply is unknown after this time.
_EXPIRY_SECONDS = 600
#: The reported value has this number of steps, from none to all.
_STEPS = 10


class Ticks(typing.NamedTuple):
    """The time of a CPU since the start of the host, in any unit."""

    idle: int
    total: int


class VCPUTime(typing.NamedTuple):
    """The seconds that a vCPU has run, and has waited for a CPU.

    ``wait`` is None if libvirt does not tell it.
    """

    run: float
    wait: float | None


class Reading(typing.NamedTuple):
    """The counters of a host at one time.

    ``seconds`` is a monotonic time. ``cpus`` is number of a floating CPU ->
    Ticks; it lacks CPUs that are offline. ``vcpus`` is a key -> VCPUTime of
    each vCPU of the low-priority guests that run. The key of a guest changes
    with each of its starts.
    """

    seconds: float
    cpus: abc.Mapping[int, Ticks]
    vcpus: abc.Mapping[abc.Hashable, VCPUTime]


class LowSupply(typing.NamedTuple):
    """The low supply of a host.

    ``cpu_percent`` is the CPU time, of which 100 is one CPU. ``wait_percent``
    is the part of the time that the vCPUs of the low-priority guests wait for
    a CPU, or None if it is unknown.
    """

    cpu_percent: float
    wait_percent: float | None

    @property
    def cpus(self) -> float:
        """The CPU time as a number of CPUs."""
        return self.cpu_percent / 100

    def per_vcpu(self, vcpus: int) -> float:
        """Return the number of CPUs for each of some low-priority vCPUs."""
        return self.cpus / vcpus


def is_plausible(supply: LowSupply, floating_cpus: int) -> bool:
    """Return whether a low supply is possible on a host.

    The low supply is the CPU time that low-priority guests can get, and the
    part of the time that they wait for a CPU.

    :param floating_cpus: number of CPUs where low-priority guests may run
    """
    has_right_wait = (
        supply.wait_percent is None or 0 <= supply.wait_percent <= 100)
    return (has_right_wait and
            0 <= supply.cpu_percent <= floating_cpus * 100)


def add_up(supplies: abc.Iterable[LowSupply | None]) -> LowSupply | None:
    """Return the sum of the CPU time, and the longest wait, of some hosts.

    The low supply of a host is the CPU time that low-priority guests can get,
    and the part of the time that they wait for a CPU.

    :param supplies: of each host; None if it is unknown
    :returns: None if one of them is unknown. The wait is None if that of one
        host is unknown, or if there are no hosts.
    """
    cpu_percent = 0.0
    waits = []
    for supply in supplies:
        if supply is None:
            return None
        cpu_percent += supply.cpu_percent
        waits.append(supply.wait_percent)
    known = [wait for wait in waits if wait is not None]
    longest = None
    if len(known) == len(waits):
        longest = max(known, default=None)
    return LowSupply(cpu_percent=cpu_percent, wait_percent=longest)


def calculate(before: Reading, after: Reading) -> LowSupply:
    """Return the low supply between two readings, not rounded.

    Its CPU time is what low-priority guests could get: the idle time of the
    CPUs where they may run, and the time that they ran. ``wait_percent`` is
    the part of the time that their vCPUs waited for a CPU. It is None if
    libvirt does not tell the waiting time of each vCPU. A counter that runs
    backwards counts as unchanged, and the result is never more than the CPUs
    can give. A vCPU without an earlier time has started since.

    :param before: counters of the CPUs and of the vCPUs of these guests
    :param after: the same counters, at least some seconds later
    """
    elapsed = after.seconds - before.seconds
    # Number of CPUs that were idle, and seconds that all vCPUs together have
    # run and waited.
    idle_cpus = run = wait = 0.0
    for cpu, now in after.cpus.items():
        # If the CPU was offline before, no time has passed for it.
        then = before.cpus.get(cpu, now)
        total = now.total - then.total
        if total > 0:
            idle_cpus += _limit(now.idle - then.idle, total) / total
    knows_wait = True
    for key, time in after.vcpus.items():
        last = before.vcpus.get(key, VCPUTime(run=0.0, wait=0.0))
        run += _limit(time.run - last.run, elapsed)
        if time.wait is None or last.wait is None:
            knows_wait = False
        else:
            wait += _limit(time.wait - last.wait, elapsed)
    wait_percent = None
    if knows_wait:
        wait_percent = 100 * wait / (elapsed * max(len(after.vcpus), 1))
    cpus = min(idle_cpus + run / elapsed, len(after.cpus))
    return LowSupply(cpu_percent=100 * cpus, wait_percent=wait_percent)


class Average:
    """The low supply of a host, smoothed, and reported in steps.

    ``reported`` is a LowSupply of whole numbers, or None while it is unknown.
    It changes at most once in ``KEEP_SECONDS``, and only if the smoothed value
    is a step away: each change makes nova-compute write its record.
    """

    def __init__(self) -> None:
        """Know no reading yet."""
        self.reported: LowSupply | None = None
        self._last: Reading | None = None
        self._smoothed: LowSupply | None = None
        self._smoothed_at = -math.inf
        self._reported_at = -math.inf

    def is_due(self, seconds: float) -> bool:
        """Return whether a reading is useful at a monotonic time."""
        return (self._last is None or
                seconds - self._last.seconds >= _MIN_SECONDS)

    def add(self, reading: Reading) -> None:
        """Update the smoothed value, and what is reported, by a reading.

        The value is the low supply of the host: the CPU time that low-priority
        guests can get, in percent of one CPU, and the percent of the time that
        their vCPUs wait for a CPU. The wait is None if libvirt does not tell
        it.

        Call this if :meth:`is_due` says so. The first reading gives no value,
        because a value needs two readings.
        """
        before, self._last = self._last, reading
        if before is None:
            return
        new = calculate(before, reading)
        old = self._smoothed
        if old is not None:
            # The part of the way from the old value to the new one: the more
            # time has passed, the nearer it is to 1.
            weight = 1 - math.exp(
                (before.seconds - reading.seconds) / _SMOOTHING_SECONDS)
            wait_percent = new.wait_percent
            if wait_percent is not None and old.wait_percent is not None:
                wait_percent = _approach(
                    old.wait_percent, wait_percent, weight)
            new = LowSupply(
                cpu_percent=_approach(
                    old.cpu_percent, new.cpu_percent, weight),
                wait_percent=wait_percent)
        self._smoothed, self._smoothed_at = new, reading.seconds
        self._report(reading.seconds, len(reading.cpus))

    def expire(self, seconds: float) -> None:
        """Forget the low supply if the last measurement is old.

        The low supply is the CPU time that low-priority guests can get, from
        two readings of counters. Report then None, which means unknown.

        :param seconds: monotonic time of a reading that failed
        """
        if seconds - self._smoothed_at > _EXPIRY_SECONDS:
            self._smoothed = None
            if self.reported is not None:
                self.reported, self._reported_at = None, seconds

    def _report(self, seconds: float, floating_cpus: int) -> None:
        """Update ``reported``, if it is time and the change is large.

        It is the CPU time that low-priority guests can get, and the part of
        the time that they wait for a CPU. The wait is None if libvirt does not
        tell it.

        :param seconds: monotonic time of the smoothed value
        :param floating_cpus: number of CPUs where low-priority guests may run
        """
        smoothed, old = self._smoothed, self.reported
        assert smoothed is not None
        if seconds - self._reported_at < KEEP_SECONDS:
            return
        # A step of the waiting time, in percent, and one of the CPU time, of
        # which 100 is one CPU.
        step = 100 / _STEPS
        cpu_step = step * floating_cpus
        if old is not None and (
                _is_close(old.cpu_percent, smoothed.cpu_percent, cpu_step) and
                _is_close(old.wait_percent, smoothed.wait_percent, step)):
            return
        wait_percent = smoothed.wait_percent
        if wait_percent is not None:
            wait_percent = _round(wait_percent, step)
        rounded = LowSupply(
            cpu_percent=_round(smoothed.cpu_percent, cpu_step),
            wait_percent=wait_percent)
        self.reported, self._reported_at = rounded, seconds


def _limit(value: float, most: float) -> float:
    """Return a value, at least 0 and at most ``most``."""
    return min(max(value, 0.0), most)


def _approach(old: float, new: float, weight: float) -> float:
    """Return the new smoothed value.

    :param weight: part of the way from the old value to the new one, 0 to 1
    """
    return old + weight * (new - old)


def _is_close(reported: float | None, smoothed: float | None,
              step: float) -> bool:
    """Return whether a reported value is less than a step away.

    A value is None if it is unknown, which is close only to itself.
    """
    if reported is None or smoothed is None:
        return reported is smoothed
    return abs(reported - smoothed) < step


def _round(value: float, step: float) -> int:
    """Return the multiple of a step that is closest to a value."""
    return round(round(value / step) * step)
