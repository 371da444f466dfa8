# SPDX-License-Identifier: Apache-2.0

import types

import pytest

from nova_prio.model import cpu_capacity
from nova_prio.model import inventory

STOCK = {'total': 4, 'min_unit': 1, 'max_unit': 4, 'step_size': 1,
         'allocation_ratio': 2.0, 'reserved': 0}


def build(stock=STOCK, mix=True, vcpu=4, largest_vcpu=4, memory_mb=0,
          has_priority=True):
    """Return the inventories of a host with 8 dedicated and 4 shared CPUs."""
    return inventory.build_priority_inventories(
        {'VCPU': stock, 'MEMORY_MB': stock, 'DISK_GB': stock},
        cpu_capacity.HostCPUs(
            frozenset(range(8)), frozenset(range(8, 12)),
            cpu_capacity.parse_ratio('2.0'), mix),
        types.SimpleNamespace(
            vcpu=vcpu, largest_vcpu=largest_vcpu, memory_mb=memory_mb,
            has_priority=has_priority))


def test_inventory_of_the_example():
    assert {'total': 12, 'min_unit': 1, 'max_unit': 12, 'step_size': 1,
            'allocation_ratio': 2.0, 'reserved': 4} == build()['VCPU']
    assert STOCK == build()['DISK_GB']


@pytest.mark.parametrize('used, total, reserved', [
    (16, 12, 4), (17, 12, 3), (24, 12, 0), (25, 13, 0), (40, 20, 0)])
def test_mix_host_has_just_enough_vcpu_for_its_instances(
        used, total, reserved):
    vcpu = build(vcpu=used)['VCPU']
    assert (total, reserved) == (vcpu['total'], vcpu['reserved'])


def test_max_unit_covers_the_largest_instance():
    assert 16 == build(vcpu=16, largest_vcpu=16)['VCPU']['max_unit']
    assert dict(STOCK, max_unit=8) == build(
        mix=False, vcpu=8, largest_vcpu=8)['VCPU']


@pytest.mark.parametrize('used, total', [
    # (4 - 1) * 2 = 6; (6 - 1) * 2 = 10.
    (0, 4), (6, 4), (7, 5), (9, 6), (10, 6)])
def test_host_without_mix_keeps_stock_inventory_unless_oversold(used, total):
    stock = dict(STOCK, reserved=1)
    inventories = build(stock, mix=False, vcpu=used)
    assert dict(stock, total=total) == inventories['VCPU']
    assert stock == inventories['MEMORY_MB']


def test_host_without_mix_keeps_stock_inventory_of_ordinary_instances():
    assert STOCK == build(mix=False, vcpu=40, largest_vcpu=20,
                          has_priority=False)['VCPU']


@pytest.mark.parametrize('ratio, expected', [
    (1.5, 1.0), (1.0, 1.0), (0.9, 0.9)])
def test_mix_host_does_not_overcommit_memory(ratio, expected):
    stock = dict(STOCK, allocation_ratio=ratio)
    assert expected == build(stock)['MEMORY_MB']['allocation_ratio']
    assert ratio == stock['allocation_ratio']


@pytest.mark.parametrize('used, ratio, total', [
    (14, 1.5, 16), (16, 1.5, 18), (8, 0.5, 18), (9, 0.5, 20)])
def test_mix_host_has_just_enough_memory_for_its_instances(
        used, ratio, total):
    stock = dict(STOCK, total=16, reserved=2, allocation_ratio=ratio)
    assert total == build(stock, memory_mb=used)['MEMORY_MB']['total']


def test_cpu_inventories_keep_reserved_and_omit_empty_sets():
    host = cpu_capacity.HostCPUs(frozenset(range(8)), frozenset(),
                                 cpu_capacity.parse_ratio('2.0'), mix=False)
    assert {'PCPU': dict(STOCK, total=8, max_unit=8, allocation_ratio=1.0,
                         reserved=2)} == inventory.build_cpu_inventories(
        host, {'PCPU': {'reserved': 2, 'total': 3}, 'VCPU': STOCK})
