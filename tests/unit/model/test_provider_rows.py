# SPDX-License-Identifier: Apache-2.0

import pytest

from nova_prio.model import provider_rows

# The record of a mix host with 8 dedicated and 4 shared CPUs and ratio 2.0 in
# Placement, with one high-priority and one low-priority instance of 4 vCPUs.
COMMON = {'min_unit': 1, 'step_size': 1, 'reserved': 0,
          'allocation_ratio': 1.0}
INVENTORIES = {
    'VCPU': {**COMMON, 'total': 12, 'reserved': 4, 'max_unit': 12,
             'allocation_ratio': 2.0},
    'PCPU': {**COMMON, 'total': 8, 'max_unit': 8},
    'MEMORY_MB': {**COMMON, 'total': 16384, 'reserved': 512,
                  'max_unit': 16384},
    'DISK_GB': {**COMMON, 'total': 128, 'max_unit': 128}}
USAGES = {'VCPU': 4, 'PCPU': 4, 'MEMORY_MB': 512, 'DISK_GB': 22}


def count(usages=USAGES, inventories=INVENTORIES, **request):
    return provider_rows.count_instances(request, inventories, usages)


def test_rows_of_the_example():
    # (12 - 4) * 2 = 16.
    assert (4, 8, 4) == provider_rows.get_row('high', INVENTORIES, USAGES)
    assert (4, 16, 12) == provider_rows.get_row('low', INVENTORIES, USAGES)


def test_low_row_of_placement_exceeds_the_exact_one_by_less_than_the_ratio():
    # 7 dedicated and 5 shared CPUs, ratio 1.5: 5 * 1.5 + 7 * 0.5 = 11.
    vcpu = {**INVENTORIES['VCPU'], 'allocation_ratio': 1.5}
    assert 12 == provider_rows.get_row('low', {'VCPU': vcpu}, {}).sellable


def test_oversold_row_has_nothing_left():
    assert (9, 8, 0) == provider_rows.get_row(
        'high', INVENTORIES, {'PCPU': 9})


def test_host_without_inventory_sells_nothing():
    assert (0, 0, 0) == provider_rows.get_row('high', {}, {})


@pytest.mark.parametrize('request_, units', [
    ({'PCPU': 4}, 1), ({'PCPU': 5}, 0), ({'VCPU': 4}, 3), ({'VCPU': 5}, 2),
    ({'VCPU': 1, 'PCPU': 2}, 2),
    # 16384 - 512 - 512 = 15360 = 3 * 5120.
    ({'VCPU': 1, 'MEMORY_MB': 5120}, 3), ({'VCPU': 1, 'MEMORY_MB': 5121}, 2),
    # 128 - 22 = 106 = 2 * 53.
    ({'VCPU': 1, 'DISK_GB': 53}, 2), ({'VCPU': 1, 'DISK_GB': 54}, 1)])
def test_scarcest_resource_limits_instances(request_, units):
    assert units == count(**request_)


def test_single_instance_is_limited_by_max_unit():
    assert 1 == count(usages={}, VCPU=12)
    assert 0 == count(usages={}, VCPU=13)


@pytest.mark.parametrize('field, value', [('min_unit', 3), ('step_size', 4)])
def test_amount_that_placement_refuses_has_no_units(field, value):
    vcpu = {**INVENTORIES['VCPU'], field: value}
    assert 0 == count(inventories={'VCPU': vcpu}, VCPU=2)


def test_oversold_host_has_no_units():
    assert 0 == count(usages={'PCPU': 9}, PCPU=1)


def test_disk_of_another_provider_is_not_considered():
    inventories = {'VCPU': INVENTORIES['VCPU']}
    assert 3 == count(inventories=inventories, VCPU=4, DISK_GB=1)
    assert 0 == count(inventories=inventories, VCPU=4, MEMORY_MB=1)


def test_disk_of_another_provider_limits_nothing():
    inventories = {name: INVENTORIES[name] for name in ('VCPU', 'PCPU')}
    assert count(inventories=inventories, DISK_GB=1) is None
