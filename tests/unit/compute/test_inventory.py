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
                STOCK, cpus(), in_use=4, largest=4)


@pytest.mark.parametrize('in_use, total, reserved', [
    (16, 12, 4), (17, 12, 3), (24, 12, 0), (25, 13, 0), (40, 20, 0)])
def test_what_is_in_use_has_room_and_no_more(in_use, total, reserved):
    found = inventory.vcpu(STOCK, cpus(), in_use, largest=4)
    assert (total, reserved) == (found['total'], found['reserved'])


def test_an_instance_larger_than_the_host_can_still_be_moved():
    found = inventory.vcpu(STOCK, cpus(), in_use=16, largest=16)
    assert 16 == found['max_unit']
    found = inventory.movable_vcpu(STOCK, in_use=8, largest=8)
    assert dict(STOCK, max_unit=8) == found


@pytest.mark.parametrize('in_use, total', [
    # (4 - 1) * 2 = 6; (6 - 1) * 2 = 10.
    (0, 4), (6, 4), (7, 5), (9, 6), (10, 6)])
def test_without_mix_it_is_that_of_nova_unless_more_is_in_use(in_use, total):
    stock = dict(STOCK, reserved=1)
    assert dict(stock, total=total) == inventory.movable_vcpu(
        stock, in_use, largest=4)


@pytest.mark.parametrize('ratio, expected', [
    (1.5, 1.0), (1.0, 1.0), (0.9, 0.9)])
def test_memory_is_never_oversold(ratio, expected):
    stock = dict(STOCK, allocation_ratio=ratio)
    assert expected == inventory.memory(stock, 0)['allocation_ratio']
    assert ratio == stock['allocation_ratio']


@pytest.mark.parametrize('in_use, ratio, total', [
    (14, 1.5, 16), (16, 1.5, 18), (8, 0.5, 18), (9, 0.5, 20)])
def test_memory_that_was_oversold_before_may_leave(in_use, ratio, total):
    stock = dict(STOCK, total=16, reserved=2, allocation_ratio=ratio)
    assert total == inventory.memory(stock, in_use)['total']
