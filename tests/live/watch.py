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
from tests.live import look

#: Seconds between two snapshots: of the hosts only, and of the whole cloud.
HOSTS_SECONDS = 3
ALL_SECONDS = 2
#: nova-compute heals differences each minute. This is more than twice as long.
SETTLE_SECONDS = 150
#: Seconds between two runs of the audit.
AUDIT_SECONDS = 30
#: Exceptions of a snapshot while a service is down.
DOWN = look.DOWN + (openstack.exceptions.SDKException,
                    keystoneauth1.exceptions.ClientException)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The state of a cloud after it settled, or after the time was over."""

    #: Sentences: violations at the end, and those healed without a log line.
    violations: list
    seconds: float
    #: Violations that ended while nothing was in motion -> seconds until then.
    mended: dict


def settle(layout, seconds=SETTLE_SECONDS, audit=None):
    """Wait until nothing is in motion and no invariant is violated.

    :param layout: Layout
    :param seconds: maximum time to wait; at least one snapshot is taken
    :param audit: function that repairs findings and returns its output, or
        None; called repeatedly while an invariant is violated
    :returns: Outcome
    """
    connection = catalog.connect(layout)
    started = time.monotonic()
    written = logs.Written(layout)
    seen, mended, said, next_audit = set(), {}, [], 0
    while True:
        violations, is_at_rest = _now(layout, connection)
        passed = time.monotonic() - started
        if is_at_rest:
            mended.update({sentence: passed for sentence in seen
                           if sentence not in violations})
            seen = set(violations)
        if not violations or passed >= seconds:
            return Outcome(
                [*violations, *_unsaid(
                    mended, [*said, *written.lines('nova-compute-')])],
                passed, mended)
        if audit and passed >= next_audit:
            said += audit().splitlines()
            next_audit = passed + AUDIT_SECONDS
        time.sleep(ALL_SECONDS)


def _unsaid(mended, lines):
    """Yield healed violations if no line names their server or guest.

    :param mended: sentences
    :param lines: list of str, of logs and of the audit
    """
    for sentence in mended:
        uuids = [match[0] for match in logs.UUID.finditer(sentence)]
        if uuids and not any(
                uuid in line for uuid in uuids for line in lines):
            yield 'Mended without a word: ' + sentence


def _now(layout, connection):
    """Return (violations or moves in motion, whether nothing is in motion)."""
    try:
        snapshot = look.at_all(layout, connection)
    except DOWN as error:
        return ['The cloud does not answer: %s' % error], False
    in_motion = list(invariants.in_motion(snapshot))
    return in_motion or invariants.violations(snapshot), not in_motion


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
    for name, looks in watcher.looks.items():
        if not looks:
            raise AssertionError('%s could not be looked at.' % name)
    if seen:
        raise AssertionError('\n'.join(
            '%s to %s: %s' % (*times, sentence)
            for sentence, times in seen.items()))


class _Watcher(threading.Thread):

    def __init__(self, layout, seen):
        super().__init__(name='watch', daemon=True)
        self._layout = layout
        self._seen = seen
        self._end = threading.Event()
        self._error = None
        self.looks = dict.fromkeys(layout.hosts, 0)

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
                    with contextlib.suppress(*look.DOWN):
                        self._look_at(name)
                if self._end.wait(HOSTS_SECONDS):
                    return
        except Exception as error:
            self._error = error

    def _look_at(self, name):
        snapshot = look.at_active_guests(self._layout, name)
        now = time.strftime('%X')
        self.looks[name] += 1
        for sentence in invariants.violations(
                snapshot, invariants.INSTANT):
            first, _ = self._seen.get(sentence, (now, now))
            self._seen[sentence] = first, now
