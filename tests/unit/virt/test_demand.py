# SPDX-License-Identifier: Apache-2.0

import pytest

from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_cpus
from nova_prio.virt import demand
from tests.unit import nova_objects


FLAVORS = [
    (nova_objects.ORDINARY, (None, 0, 4)),
    (nova_objects.LOW, ('low', 0, 4)),
    (nova_objects.HIGH, ('high', 4, 0)),
    (nova_objects.PINNED, (None, 4, 0)),
    # A guest NUMA topology without pinning floats.
    (nova_objects.flavor(hw__numa_nodes='2'), (None, 0, 4)),
    (nova_objects.flavor(hw__cpu_policy='mixed',
                         hw__cpu_dedicated_mask='0-2'), (None, 3, 1)),
    (nova_objects.flavor(hw__cpu_priority='high', hw__cpu_policy='mixed',
                         hw__cpu_dedicated_mask='0'), ('high', 1, 3)),
    # An isolated emulator thread has its own dedicated CPU.
    (nova_objects.flavor(hw__cpu_policy='dedicated',
                         hw__emulator_threads_policy='isolate'),
     (None, 5, 0)),
]


@pytest.mark.parametrize('flavor, expected', FLAVORS)
def test_demand(flavor, expected):
    topology = nova_objects.request_spec(flavor).numa_topology
    assert (cpu_capacity.Demand(*expected) ==
            demand.get_demand(flavor, topology))


@pytest.mark.parametrize('flavor, expected', FLAVORS)
def test_flavor_alone_gives_the_same_demand(flavor, expected):
    assert cpu_capacity.Demand(*expected) == flavor_cpus.get_demand(
        flavor.vcpus, flavor.extra_specs)
    # As at some moments of a move.
    assert cpu_capacity.Demand(*expected) == demand.get_demand(flavor, None)


@pytest.mark.parametrize('flavor, priority, needed_rows, wants_whole_cores', [
    (nova_objects.ORDINARY, None, (0, 4, 4), False),
    (nova_objects.LOW, 'low', (0, 4, 0), False),
    (nova_objects.HIGH, 'high', (4, 0, 0), False),
    (nova_objects.flavor(hw__cpu_policy='dedicated',
                         hw__cpu_thread_policy='isolate'),
     None, (4, 0, 0), True),
])
def test_resource_request(flavor, priority, needed_rows, wants_whole_cores):
    request = demand.ResourceRequest.from_flavor(
        flavor, nova_objects.request_spec(flavor).numa_topology)
    assert priority == request.priority == request.demand.priority
    assert needed_rows == request.needed_rows
    assert (flavor.vcpus, flavor.memory_mb) == (
        request.vcpus, request.memory_mb)
    assert wants_whole_cores == request.wants_whole_cores


def test_pinned_cpus_of_a_host():
    assert {0, 1, 7} == demand.get_host_pins(
        nova_objects.host_numa_topology(
            nova_objects.CPUS, {0, 1, 7})._to_json())


def test_pin_outside_dedicated_set_does_not_count():
    assert {0} == demand.get_host_pins(
        nova_objects.host_numa_topology(
            nova_objects.CPUS, {0, 11})._to_json())


def test_host_without_topology_has_no_pins():
    assert not demand.get_host_pins(None)
