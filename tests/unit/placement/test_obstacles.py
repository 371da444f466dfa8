# SPDX-License-Identifier: Apache-2.0

"""Why Placement does not offer a provider: the arithmetic and the texts."""

import pytest

from nova_prio.placement import obstacles
from tests.unit.placement import providers


def find_texts(request, provider, aggregate_names=None):
    """Return the texts of the obstacles, a list."""
    return [obstacle.text for obstacle in obstacles.find_obstacles(
        request, provider, aggregate_names or {})]


@pytest.mark.parametrize('vcpu, used, needed, text, missing', [
    # int((12 - 4) * 2.0) - 12
    (providers.inventory(12, 4, 2.0), 12, 5, '5 VCPU needed, 4 free of 16', 1),
    # int(11.5)
    (providers.inventory(10, 0, 1.15), 1, 11, '11 VCPU needed, 10 free of 11',
     1),
    # oversold
    (providers.inventory(4), 6, 1, '1 VCPU needed, 0 free of 4', 1),
    # more than the host can ever have free
    (providers.inventory(4), 0, 5, '5 VCPU needed, 4 free of 4', 0),
])
def test_obstacle_names_free_amount(vcpu, used, needed, text, missing):
    candidate = providers.provider(
        inventories={'VCPU': vcpu}, usages={'VCPU': used})
    assert list(obstacles.find_obstacles(
        providers.request({'resources': {'VCPU': needed}}), candidate, {})
    ) == [obstacles.Obstacle(text, 'VCPU', missing)]


@pytest.mark.parametrize('groups, texts', [
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
    ([{'aggregates': [list('abcdef')]}],
     ['is in no aggregate with a or b or c or d or 2 more']),
    ([{'aggregates': [['one', 'three']]}], []),
    ([{'aggregates': [['one'], ['three']]}],
     ['is in no aggregate with prio']),
    ([{'forbidden_aggregates': {'one', 'three'}}],
     ['is in the forbidden aggregate three']),
    ([{'in_tree': 'B'}], ['the request names another host']),
    ([{'in_tree': 'A'}], []),
])
def test_each_obstacle_has_a_text(groups, texts):
    candidate = providers.provider(traits=['CUSTOM_T'], aggregates=['three'])
    assert find_texts(providers.request(*groups), candidate,
                      {'one': 'prio'}) == texts


def test_restriction_of_a_request_filter_is_marked():
    resources = providers.request(
        {'resources': {'VCPU': 1}, 'required_traits': {'CUSTOM_Y'}},
        root_required={'CUSTOM_X'}, root_forbidden={'CUSTOM_T'})
    candidate = providers.provider(traits=['CUSTOM_T'])
    assert [(each.text, each.is_restriction) for each in
            obstacles.find_obstacles(resources, candidate, {})] == [
        ('lacks the trait CUSTOM_X', True),
        ('lacks the trait CUSTOM_Y', False),
        ('has the forbidden trait CUSTOM_T', True)]


@pytest.mark.parametrize('units, text', [
    ({}, '13 VCPU needed, 12 at most for one instance'),
    ({'max_unit': 24, 'min_unit': 2, 'step_size': 2},
     '13 VCPU needed, at least 2 in steps of 2 for one instance'),
])
def test_obstacle_names_units(units, text):
    candidate = providers.provider(inventories={
        'VCPU': {**providers.inventory(12, 0, 2.0), **units}}, usages={})
    assert find_texts(providers.request({'resources': {'VCPU': 13}}),
                      candidate) == [text]
