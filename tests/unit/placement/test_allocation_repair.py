# SPDX-License-Identifier: Apache-2.0

"""The provider that gets the disk of an instance."""

import types

import os_resource_classes as orc
import pytest

from nova_prio.placement import allocation_repair
from nova_prio.placement import allocations

CPUS = {'VCPU': 2, 'MEMORY_MB': 512}
EXPECTED = {**CPUS, 'DISK_GB': 10}


def build(sharing, present, expected, assign=True):
    """Return the wanted resources of each provider.

    :param assign: whether to assign the disk, or to keep the present disks
    """
    answer = {'allocations': {
        provider: {'resources': resources}
        for provider, resources in present.items()}}
    providers = ['host', *sharing]
    disks = allocation_repair._get_disks(answer, providers)
    if assign:
        disks = allocation_repair._assign_disk(
            expected.get(orc.DISK_GB), providers, disks)
    wanted = allocation_repair._build_allocations(
        answer, providers, expected,
        types.SimpleNamespace(project_id='project', user_id='user'), disks)
    return {provider: allocation['resources']
            for provider, allocation in wanted['allocations'].items()}


@pytest.mark.parametrize('sharing, present, wanted', [
    # No provider shares disks with the host.
    ([], {}, {'host': EXPECTED}),
    ([], {'host': {'DISK_GB': 1}}, {'host': EXPECTED}),
    # The disk belongs to the sharing provider, unless the host has it.
    (['s1'], {}, {'host': CPUS, 's1': {'DISK_GB': 10}}),
    (['s1'], {'host': CPUS}, {'host': CPUS, 's1': {'DISK_GB': 10}}),
    (['s1'], {'host': {'DISK_GB': 1}}, {'host': EXPECTED}),
    (['s1'], {'s1': {'DISK_GB': 99}}, {'host': CPUS, 's1': {'DISK_GB': 10}}),
    (['s1'], {'host': EXPECTED, 's1': {'DISK_GB': 10}}, {'host': EXPECTED}),
    # Of several sharing providers, the one that has the disk keeps it.
    (['s1', 's2'], {'s2': {'DISK_GB': 9}},
     {'host': CPUS, 's2': {'DISK_GB': 10}}),
    (['s1', 's2'], {'host': {'DISK_GB': 9}, 's1': {'DISK_GB': 9}},
     {'host': EXPECTED}),
])
def test_disk_is_allocated_at_one_provider(sharing, present, wanted):
    assert wanted == build(sharing, present, EXPECTED)


def test_other_resource_classes_and_providers_are_unchanged():
    assert {'host': {**CPUS, 'VGPU': 1}, 's1': {'DISK_GB': 10, 'VCPU': 1},
            'other': {'DISK_GB': 1}} == build(
        ['s1'], {'host': {'VGPU': 1, 'PCPU': 2},
                 's1': {'DISK_GB': 1, 'VCPU': 1}, 'other': {'DISK_GB': 1}},
        EXPECTED)


@pytest.mark.parametrize('sharing, present', [
    (['s1'], {'host': EXPECTED, 's1': {'DISK_GB': 1}}),
    (['s1', 's2'], {'host': CPUS}),
])
def test_instance_without_disk_has_no_disk_allocation(sharing, present):
    assert {'host': CPUS} == build(sharing, present, CPUS)


@pytest.mark.parametrize('present, kept, words', [
    ({}, {'host': CPUS}, 's1 and s2 share disks with the host, and none of '
     'them has a DISK_GB allocation'),
    ({'host': {'VCPU': 1}, 's1': {'DISK_GB': 9}, 's2': {'DISK_GB': 8}},
     {'host': CPUS, 's1': {'DISK_GB': 9}, 's2': {'DISK_GB': 8}},
     'each of them has a DISK_GB allocation'),
])
def test_disk_of_unknown_provider_is_not_changed(present, kept, words):
    with pytest.raises(allocations.PlacementRefused) as caught:
        build(['s2', 's1'], present, EXPECTED)
    assert words in str(caught.value)
    assert kept == build(['s2', 's1'], present, EXPECTED, assign=False)


def test_nothing_expected_deletes_own_classes_at_all_providers():
    assert {'other': {'VGPU': 1}} == build(
        ['s1'], {'host': EXPECTED, 'other': {'DISK_GB': 1, 'VGPU': 1}}, {})


def test_new_consumer_gets_project_and_user():
    wanted = allocation_repair._build_allocations(
        {'allocations': {}}, ['host'], CPUS,
        types.SimpleNamespace(project_id='project', user_id='user'), {})
    assert {'allocations': {'host': {'resources': CPUS}},
            'project_id': 'project', 'user_id': 'user',
            'consumer_generation': None} == wanted
