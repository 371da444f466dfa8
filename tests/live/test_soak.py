# SPDX-License-Identifier: Apache-2.0

"""Random operations of several users for a chosen time.

``NOVA_PRIO_SOAK_SECONDS`` sets the time. Each run prints its seed. Set
``NOVA_PRIO_SOAK_SEED`` to that seed to repeat the draws of the run.
"""

import collections
import os
import random
import time

import pytest

from tests.live import logs
from tests.live import operations
from tests.live import watch

DEFAULT_SECONDS = 180
#: Seconds until the users pause, and all invariants must hold.
ROUND_SECONDS = 300
#: nova-compute recounts and heals within this time.
PERIODIC_SECONDS = 70
#: An operation that was attempted this often must have succeeded once.
ATTEMPTS = 20


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
    written = logs.NewLines(layout)
    remaining = int(
        os.environ.get('NOVA_PRIO_SOAK_SECONDS') or DEFAULT_SECONDS)
    violations = []
    while remaining > 0:
        with found:
            time.sleep(min(remaining, ROUND_SECONDS))
        remaining -= ROUND_SECONDS
        violations += _check_three_times(layout, found)
    record_testsuite_property('operations', len(found.steps))
    # Nova gives back all other leases.
    record_testsuite_property('leases that a recount has ended', dict(
        logs.count_ended_leases(written)))
    yield found, violations
    found.delete_all()


def _check_three_times(layout, users):
    """Return three lists of violations.

    The first check is when all operations have ended, the second after the
    periodic tasks of the hosts. The third is after all resizes are confirmed,
    because the APIs do not show all data of an unconfirmed resize.
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


def test_no_operation_is_stuck(users):
    assert [] == users.stuck


def test_no_server_is_lost(users):
    assert [] == users.lost


def test_invariants_hold_after_each_round(soaked):
    _, violations = soaked
    assert [[]] * len(violations) == violations


def test_no_service_answers_with_server_error(users):
    assert [] == users.server_errors


def test_most_operations_succeed(users):
    """Otherwise the run would have tested too little."""
    assert len(users.done) > len(users.steps) / 2
    done = {step.name for step in users.done}
    # A short run draws fewer of them.
    assert len(done) >= min(9, len(users.steps) // 6)
    attempts = collections.Counter(step.name for step in users.steps)
    assert set() == {
        name for name, count in attempts.items()
        if count >= ATTEMPTS} - done


def test_all_servers_can_be_deleted(users, layout):
    users.delete_all()
    assert [] == users.server_names
    assert [] == watch.settle(layout).violations
