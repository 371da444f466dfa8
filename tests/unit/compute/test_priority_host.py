# SPDX-License-Identifier: Apache-2.0

import contextlib
from unittest import mock

from nova import objects
from nova.objects import fields
import pytest

from nova_prio.compute import priority_host
from nova_prio.model import leases
from nova_prio.model import looks
from nova_prio.objects import lease_end
from nova_prio.virt import demand
from nova_prio.virt.libvirt import guests
from tests.unit import nova_objects

FLAVOR = nova_objects.flavor(2)


@pytest.fixture
def host():
    """Return a host where libvirt shows no guest."""
    with mock.patch.object(guests, 'HostGuests', autospec=True):
        found = priority_host.PriorityHost(None, None)
    found.guests.blocked = frozenset()
    found.guests.find_cpus_in_use.return_value = frozenset()
    return found


def topology(*cpus, pagesize=None):
    """Return the topology of an instance on these dedicated CPUs."""
    numbers = set(range(len(cpus)))
    return objects.InstanceNUMATopology(cells=[objects.InstanceNUMACell(
        id=0, cpuset=set() if cpus else {0, 1}, pcpuset=numbers, memory=512,
        pagesize=pagesize, cpu_pinning=dict(enumerate(cpus)) or None,
        cpuset_reserved=None, cpu_policy=(
            fields.CPUAllocationPolicy.DEDICATED if cpus else None))])


def counted(uuid, *cpus, **kwargs):
    return priority_host.Counted(
        uuid, demand.get_lease_set(FLAVOR, topology(*cpus, **kwargs)),
        is_resident=True, is_at_rest=True)


def test_evidence_from_before_a_start_ends_no_lease(host):
    """libvirt is asked before Nova takes the lock of the tracker."""
    host.count(counted('a', 0, 1))
    with host.ends.giving_back('a'):
        host.leases.begin_start('a')
        host.leases.end_start('a')
        assert not host.end_lease('a')
    assert {0, 1} == host.leases.get_cpus('a')
    with host.ends.giving_back('a'):
        assert host.end_lease('a')


def test_set_that_began_after_libvirt_was_asked_stays(host):
    host.count(counted('a', 0, 1))
    with host.ends.giving_back('a'):
        host.leases.begin('a', leases.LeaseSet(frozenset({2})))
        assert host.end_lease('a')
    assert {2} == host.leases.get_cpus('a')


def test_only_contested_cpus_are_not_leased(host):
    host.count(counted('a', 0, 1))
    unpinned = host.count(counted('b', 1, 2))
    assert set() == demand.get_topology_pins(unpinned)
    assert {2} == host.leases.get_cpus('b')
    for _ in range(2):
        host.begin_recount()
        host.count(counted('a', 0, 1))
        host.count(counted('b', 1, 2))
    assert {2} == host.leases.get_cpus('b')


@pytest.mark.parametrize('cpus, is_left', [({0, 1}, False), ({1, 2}, True)])
def test_guest_keeps_no_set_that_another_set_covers(host, cpus, is_left):
    host.count(counted('a', 0, 1))
    host.leases.begin('a', leases.LeaseSet(frozenset(cpus)))
    host.guests.find_cpus_in_use.side_effect = lambda uuid, cpus: cpus
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(
            looks, 'LOOK_SECONDS', 0))
        stack.enter_context(mock.patch.object(
            lease_end, 'read_need', return_value=lease_end.Need.UNNEEDED))
        for _ in range(2):
            host.ends.find_ended(None, 'host1')
    assert is_left == (len(host.leases.get('a')) == 2)


def test_pin_problem_survives_a_recount_that_fails(host):
    with mock.patch.object(looks, 'LOOK_SECONDS', 0):
        for _ in range(3):
            host.begin_recount()
            host.count(counted('a', 0, 1))
            host.count(counted('b', 1, 2))
            host.end_recount([], set())
        problem = host.pin_problem
        assert problem.startswith('Instance b has CPUs of instance a: 1')
        host.begin_recount()
        assert problem == host.pin_problem


def test_floating_instances_are_counted_with_their_own_pages(host):
    small, large = counted('a'), counted('a', pagesize=2048)
    for each in small, large:
        host.count(each)
    with host.ends.giving_back('a'):
        was_counted, freed = host.give_back(large)
    assert was_counted
    assert 2048 == freed.cells[0].pagesize
    host.begin_recount()
    assert host.count(small).cells[0].pagesize is None


def test_floating_instance_that_arrives_is_counted_once(host):
    """Its record has the NUMA cells of the source, or none."""
    claimed = counted('a').wanted
    host.leases.begin('a', claimed)
    wanted = demand.get_lease_set(FLAVOR, None)
    arriving = priority_host.Counted(
        'a', wanted, is_resident=False, is_at_rest=True)
    assert claimed.topology is host.count(arriving)
    assert [claimed] == host.leases.get('a')
    host.begin_recount()
    assert wanted.topology is host.count(
        arriving._replace(is_resident=True))
    assert [claimed] == host.leases.get('a')
    assert wanted.usage == claimed.usage


@pytest.mark.parametrize('is_pinned', [False, True])
def test_resized_instance_arrives_before_its_flavor(host, is_pinned):
    """Nova saves the host first, and has applied the new topology."""
    claimed = counted('a').wanted
    host.leases.begin('a', claimed)
    old = demand.get_lease_set(
        nova_objects.flavor(4), topology(0, 1) if is_pinned else None)
    assert claimed.topology is host.count(priority_host.Counted(
        'a', old, is_resident=True, is_at_rest=False, is_resizing=True))
    assert [claimed] == host.leases.get('a')
    assert claimed.usage == demand.get_lease_set(FLAVOR, topology()).usage


@pytest.mark.parametrize('is_resident', [False, True])
def test_side_of_a_move_frees_no_other_cpus(host, is_resident):
    """A second revert on one host frees CPUs that a restart has not read."""
    host.count(counted('a', 0, 1))
    other_side = counted('a', 2, 3)._replace(is_resident=is_resident)
    with host.ends.giving_back('a'):
        was_counted, _ = host.give_back(other_side)
    assert was_counted == is_resident
    assert bool(host.leases.get('a')) != is_resident
