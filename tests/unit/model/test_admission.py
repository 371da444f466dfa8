# SPDX-License-Identifier: Apache-2.0

import types

import pytest

from nova_prio.model import admission
from nova_prio.model import capacity


def host(mix=True, partition_problem='', blocked=(), blocked_by='',
         problem=''):
    return types.SimpleNamespace(
        mix=mix, floating_cpus=12, shared_cpus=4,
        sellable=capacity.Rows(8, 16, 8),
        partition_problem=partition_problem, blocked=frozenset(blocked),
        blocked_by=blocked_by, problem=problem)


def wish(priority=None, drawn=(0, 4, 4), vcpus=4, memory_mb=256,
         wants_whole_cores=False):
    return types.SimpleNamespace(
        priority=priority, needed_rows=capacity.Rows(*drawn), vcpus=vcpus,
        memory_mb=memory_mb, wants_whole_cores=wants_whole_cores)


def reasons(of_host, of_wish, room=(8, 16, 8), free_memory_mb=4096):
    return [(refusal.reason, refusal.needed, refusal.available)
            for refusal in admission.find_refusals(
                of_host, of_wish, capacity.Rows(*room), free_memory_mb)]


def test_all_reasons_in_one_go():
    assert [('whole_cores', None, None), ('memory', 256, 255),
            ('high_capacity', 2, 1), ('low_capacity', 2, 0),
            ('ordinary_capacity', 2, 1)] == reasons(
        host(), wish('high', (2, 2, 2), wants_whole_cores=True), (1, 0, 1),
        free_memory_mb=255)
    assert [('too_many_vcpus', 13, 12)] == reasons(
        host(), wish('low', (0, 13, 0), vcpus=13))
    assert [] == reasons(host(), wish())


@pytest.mark.parametrize('mix, priority, drawn, refused', [
    # s = 4 shared CPUs, and room for 8 vCPUs in the ordinary row.
    (True, None, (0, 4, 4), False),
    (True, None, (0, 5, 5), True),
    # Mixed policy, without a priority and with one.
    (True, None, (8, 5, 5), True),
    (True, 'high', (8, 5, 5), True),
    (True, 'high', (8, 4, 4), False),
    # Pinned ones draw no shared vCPU, low ones none from the ordinary row.
    (True, 'high', (8, 0, 0), False),
    (True, 'low', (0, 12, 0), False),
    (False, 'high', (2, 5, 5), False),
])
def test_more_shared_vcpus_than_shared_cpus_on_a_mix_host(
        mix, priority, drawn, refused):
    found = reasons(host(mix), wish(priority, drawn, vcpus=sum(drawn[:2])))
    assert found == ([('too_many_shared_vcpus', 5, 4)] if refused else [])


@pytest.mark.parametrize('mix, priority, refused', [
    (True, None, True), (True, 'low', True), (True, 'high', True),
    (False, 'high', True), (False, 'low', False)])
def test_whose_memory_is_not_oversold(mix, priority, refused):
    found = reasons(host(mix), wish(priority, (0, 0, 0)), free_memory_mb=-1)
    assert found == ([('memory', 256, 0)] if refused else [])


def test_whole_cores_without_mix():
    assert [] == reasons(
        host(mix=False), wish('high', (4, 0, 0), wants_whole_cores=True))


@pytest.mark.parametrize('priority, refused', [
    ('high', True), ('low', True), (None, False)])
def test_without_partitions_no_priority_instance(priority, refused):
    found = reasons(host(partition_problem='gone'), wish(priority))
    assert found == ([('no_partition', None, None)] if refused else [])


@pytest.mark.parametrize('numbers, text', [
    ({'needed': 4, 'available': 0}, 'why: because (needed 4, available 0)'),
    ({'needed': 4}, 'why: because (needed 4)'),
    ({}, 'why: because'),
])
def test_a_refusal_as_text_has_only_the_numbers_that_there_are(
        numbers, text):
    assert text == str(admission.Refusal('why', 'because', **numbers))


@pytest.mark.parametrize('priority, refused', [
    ('high', True), ('low', True), (None, False)])
def test_a_problem_refuses_priority_instances_only(priority, refused):
    found = reasons(host(problem='no report'), wish(priority))
    assert found == ([('problem', None, None)] if refused else [])


def test_in_words():
    refusal, = admission.find_refusals(
        host(), wish('low', (0, 4, 0)), capacity.Rows(8, 3, 0), 4096)
    assert ('the low row has 3 of 16 CPUs left, 4 are needed' ==
            str(refusal.detail))
    refusal, = admission.find_refusals(
        host(blocked={4, 5}), wish('high', (4, 0, 0)),
        capacity.Rows(3, 16, 8), 4096)
    assert ('the high row has 3 of 8 CPUs left, 4 are needed (on 2 more, '
            'guests that were started with other CPU sets float until they '
            'are rebooted hard or moved)' == str(refusal.detail))
    refusal, = admission.find_refusals(
        host(blocked={4, 5}, blocked_by='vm-a, vm-b'),
        wish('high', (4, 0, 0)), capacity.Rows(3, 16, 8), 4096)
    assert str(refusal.detail).endswith(
        '(guests there that are no instances of this host: vm-a, vm-b)')
