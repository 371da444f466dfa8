# SPDX-License-Identifier: Apache-2.0

"""Probes of the partitions, with a fake connection to libvirt."""

import logging
import threading
import time
import types

from lxml import etree
import pytest

from nova_prio.virt.libvirt import partitions

NO_DOMAIN = 42


class LibvirtError(Exception):
    """The error of libvirt-python, which unit tests do not need."""

    def get_error_code(self):
        return NO_DOMAIN


LIBVIRT = types.SimpleNamespace(
    libvirtError=LibvirtError, VIR_ERR_NO_DOMAIN=NO_DOMAIN,
    VIR_DOMAIN_START_PAUSED=1)
CPUS = {'high': {8, 9}, 'low': {10}}
CALLERS = 100


class Connection:
    """Records the probes of each partition, and starts no guest.

    ``error`` is raised for each start; ``seconds`` is the time that a start
    takes in a partition; ``end`` is called when a guest is stopped.
    """

    def __init__(self):
        self.started = []
        self.error = None
        self.seconds = {}
        self.end = lambda: None

    def get_connection(self):
        return self

    def lookupByUUIDString(self, uuid):
        raise LibvirtError('no domain')

    def createXML(self, xml, flags):
        domain = etree.fromstring(xml)
        partition = domain.findtext('resource/partition')
        self.started.append((partition, domain.find('vcpu').get('cpuset')))
        time.sleep(self.seconds.get(partition, 0))
        if self.error:
            raise self.error
        return types.SimpleNamespace(destroy=lambda: self.end())


@pytest.fixture
def connection(monkeypatch):
    monkeypatch.setattr('nova.virt.libvirt.host.libvirt', LIBVIRT)
    return Connection()


@pytest.fixture
def checked(connection):
    return partitions.Partitions(connection)


@pytest.fixture
def clock(monkeypatch):
    """The clock of the partitions, which a test may advance."""
    clock = types.SimpleNamespace(ahead=0)
    clock.monotonic = lambda: time.monotonic() + clock.ahead
    monkeypatch.setattr(partitions, 'time', clock)
    return clock


def probe_from_many_threads(checked):
    """Probe from many threads; return the seconds until all have ended."""
    problems = []

    def claim():
        checked.probe(CPUS)
        problems.append(checked.problem)

    threads = [threading.Thread(target=claim) for _ in range(CALLERS)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert CALLERS == len(problems)
    assert 1 == len(set(problems))
    return time.monotonic() - start


def test_each_partition_is_probed_on_its_cpus(checked, connection):
    checked.probe(CPUS)
    assert not checked.problem
    assert [('/high_prio_machine', '8-9'), ('/low_prio_machine', '10')] == (
        sorted(connection.started))


@pytest.mark.parametrize('error', [
    LibvirtError('no such cgroup'), RuntimeError('no such cgroup'),
    AttributeError('no such cgroup')])
def test_any_error_of_a_probe_is_a_problem(checked, connection, error):
    connection.error = error
    checked.probe(CPUS)
    assert 'cannot start a guest' in checked.problem
    assert '(no such cgroup)' in checked.problem
    assert checked.needs_probe


def test_error_without_text_is_named_by_its_type(checked, connection):
    connection.error = KeyError()
    checked.probe(CPUS)
    assert '(KeyError)' in checked.problem


def test_unreachable_libvirt_is_a_problem(
        checked, connection, monkeypatch):
    def get_connection():
        raise RuntimeError('connection is broken')

    monkeypatch.setattr(connection, 'get_connection', get_connection)
    checked.probe(CPUS)
    assert 'connection is broken' in checked.problem


def test_traceback_of_unexpected_error_is_logged_once(
        checked, connection, caplog):
    for error in RuntimeError('a'), RuntimeError('b'), ValueError('c'):
        connection.error = error
        checked.probe(CPUS)
    assert [RuntimeError, ValueError] == [
        record.exc_info[0] for record in caplog.records if record.exc_info]


@pytest.mark.parametrize('seconds', [0, 0.2])
def test_simultaneous_claims_share_a_probe_for_each_partition(
        checked, connection, seconds):
    connection.seconds = dict.fromkeys(
        ('/high_prio_machine', '/low_prio_machine'), seconds)
    assert probe_from_many_threads(checked) < 5
    assert 2 == len(connection.started)
    assert not checked.problem


def test_simultaneous_claims_share_the_failure_of_a_probe(checked, connection):
    connection.error = LibvirtError('no such cgroup')
    connection.seconds = dict.fromkeys(
        ('/high_prio_machine', '/low_prio_machine'), 2)
    probe_from_many_threads(checked)
    assert 2 == len(connection.started)
    assert 'no such cgroup' in checked.problem


def test_slow_probe_does_not_serialize_its_callers(
        checked, connection, monkeypatch, caplog):
    """All callers wait until the same time. The delay is logged once."""
    monkeypatch.setattr(partitions, 'WAIT_SECONDS', 0.5)
    connection.seconds = {'/low_prio_machine': 3}
    assert probe_from_many_threads(checked) < 3
    assert not checked.problem
    assert 2 == len(connection.started)
    assert ['libvirt takes more than'] == [
        record.message[:23] for record in caplog.records
        if record.levelno == logging.WARNING]
    start = time.monotonic()
    checked.probe(CPUS)
    assert time.monotonic() - start < 0.4


def test_failure_of_slow_probe_is_a_problem_at_once(
        checked, connection, monkeypatch):
    monkeypatch.setattr(partitions, 'WAIT_SECONDS', 0.1)
    connection.seconds = {'/low_prio_machine': 0.5}
    connection.error = RuntimeError('high probe fails')
    checked.probe(CPUS)
    assert 'high_prio_machine' in checked.problem
    connection.error = None
    checked.probe(CPUS)
    connection.error = RuntimeError('killed')
    checked._probes['low'].join()
    assert 'low_prio_machine' in checked.problem


def test_guests_of_new_probes_have_stopped_when_probe_returns(
        checked, connection):
    """Nova refuses to start a new nova-compute beside guests."""
    stopped, seconds = [], iter((2, 0))

    def end():
        time.sleep(next(seconds))
        stopped.append(True)

    connection.end = end
    # The low guest stops first.
    connection.seconds = {'/high_prio_machine': 0.5}
    checked.probe(CPUS)
    assert [True, True] == stopped


@pytest.mark.parametrize('seconds, probes', [(29, 2), (31, 4)])
def test_success_is_accepted_for_half_a_minute(
        checked, connection, clock, seconds, probes):
    checked.probe(CPUS)
    clock.ahead = seconds
    checked.probe(CPUS)
    assert probes == len(connection.started)


def test_failed_start_of_guest_requires_new_probe(checked, connection):
    checked.probe(CPUS)
    assert not checked.needs_probe
    checked.record_failed_start()
    assert checked.needs_probe
    checked.probe(CPUS)
    assert 4 == len(connection.started)
    assert not checked.needs_probe


def test_next_probe_clears_failure(checked, connection):
    connection.error = LibvirtError('no such cgroup')
    checked.probe(CPUS)
    connection.error = None
    checked.probe(CPUS)
    assert not checked.problem
    assert 4 == len(connection.started)


def test_success_before_failed_start_is_not_accepted(
        checked, connection):
    """It does not count even while the guest of that probe stops."""
    stopping, stop = threading.Barrier(3), threading.Event()

    def end():
        stopping.wait(30)
        stop.wait(30)

    connection.end = end
    first = threading.Thread(target=checked.probe, args=(CPUS,))
    first.start()
    stopping.wait(30)
    checked.record_failed_start()
    connection.error = RuntimeError('gone')
    second = threading.Thread(target=checked.probe, args=(CPUS,))
    second.start()
    connection.end = lambda: None
    stop.set()
    first.join()
    second.join()
    assert 'gone' in checked.problem
    assert 4 == len(connection.started)
