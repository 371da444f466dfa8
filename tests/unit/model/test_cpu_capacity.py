# SPDX-License-Identifier: Apache-2.0

import decimal

import hypothesis
from hypothesis import strategies as st
import pytest

from nova_prio.model import cpu_capacity

RATIOS = st.decimals('0', '64', places=3) | st.floats(0, 64)


def cpus(dedicated, shared, ratio, mix=True):
    return cpu_capacity.HostCPUs(
        frozenset(range(dedicated)),
        frozenset(range(dedicated, dedicated + shared)),
        cpu_capacity.parse_ratio(ratio), mix)


HOSTS = st.builds(cpus, st.integers(0, 64), st.integers(0, 64), RATIOS,
                  st.booleans())


@pytest.mark.parametrize('dedicated, shared, ratio, mix, rows', [
    # (8 + 4) * 2 - 8 = 16; 4 * 2 = 8: the example in cpu_capacity.py.
    (8, 4, '2.0', True, (8, 16, 8)),
    (8, 4, '2.0', False, (8, 8, 8)),
    # At ratio 1 only pinned vCPUs are sold on the dedicated CPUs.
    (8, 4, '1.0', True, (8, 4, 4)),
    # Below 1 the dedicated CPUs do not change the low row.
    (8, 4, '0.5', True, (8, 2, 2)),
    # 4 * 1.1 + 8 * 0.1 = 5.2
    (8, 4, '1.1', True, (8, 5, 4)),
    # 10 * 1.1 is exactly 11; the nearest float of 1.1 is larger.
    (0, 10, '1.1', False, (0, 11, 11)),
    # 100 * 0.29 is exactly 29; in binary floating point it is 28.99...
    (0, 100, '0.29', False, (0, 29, 29)),
    (0, 0, '2.0', True, (0, 0, 0)),
    (8, 4, '0', True, (8, 0, 0)),
])
def test_sellable_rows(dedicated, shared, ratio, mix, rows):
    assert cpu_capacity.Rows(*rows) == cpus(dedicated, shared, ratio,
                                            mix).sellable


@hypothesis.given(HOSTS)
def test_low_row_is_at_least_the_ordinary_row(host):
    assert host.sellable.low >= host.sellable.ordinary


@hypothesis.given(HOSTS)
def test_high_and_low_row_together_stay_within_the_ratio(host):
    hypothesis.assume(host.ratio >= 1)
    total = len(host.dedicated) + len(host.shared)
    rows = host.sellable
    assert rows.high + rows.low <= total * host.ratio


@hypothesis.given(HOSTS)
def test_floating_cpus_include_dedicated_cpus_with_mix(host):
    expected = host.shared | (host.dedicated if host.mix else frozenset())
    assert host.floating == expected


@pytest.mark.parametrize(
    'value', ['x', '', None, -1, 'NaN', 'Infinity', '-0.1'])
def test_invalid_ratio_is_refused(value):
    with pytest.raises(ValueError, match='must be a number, 0 or larger'):
        cpu_capacity.parse_ratio(value)


def test_ratio_of_a_float_is_exact():
    assert decimal.Decimal('1.1') == cpu_capacity.parse_ratio(1.1)


def test_low_row_counts_all_shared_vcpus():
    # 3 pinned vCPUs; 5 vCPUs of low-priority, 2 of ordinary instances.
    assert cpu_capacity.Rows(3, 7, 2) == cpu_capacity.calculate_used(3, 5, 2)


def test_oversold_rows_are_named():
    assert ['low'] == cpu_capacity.find_oversold_rows((8, 4, 4), (8, 5, 4))
    assert [] == cpu_capacity.find_oversold_rows((8, 4, 4), (8, 4, 4))


def test_remaining_is_never_below_zero():
    assert cpu_capacity.Rows(0, 0, 0) == cpu_capacity.calculate_remaining(
        cpu_capacity.Rows(1, 1, 1), cpu_capacity.Rows(2, 3, 4))


@pytest.mark.parametrize('used, left', [
    # Of 16 vCPUs in the low row, 4 remain, and of 8 ordinary ones, 8.
    ((8, 12, 0), (0, 4, 4)),
    ((0, 16, 0), (8, 0, 0)),
    ((0, 17, 8), (8, 0, 0)),
    ((0, 6, 6), (8, 10, 2)),
])
def test_ordinary_vcpus_left_are_limited_by_the_low_row(used, left):
    assert cpu_capacity.Rows(*left) == cpu_capacity.calculate_left(
        cpu_capacity.Rows(8, 16, 8), cpu_capacity.Rows(*used))


@pytest.mark.parametrize('demand, remaining, shortages', [
    # A high-priority instance uses the high row only.
    (('high', 4, 0), (4, 0, 0), []),
    (('high', 4, 0), (3, 9, 9), [('high', 4, 3)]),
    # A low-priority instance uses the low row only.
    (('low', 0, 4), (0, 4, 0), []),
    (('low', 0, 4), (9, 3, 9), [('low', 4, 3)]),
    # An ordinary instance uses the low and the ordinary row.
    ((None, 0, 4), (0, 4, 4), []),
    ((None, 0, 4), (9, 3, 4), [('low', 4, 3)]),
    ((None, 0, 4), (9, 4, 3), [('ordinary', 4, 3)]),
    # Mixed policy: all three rows, each shortage is named.
    (('high', 2, 2), (1, 1, 1),
     [('high', 2, 1), ('low', 2, 1), ('ordinary', 2, 1)]),
    # A pinned ordinary instance uses the high row.
    ((None, 4, 0), (3, 9, 9), [('high', 4, 3)]),
])
def test_shortages(demand, remaining, shortages):
    assert shortages == cpu_capacity.find_shortages(
        cpu_capacity.calculate_needed_rows(cpu_capacity.Demand(*demand)),
        cpu_capacity.Rows(*remaining))


def test_example_is_filled_exactly():
    sellable = cpus(8, 4, '2.0').sellable
    high = cpu_capacity.Demand('high', 4, 0)
    low = cpu_capacity.Demand('low', 0, 4)

    def fits(demand, used):
        return not cpu_capacity.find_shortages(
            cpu_capacity.calculate_needed_rows(demand),
            cpu_capacity.calculate_remaining(sellable, used))

    # One high and three low instances: one more of each fits.
    assert fits(high, cpu_capacity.calculate_used(4, 12, 0))
    assert fits(low, cpu_capacity.calculate_used(4, 12, 0))
    # Two high and four low instances: no other instance fits.
    full = cpu_capacity.calculate_used(8, 16, 0)
    assert not fits(high, full)
    assert not fits(low, full)
    assert not fits(cpu_capacity.Demand(None, 0, 1), full)


def test_placement_units_of_the_example():
    # 8 * 2 = 16
    assert 8 == cpu_capacity.calculate_placement_units(decimal.Decimal(2), 16)


def test_placement_units_allow_for_binary_floating_point():
    # 100 * 0.29 is 29, but Placement's int(100 * 0.29) is 28.
    assert 101 == cpu_capacity.calculate_placement_units(
        decimal.Decimal('0.29'), 29)


@hypothesis.given(HOSTS, st.integers(-3, 500))
def test_placement_admits_all_vcpus_and_less_than_one_unit_more(host, vcpus):
    if host.ratio < decimal.Decimal('0.001'):
        return
    units = cpu_capacity.calculate_placement_units(host.ratio, vcpus)
    admitted = int(units * float(host.ratio))
    if vcpus > 0:
        assert vcpus <= admitted < vcpus + max(host.ratio, 1)
        assert int((units - 1) * float(host.ratio)) < vcpus
    else:
        assert 0 == units


def test_placement_units_are_at_most_the_largest_total():
    assert 2 ** 31 - 1 == cpu_capacity.calculate_placement_units(
        decimal.Decimal('1e-300'), 500)


@hypothesis.given(HOSTS)
def test_placement_units_of_low_row_are_at_most_its_floating_cpus(host):
    if host.ratio:
        assert cpu_capacity.calculate_placement_units(
            host.ratio, host.sellable.low) <= len(host.floating)


def test_placement_admits_nothing_at_ratio_0():
    assert 0 == cpu_capacity.calculate_placement_units(decimal.Decimal(0), 0)
    with pytest.raises(ValueError, match='allocation ratio 0'):
        cpu_capacity.calculate_placement_units(decimal.Decimal(0), 4)


def test_placement_units_at_huge_ratio():
    assert 1 == cpu_capacity.calculate_placement_units(
        decimal.Decimal('1e300'), 5)
