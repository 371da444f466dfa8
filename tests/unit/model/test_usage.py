# SPDX-License-Identifier: Apache-2.0

from nova_prio.model import cpu_capacity
from nova_prio.model import usage

LOW = usage.Usage(
    cpu_capacity.Demand('low', 0, 4), {0: 3, 1: 1}, 4, 512, 500, {})
ORDINARY = usage.Usage(cpu_capacity.Demand(None, 0, 2), {}, 2, 512, 500, {})
MIXED = usage.Usage(cpu_capacity.Demand('high', 2, 1), {1: 1}, 1, 512, 500, {})


def test_counts_by_class():
    totals = usage.Totals([LOW, ORDINARY, MIXED])
    assert (4, 3) == (totals.low_shared, totals.ordinary_shared)
    assert totals.has_priority
    assert not usage.Totals([ORDINARY]).has_priority


def test_low_guests_by_cell():
    assert {} == usage.Totals([]).low_by_cell
    totals = usage.Totals([LOW, LOW, MIXED, ORDINARY])
    assert {0: 6, 1: 2} == totals.low_by_cell


def test_amounts_in_placement_and_memory():
    assert 0 == usage.Totals([]).largest_vcpu
    large = usage.Usage(cpu_capacity.Demand(None, 0, 8), {}, 8, 512, 500, {})
    totals = usage.Totals([LOW, ORDINARY, large])
    assert (14, 8) == (totals.vcpu, totals.largest_vcpu)
    assert (3 * 512, 3 * 500) == (totals.memory_mb, totals.ram_mb)
