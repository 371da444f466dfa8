# SPDX-License-Identifier: Apache-2.0

import logging
import types
from unittest import mock

from nova.virt.libvirt import host as libvirt_host
import pytest

from nova_prio.virt.libvirt import guest_xml
from nova_prio.virt.libvirt import supply_meter

FLOATING = {0, 1}
GUESTS = [
    guest_xml.Guest('low', 'a', partition='/low_prio_machine'),
    guest_xml.Guest('high', 'b', partition='/high_prio_machine'),
    guest_xml.Guest('ordinary', 'c')]
# user nice system idle iowait irq softirq steal guest guest_nice
STAT = '''\
cpu  9 9 9 9 9 9 9 9 9 9
cpu0 {busy} 0 0 {idle} 0 0 0 0 {busy} 0
cpu1 {busy} 0 0 0 {idle} 0 0 0 0 0
cpu2 9 9 9 9 9 9 9 9 9 9
intr 9 9
ctxt 9
'''


class FakeError(Exception):
    """The error of a libvirt that these tests do not import."""


class Libvirt:
    """The parts of libvirt-python that the meter needs."""

    libvirtError = FakeError
    VIR_DOMAIN_STATS_VCPU = 8
    VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE = 1
    VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT = 1 << 29


class Domain:
    def __init__(self, uuid, number):
        self.uuid, self.number = uuid, number

    def UUIDString(self):
        return self.uuid

    def ID(self):
        return self.number


class Machine:
    """A host whose CPUs 0 and 1 idle half of the time, and its meter.

    The low-priority guest has two vCPUs. One runs a quarter of the time, and
    waits a tenth; the other is offline.
    """

    def __init__(self, stat_file, monkeypatch):
        self.stat_file = stat_file
        self.seconds = 0
        self.calls = []
        self.error = None
        self.domain_id = 1
        self.delay = 'vcpu.0.delay'
        self.stat = STAT
        monkeypatch.setattr(libvirt_host, 'libvirt', Libvirt)
        monkeypatch.setattr(supply_meter, '_STAT_FILE', str(stat_file))
        monkeypatch.setattr(supply_meter, 'time', types.SimpleNamespace(
            monotonic=lambda: self.seconds))
        host = mock.create_autospec(libvirt_host.Host, instance=True)
        host.get_connection.return_value = self
        self.host = host
        self.meter = supply_meter.SupplyMeter(host)

    def getAllDomainStats(self, stats, flags):
        self.calls.append((stats, flags))
        if self.error:
            raise self.error
        ns = self.seconds * 10 ** 9
        times = {'vcpu.current': 1, 'vcpu.maximum': 2, 'vcpu.0.state': 1,
                 'vcpu.0.time': ns // 4, self.delay: ns // 10,
                 'vcpu.1.state': 0}
        return [(Domain('a', self.domain_id), times),
                (Domain('b', 2), {'vcpu.0.time': ns, 'vcpu.0.delay': ns})]

    def measure(self, after=60, floating=FLOATING, guests=GUESTS):
        """Measure some seconds later; return what is reported."""
        self.seconds += after
        if self.stat is not None:
            self.stat_file.write_text(self.stat.format(
                busy=50 * self.seconds, idle=50 * self.seconds))
        self.meter.measure(floating, guests)
        return self.meter.reported


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path / 'stat', monkeypatch)


def test_supply_of_idle_time_and_of_low_guests(machine):
    assert machine.measure() is None
    # Half of two CPUs idles, and a guest runs for a quarter: 1.25, rounded to
    # a tenth of two CPUs. The wait of 10 % is a step.
    assert (120, 10) == machine.measure()
    # VCPU, ACTIVE and NOWAIT; one call of libvirt for each measurement.
    assert [(8, 1 | 1 << 29)] * 2 == machine.calls


def test_host_without_low_guests_needs_no_libvirt(machine):
    machine.measure(guests=GUESTS[1:])
    assert (100, 0) == machine.measure(guests=GUESTS[1:])
    assert [] == machine.calls
    assert not machine.host.get_connection.called


def test_host_without_floating_cpus_measures_nothing(machine, caplog):
    for _ in range(3):
        assert machine.measure(floating=set()) is None
    assert [] == machine.calls
    # It is no failure.
    assert [] == caplog.records


def test_recounts_close_together_measure_once(machine):
    """Each finished live migration recounts."""
    for _ in range(5):
        machine.measure(after=1)
    assert 1 == len(machine.calls)


def test_guest_that_was_started_again_counts_from_zero(machine):
    machine.measure()
    machine.domain_id = 7
    # It has run for 30 of the 60 seconds.
    assert (160, 20) == machine.measure()


def test_libvirt_without_delays_gives_no_wait(machine):
    machine.delay = 'vcpu.0.other'
    machine.measure()
    assert (120, None) == machine.measure()


def fail_libvirt(machine):
    machine.error = FakeError('Cannot write data: Broken pipe')


def remove_stat(machine):
    machine.stat = None
    machine.stat_file.unlink()


def hide_cpus(machine):
    machine.stat = 'cpu  1 1 1 1 1 1 1 1\ncpu2 1 1 1 1 1 1 1 1\n'


def shorten_lines(machine):
    machine.stat = 'cpu0 1 2 3\ncpu1 1 2 3\n'


def garble_numbers(machine):
    machine.stat = 'cpu0 a b c d e f g h\n'


def encode_badly(machine):
    machine.stat = 'cpu0 1 1 1 1 1 1 1 1 \u00b5\n'


FAILURES = (fail_libvirt, remove_stat, hide_cpus, shorten_lines,
            garble_numbers, encode_badly)


@pytest.mark.parametrize('fail', FAILURES)
def test_failure_warns_once_and_keeps_the_value_for_minutes(
        machine, fail, caplog):
    machine.measure()
    expected = machine.measure()
    fail(machine)
    for _ in range(10):
        assert expected == machine.measure()
    warnings = [each for each in caplog.records
                if each.levelno == logging.WARNING]
    assert 1 == len(warnings)
    assert 'Cannot measure the CPU time' in warnings[0].getMessage()
    assert machine.measure() is None


def test_next_failure_after_a_success_warns_again(machine, caplog):
    for _ in range(2):
        machine.error = FakeError()
        machine.measure()
        machine.error = None
        machine.measure()
    assert 2 == len(caplog.records)


@pytest.mark.parametrize('error', [AttributeError, TypeError, RuntimeError])
def test_unexpected_error_is_raised_and_makes_the_value_unknown(
        machine, error):
    """The driver contains it, and logs the traceback."""
    machine.measure()
    machine.measure()
    machine.error = error()
    for _ in range(11):
        with pytest.raises(error):
            machine.measure()
    assert machine.meter.reported is None


def test_stats_of_the_wrong_type_are_an_unexpected_error(machine, monkeypatch):
    monkeypatch.setattr(machine, 'getAllDomainStats', lambda stats, flags: [
        (Domain('a', 1), {'vcpu.0.time': 'x'})])
    with pytest.raises(TypeError):
        machine.measure()
