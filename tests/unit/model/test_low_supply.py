# SPDX-License-Identifier: Apache-2.0

import hypothesis
from hypothesis import strategies as st
import pytest

from nova_prio.model import low_supply


def reading(seconds, idle=(), vcpus=None, total=None):
    """Return a Reading in which each CPU counts 100 ticks a second.

    :param idle: idle seconds of each CPU since the start
    :param vcpus: key -> (seconds of run, seconds of wait)
    :param total: ticks of each CPU instead of 100 for each second
    """
    if total is None:
        total = 100 * seconds
    return low_supply.Reading(
        seconds, {number: low_supply.Ticks(100 * each, total)
                  for number, each in enumerate(idle)},
        {key: low_supply.VCPUTime(*each)
         for key, each in (vcpus or {}).items()})


@pytest.mark.parametrize('before, after, supply', [
    # Two idle CPUs, and two of which one is busy with others.
    (reading(0, (0, 0)), reading(60, (60, 60)), (200, 0)),
    (reading(0, (0, 0)), reading(60, (60, 0)), (100, 0)),
    # One CPU is busy with a low guest, which gets half of what it wants.
    (reading(0, (0, 0), {'a': (5, 5)}),
     reading(60, (0, 60), {'a': (35, 35)}), (150, 50)),
    # Two guests, of which one waits all the time: 60 of 120 seconds.
    (reading(0, (0,), {'a': (0, 0), 'b': (0, 0)}),
     reading(60, (0,), {'a': (60, 0), 'b': (0, 60)}), (100, 50)),
    # A guest that has started since, and one that has gone.
    (reading(0, (0,), {'a': (9, 9)}), reading(60, (30,), {'b': (15, 3)}),
     (75, 5)),
    # The times of guests are finer than the ticks: no more than the CPUs.
    (reading(0, (0,), {'a': (0, 0)}), reading(10, (1,), {'a': (10, 0)}),
     (100, 0)),
    # Counters that run backwards, or jump.
    (reading(0, (50,), {'a': (50, 50)}), reading(60, (40,), {'a': (0, 0)}),
     (0, 0)),
    (reading(0, (0,), {'a': (0, 0)}), reading(60, (90,), {'a': (99, 99)}),
     (100, 100)),
    # A CPU whose ticks stand still, and one that was offline before.
    (reading(0, (0, 0), total=0), reading(60, (60, 60), total=0), (0, 0)),
    (reading(0, (0,)), reading(60, (60, 60)), (100, 0)),
    # A CPU that is offline now cannot serve guests.
    (reading(0, (0, 0)), reading(60, (60,)), (100, 0)),
    # libvirt does not tell how long a vCPU waits.
    (reading(0, (0,), {'a': (0, None)}), reading(60, (0,), {'a': (30, None)}),
     (50, None)),
])
def test_supply_between_two_readings(before, after, supply):
    assert pytest.approx(supply) == tuple(low_supply.calculate(before, after))


TIMES = st.integers(-10 ** 9, 10 ** 9)
READINGS = st.tuples(
    st.dictionaries(st.integers(0, 3), st.builds(
        low_supply.Ticks, TIMES, TIMES), min_size=1),
    st.dictionaries(st.integers(0, 3), st.builds(
        low_supply.VCPUTime, TIMES, st.none() | TIMES)))


@hypothesis.given(READINGS, READINGS)
def test_any_counters_give_a_plausible_supply(before, after):
    supply = low_supply.calculate(
        low_supply.Reading(0, *before), low_supply.Reading(10, *after))
    assert low_supply.is_plausible(supply, len(after[0]))


@pytest.mark.parametrize('cpu_percent, wait_percent, is_plausible', [
    (0, 0, True), (400, 100, True), (250, None, True),
    (-1, 0, False), (401, 0, False), (0, -1, False), (0, 101, False)])
def test_plausible(cpu_percent, wait_percent, is_plausible):
    supply = low_supply.LowSupply(cpu_percent, wait_percent)
    assert is_plausible == low_supply.is_plausible(supply, 4)


class Host:
    """A host of ten CPUs that a recount measures each minute."""

    def __init__(self):
        self.average = low_supply.Average()
        self.seconds = self.idle = self.wait = 0
        self.average.add(self.read())

    def read(self):
        return reading(self.seconds, [self.idle] * 10, {'a': (0, self.wait)})

    def run(self, minutes, idle, wait=0):
        """Let minutes pass; return what was reported, a list."""
        reported = []
        for _ in range(minutes):
            self.seconds += 60
            self.idle += 60 * idle
            self.wait += 60 * wait
            self.average.add(self.read())
            reported.append(self.average.reported)
        return reported

    def fail(self, minutes):
        """Let minutes pass in which the CPUs idle and no measurement works."""
        for _ in range(minutes):
            self.seconds += 60
            self.idle += 60
            self.average.expire(self.seconds)
        return self.average.reported


@pytest.fixture
def host():
    return Host()


def count_changes(reported):
    """Return the number of values that differ from the one before."""
    return sum(old != new for old, new in zip(reported, reported[1:]))


def test_first_interval_is_reported(host):
    assert host.average.reported is None
    assert [(1000, 0)] == host.run(1, 1)


def test_rounded_to_a_tenth_of_the_host(host):
    assert [(700, 30)] == host.run(1, 0.68, 0.31)


def test_change_is_smoothed_over_minutes(host):
    host.run(10, 1)
    reported = host.run(20, 0)
    # After a minute, 1 - exp(-60 / 180) = 28 % of the way; after six, 86 %.
    assert [700, 700, 100] == [
        reported[minute].cpu_percent for minute in (0, 4, 5)]


def test_wait_of_guests_is_reported(host):
    host.run(10, 0)
    assert 90 <= host.run(20, 0, wait=1)[-1].wait_percent <= 100


def test_quiet_host_reports_one_value(host):
    """A host that is idle but for a twentieth, now and then."""
    reported = []
    for minute in range(120):
        reported += host.run(1, (1, 0.97, 0.95)[minute % 3], 0.05)
    assert {(1000, 0)} == set(reported[1:])


def test_value_between_two_steps_does_not_flap(host):
    reported = []
    for minute in range(120):
        reported += host.run(1, (0.53, 0.57)[minute // 10 % 2])
    assert 0 == count_changes(reported)


def test_busy_host_reports_a_change_in_five_minutes_at_most(host):
    """Each hour has at most 12 changes, however the load jumps."""
    reported = []
    for minute in range(240):
        reported += host.run(1, minute // 4 % 2, minute // 3 % 2)
    changes = [minute for minute in range(1, 240)
               if reported[minute] != reported[minute - 1]]
    assert 10 < len(changes)
    assert 5 <= min(b - a for a, b in zip(changes, changes[1:]))


def test_failures_of_some_minutes_keep_the_value(host):
    host.run(5, 1)
    assert (1000, 0) == host.fail(10)
    assert (1000, 0) == host.run(1, 1)[0]


def test_old_measurement_is_unknown(host):
    host.run(5, 1)
    assert host.fail(11) is None
    assert host.fail(100) is None


def test_supply_returns_after_failures_but_not_at_once(host):
    """Failures in turn with measurements write no record more often."""
    host.run(5, 1)
    host.fail(11)
    reported = host.run(5, 1)
    assert [None] * 4 + [(1000, 0)] == reported


def test_failure_before_the_first_measurement(host):
    assert host.fail(20) is None
    assert [(1000, 0)] == host.run(1, 1)


@pytest.mark.parametrize('supplies, total', [
    ([(400, 0), (250, 30)], (650, 30)),
    ([(400, 0), (250, None)], (650, None)),
    ([(400, 0), None], None)])
def test_sum_of_hosts(supplies, total):
    assert total == low_supply.add_up(
        each and low_supply.LowSupply(*each) for each in supplies)


def test_readings_close_together_are_not_due(host):
    average = low_supply.Average()
    assert average.is_due(0)
    average.add(reading(0, (0,)))
    assert not average.is_due(9)
    assert average.is_due(10)


def test_unknown_wait_is_reported_as_soon_as_it_is_known():
    average = low_supply.Average()
    for minute in range(8):
        wait = None if minute < 2 else 0
        average.add(reading(60 * minute, (0,), {'a': (0, wait)}))
        if minute == 1:
            assert average.reported.wait_percent is None
    assert 0 == average.reported.wait_percent
