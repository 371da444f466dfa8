# SPDX-License-Identifier: Apache-2.0

import types

import pytest

from nova_prio.model import capacity
from nova_prio.model import inventory

STOCK = {'total': 4, 'min_unit': 1, 'max_unit': 4, 'step_size': 1,
         'allocation_ratio': 2.0, 'reserved': 0}


def reported(stock=STOCK, mix=True, vcpu=4, largest_vcpu=4, memory_mb=0):
    """Return the inventories of a host with 8 dedicated and 4 shared CPUs."""
    return inventory.build_priority_inventories(
        {'VCPU': stock, 'MEMORY_MB': stock, 'DISK_GB': stock},
        capacity.HostCPUs(
            frozenset(range(8)), frozenset(range(8, 12)),
            capacity.parse_ratio('2.0'), mix),
        types.SimpleNamespace(
            vcpu=vcpu, largest_vcpu=largest_vcpu, memory_mb=memory_mb))


def test_inventories_of_the_example():
    assert {'total': 12, 'min_unit': 1, 'max_unit': 12, 'step_size': 1,
            'allocation_ratio': 2.0, 'reserved': 4} == reported()['VCPU']
    assert STOCK == reported()['DISK_GB']


@pytest.mark.parametrize('in_use, total, reserved', [
    (16, 12, 4), (17, 12, 3), (24, 12, 0), (25, 13, 0), (40, 20, 0)])
def test_what_is_in_use_has_room_and_no_more(in_use, total, reserved):
    found = reported(vcpu=in_use)['VCPU']
    assert (total, reserved) == (found['total'], found['reserved'])


def test_an_instance_larger_than_the_host_can_still_be_moved():
    assert 16 == reported(vcpu=16, largest_vcpu=16)['VCPU']['max_unit']
    assert dict(STOCK, max_unit=8) == reported(
        mix=False, vcpu=8, largest_vcpu=8)['VCPU']


@pytest.mark.parametrize('in_use, total', [
    # (4 - 1) * 2 = 6; (6 - 1) * 2 = 10.
    (0, 4), (6, 4), (7, 5), (9, 6), (10, 6)])
def test_without_mix_it_is_that_of_nova_unless_more_is_in_use(in_use, total):
    stock = dict(STOCK, reserved=1)
    found = reported(stock, mix=False, vcpu=in_use)
    assert dict(stock, total=total) == found['VCPU']
    assert stock == found['MEMORY_MB']


@pytest.mark.parametrize('ratio, expected', [
    (1.5, 1.0), (1.0, 1.0), (0.9, 0.9)])
def test_memory_is_never_oversold(ratio, expected):
    stock = dict(STOCK, allocation_ratio=ratio)
    assert expected == reported(stock)['MEMORY_MB']['allocation_ratio']
    assert ratio == stock['allocation_ratio']


@pytest.mark.parametrize('in_use, ratio, total', [
    (14, 1.5, 16), (16, 1.5, 18), (8, 0.5, 18), (9, 0.5, 20)])
def test_memory_that_was_oversold_before_may_leave(in_use, ratio, total):
    stock = dict(STOCK, total=16, reserved=2, allocation_ratio=ratio)
    found = reported(stock, memory_mb=in_use)['MEMORY_MB']
    assert total == found['total']


def test_inventories_of_cpu_sets():
    host = capacity.HostCPUs(frozenset(range(8)), frozenset(),
                             capacity.parse_ratio('2.0'), mix=False)
    assert {'PCPU': dict(STOCK, total=8, max_unit=8, allocation_ratio=1.0,
                         reserved=2)} == inventory.build_cpu_inventories(
        host, {'PCPU': {'reserved': 2, 'total': 3}, 'VCPU': STOCK})
