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

"""Faults of services and hosts while users operate on servers."""

import json

import pytest

from tests.live import cloud
from tests.live import faults
from tests.live import operations
from tests.live import watch

#: Operations that end before a fault and after it.
BEFORE, AFTER = 6, 8


@pytest.mark.parametrize('fault', faults.FAULTS, ids=lambda fault:
                         fault.__name__)
def test_all_is_right_after(fault, layout, load, record_property):
    with operations.Users(layout, fault.__name__) as users:
        users.wait_for_steps(BEFORE)
        fault(cloud.Cloud(layout))
        users.wait_for_steps(AFTER)
    # Nova may lose what it was about to do.
    users.give_up()
    found = watch.settle(layout)
    record_property('mended', json.dumps(found.mended))
    print('Mended:', found.mended)
    users.leave()
    left = watch.settle(layout)
    assert ([], [], []) == (found.violations, users.left, left.violations)
