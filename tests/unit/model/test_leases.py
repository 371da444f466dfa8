# SPDX-License-Identifier: Apache-2.0

import hypothesis
from hypothesis import strategies as st
import pytest

from nova_prio.model import cpu_capacity
from nova_prio.model import leases
from nova_prio.model import usage


def lease(*cpus):
    return leases.LeaseSet(frozenset(cpus))


@pytest.fixture
def host():
    return leases.Leases()


def test_no_cpu_is_leased_to_two_instances(host):
    assert {} == host.begin('a', lease(0, 1))
    assert {} == host.begin('a', lease(1, 2)), 'the same instance'
    assert {'a': frozenset({1, 2})} == host.begin('b', lease(1, 2, 3))
    assert [] == host.get('b')
    assert {0, 1, 2} == host.find_cpus()
    assert set() == host.find_cpus(but='a')


def test_instances_without_dedicated_cpus_share_a_host(host):
    for uuid in 'ab':
        assert {} == host.begin(uuid, lease())
    assert 2 == len(host.list_all())


def test_totals_of_all_and_of_arrived_sets(host):
    for uuid, memory_mb, is_counted, is_incoming in (
            ('a', 1, True, False), ('b', 2, True, True),
            ('c', 4, False, False), ('d', None, True, False)):
        used = memory_mb and usage.Usage(
            demand=cpu_capacity.Demand(None, 0, 1), shared_by_cell={}, vcpu=1,
            memory_mb=memory_mb, ram_mb=memory_mb, memory_by_cell={})
        host.begin(uuid, leases.LeaseSet(
            usage=used, is_counted=is_counted, is_incoming=is_incoming))
    assert (7, 1) == (
        host.count_all().ram_mb, host.count_arrived().ram_mb)
    for but, memory_mb in ((None, 4), ('a', 4), ('c', 0)):
        assert memory_mb == leases.calculate_totals(
            host.list_uncounted(but=but)).ram_mb


def test_end_removes_one_set(host):
    old, new = lease(0), lease(1)
    for each in old, new:
        host.begin('a', each)
    assert host.end('a', old)
    assert not host.end('a', old), 'it has ended before'
    assert [new] == host.get('a')
    assert host.end('a', new)
    assert [] == host.list_all()


def test_set_in_hand_does_not_end(host):
    held = lease(0)
    host.begin('a', held)
    host.begin_call('a')
    assert not host.end('a', held)
    host.end_call('a')
    # Two starts of the guest overlap.
    host.begin_start('a')
    host.begin_start('a')
    host.end_start('a')
    assert not host.end('a', held)
    host.end_start('a')
    assert host.end('a', held)
    assert not host.is_in_hand('a')


def test_evidence_from_before_a_start_or_a_count_is_dropped(host):
    asked = lease(0)
    host.begin('a', asked)
    starts = host.count_starts('a')
    host.begin_start('a')
    host.end_start('a')
    assert not host.end('a', asked, starts)
    asked.is_counted = True
    assert not host.end('a', asked, host.count_starts('a'))
    asked.is_counted = False
    assert host.end('a', asked, host.count_starts('a'))


def test_begin_free_leaves_out_the_cpus_of_others(host):
    host.begin('a', lease(0, 1))
    host.begin('b', lease(2))
    host.begin_free('b', frozenset({0, 1, 2, 3, 4}))
    assert {2, 3, 4} == host.get_cpus('b')
    host.begin_free('b', frozenset({1, 3}))
    assert 2 == len(host.get('b')), 'nothing is left to lease'


@hypothesis.given(st.lists(st.tuples(
    st.sampled_from('abc'), st.sets(st.integers(0, 5)), st.booleans())))
def test_no_history_leases_a_cpu_twice(history):
    host = leases.Leases()
    for uuid, cpus, begins in history:
        if begins:
            host.begin(uuid, lease(*cpus))
        else:
            for each in host.get(uuid):
                host.end(uuid, each)
        for owner, one in host.list_all():
            for other, two in host.list_all():
                assert owner == other or not one.cpus & two.cpus
