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

from nova_prio.scheduler import checks

GOOD = {
    ('filter_scheduler', 'enabled_filters'): ['PriorityFilter'],
    ('filter_scheduler', 'weight_classes'): [
        'nova.scheduler.weights.all_weighers',
        'nova_prio.scheduler.weights.all_weighers'],
    ('filter_scheduler', 'cpu_weight_multiplier'): 0.0,
    ('workarounds', 'disable_fallback_pcpu_query'): True,
}


@pytest.mark.parametrize('option, value, words', [
    (None, None, None),
    (('filter_scheduler', 'enabled_filters'), ['ComputeFilter'],
     ['enabled_filters', "'PriorityFilter'"]),
    (('filter_scheduler', 'enabled_filters'),
     ['PriorityFilter', 'NUMATopologyFilter'],
     ['enabled_filters', "remove 'NUMATopologyFilter'"]),
    (('filter_scheduler', 'weight_classes'),
     ['nova_prio.scheduler.weights.all_weighers'],
     ['weight_classes', "add 'nova.scheduler.weights.all_weighers'"]),
    (('filter_scheduler', 'weight_classes'), ['my.weighers.all'], None),
    (('filter_scheduler', 'cpu_weight_multiplier'), 1.0,
     ['cpu_weight_multiplier is 1.0', 'set it to 0.0']),
    (('workarounds', 'disable_fallback_pcpu_query'), False,
     ['disable_fallback_pcpu_query', 'set it to true']),
])
def test_problems(option, value, words):
    conf = nova.conf.CONF
    try:
        for (group, name), good in GOOD.items():
            conf.set_override(name, value if option == (group, name)
                              else good, group=group)
        found = checks.problems(conf)
    finally:
        for group, name in GOOD:
            conf.clear_override(name, group=group)
    if words is None:
        assert [] == found
    else:
        problem, = found
        assert all(word in problem for word in words)
