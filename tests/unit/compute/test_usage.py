# SPDX-License-Identifier: Apache-2.0

import itertools

import hypothesis
from hypothesis import strategies as st
import pytest

from nova_prio.compute import usage
from nova_prio.model import capacity

LOW = usage.Usage(capacity.Demand('low', 0, 4), {0: 3, 1: 1}, 4, 512)
ORDINARY = usage.Usage(capacity.Demand(None, 0, 2), {}, 2, 512)
MIXED = usage.Usage(capacity.Demand('high', 2, 1), {1: 1}, 1, 512)


def test_counts_by_class():
    ledger = usage.UsageLedger()
    ledger.add('a', usage.RESIDENT, LOW)
    ledger.add('b', usage.RESIDENT, ORDINARY)
    ledger.add('c', usage.RESIDENT, MIXED)
    assert (4, 3) == (ledger.low_shared, ledger.ordinary_shared)


def test_low_guests_by_cell():
    ledger = usage.UsageLedger()
    assert {} == ledger.low_by_cell
    for uuid, used in ('a', LOW), ('b', LOW), ('c', MIXED), ('d', ORDINARY):
        ledger.add(uuid, usage.RESIDENT, used)
    assert {0: 6, 1: 2} == ledger.low_by_cell


def test_largest():
    ledger = usage.UsageLedger()
    assert 0 == ledger.largest_vcpu
    ledger.add('a', usage.RESIDENT, LOW)
    ledger.add('b', usage.RESIDENT, ORDINARY)
    ledger.add('c', usage.RESIDENT, usage.Usage(
        capacity.Demand(None, 0, 8), {}, 8, 512))
    assert (14, 8) == (ledger.vcpu, ledger.largest_vcpu)
    assert 3 * 512 == ledger.memory_mb


def test_counting_twice_changes_nothing():
    ledger = usage.UsageLedger()
    ledger.add('a', usage.RESIDENT, LOW)
    ledger.add('a', usage.RESIDENT, LOW)
    assert 4 == ledger.low_shared


def test_removing_an_unknown_usage_changes_nothing():
    ledger = usage.UsageLedger()
    ledger.add('a', usage.RESIDENT, LOW)
    ledger.remove('b', usage.MOVE, LOW)
    ledger.remove('a', usage.MOVE, ORDINARY)
    assert 4 == ledger.low_shared


def test_a_move_that_ends_where_it_was_resident():
    """After a cold migration the source drops the old flavor as a move."""
    ledger = usage.UsageLedger()
    ledger.add('a', usage.RESIDENT, LOW)
    ledger.remove('a', usage.MOVE, LOW)
    assert 0 == ledger.low_shared


def test_resize_on_the_same_host_is_confirmed_before_a_recount():
    """The old flavor is the resident one, the new one is the move's."""
    ledger = usage.UsageLedger()
    ledger.add('a', usage.RESIDENT, LOW)
    ledger.add('a', usage.MOVE, ORDINARY)
    ledger.remove('a', usage.MOVE, LOW)
    assert (0, 2) == (ledger.low_shared, ledger.ordinary_shared)


def test_unshelved_where_it_had_been_moved_to():
    """Nova still counts the move when the instance comes back."""
    ledger = usage.UsageLedger()
    ledger.add('a', usage.MOVE, LOW)
    ledger.add('a', usage.RESIDENT, LOW)
    assert 4 == ledger.low_shared


def test_clear():
    ledger = usage.UsageLedger()
    ledger.add('a', usage.RESIDENT, LOW)
    ledger.clear()
    assert (0, 0, 0) == (ledger.low_shared, ledger.ordinary_shared,
                         ledger.largest_vcpu)


@hypothesis.given(st.lists(st.tuples(
    st.booleans(), st.sampled_from('abc'),
    st.sampled_from([usage.RESIDENT, usage.MOVE]),
    st.sampled_from([LOW, ORDINARY, MIXED]))))
def test_never_below_zero_and_empty_when_all_are_gone(history):
    ledger = usage.UsageLedger()
    for is_new, uuid, role, used in history:
        (ledger.add if is_new else ledger.remove)(uuid, role, used)
        assert ledger.low_shared >= 0
        assert ledger.ordinary_shared >= 0
    for uuid, role, used in itertools.product(
            'abc', [usage.RESIDENT, usage.MOVE], [LOW, ORDINARY, MIXED]):
        ledger.remove(uuid, role, used)
    assert 0 == ledger.largest_vcpu


def test_a_move_that_is_over():
    """A moved instance is resident, and may be resized next."""
    ledger = usage.UsageLedger()
    ledger.add('a', usage.MOVE, LOW)
    ledger.settle('a')
    ledger.add('a', usage.MOVE, ORDINARY)
    assert (4, 2) == (ledger.low_shared, ledger.ordinary_shared)
    assert ledger.holds('a')


def test_nothing_to_settle():
    ledger = usage.UsageLedger()
    ledger.settle('a')
    assert not ledger.holds('a')
    ledger.add('a', usage.RESIDENT, LOW)
    ledger.add('a', usage.MOVE, ORDINARY)
    ledger.settle('a')
    assert (4, 2) == (ledger.low_shared, ledger.ordinary_shared)


def test_incoming_move_is_not_in_the_amounts_of_the_inventories():
    ledger = usage.UsageLedger()
    ledger.add('a', usage.MOVE, LOW)
    ledger.mark_incoming('a')
    assert (0, 0, 0) == (ledger.vcpu, ledger.memory_mb, ledger.largest_vcpu)
    assert 4 == ledger.low_shared
    ledger.settle('a')
    assert (4, 512, 4) == (
        ledger.vcpu, ledger.memory_mb, ledger.largest_vcpu)


@pytest.mark.parametrize('role', [usage.RESIDENT, usage.MOVE])
def test_incoming_move_that_was_replaced_is_in_the_amounts(role):
    """The instance arrived, or moves away from the host again."""
    ledger = usage.UsageLedger()
    ledger.add('a', usage.MOVE, LOW)
    ledger.mark_incoming('a')
    ledger.add('a', role, LOW)
    assert 4 == ledger.vcpu
