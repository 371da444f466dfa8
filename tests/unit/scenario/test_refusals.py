# SPDX-License-Identifier: Apache-2.0

"""Why no host takes a request: the arithmetic and the sentences."""

import pytest

from nova_prio.scenario import refusals


def inventory(total, reserved=0, ratio=1.0, max_unit=None):
    return {'total': total, 'reserved': reserved, 'allocation_ratio': ratio,
            'max_unit': total if max_unit is None else max_unit}


def provider(**kwargs):
    kwargs = {'name': 'a', 'uuid': 'A', 'inventories': {
        'VCPU': inventory(12, 4, 2.0), 'PCPU': inventory(8)},
        'usages': {'VCPU': 12, 'PCPU': 8}, **kwargs}
    return refusals.Provider(**kwargs)


@pytest.mark.parametrize('held, used, free', [
    (inventory(12, 4, 2.0), 12, 4),     # int((12 - 4) * 2.0) - 12
    (inventory(10, 0, 1.15), 0, 11),    # int(11.5)
    (inventory(4), 6, -2),              # over-full
])
def test_free(held, used, free):
    found = provider(inventories={'VCPU': held}, usages={'VCPU': used})
    assert found.free('VCPU') == free


@pytest.mark.parametrize('query, sentences', [
    ('resources=PCPU:4', ['4 PCPU needed, 0 free of 8']),
    ('resources=VCPU:5', ['5 VCPU needed, 4 free of 16']),
    ('resources=VCPU:4', []),
    ('resources=VCPU:2&resources_x=VCPU:3', ['5 VCPU needed, 4 free of 16']),
    ('resources=VGPU:1', ['1 VGPU needed, it has none']),
    ('resources=VCPU:1&root_required=CUSTOM_X,!CUSTOM_T',
     ['lacks the trait CUSTOM_X',
      'has the trait CUSTOM_T, which is ruled out']),
    ('resources=VCPU:1&required=CUSTOM_X,CUSTOM_T',
     ['lacks the trait CUSTOM_X']),
    ('resources=VCPU:1&member_of=in:one,two',
     ['is in no aggregate with prio or two']),
    ('resources=VCPU:1&member_of=in:one,three', []),
    ('resources=VCPU:1&member_of=one&member_of=three',
     ['is in no aggregate with prio']),
    ('resources=VCPU:1&member_of=!in:three',
     ['is in the aggregate three, which is ruled out']),
    ('resources=VCPU:1&in_tree=B', ['another host was asked for']),
    ('resources=VCPU:1&in_tree=A', []),
])
def test_obstacles(query, sentences):
    found = provider(traits=frozenset({'CUSTOM_T'}),
                     aggregates=frozenset({'three'}))
    assert list(refusals.Request(query).obstacles(
        found, {'one': 'prio'})) == sentences


def test_too_large_for_one_instance():
    found = provider(inventories={'VCPU': inventory(12, 0, 2.0)}, usages={})
    sentence, = refusals.Request('resources=VCPU:13').obstacles(found, {})
    assert sentence == '13 VCPU needed, 12 at most for one instance'


def test_explain_names_every_provider():
    empty = provider(name='b', inventories={
        'PCPU': inventory(8), 'MEMORY_MB': inventory(512)}, usages={})
    assert refusals.explain(
        'limit=1000&resources=MEMORY_MB%3A256%2CPCPU%3A4',
        [empty, provider()], {}, {}) == [
        'a: 256 MEMORY_MB needed, it has none; 4 PCPU needed, 0 free of 8',
        'b: nothing found that speaks against it']


@pytest.mark.parametrize('refused, usages, sentence', [
    ({'a': 'no room'}, {'PCPU': 8}, 'a: no room'),
    ({'b': 'no room'}, {'PCPU': 8}, 'a: 4 PCPU needed, 0 free of 8'),
    ({'b': 'no room'}, {},
     'a: the host the server is on; a move needs another one'),
])
def test_explain_a_move_from_a_host(refused, usages, sentence):
    assert refusals.explain(
        'resources=PCPU:4', [provider(usages=usages)], {}, refused,
        own_host='a') == [sentence]
