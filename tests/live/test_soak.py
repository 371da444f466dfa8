# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Users who operate on servers for as long as one likes.

``NOVA_PRIO_SOAK_SECONDS`` says for how long. ``NOVA_PRIO_SOAK_SEED`` makes
them draw again what they drew in a run that told this seed.
"""

import os
import random
import time

import pytest

from tests.live import operations
from tests.live import watch

DEFAULT_SECONDS = 180
#: Seconds until the users rest, and all has to be right with their servers.
ROUND_SECONDS = 300


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
        violations.append(watch.settle(layout).violations)
    record_testsuite_property('operations', len(found.steps))
    yield found, violations
    found.leave()


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
    assert len({step.name for step in users.done}) > 8


def test_nothing_is_left(users, layout):
    users.leave()
    assert [] == users.left
    assert [] == watch.settle(layout).violations
