# SPDX-License-Identifier: Apache-2.0

"""Random operations of several users for a chosen time.

``NOVA_PRIO_SOAK_SECONDS`` is the time. With the ``NOVA_PRIO_SOAK_SEED`` that a
run printed, the users draw the same numbers as in that run.
"""

import collections
import os
import random
import time

import pytest

from tests.live import operations
from tests.live import watch

DEFAULT_SECONDS = 180
#: Seconds until the users pause, and all invariants must hold.
ROUND_SECONDS = 300
#: nova-compute recounts and heals within this time.
PERIODIC_SECONDS = 70
#: An operation that was tried this often must have succeeded once.
TRIES = 20


@pytest.fixture(scope='module')
def soaked(layout, load, record_testsuite_property):
    """The users after their last operation, and the violations of each pause.

    At the end, all servers of the users are deleted.
    """
    seed = os.environ.get('NOVA_PRIO_SOAK_SEED') or str(
        random.SystemRandom().randrange(10 ** 6))
    record_testsuite_property('NOVA_PRIO_SOAK_SEED', seed)
    print('NOVA_PRIO_SOAK_SEED=' + seed)
    found = operations.Users(layout, seed)
    left = int(os.environ.get('NOVA_PRIO_SOAK_SECONDS') or DEFAULT_SECONDS)
    violations = []
    while left > 0:
        with found:
            time.sleep(min(left, ROUND_SECONDS))
        left -= ROUND_SECONDS
        violations += _when_settled(layout, found)
    record_testsuite_property('operations', len(found.steps))
    yield found, violations
    found.leave()


def _when_settled(layout, users):
    """Return three lists of violations.

    The first is from now, the second from after the periodic tasks of the
    hosts. The third is from after all resizes were confirmed: the APIs do not
    show all data of an unconfirmed resize.
    """
    found = [watch.settle(layout).violations]
    time.sleep(PERIODIC_SECONDS)
    found.append(watch.settle(layout, 0).violations)
    users.confirm()
    found.append(watch.settle(layout).violations)
    return found


@pytest.fixture(scope='module')
def users(soaked):
    """The users after their last operation."""
    return soaked[0]


def test_nothing_is_stuck(users):
    assert [] == users.stuck


def test_nothing_is_lost(users):
    assert [] == users.lost


def test_all_is_right_after_each_round(soaked):
    _, violations = soaked
    assert [[]] * len(violations) == violations


def test_no_service_fails(users):
    assert [] == users.unserved


def test_much_was_done(users):
    """Most kinds of operations must have succeeded at least once."""
    assert len(users.done) > len(users.steps) / 2
    done = {step.name for step in users.done}
    assert len(done) > 8
    tries = collections.Counter(step.name for step in users.steps)
    assert set() == {
        name for name, times in tries.items() if times >= TRIES} - done


def test_nothing_is_left(users, layout):
    users.leave()
    assert [] == users.left
    assert [] == watch.settle(layout).violations
