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

import pytest

from nova_prio import capacity
from nova_prio.compute import inventory

STOCK = {'total': 4, 'min_unit': 1, 'max_unit': 4, 'step_size': 1,
         'allocation_ratio': 2.0, 'reserved': 0}


def cpus(ratio='2.0'):
    return capacity.HostCPUs(frozenset(range(8)), frozenset(range(8, 12)),
                             capacity.exact_ratio(ratio), mix=True)


def test_vcpu_of_the_example():
    assert {'total': 12, 'min_unit': 1, 'max_unit': 12, 'step_size': 1,
            'allocation_ratio': 2.0, 'reserved': 4} == inventory.vcpu(
                STOCK, cpus(), largest_shared=4)


def test_an_instance_larger_than_the_host_can_still_be_moved():
    assert 16 == inventory.vcpu(STOCK, cpus(), largest_shared=16)['max_unit']


@pytest.mark.parametrize('ratio, expected', [
    (1.5, 1.0), (1.0, 1.0), (0.9, 0.9)])
def test_memory_is_never_oversold(ratio, expected):
    stock = dict(STOCK, allocation_ratio=ratio)
    assert expected == inventory.memory(stock)['allocation_ratio']
    assert ratio == stock['allocation_ratio']
