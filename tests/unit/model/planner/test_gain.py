# SPDX-License-Identifier: Apache-2.0

"""The hosts that are enough without and with mix."""

import dataclasses
import decimal

import hypothesis
from hypothesis import strategies as st
import pytest

from nova_prio.model import memory_pages
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import gain
from tests.unit.model.planner import fleets

GB = 1024


def make_setup(ratio=2, mix=True):
    return gain.Setup(decimal.Decimal(ratio), mix)


def make_groups(cpus=12, memory_mb=1000, cells=1, number=1):
    return [first_fit.HostGroup(
        gain.make_host(cpus=cpus, cells=cells, memory_mb=memory_mb,
                       usable_mb=memory_mb, disk_gb=None), number)]


def make_kinds(high=0, low=0, ordinary=0, vcpus=4, memory_mb=1):
    """Return numbers of servers as kinds."""
    return [first_fit.Kind(fleets.make_needs(
        priority, **{name: vcpus}, memory_mb=memory_mb,
        has_cells=name == 'dedicated'), number)
        for priority, name, number in (
            ('high', 'dedicated', high), ('low', 'shared', low),
            (None, 'shared', ordinary)) if number]


def test_example_of_the_design_needs_one_host():
    """Two high and four low servers fill 8 dedicated and 4 shared CPUs."""
    kinds = make_kinds(high=2, low=4)
    found = gain.find_fewest(make_groups(), kinds, make_setup())
    assert (1, 1, 'CPUs') == (found.hosts, found.least, found.limit)
    assert (8, 4) == (len(found.cpus.dedicated), len(found.cpus.shared))
    # Without mix, 4 * 4 low vCPUs need 8 shared CPUs: 8 + 8 > 12.
    found = gain.find_fewest(make_groups(), kinds, make_setup(mix=False))
    assert (2, 2) == (found.hosts, found.least)


def test_memory_may_leave_no_gain():
    kinds = make_kinds(high=4, low=4, memory_mb=500)
    for mix in False, True:
        found = gain.find_fewest(make_groups(), kinds, make_setup(mix=mix))
        assert (4, 4, 'memory') == (found.hosts, found.least, found.limit)


def test_pinned_servers_may_have_hosts_of_their_own():
    """12 shared CPUs for a server of 12 leave no CPU for the pinned ones."""
    kinds = make_kinds(high=1, low=2, vcpus=12)
    found = gain.find_fewest(make_groups(), kinds, make_setup(mix=False))
    assert (2, 2, None) == (found.hosts, found.least, found.cpus)
    groups = make_groups() + make_groups(memory_mb=900)
    found = gain.find_fewest(groups, kinds, make_setup(mix=False))
    assert (2, 2, None) == (found.hosts, found.least, found.cpus)
    # With 8 dedicated CPUs or 4, one of each two servers fits: 3 hosts.
    found = gain.find_fewest(groups, make_kinds(high=3, low=3),
                             make_setup(ratio=1, mix=False))
    assert (2, 2, None) == (found.hosts, found.least, found.cpus)
    # At most 11 of the 12 CPUs of a mix host are dedicated.
    found = gain.find_fewest(groups, kinds, make_setup())
    assert found.hosts is None
    assert found.misfit in kinds


@pytest.mark.parametrize('one, two', [('high', 'low'), ('low', 'high')])
def test_either_servers_may_choose_their_own_hosts_first(one, two):
    """The servers of 13 and 11 vCPUs need the host of 24 CPUs.

    If the other one takes it, they need two more hosts.
    """
    kinds = make_kinds(vcpus=12, **{one: 1})
    for vcpus in 13, 11:
        kinds += make_kinds(vcpus=vcpus, **{two: 1})
    found = gain.find_fewest(
        make_groups(cpus=24) + make_groups(), kinds,
        make_setup(ratio=1, mix=False))
    assert (2, 2, None) == (found.hosts, found.least, found.cpus)


def test_no_servers_need_no_hosts():
    found = gain.find_fewest(make_groups(), [], make_setup())
    assert (0, 0) == (found.hosts, found.least)


def test_more_hosts_than_there_are():
    groups = make_groups(number=2)
    found = gain.find_fewest(groups, make_kinds(high=20), make_setup())
    # Two of 4 vCPUs fit on each; 11 dedicated CPUs would suit smaller ones.
    assert (10, 8) == (found.hosts, found.least)


def test_more_hosts_are_like_each_of_them():
    """Only the second host has the memory, and there is one of them."""
    groups = make_groups(cpus=16) + make_groups(memory_mb=5000)
    found = gain.find_fewest(
        groups, make_kinds(low=3, memory_mb=4000), make_setup(mix=False))
    assert (3, None) == (found.hosts, found.misfit)


def test_growth_is_that_of_all_servers():
    """Of 21 sizes, one server each, 5 percent more are 22.05 servers."""
    kinds = make_kinds(low=1) * 21
    grown = gain.grow(kinds, decimal.Decimal(5))
    assert 23 == sum(kind.number for kind in grown)


def test_misfits_are_found():
    whole_cores = first_fit.Kind(fleets.make_needs(
        'high', dedicated=1, whole_cores=True), 1)
    large, = make_kinds(high=1, vcpus=7)
    exact, = make_kinds(high=1, vcpus=6)
    # One of the 6 CPUs of a cell must be shared on a mix host.
    less, = make_kinds(high=1, vcpus=5)
    assert [whole_cores, large, exact] == gain.find_misfits(
        make_groups(cells=2), [whole_cores, large, exact, less],
        [decimal.Decimal(2)])


def test_equal_hosts_are_one_group():
    fits = []
    for memory_mb in 4 * GB, 4 * GB + 5, 9 * GB:
        fits.append(gain.make_host(cpus=12, cells=2, memory_mb=memory_mb,
                                   usable_mb=memory_mb, disk_gb=9))
    groups = gain.group_hosts(fits)
    assert [(9 * GB, 1), (4 * GB, 2)] == [
        (group.fit.free_memory_mb, group.number) for group in groups]


def test_equal_hosts_may_be_configured_differently():
    """Ratio, mix, CPU sets and numbers do not matter, nor a few MB or GB."""
    fits = []
    for number, (ratio, mix) in enumerate(
            [(1, False), (2, False), (2, True), (3, True)]):
        empty = gain.make_host(
            cpus=12, cells=2, memory_mb=64 * GB - number,
            usable_mb=64 * GB - number, disk_gb=900 + number)
        fit = gain.configure(empty, gain.divide(
            empty, make_setup(ratio, mix), step=number, steps=6))
        fits.append(fit._replace(
            host=dataclasses.replace(fit.host, overcommit_mb=number),
            small_pages=memory_pages.SmallPages(4, 9 * GB, 9 * GB + number)))
    group, = gain.group_hosts(fits)
    assert (64 * GB - 3, 4) == (group.fit.free_memory_mb, group.number)
    # The baseline may give pinned servers hosts of their own.
    kinds = make_kinds(high=1, low=2, vcpus=6)
    found = gain.find_fewest([group], kinds, make_setup(mix=False, ratio=1))
    assert 2 == found.hosts


@pytest.mark.parametrize('priority, rows', [
    ('high', (2, 3, 3)), ('low', (2, 3, 0)), (None, (2, 3, 3))])
def test_priority_changes(priority, rows):
    needs = fleets.make_needs(
        dedicated=2, shared=3, has_cells=True, is_new=True,
        aggregates=frozenset(['zone']))
    changed = gain.change_priority(needs, priority)
    assert rows == changed.request.needed_rows == changed.cells[0].rows
    assert (priority, frozenset()) == (
        changed.request.priority, changed.aggregates)


def test_share_changes_with_the_same_vcpus():
    kinds = make_kinds(high=10, low=40, ordinary=3)
    changed = gain.change_share(kinds, vcpus=200, percent=60)
    assert [30, 20, 3] == [kind.number for kind in changed]
    assert [12, 48, 4] == [kind.number for kind in gain.grow(
        kinds, decimal.Decimal(20))]


@hypothesis.given(
    st.integers(0, 9), st.integers(0, 9), st.integers(0, 3),
    st.integers(1, 300), st.sampled_from([1, 2]), st.booleans())
@hypothesis.settings(max_examples=60)
def test_result_is_between_bound_and_one_host_each(
        high, low, ordinary, memory_mb, cells, mix):
    kinds = make_kinds(high=high, low=low, ordinary=ordinary, vcpus=2,
                       memory_mb=memory_mb)
    found = gain.find_fewest(
        make_groups(cells=cells), kinds, make_setup(mix=mix))
    assert found.least <= found.hosts <= high + low + ordinary
