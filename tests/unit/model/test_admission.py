# SPDX-License-Identifier: Apache-2.0

import types

import pytest

from nova_prio.model import admission
from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages


def make_host(mix=True, partition_problem='', blocked=(), blocked_by='',
              problem=''):
    return types.SimpleNamespace(
        mix=mix, floating_cpus=12, shared_cpus=4,
        sellable=cpu_capacity.Rows(8, 16, 8),
        partition_problem=partition_problem, blocked=frozenset(blocked),
        blocked_by=blocked_by, problem=problem)


def make_request(priority=None, needed=(0, 4, 4), vcpus=4, memory_mb=256,
                 wants_whole_cores=False, page_size=None):
    return types.SimpleNamespace(
        priority=priority, needed_rows=cpu_capacity.Rows(*needed), vcpus=vcpus,
        memory_mb=memory_mb, memory_parts=((page_size, memory_mb),),
        wants_whole_cores=wants_whole_cores)


def find_reasons(host, request, remaining=(8, 16, 8), free_memory_mb=4096,
                 small=None):
    return [(refusal.reason, refusal.needed, refusal.available)
            for refusal in admission.find_refusals(
                host, request, cpu_capacity.Rows(*remaining), free_memory_mb,
                small)]


def test_all_reasons_are_reported():
    assert [('whole_cores', None, None), ('memory', 256, 255),
            ('high_capacity', 2, 1), ('low_capacity', 2, 0),
            ('ordinary_capacity', 2, 1)] == find_reasons(
        make_host(), make_request('high', (2, 2, 2), wants_whole_cores=True),
        (1, 0, 1), free_memory_mb=255)
    assert [('too_many_vcpus', 13, 12)] == find_reasons(
        make_host(), make_request('low', (0, 13, 0), vcpus=13))
    assert [] == find_reasons(make_host(), make_request())


@pytest.mark.parametrize('mix, priority, needed, refused', [
    # s = 4 shared CPUs; 8 vCPUs remain in the ordinary row.
    (True, None, (0, 4, 4), False),
    (True, None, (0, 5, 5), True),
    # Mixed policy, without a priority and with one.
    (True, None, (8, 5, 5), True),
    (True, 'high', (8, 5, 5), True),
    (True, 'high', (8, 4, 4), False),
    # No shared vCPUs, and shared vCPUs of a low-priority instance.
    (True, 'high', (8, 0, 0), False),
    (True, 'low', (0, 12, 0), False),
    (False, 'high', (2, 5, 5), False),
])
def test_mix_host_refuses_more_shared_vcpus_than_shared_cpus(
        mix, priority, needed, refused):
    assert ([('too_many_shared_vcpus', 5, 4)] if refused else []) == (
        find_reasons(make_host(mix),
                     make_request(priority, needed, vcpus=sum(needed[:2]))))


@pytest.mark.parametrize('mix, priority, refused', [
    (True, None, True), (True, 'low', True), (True, 'high', True),
    (False, 'high', True), (False, 'low', False)])
def test_mix_host_and_high_priority_need_free_memory(mix, priority, refused):
    assert ([('memory', 256, 0)] if refused else []) == find_reasons(
        make_host(mix), make_request(priority, (0, 0, 0)), free_memory_mb=-1)


@pytest.mark.parametrize('priority', ['high', 'low', None])
@pytest.mark.parametrize('page_size, free_mb, available', [
    (None, 256, None), (None, 255, 255), (4, 255, 255),
    (memory_pages.SMALL, 255, 255),
    # Too much memory is sold: a running guest stays, a new one is refused.
    (None, -512, 0),
    # Huge pages come from the pools, and Nova decides on ANY.
    (2048, -512, None), (memory_pages.ANY, -512, None), (-2, -512, None),
])
def test_mix_host_needs_free_small_pages(
        priority, page_size, free_mb, available):
    small = memory_pages.SmallPages(page_kb=4, total_mb=2048, free_mb=free_mb)
    request = make_request(priority, (0, 0, 0), page_size=page_size)
    expected = []
    if available is not None:
        expected = [('small_pages', 256, available)]
    assert expected == find_reasons(make_host(), request, small=small)
    assert [] == find_reasons(make_host(mix=False), request, small=small)


def test_detail_names_small_pages():
    refusal, = admission.find_refusals(
        make_host(), make_request('low', (0, 1, 0)),
        cpu_capacity.Rows(8, 16, 8), 4096,
        memory_pages.SmallPages(page_kb=4, total_mb=2048, free_mb=-1))
    assert ('the host has 0 of 2048 MB of its memory in small pages free; the '
            'instance needs 256 MB in small pages' == refusal.detail)


def test_host_without_mix_takes_whole_cores():
    assert [] == find_reasons(
        make_host(mix=False),
        make_request('high', (4, 0, 0), wants_whole_cores=True))


@pytest.mark.parametrize('priority, refused', [
    ('high', True), ('low', True), (None, False)])
@pytest.mark.parametrize('attribute, reason', [
    ('partition_problem', 'no_partition'), ('problem', 'problem')])
def test_problem_of_host_refuses_priority_instances_only(
        attribute, reason, priority, refused):
    assert ([(reason, None, None)] if refused else []) == find_reasons(
        make_host(**{attribute: 'gone'}), make_request(priority))


@pytest.mark.parametrize('numbers, text', [
    ({'needed': 4, 'available': 0}, ' (needed 4, available 0)'),
    ({'needed': 4}, ' (needed 4)'),
    ({}, ''),
])
def test_refusal_as_text_omits_missing_numbers(numbers, text):
    assert 'problem: the step failed' + text == str(
        admission.Refusal('problem', ('the step failed',), **numbers))


def test_detail_names_row_and_blocking_guests():
    refusal, = admission.find_refusals(
        make_host(), make_request('low', (0, 4, 0)),
        cpu_capacity.Rows(8, 3, 0), 4096, None)
    assert ('the low row has 3 of 16 vCPUs free, 4 are needed' ==
            refusal.detail)
    refusal, = admission.find_refusals(
        make_host(blocked={4, 5}), make_request('high', (4, 0, 0)),
        cpu_capacity.Rows(3, 16, 8), 4096, None)
    assert ('the high row has 3 of 8 vCPUs free, 4 are needed (guests on '
            'stale CPU sets use 2 more until a hard reboot or a move of these '
            'guests)' == refusal.detail)
    refusal, = admission.find_refusals(
        make_host(blocked={4, 5}, blocked_by='vm-a, vm-b'),
        make_request('high', (4, 0, 0)), cpu_capacity.Rows(3, 16, 8), 4096,
        None)
    assert ('the high row has 3 of 8 vCPUs free, 4 are needed (guests use 2 '
            'more until those on stale CPU sets are hard rebooted or moved, '
            'and the others are pinned to other CPUs or shut down with virsh) '
            '(orphan guests among them: vm-a, vm-b)' == refusal.detail)
