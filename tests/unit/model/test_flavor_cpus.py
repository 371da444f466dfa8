# SPDX-License-Identifier: Apache-2.0

import pytest

from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_cpus

HIGH = {'hw:cpu_priority': 'high', 'hw:cpu_policy': 'dedicated'}
LOW = {'hw:cpu_priority': 'low', 'hw:cpu_policy': 'shared'}
BOTH = {'resources:PCPU': '3', 'resources:VCPU': '1'}
ISOLATE = {'hw:emulator_threads_policy': 'isolate'}


@pytest.mark.parametrize('specs, expected', [
    (HIGH, 'high'), (LOW, 'low'), ({}, 'ordinary'),
    ({'hw:cpu_priority': 'high'}, 'ordinary'),
    ({'hw:cpu_policy': 'dedicated'}, 'ordinary')])
def test_class_is_the_priority_in_force(specs, expected):
    assert expected == flavor_cpus.get_class(specs)


def mixed(mask, key='hw:cpu_dedicated_mask', **more):
    """Return extra specs with the mixed policy."""
    return {'hw:cpu_policy': 'mixed', key: mask, **more}


@pytest.mark.parametrize('specs, dedicated, shared', [
    ({}, 0, 4), (LOW, 0, 4), (HIGH, 4, 0), ({**HIGH, **ISOLATE}, 5, 0),
    # Emulator threads are isolated beside dedicated vCPUs only.
    (ISOLATE, 0, 4),
    ({'resources:PCPU': '4'}, 4, 0), ({'resources:VCPU': '4'}, 0, 4),
    (BOTH, 3, 1), ({**BOTH, 'resources:PCPU': '4', **ISOLATE}, 4, 1),
    (mixed('1-3'), 3, 1), (mixed('1-3,'), 3, 1), (mixed('^0'), 3, 1),
    (mixed('^0-1'), 2, 2),
    (mixed('0,2'), 2, 2), (mixed('0-2,^1'), 2, 2), (mixed(' 1 , 3 '), 2, 2),
    (mixed('^0', 'hw:cpu_realtime_mask'), 3, 1),
    ({**mixed('1'), **ISOLATE}, 2, 3)])
def test_cpus_of_four_vcpus(specs, dedicated, shared):
    demand = flavor_cpus.get_demand(4, specs)
    assert (dedicated, shared) == (demand.dedicated, demand.shared)


def test_demand_has_the_priority():
    assert cpu_capacity.Demand('high', 4, 0) == flavor_cpus.get_demand(4, HIGH)


@pytest.mark.parametrize('specs', [
    mixed('x'), mixed('1-'), mixed(''), {'hw:cpu_policy': 'mixed'},
    mixed(','), mixed('3-1'), mixed('0,^3-1')])
def test_mask_that_cannot_be_read_is_refused(specs):
    with pytest.raises(ValueError, match='The mask of dedicated vCPUs is '):
        flavor_cpus.get_demand(4, specs)


@pytest.mark.parametrize('specs, policy', [
    ({'hw:cpu_priority': 'high'}, 'dedicated'),
    ({'hw:cpu_priority': 'low'}, 'shared'), ({}, None),
    ({'hw:cpu_priority': 'high', **mixed('1')}, 'mixed'),
    ({'hw:cpu_priority': 'high', 'resources:PCPU': '4'}, None),
    ({'hw:cpu_priority': 'low', 'resources:VCPU': '4'}, 'shared'),
    ({'hw:cpu_priority': 'high', **BOTH}, None)])
def test_policy_of_the_fold_is_added(specs, policy):
    assert policy == flavor_cpus.add_policy(specs).get('hw:cpu_policy')


@pytest.mark.parametrize('specs, expected', [
    (HIGH, {'PCPU': 4}), (LOW, {'VCPU': 4}), (BOTH, {'PCPU': 3, 'VCPU': 1}),
    ({**HIGH, **ISOLATE}, {'PCPU': 5}),
    ({**HIGH, 'resources1:PCPU': '4'}, {'PCPU': 4})])
def test_request_to_placement(specs, expected):
    assert {**expected, 'MEMORY_MB': 256, 'DISK_GB': 1} == (
        flavor_cpus.get_placement_request(4, 256, 1, specs))


def test_request_leaves_out_resources_without_an_amount():
    assert {'VCPU': 1} == flavor_cpus.get_placement_request(
        1, 256, 0, {'resources:MEMORY_MB': '0'})
