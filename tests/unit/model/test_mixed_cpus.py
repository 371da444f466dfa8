# SPDX-License-Identifier: Apache-2.0

import contextlib
import itertools

from hypothesis import given
from hypothesis import strategies as st
import pytest

from nova_prio.model import flavor_specs
from nova_prio.model import mixed_cpus


def _numbers(pcpu, vcpu, **others):
    return {'resources:PCPU': pcpu, 'resources:VCPU': vcpu,
            **{key.replace('__', ':'): value
               for key, value in others.items()}}


@pytest.mark.parametrize('extra_specs, asked', [
    ({}, False),
    ({'resources:PCPU': '4'}, False),
    ({'resources:VCPU': '4'}, False),
    (_numbers('4', '4'), True),
    (_numbers('0', '8'), True),
    ({'resources1:PCPU': '4', 'resources2:VCPU': '4'}, True),
    # No group that Nova reads CPUs from, and no CPUs.
    ({'resources_a:PCPU': '4', 'resources:VCPU': '4'}, False),
    ({'resources:PCPU': '4', 'resources:CUSTOM_VCPU': '4'}, False),
])
def test_what_asks_for_it(extra_specs, asked):
    assert asked is mixed_cpus.names_both_classes(extra_specs)


@pytest.mark.parametrize('nodes, dedicated, vcpus', [
    # The example of the design.
    ([range(4), range(4, 8)], 5, [2, 3, 5, 6, 7]),
    ([range(8)], 5, [3, 4, 5, 6, 7]),
    ([range(8)], 1, [7]),
    ([range(4), range(4, 8)], 1, [7]),
    ([range(4), range(4, 8)], 7, [1, 2, 3, 4, 5, 6, 7]),
    ([range(2), range(2, 4), range(4, 6), range(6, 8)], 3, [3, 5, 7]),
    # Nodes of different sizes, a small one full before the others are.
    ([range(2), range(2, 8)], 3, [5, 6, 7]),
    ([range(3), range(3, 8)], 4, [2, 5, 6, 7]),
    # vCPUs that are not in the order of the nodes.
    ([{0, 2, 4, 6}, {1, 3, 5, 7}], 5, [3, 4, 5, 6, 7]),
    ([range(4, 8), range(4)], 5, [1, 2, 3, 6, 7]),
])
def test_spread(nodes, dedicated, vcpus):
    assert vcpus == mixed_cpus.spread_dedicated_vcpus(nodes, dedicated)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_spread_of_any_guest(sizes, data):
    vcpus = data.draw(st.permutations(range(sum(sizes))))
    left = iter(vcpus)
    nodes = [set(itertools.islice(left, size)) for size in sizes]
    count = data.draw(st.integers(0, len(vcpus)))
    dedicated = set(mixed_cpus.spread_dedicated_vcpus(nodes, count))
    assert count == len(dedicated)
    shared = [node - dedicated for node in nodes]
    for node, floating in zip(nodes, shared):
        # Shared vCPUs come first on their node.
        assert floating == set(sorted(node)[:len(floating)])
        # A node has one less than another, or all that it has room for.
        for other in shared:
            assert (len(floating) >= len(other) - 1 or floating == node)


@pytest.mark.parametrize('extra_specs, dedicated', [
    (_numbers('5', '3'), 5),
    (_numbers('1', '7'), 1),
    ({'resources1:PCPU': '2', 'resources2:PCPU': '3', 'resources:VCPU': '3'},
     5),
    # All of one sort.
    (_numbers('8', '0'), None),
    (_numbers('0', '8'), None),
    (_numbers('9', '0', hw__emulator_threads_policy='isolate'), None),
    # One of them is for the emulator threads, or none.
    (_numbers('6', '3', hw__emulator_threads_policy='isolate'), 5),
    (_numbers('5', '3', hw__emulator_threads_policy='share'), 5),
    (_numbers('5', '3', hw__cpu_realtime='yes'), 5),
])
def test_dedicated_vcpus(extra_specs, dedicated):
    assert dedicated == mixed_cpus.count_dedicated_vcpus(8, extra_specs, {})


@pytest.mark.parametrize('extra_specs, properties, words', [
    (_numbers('5', '4'), {}, ['5 and 4', 'add up to its 8 vCPUs']),
    (_numbers('5', '2'), {}, ['5 and 2']),
    (_numbers('0', '0'), {}, ['0 and 0']),
    (_numbers('0', '7'), {}, ['0 and 7']),
    (_numbers('5', '3', hw__emulator_threads_policy='isolate'), {},
     ['5 and 3', 'and one for the isolated emulator threads']),
    (_numbers('1', '8', hw__emulator_threads_policy='isolate'), {},
     ['resources:PCPU', "'1'", 'a number from 2 on']),
    (_numbers('-5', '13'), {}, ['resources:PCPU', "'-5'", 'from 0 on']),
    (_numbers('5', 'some'), {}, ['resources:VCPU', "'some'"]),
    (_numbers('5', ''), {}, ['resources:VCPU', "''"]),
    (_numbers('5', '9' * 255), {}, ['5 and 999']),
    ({'resources7:PCPU': '5.0', 'resources:VCPU': '3'}, {},
     ['resources7:PCPU', "'5.0'"]),
    (_numbers('5', '3', hw__cpu_policy='mixed'), {},
     ['hw:cpu_policy', "'mixed'", 'allowed is none']),
    (_numbers('5', '3', hw__cpu_dedicated_mask='3-7'), {},
     ['hw:cpu_dedicated_mask', "'3-7'"]),
    (_numbers('5', '3', hw__cpu_realtime_mask='3-7'), {},
     ['hw:cpu_realtime_mask', "'3-7'"]),
    ({**_numbers('5', '3'), 'resources01:PCPU': '1'}, {},
     ['resources01:PCPU', "'1'", 'a number from 1 on']),
    ({**_numbers('5', '3'), 'resources_A:VCPU': '1'}, {},
     ['resources_A:VCPU', "'1'"]),
    (_numbers('5', '3'), {'hw_cpu_policy': 'dedicated'},
     ['hw_cpu_policy', "'dedicated'", "'mixed' or none"]),
    (_numbers('5', '3'), {'hw_cpu_policy': 'shared'},
     ['hw_cpu_policy', "'shared'"]),
    (_numbers('5', '3', hw__cpu_realtime='yes'),
     {'hw_cpu_realtime_mask': '^0'}, ['hw_cpu_realtime_mask', "'^0'"]),
])
def test_refused(extra_specs, properties, words):
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        mixed_cpus.count_dedicated_vcpus(8, extra_specs, properties)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize('extra_specs, properties', [
    (_numbers('5', 'x\ny'), {}),
    (_numbers('5', '3', hw__cpu_policy='x\ny'), {}),
    ({**_numbers('5', '3'), 'resources_A:VCPU': 'x\ny'}, {}),
    (_numbers('5', '3'), {'hw_cpu_policy': 'x\ny'}),
    (_numbers('5', '3', hw__cpu_realtime='yes'),
     {'hw_cpu_realtime_mask': 'x\ny'})])
def test_refused_in_one_line(extra_specs, properties):
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        mixed_cpus.count_dedicated_vcpus(8, extra_specs, properties)
    assert "'x\\ny'" in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize('properties', [
    {'hw_cpu_policy': 'mixed'},
    # Of no effect without real-time.
    {'hw_cpu_realtime_mask': '^0'},
])
def test_images_that_agree(properties):
    assert 5 == mixed_cpus.count_dedicated_vcpus(
        8, _numbers('5', '3'), properties)


@pytest.mark.parametrize('policy_of_threads, first_node, refused', [
    ('isolate', {0, 1}, True),
    ('isolate', {0, 1, 5}, False),
    ('share', {0, 1}, False),
])
def test_emulator_threads_need_a_dedicated_vcpu(
        policy_of_threads, first_node, refused):
    extra_specs = {'hw:emulator_threads_policy': policy_of_threads}
    with (pytest.raises(flavor_specs.RequestRefused) if refused
          else contextlib.nullcontext()) as caught:
        mixed_cpus.check_emulator_threads(extra_specs, first_node, [5, 6, 7])
    if refused:
        assert "'isolate'" in str(caught.value)
        assert "allowed is 'share'" in str(caught.value)


MIXED = {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '3-7'}


@pytest.mark.parametrize('extra_specs, folded', [
    (_numbers('5', '3'), MIXED),
    (_numbers('5', '3', hw__cpu_priority='high', resources__DISK_GB='1'),
     {**MIXED, 'hw:cpu_priority': 'high', 'resources:DISK_GB': '1'}),
    (_numbers('5', '3', hw__cpu_realtime='yes'),
     {'hw:cpu_policy': 'mixed', 'hw:cpu_realtime': 'yes',
      'hw:cpu_realtime_mask': '3-7'}),
    # The traits of a group follow the CPUs where nothing else is in it.
    ({'resources1:PCPU': '5', 'resources2:VCPU': '3',
      'trait1:HW_CPU_X86_AVX': 'required', 'trait3:CUSTOM_A': 'required',
      'group_policy': 'none'},
     {**MIXED, 'trait:HW_CPU_X86_AVX': 'required',
      'trait3:CUSTOM_A': 'required', 'group_policy': 'none'}),
    ({'resources1:PCPU': '5', 'resources1:VCPU': '3', 'resources1:VGPU': '1',
      'trait1:CUSTOM_A': 'required'},
     {**MIXED, 'resources1:VGPU': '1', 'trait1:CUSTOM_A': 'required'}),
])
def test_fold(extra_specs, folded):
    before = dict(extra_specs)
    assert folded == mixed_cpus.fold_to_mixed_policy(extra_specs, '3-7')
    assert before == extra_specs


def test_traits_that_contradict_each_other():
    with pytest.raises(flavor_specs.RequestRefused) as caught:
        mixed_cpus.fold_to_mixed_policy({'resources1:PCPU': '5', 'resources1:VCPU': '3',
                                         'trait1:CUSTOM_A': 'required',
                                         'trait:CUSTOM_A': 'forbidden'}, '3-7')
    assert 'trait1:CUSTOM_A' in str(caught.value)
    assert "'forbidden'" in str(caught.value)
