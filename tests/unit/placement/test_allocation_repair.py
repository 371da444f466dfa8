# SPDX-License-Identifier: Apache-2.0

"""Where the allocations of an instance belong."""

import pytest

from nova_prio.placement import allocation_repair

NEEDS = {'VCPU': 2, 'MEMORY_MB': 512, 'DISK_GB': 10}
CPUS = {'VCPU': 2, 'MEMORY_MB': 512}


@pytest.mark.parametrize('sharing, found, placed', [
    # No provider shares disks with the host.
    ([], {}, {'host': NEEDS}),
    ([], {'host': {'DISK_GB': 1}}, {'host': NEEDS}),
    # The disk belongs to the sharing provider, unless the host holds it.
    (['s1'], {}, {'host': CPUS, 's1': {'DISK_GB': 10}}),
    (['s1'], {'host': CPUS}, {'host': CPUS, 's1': {'DISK_GB': 10}}),
    (['s1'], {'host': {'DISK_GB': 1}}, {'host': NEEDS}),
    (['s1'], {'s1': {'DISK_GB': 99}}, {'host': CPUS, 's1': {'DISK_GB': 10}}),
    (['s1'], {'host': NEEDS, 's1': {'DISK_GB': 10}},
     {'host': NEEDS, 's1': {}}),
    # It stays at the one of several that holds it.
    (['s1', 's2'], {'s2': {'DISK_GB': 9}},
     {'host': CPUS, 's2': {'DISK_GB': 10}}),
    (['s1', 's2'], {'host': {'DISK_GB': 9}, 's1': {'DISK_GB': 9}},
     {'host': NEEDS, 's1': {}}),
    # Other classes stay at a sharing provider, and all at others.
    (['s1'], {'s1': {'DISK_GB': 1, 'VCPU': 1}, 'other': {'DISK_GB': 1}},
     {'host': CPUS, 's1': {'DISK_GB': 10, 'VCPU': 1}}),
])
def test_disk_has_one_place(sharing, found, placed):
    assert (placed, None) == _placed(sharing, found, NEEDS)


@pytest.mark.parametrize('sharing, found, placed', [
    # A surplus goes if the instance needs no disk.
    (['s1'], {'host': NEEDS, 's1': {'DISK_GB': 1}}, {'host': CPUS, 's1': {}}),
    (['s1', 's2'], {'host': CPUS}, {'host': CPUS}),
])
def test_no_disk_is_needed(sharing, found, placed):
    assert (placed, None) == _placed(sharing, found, CPUS)


@pytest.mark.parametrize('found, kept, words', [
    ({}, {'host': CPUS}, 's1 and s2 share disks with the host, and the '
     'instance holds DISK_GB at none of them; let it hold'),
    ({'host': {'VCPU': 1}, 's1': {'DISK_GB': 9}, 's2': {'DISK_GB': 8}},
     {'host': CPUS, 's1': {'DISK_GB': 9}, 's2': {'DISK_GB': 8}},
     'holds DISK_GB at each of them; let it hold'),
])
def test_disk_without_one_place_stays_as_found(found, kept, words):
    placed, problem = _placed(['s2', 's1'], found, NEEDS)
    assert words in problem
    assert kept == allocation_repair._disk_as_found(placed, _answer(found))


def test_an_instance_that_needs_nothing_holds_nothing():
    assert ({'host': {}, 'other': {}}, None) == _placed(
        ['s1'], {'host': NEEDS, 'other': {'DISK_GB': 1}}, {})


def _placed(sharing, found, needs):
    return allocation_repair._placed('host', sharing, _answer(found), needs)


def _answer(found):
    """Return allocations as Placement answers."""
    return {'allocations': {
        provider: {'resources': resources}
        for provider, resources in found.items()}}
