# SPDX-License-Identifier: Apache-2.0

"""Probes of the partitions, with a stand-in for the connection to libvirt."""

import logging
import threading
import time
import types

from lxml import etree
import pytest

from nova_prio.virt.libvirt import partitions

NO_DOMAIN = 42


class LibvirtError(Exception):
    """The error of libvirt-python, which unit tests do without."""

    def get_error_code(self):
        return NO_DOMAIN


LIBVIRT = types.SimpleNamespace(
    libvirtError=LibvirtError, VIR_ERR_NO_DOMAIN=NO_DOMAIN,
    VIR_DOMAIN_START_PAUSED=1)
CPUS = {'high': {8, 9}, 'low': {10}}
CALLERS = 100


class Connection:
    """Starts no guest, and counts the probes of each partition.

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
def found(connection):
    return partitions.Partitions(connection)


@pytest.fixture
def clock(monkeypatch):
    """The clock of the partitions, which a test may put forward."""
    found = types.SimpleNamespace(ahead=0)
    found.monotonic = lambda: time.monotonic() + found.ahead
    monkeypatch.setattr(partitions, 'time', found)
    return found


def prove_at_once(found):
    """Let many threads ask; returns the seconds that all of them took."""
    problems = []

    def claim():
        found.probe(CPUS)
        problems.append(found.problem)

    threads = [threading.Thread(target=claim) for _ in range(CALLERS)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert CALLERS == len(problems)
    assert 1 == len(set(problems))
    return time.monotonic() - start


def test_each_partition_is_probed_on_its_cpus(found, connection):
    found.probe(CPUS)
    assert found.problem is None
    assert [('/high_prio_machine', '8-9'), ('/low_prio_machine', '10')] == (
        sorted(connection.started))


@pytest.mark.parametrize('error', [
    LibvirtError('no such cgroup'), RuntimeError('no such cgroup'),
    AttributeError('no such cgroup')])
def test_any_error_of_a_probe_is_a_problem(found, connection, error):
    connection.error = error
    found.probe(CPUS)
    assert 'cannot start a guest' in found.problem
    assert '(no such cgroup)' in found.problem
    assert found.needs_probe


def test_an_error_without_a_text_is_named_by_its_type(found, connection):
    connection.error = KeyError()
    found.probe(CPUS)
    assert '(KeyError)' in found.problem


def test_libvirt_that_cannot_be_reached_is_a_problem(
        found, connection, monkeypatch):
    def get_connection():
        raise RuntimeError('connection is broken')

    monkeypatch.setattr(connection, 'get_connection', get_connection)
    found.probe(CPUS)
    assert 'connection is broken' in found.problem


def test_the_traceback_of_an_unexpected_error_is_logged_once(
        found, connection, caplog):
    for error in RuntimeError('a'), RuntimeError('b'), ValueError('c'):
        connection.error = error
        found.probe(CPUS)
    assert [RuntimeError, ValueError] == [
        record.exc_info[0] for record in caplog.records if record.exc_info]


@pytest.mark.parametrize('seconds', [0, 0.2])
def test_simultaneous_claims_share_a_probe_for_each_partition(
        found, connection, seconds):
    connection.seconds = dict.fromkeys(
        ('/high_prio_machine', '/low_prio_machine'), seconds)
    assert prove_at_once(found) < 5
    assert 2 == len(connection.started)
    assert found.problem is None


def test_simultaneous_claims_share_the_failure_of_a_probe(found, connection):
    connection.error = LibvirtError('no such cgroup')
    connection.seconds = dict.fromkeys(
        ('/high_prio_machine', '/low_prio_machine'), 2)
    prove_at_once(found)
    assert 2 == len(connection.started)
    assert 'no such cgroup' in found.problem


def test_a_slow_probe_does_not_serialise_its_callers(
        found, connection, monkeypatch, caplog):
    """All wait until the same time, and the delay is logged once."""
    monkeypatch.setattr(partitions, 'WAIT_SECONDS', 0.5)
    connection.seconds = {'/low_prio_machine': 3}
    assert prove_at_once(found) < 3
    assert found.problem is None
    assert 2 == len(connection.started)
    assert ['libvirt takes more than'] == [
        record.message[:23] for record in caplog.records
        if record.levelno == logging.WARNING]
    start = time.monotonic()
    found.probe(CPUS)
    assert time.monotonic() - start < 0.4


def test_a_slow_probe_that_fails_is_a_problem_at_once(
        found, connection, monkeypatch):
    monkeypatch.setattr(partitions, 'WAIT_SECONDS', 0.1)
    connection.seconds = {'/low_prio_machine': 0.5}
    connection.error = RuntimeError('the high one, too')
    found.probe(CPUS)
    assert 'high_prio_machine' in found.problem
    connection.error = None
    found.probe(CPUS)
    connection.error = RuntimeError('killed')
    found._probes['low'].join()
    assert 'low_prio_machine' in found.problem


def test_the_guests_of_new_probes_have_stopped_at_the_end(found, connection):
    """Nova does not start a new nova-compute beside guests."""
    stopped, seconds = [], iter((2, 0))

    def end():
        time.sleep(next(seconds))
        stopped.append(True)

    connection.end = end
    # The low one is stopped first.
    connection.seconds = {'/high_prio_machine': 0.5}
    found.probe(CPUS)
    assert [True, True] == stopped


@pytest.mark.parametrize('seconds, probes', [(29, 2), (31, 4)])
def test_a_success_is_accepted_for_half_a_minute(
        found, connection, clock, seconds, probes):
    found.probe(CPUS)
    clock.ahead = seconds
    found.probe(CPUS)
    assert probes == len(connection.started)


def test_a_guest_that_does_not_start_ends_the_trust(found, connection):
    found.probe(CPUS)
    assert not found.needs_probe
    found.record_failed_start()
    assert found.needs_probe
    found.probe(CPUS)
    assert 4 == len(connection.started)
    assert not found.needs_probe


def test_a_failure_is_not_kept(found, connection):
    connection.error = LibvirtError('no such cgroup')
    found.probe(CPUS)
    connection.error = None
    found.probe(CPUS)
    assert found.problem is None
    assert 4 == len(connection.started)


def test_a_success_before_a_failed_start_does_not_count_later(
        found, connection):
    """Not even if the guest of that probe is still being stopped."""
    stopping, stop = threading.Barrier(3), threading.Event()

    def end():
        stopping.wait(30)
        stop.wait(30)

    connection.end = end
    first = threading.Thread(target=found.probe, args=(CPUS,))
    first.start()
    stopping.wait(30)
    found.record_failed_start()
    connection.error = RuntimeError('gone')
    second = threading.Thread(target=found.probe, args=(CPUS,))
    second.start()
    connection.end = lambda: None
    stop.set()
    first.join()
    second.join()
    assert 'gone' in found.problem
    assert 4 == len(connection.started)
