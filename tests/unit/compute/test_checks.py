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

import nova.conf
import pytest

from nova_prio.compute import checks
from nova_prio import seams

D, S = set(range(8)), set(range(8, 12))


@pytest.mark.parametrize('options, dedicated, shared, words', [
    ({}, D, S, []),
    ({'cpu_priority_mix_enable': False}, set(), set(), []),
    ({}, set(), S, [['cpu_priority_mix_enable', 'cpu_dedicated_set']]),
    ({}, D, set(), [['cpu_priority_mix_enable', 'cpu_shared_set']]),
    ({}, set(), set(), [['cpu_dedicated_set'], ['cpu_shared_set']]),
    # 4 * 0.2 is less than one vCPU.
    ({'cpu_allocation_ratio': 0.2}, D, S, [['0.2', 'cpu_allocation_ratio']]),
    # A ratio that may be kept in Placement stops nothing.
    ({'initial_cpu_allocation_ratio': 0.2}, D, S, []),
    # 2 * 0.5 is one.
    ({'cpu_allocation_ratio': 0.5}, D, {8, 9}, []),
    ({'cpu_power_management': True}, D, S, [['cpu_power_management']]),
    ({'cpu_power_management': True, 'cpu_priority_mix_enable': False}, D, S,
     []),
])
def test_problems(options, dedicated, shared, words):
    conf = seams.register_options()
    options = {'cpu_priority_mix_enable': True, **options}
    groups = {'cpu_power_management': 'libvirt'}
    try:
        for name, value in options.items():
            conf.set_override(name, value, group=groups.get(name))
        found = checks.problems(conf, dedicated, shared)
    finally:
        for name in options:
            conf.clear_override(name, group=groups.get(name))
    assert len(words) == len(found)
    for expected, problem in zip(words, found):
        assert all(word in problem for word in expected)
    assert conf is nova.conf.CONF
