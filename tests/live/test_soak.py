# SPDX-License-Identifier: Apache-2.0

"""Users who operate on servers for as long as one likes.

``NOVA_PRIO_SOAK_SECONDS`` says for how long. ``NOVA_PRIO_SOAK_SEED`` makes
them draw again what they drew in a run that told this seed.
"""

import collections
import os
import random
import time

import pytest

from tests.live import operations
from tests.live import watch

DEFAULT_SECONDS = 180
#: Seconds until the users rest, and all has to be right with their servers.
ROUND_SECONDS = 300
#: A nova-compute counts anew and mends within this time.
PERIODIC_SECONDS = 70
#: What was tried as often as this has been done.
TRIES = 20


@pytest.fixture(scope='module')
def soaked(layout, load, record_testsuite_property):
    """The users, once they are done, and what was wrong while they rested.

    In the end they leave.
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
    """Return what is wrong, three times: a list of each.

    At once; once the periodic tasks of the hosts have run; and once nothing
    waits to be confirmed, for the interfaces do not tell all of what does.
    """
    found = [watch.settle(layout).violations]
    time.sleep(PERIODIC_SECONDS)
    found.append(watch.settle(layout, 0).violations)
    users.confirm()
    found.append(watch.settle(layout).violations)
    return found


@pytest.fixture(scope='module')
def users(soaked):
    """The users, once they are done."""
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
    """Most of what users may do was done at least once."""
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
