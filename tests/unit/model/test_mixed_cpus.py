# SPDX-License-Identifier: Apache-2.0

import contextlib
import itertools

from hypothesis import given
from hypothesis import strategies as st
import pytest

from nova_prio.model import flavor_specs
from nova_prio.model import mixed_cpus


def request(pcpu, vcpu, **others):
    return {'resources:PCPU': pcpu, 'resources:VCPU': vcpu,
            **{key.replace('__', ':'): value
               for key, value in others.items()}}


@pytest.mark.parametrize('extra_specs, expected', [
    ({}, False),
    ({'resources:PCPU': '4'}, False),
    ({'resources:VCPU': '4'}, False),
    (request('4', '4'), True),
    (request('0', '8'), True),
    ({'resources1:PCPU': '4', 'resources2:VCPU': '4'}, True),
    # A named group, from which Nova reads no CPUs; a custom class.
    ({'resources_a:PCPU': '4', 'resources:VCPU': '4'}, False),
    ({'resources:PCPU': '4', 'resources:CUSTOM_VCPU': '4'}, False),
])
def test_flavor_requests_both_classes(extra_specs, expected):
    assert expected is mixed_cpus.requests_pcpu_and_vcpu(extra_specs)


@pytest.mark.parametrize('nodes, dedicated, vcpus', [
    # The example of the design.
    ([range(4), range(4, 8)], 5, [2, 3, 5, 6, 7]),
    ([range(8)], 5, [3, 4, 5, 6, 7]),
    ([range(8)], 1, [7]),
    ([range(4), range(4, 8)], 1, [7]),
    ([range(4), range(4, 8)], 7, [1, 2, 3, 4, 5, 6, 7]),
    ([range(2), range(2, 4), range(4, 6), range(6, 8)], 3, [3, 5, 7]),
    # Nodes of different sizes: the small one is full first.
    ([range(2), range(2, 8)], 3, [5, 6, 7]),
    ([range(3), range(3, 8)], 4, [2, 5, 6, 7]),
    # vCPUs in another order than the nodes.
    ([{0, 2, 4, 6}, {1, 3, 5, 7}], 5, [3, 4, 5, 6, 7]),
    ([range(4, 8), range(4)], 5, [1, 2, 3, 6, 7]),
])
def test_shared_vcpus_are_spread_over_nodes(nodes, dedicated, vcpus):
    assert vcpus == mixed_cpus.choose_dedicated_vcpus(nodes, dedicated)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_shared_vcpus_are_spread_evenly_and_come_first(sizes, data):
    vcpus = data.draw(st.permutations(range(sum(sizes))))
    unused = iter(vcpus)
    nodes = [set(itertools.islice(unused, size)) for size in sizes]
    count = data.draw(st.integers(0, len(vcpus)))
    dedicated = set(mixed_cpus.choose_dedicated_vcpus(nodes, count))
    assert count == len(dedicated)
    shared = [node - dedicated for node in nodes]
    for node, floating in zip(nodes, shared):
        # Shared vCPUs come first on their node.
        assert floating == set(sorted(node)[:len(floating)])
        # A node has at most one less than another, unless it is full.
        for other in shared:
            assert (len(floating) >= len(other) - 1 or floating == node)


@pytest.mark.parametrize('extra_specs, dedicated', [
    (request('5', '3'), 5),
    (request('1', '7'), 1),
    ({'resources1:PCPU': '2', 'resources2:PCPU': '3', 'resources:VCPU': '3'},
     5),
    # All vCPUs in one class.
    (request('8', '0'), None),
    (request('0', '8'), None),
    (request('9', '0', hw__emulator_threads_policy='isolate'), None),
    # One PCPU for isolated emulator threads, none for shared ones.
    (request('6', '3', hw__emulator_threads_policy='isolate'), 5),
    (request('5', '3', hw__emulator_threads_policy='share'), 5),
    (request('5', '3', hw__cpu_realtime='yes'), 5),
])
def test_count_of_dedicated_vcpus(extra_specs, dedicated):
    assert dedicated == mixed_cpus.count_dedicated_vcpus(8, extra_specs, {})


@pytest.mark.parametrize('extra_specs, properties, words', [
    (request('5', '4'), {}, ['5 and 4', 'add up to its 8 vCPUs']),
    (request('5', '2'), {}, ['5 and 2']),
    (request('0', '0'), {}, ['0 and 0']),
    (request('0', '7'), {}, ['0 and 7']),
    (request('5', '3', hw__emulator_threads_policy='isolate'), {},
     ['5 and 3', 'and one for the isolated emulator threads']),
    (request('1', '8', hw__emulator_threads_policy='isolate'), {},
     ['resources:PCPU', "'1'", 'a number from 2 on']),
    (request('-5', '13'), {}, ['resources:PCPU', "'-5'", 'from 0 on']),
    (request('5', 'some'), {}, ['resources:VCPU', "'some'"]),
    (request('5', ''), {}, ['resources:VCPU', "''"]),
    (request('5', '9' * 255), {}, ['5 and 999']),
    ({'resources7:PCPU': '5.0', 'resources:VCPU': '3'}, {},
     ['resources7:PCPU', "'5.0'"]),
    (request('5', '3', hw__cpu_policy='mixed'), {},
     ['hw:cpu_policy', "'mixed'", 'no value is allowed']),
    (request('5', '3', hw__cpu_dedicated_mask='3-7'), {},
     ['hw:cpu_dedicated_mask', "'3-7'"]),
    (request('5', '3', hw__cpu_realtime_mask='3-7'), {},
     ['hw:cpu_realtime_mask', "'3-7'"]),
    ({**request('5', '3'), 'resources01:PCPU': '1'}, {},
     ['resources01:PCPU', "'1'", 'a number from 1 on']),
    ({**request('5', '3'), 'resources_A:VCPU': '1'}, {},
     ['resources_A:VCPU', "'1'"]),
    (request('5', '3'), {'hw_cpu_policy': 'dedicated'},
     ['hw_cpu_policy', "'dedicated'", "only 'mixed' or no value"]),
    (request('5', '3'), {'hw_cpu_policy': 'shared'},
     ['hw_cpu_policy', "'shared'"]),
    (request('5', '3', hw__cpu_realtime='yes'),
     {'hw_cpu_realtime_mask': '^0'}, ['hw_cpu_realtime_mask', "'^0'"]),
])
def test_contradictory_request_is_refused(extra_specs, properties, words):
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        mixed_cpus.count_dedicated_vcpus(8, extra_specs, properties)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize('extra_specs, properties', [
    (request('5', 'x\ny'), {}),
    (request('5', '3', hw__cpu_policy='x\ny'), {}),
    ({**request('5', '3'), 'resources_A:VCPU': 'x\ny'}, {}),
    (request('5', '3'), {'hw_cpu_policy': 'x\ny'}),
    (request('5', '3', hw__cpu_realtime='yes'),
     {'hw_cpu_realtime_mask': 'x\ny'})])
def test_refusal_has_no_line_break(extra_specs, properties):
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        mixed_cpus.count_dedicated_vcpus(8, extra_specs, properties)
    assert "'x\\ny'" in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize('properties', [
    {'hw_cpu_policy': 'mixed'},
    # Without real-time this mask has no effect.
    {'hw_cpu_realtime_mask': '^0'},
])
def test_matching_image_is_accepted(properties):
    assert 5 == mixed_cpus.count_dedicated_vcpus(
        8, request('5', '3'), properties)


@pytest.mark.parametrize('threads_policy, first_node, refused', [
    ('isolate', {0, 1}, True),
    ('isolate', {0, 1, 5}, False),
    ('share', {0, 1}, False),
])
def test_isolated_emulator_threads_need_a_dedicated_vcpu(
        threads_policy, first_node, refused):
    extra_specs = {'hw:emulator_threads_policy': threads_policy}
    with (pytest.raises(flavor_specs.RequestRefused) if refused
          else contextlib.nullcontext()) as caught:
        mixed_cpus.check_emulator_threads(extra_specs, first_node, [5, 6, 7])
    if refused:
        assert "'isolate'" in str(caught.value)
        assert "allowed is 'share'" in str(caught.value)


MIXED = {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '3-7'}


@pytest.mark.parametrize('extra_specs, folded', [
    (request('5', '3'), MIXED),
    (request('5', '3', hw__cpu_priority='high', resources__DISK_GB='1'),
     {**MIXED, 'hw:cpu_priority': 'high', 'resources:DISK_GB': '1'}),
    (request('5', '3', hw__cpu_realtime='yes'),
     {'hw:cpu_policy': 'mixed', 'hw:cpu_realtime': 'yes',
      'hw:cpu_realtime_mask': '3-7'}),
    # The traits of a group move only if it requests nothing but CPUs.
    ({'resources1:PCPU': '5', 'resources2:VCPU': '3',
      'trait1:HW_CPU_X86_AVX': 'required', 'trait3:CUSTOM_A': 'required',
      'group_policy': 'none'},
     {**MIXED, 'trait:HW_CPU_X86_AVX': 'required',
      'trait3:CUSTOM_A': 'required', 'group_policy': 'none'}),
    ({'resources1:PCPU': '5', 'resources1:VCPU': '3', 'resources1:VGPU': '1',
      'trait1:CUSTOM_A': 'required'},
     {**MIXED, 'resources1:VGPU': '1', 'trait1:CUSTOM_A': 'required'}),
])
def test_fold_replaces_requests_by_mixed_policy(extra_specs, folded):
    before = dict(extra_specs)
    assert folded == mixed_cpus.fold_to_mixed_policy(extra_specs, '3-7')
    assert before == extra_specs


def test_contradictory_traits_are_refused():
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        mixed_cpus.fold_to_mixed_policy({
            'resources1:PCPU': '5', 'resources1:VCPU': '3',
            'trait1:CUSTOM_A': 'required', 'trait:CUSTOM_A': 'forbidden'},
            '3-7')
    assert 'trait1:CUSTOM_A' in str(caught.value)
    assert "'forbidden'" in str(caught.value)
