# SPDX-License-Identifier: Apache-2.0

import decimal

import hypothesis
from hypothesis import strategies as st
import pytest

from nova_prio.model import capacity

RATIOS = st.decimals('0', '64', places=3) | st.floats(0, 64)


def cpus(dedicated, shared, ratio, mix=True):
    return capacity.HostCPUs(
        frozenset(range(dedicated)),
        frozenset(range(dedicated, dedicated + shared)),
        capacity.parse_ratio(ratio), mix)


HOSTS = st.builds(cpus, st.integers(0, 64), st.integers(0, 64), RATIOS,
                  st.booleans())


@pytest.mark.parametrize('dedicated, shared, ratio, mix, rows', [
    # (8 + 4) * 2 - 8 = 16; 4 * 2 = 8: the example of the design.
    (8, 4, '2.0', True, (8, 16, 8)),
    (8, 4, '2.0', False, (8, 8, 8)),
    # At ratio 1 the dedicated CPUs are sold once, to pinned instances.
    (8, 4, '1.0', True, (8, 4, 4)),
    # Below 1 they add nothing, and take nothing away.
    (8, 4, '0.5', True, (8, 2, 2)),
    # 4 * 1.1 + 8 * 0.1 = 5.2
    (8, 4, '1.1', True, (8, 5, 4)),
    # 10 * 1.1 is exactly 11, which binary floating point rounds up from.
    (0, 10, '1.1', False, (0, 11, 11)),
    # 100 * 0.29 is exactly 29; in binary floating point it is 28.99...
    (0, 100, '0.29', False, (0, 29, 29)),
    (0, 0, '2.0', True, (0, 0, 0)),
    (8, 4, '0', True, (8, 0, 0)),
])
def test_sellable(dedicated, shared, ratio, mix, rows):
    assert capacity.Rows(*rows) == cpus(dedicated, shared, ratio,
                                        mix).sellable


@hypothesis.given(HOSTS)
def test_low_row_never_smaller_than_ordinary_row(host):
    assert host.sellable.low >= host.sellable.ordinary


@hypothesis.given(HOSTS)
def test_both_classes_together_stay_within_the_ratio(host):
    """Selling the high and the low row in full never exceeds total * r."""
    hypothesis.assume(host.ratio >= 1)
    total = len(host.dedicated) + len(host.shared)
    rows = host.sellable
    assert rows.high + rows.low <= total * host.ratio


@hypothesis.given(HOSTS)
def test_floating_cpus(host):
    expected = host.shared | (host.dedicated if host.mix else frozenset())
    assert host.floating == expected


@pytest.mark.parametrize(
    'value', ['x', '', None, -1, 'NaN', 'Infinity', '-0.1'])
def test_ratio_refused(value):
    with pytest.raises(ValueError, match='must be a number, 0 or larger'):
        capacity.parse_ratio(value)


def test_ratio_is_what_was_written():
    assert decimal.Decimal('1.1') == capacity.parse_ratio(1.1)


def test_used():
    # 3 CPUs pinned, low guests with 5 vCPUs, ordinary ones with 2.
    assert capacity.Rows(3, 7, 2) == capacity.calculate_used(3, 5, 2)


def test_oversold_rows():
    assert ['low'] == capacity.find_oversold_rows((8, 4, 4), (8, 5, 4))
    assert [] == capacity.find_oversold_rows((8, 4, 4), (8, 4, 4))


def test_room_is_never_below_zero():
    assert capacity.Rows(0, 0, 0) == capacity.calculate_remaining(
        capacity.Rows(1, 1, 1), capacity.Rows(2, 3, 4))


@pytest.mark.parametrize('demand, left, short', [
    # High draws from the high row alone.
    (('high', 4, 0), (4, 0, 0), []),
    (('high', 4, 0), (3, 9, 9), [('high', 4, 3)]),
    # Low draws from the low row alone.
    (('low', 0, 4), (0, 4, 0), []),
    (('low', 0, 4), (9, 3, 9), [('low', 4, 3)]),
    # Ordinary needs room in the low and in the ordinary row.
    ((None, 0, 4), (0, 4, 4), []),
    ((None, 0, 4), (9, 3, 4), [('low', 4, 3)]),
    ((None, 0, 4), (9, 4, 3), [('ordinary', 4, 3)]),
    # Mixed: each part in its rows, and every shortage is named.
    (('high', 2, 2), (1, 1, 1),
     [('high', 2, 1), ('low', 2, 1), ('ordinary', 2, 1)]),
    # A pinned ordinary instance takes dedicated CPUs.
    ((None, 4, 0), (3, 9, 9), [('high', 4, 3)]),
])
def test_shortages(demand, left, short):
    assert short == capacity.find_shortages(
        capacity.calculate_needed_rows(capacity.Demand(*demand)), capacity.Rows(*left))


def test_seed_example_is_filled_exactly():
    sellable = cpus(8, 4, '2.0').sellable
    high = capacity.Demand('high', 4, 0)
    low = capacity.Demand('low', 0, 4)
    fits = lambda demand, used: not capacity.find_shortages(  # noqa: E731
        capacity.calculate_needed_rows(demand), capacity.calculate_remaining(sellable, used))
    # One high and three low are there: one more of each fits.
    assert fits(high, capacity.calculate_used(4, 12, 0))
    assert fits(low, capacity.calculate_used(4, 12, 0))
    # Two high and four low are there: nothing fits, ordinary neither.
    full = capacity.calculate_used(8, 16, 0)
    assert not fits(high, full)
    assert not fits(low, full)
    assert not fits(capacity.Demand(None, 0, 1), full)


def test_units_of_the_example():
    # 8 * 2 = 16
    assert 8 == capacity.calculate_placement_units(decimal.Decimal(2), 16)


def test_units_where_binary_floating_point_falls_short():
    # 100 * 0.29 is 29, but Placement's int(100 * 0.29) is 28.
    assert 101 == capacity.calculate_placement_units(
        decimal.Decimal('0.29'), 29)


@hypothesis.given(HOSTS, st.integers(-3, 500))
def test_placement_is_never_stricter_and_hardly_laxer(host, vcpus):
    if host.ratio < decimal.Decimal('0.001'):
        return
    units = capacity.calculate_placement_units(host.ratio, vcpus)
    admitted = int(units * float(host.ratio))
    if vcpus > 0:
        assert vcpus <= admitted < vcpus + max(host.ratio, 1)
        assert int((units - 1) * float(host.ratio)) < vcpus
    else:
        assert 0 == units


def test_units_have_an_end():
    assert 2 ** 31 - 1 == capacity.calculate_placement_units(
        decimal.Decimal('1e-300'), 500)


@hypothesis.given(HOSTS)
def test_the_low_row_needs_no_more_cpus_than_there_are(host):
    if host.ratio:
        assert capacity.calculate_placement_units(
            host.ratio, host.sellable.low) <= len(host.floating)


def test_placement_admits_nothing_at_ratio_0():
    assert 0 == capacity.calculate_placement_units(decimal.Decimal(0), 0)
    with pytest.raises(ValueError, match='allocation ratio 0'):
        capacity.calculate_placement_units(decimal.Decimal(0), 4)


def test_least_inventory_at_an_absurd_ratio():
    assert 1 == capacity.calculate_placement_units(decimal.Decimal('1e300'), 5)
