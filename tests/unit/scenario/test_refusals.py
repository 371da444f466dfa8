# SPDX-License-Identifier: Apache-2.0

"""Why no host takes a request: the arithmetic and the sentences."""

from nova import objects
from nova.scheduler import utils
import pytest

from nova_prio.compat import contract
from nova_prio_scenario import refusals
from nova_prio_scenario import result

objects.register_all()


def inventory(total, reserved=0, ratio=1.0, max_unit=None):
    """Return an inventory of Placement."""
    return {'total': total, 'reserved': reserved, 'allocation_ratio': ratio,
            'max_unit': total if max_unit is None else max_unit}


def provider(**values):
    """Return a resource provider, with some values of its own."""
    return {'name': 'a', 'uuid': 'A', 'inventories': {
        'VCPU': inventory(12, 4, 2.0), 'PCPU': inventory(8)},
        'usages': {'VCPU': 12, 'PCPU': 8}, 'traits': [], 'aggregates': [],
        **values}


def request(*groups, root_required=(), root_forbidden=()):
    """Return a ResourceRequest; groups are dicts of RequestGroup fields.

    The first group is the one without a suffix.
    """
    resources = utils.ResourceRequest()
    resources._root_required = set(root_required)
    resources._root_forbidden = set(root_forbidden)
    for number, fields in enumerate(groups):
        group = resources.get_request_group('_%d' % number if number else None)
        for name, value in fields.items():
            setattr(group, name, value)
    return resources


def test_convert_refused_start_keeps_the_message_of_the_service():
    with (pytest.raises(result.PlayFailed) as caught,
          refusals.convert_refused_start(result.PlayFailed),
          contract.exit_if_refused()):
        raise contract.StartRefused('the sentence')
    assert str(caught.value) == 'nova_prio: the sentence'


@pytest.mark.parametrize('vcpu, used, needed, sentence', [
    # int((12 - 4) * 2.0) - 12
    (inventory(12, 4, 2.0), 12, 5, '5 VCPU needed, 4 free of 16'),
    # int(11.5)
    (inventory(10, 0, 1.15), 0, 12, '12 VCPU needed, 11 free of 11'),
    # oversold
    (inventory(4), 6, 1, '1 VCPU needed, 0 free of 4'),
])
def test_obstacle_names_free_amount(vcpu, used, needed, sentence):
    candidate = provider(inventories={'VCPU': vcpu}, usages={'VCPU': used})
    assert list(refusals.find_obstacles(
        request({'resources': {'VCPU': needed}}), candidate, {})
    ) == [sentence]


@pytest.mark.parametrize('groups, sentences', [
    ([{'resources': {'PCPU': 4}}], ['4 PCPU needed, 0 free of 8']),
    ([{'resources': {'VCPU': 5}}], ['5 VCPU needed, 4 free of 16']),
    ([{'resources': {'VCPU': 4}}], []),
    ([{'resources': {'VCPU': 2}},
      {'resources': {'VCPU': 3}}], ['5 VCPU needed, 4 free of 16']),
    ([{'resources': {'VGPU': 1}}], ['1 VGPU needed, the host has none']),
    ([{'required_traits': {'CUSTOM_X', 'CUSTOM_T'}}],
     ['lacks the trait CUSTOM_X']),
    ([{'forbidden_traits': {'CUSTOM_X', 'CUSTOM_T'}}],
     ['has the forbidden trait CUSTOM_T']),
    ([{'aggregates': [['one', 'two']]}],
     ['is in no aggregate with prio or two']),
    ([{'aggregates': [['one', 'three']]}], []),
    ([{'aggregates': [['one'], ['three']]}],
     ['is in no aggregate with prio']),
    ([{'forbidden_aggregates': {'one', 'three'}}],
     ['is in the forbidden aggregate three']),
    ([{'in_tree': 'B'}], ['the request names another host']),
    ([{'in_tree': 'A'}], []),
])
def test_each_obstacle_has_a_sentence(groups, sentences):
    candidate = provider(traits=['CUSTOM_T'],
                         aggregates=['three'])
    assert list(refusals.find_obstacles(
        request(*groups), candidate, {'one': 'prio'})) == sentences


def test_obstacles_name_traits_of_the_root_provider():
    resources = request({'resources': {'VCPU': 1}}, root_required={'CUSTOM_X'},
                        root_forbidden={'CUSTOM_T'})
    candidate = provider(traits=['CUSTOM_T'])
    assert list(refusals.find_obstacles(resources, candidate, {})) == [
        'lacks the trait CUSTOM_X', 'has the forbidden trait CUSTOM_T']


def test_obstacle_names_max_unit():
    candidate = provider(inventories={'VCPU': inventory(12, 0, 2.0)},
                         usages={})
    sentence, = refusals.find_obstacles(
        request({'resources': {'VCPU': 13}}), candidate, {})
    assert sentence == '13 VCPU needed, 12 at most for one instance'


def test_explain_names_every_provider():
    empty = provider(name='b', inventories={
        'PCPU': inventory(8), 'MEMORY_MB': inventory(512)}, usages={})
    assert list(refusals.explain(
        request({'resources': {'MEMORY_MB': 256, 'PCPU': 4}}),
        [empty, provider()], {}, {})) == [
        'a: 256 MEMORY_MB needed, the host has none; '
        '4 PCPU needed, 0 free of 8',
        'b: no reason found']


@pytest.mark.parametrize('refused, usages, sentence', [
    ({'a': 'no room'}, {'PCPU': 8}, 'a: no room'),
    ({'b': 'no room'}, {'PCPU': 8}, 'a: 4 PCPU needed, 0 free of 8'),
    ({'b': 'no room'}, {},
     'a: the server is on this host; a move needs another host'),
])
def test_explain_a_move_from_a_host(refused, usages, sentence):
    assert list(refusals.explain(
        request({'resources': {'PCPU': 4}}), [provider(usages=usages)], {},
        refused, own_host='a')) == [sentence]
