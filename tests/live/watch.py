# SPDX-License-Identifier: Apache-2.0


"""Check the invariants of a live cloud, during operations and after them.

``python -m tests.live check --directory D`` checks them after operations.
"""

import contextlib
import dataclasses
import threading
import time

import keystoneauth1.exceptions
import openstack.exceptions

from tests.live import catalog
from tests.live import invariants
from tests.live import logs
from tests.live import snapshots

#: Seconds between two snapshots of the hosts, and between two of the cloud.
HOSTS_SECONDS = 3
ALL_SECONDS = 2
#: Maximum seconds until a cloud has settled. nova-compute heals each minute.
SETTLE_SECONDS = 150
#: Seconds between two runs of the audit.
AUDIT_SECONDS = 30
#: Exceptions of a snapshot while a service is down.
DOWN = snapshots.DOWN + (openstack.exceptions.SDKException,
                         keystoneauth1.exceptions.ClientException)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The state of a cloud after it settled, or after the time was over."""

    #: Sentences: violations at the end, and violations that were healed
    #: without a log line.
    violations: list
    seconds: float
    #: Dict, violation that was healed while no operation ran -> seconds until
    #: then.
    healed: dict


def settle(layout, seconds=SETTLE_SECONDS, audit=None):
    """Wait until no operation runs and no invariant is violated.

    :param layout: Layout
    :param seconds: maximum time to wait; at least one snapshot is taken
    :param audit: function that repairs findings and returns its output, or
        None; called repeatedly while an invariant is violated
    :returns: Outcome
    """
    connection = catalog.connect(layout)
    started = time.monotonic()
    written = logs.NewLines(layout)
    seen, healed, audit_lines, next_audit = set(), {}, [], 0
    while True:
        violations, is_at_rest = _now(layout, connection)
        passed = time.monotonic() - started
        if is_at_rest:
            healed.update({sentence: passed for sentence in seen
                           if sentence not in violations})
            seen = set(violations)
        if not violations or passed >= seconds:
            return Outcome(
                [*violations, *_not_logged(
                    healed, [*audit_lines, *written.lines('nova-compute-')])],
                passed, healed)
        if audit and passed >= next_audit:
            audit_lines += audit().splitlines()
            next_audit = passed + AUDIT_SECONDS
        time.sleep(ALL_SECONDS)


def _not_logged(healed, lines):
    """Yield a sentence for each healed violation that no line reports.

    A line reports a violation if it has the UUID of the server or guest.

    :param healed: sentences
    :param lines: list of str, from logs and from the audit
    """
    for sentence in healed:
        uuids = [match[0] for match in logs.UUID.finditer(sentence)]
        if uuids and not any(
                uuid in line for uuid in uuids for line in lines):
            yield 'Healed without a log line: ' + sentence


def _now(layout, connection):
    """Return (running operations or violations, whether none is running)."""
    try:
        snapshot = snapshots.read_all(layout, connection)
    except DOWN as error:
        return ['The cloud does not answer: %s' % error], False
    running = list(invariants.running_operations(snapshot))
    return running or invariants.violations(snapshot), not running


@contextlib.contextmanager
def watch(layout):
    """Check the hosts repeatedly while the context is open.

    Hosts that are down are skipped. The value of the context is a dict,
    sentence -> times of the first and the last snapshot with this violation.

    :raises AssertionError: at the end, with the violations and their times
    """
    seen = {}
    watcher = _Watcher(layout, seen)
    watcher.start()
    try:
        yield seen
    finally:
        watcher.stop()
    for name, count in watcher.counts.items():
        if not count:
            raise AssertionError('%s was never checked.' % name)
    if seen:
        raise AssertionError('\n'.join(
            '%s to %s: %s' % (*times, sentence)
            for sentence, times in seen.items()))


class _Watcher(threading.Thread):
    """Thread that checks the INSTANT invariants of each host."""

    def __init__(self, layout, seen):
        super().__init__(name='watch', daemon=True)
        self._layout = layout
        self._seen = seen
        self._end = threading.Event()
        self._error = None
        #: Host -> number of its checks.
        self.counts = dict.fromkeys(layout.hosts, 0)

    def stop(self):
        """Stop the thread.

        :raises Exception: the error of a snapshot, unless a host was down
        """
        self._end.set()
        self.join()
        if self._error:
            raise self._error

    def run(self):
        try:
            while True:
                for name in self._layout.hosts:
                    with contextlib.suppress(*snapshots.DOWN):
                        self._check(name)
                if self._end.wait(HOSTS_SECONDS):
                    return
        except Exception as error:
            self._error = error

    def _check(self, name):
        snapshot = snapshots.read_active_guests(self._layout, name)
        now = time.strftime('%X')
        self.counts[name] += 1
        for sentence in invariants.violations(
                snapshot, invariants.INSTANT):
            first, _ = self._seen.get(sentence, (now, now))
            self._seen[sentence] = first, now
