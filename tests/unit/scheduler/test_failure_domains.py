# SPDX-License-Identifier: Apache-2.0

import collections

from hypothesis import given
from hypothesis import strategies as st
import pytest

from nova_prio.scheduler import failure_domains


@pytest.mark.parametrize('keys, metadata, path', [
    ((), {'zone': 'a'}, ('h',)),
    (('zone',), {'zone': 'a', 'rack': '1'}, ((True, 'a'), 'h')),
    (('zone', 'rack'), {'zone': 'a', 'rack': '1'},
     ((True, 'a'), (True, '1'), 'h')),
    (('zone', 'rack'), {'rack': '1'}, ((False, 'h'), (True, '1'), 'h')),
])
def test_path(keys, metadata, path):
    assert path == failure_domains.get_path('h', keys, metadata.items())


def test_contradicting_aggregates_are_one_domain():
    assert ((True, 'a,b'), 'h') == failure_domains.get_path(
        'h', ['zone'], [('zone', 'b'), ('zone', 'a'), ('zone', 'b')])


def test_a_host_is_no_domain_that_is_named_like_it():
    alone = failure_domains.get_path('a', ['zone'], [])
    other = failure_domains.get_path('h', ['zone'], [('zone', 'a')])
    assert [0, 1] == failure_domains.rank_hosts(
        [alone, other], [alone], stack=False)


# Two racks in zone a, one in zone b whose name is that of another.
A1, A2, B1 = (('a', '1'), ('a', '2'), ('b', '1'))


@pytest.mark.parametrize('candidates, members, spread, stacked', [
    # Hosts alone, in the order of their members.
    ([('h1',), ('h2',), ('h3',)], 3 * [('h1',)] + [('h3',)],
     [0, 2, 1], [2, 0, 1]),
    # None of the group, or as many on each.
    ([('h1',), ('h2',)], [], [0, 0], [0, 0]),
    ([('h1',), ('h2',)], [('h1',), ('h2',)], [0, 0], [0, 0]),
    ([], [('h1',)], [], []),
    # The zone decides first, though its host is the one with no member.
    ([(*A1, 'h1'), (*B1, 'h3')], [(*A1, 'h0'), (*A1, 'h0'), (*B1, 'h3')],
     [0, 1], [1, 0]),
    # Then the rack, then the host.
    ([(*A1, 'h1'), (*A2, 'h2'), (*A2, 'h4')], [(*A1, 'h0')],
     [0, 1, 1], [1, 0, 0]),
    ([(*A1, 'h1'), (*A1, 'h2')], [(*A1, 'h1')], [0, 1], [1, 0]),
    # A rack of another zone with the same name is another rack.
    ([(*A1, 'h1'), (*A2, 'h2')], [(*B1, 'h3')], [0, 0], [0, 0]),
    # Hosts that are no candidates count for the domains of those that are.
    ([(*A1, 'h1'), (*B1, 'h3')], [(*A2, 'full')], [0, 1], [1, 0]),
])
def test_steps(candidates, members, spread, stacked):
    assert spread == failure_domains.rank_hosts(
        candidates, members, stack=False)
    assert stacked == failure_domains.rank_hosts(
        candidates, iter(members), stack=True)


PATHS = st.tuples(st.sampled_from('ab'), st.sampled_from('12'),
                  st.sampled_from(['h1', 'h2', 'h3']))


@given(st.lists(PATHS, min_size=1, max_size=12, unique=True), st.data())
def test_spreading_evens_out_each_level(hosts, data):
    """Where all hosts have room, no domain gets two more than another has."""
    members = []
    for _ in range(data.draw(st.integers(1, 30))):
        found = failure_domains.rank_hosts(hosts, members, stack=False)
        members.append(hosts[found.index(max(found))])
    for level in range(3):
        below = collections.defaultdict(set)
        for host in hosts:
            below[host[:level]].add(host[:level + 1])
        there = collections.Counter(member[:level + 1] for member in members)
        for siblings in below.values():
            counts = [there[each] for each in siblings]
            assert max(counts) - min(counts) <= 1


@given(st.lists(PATHS, min_size=1, max_size=12, unique=True),
       st.lists(PATHS, max_size=12))
def test_stacking_is_the_reverse_of_spreading(hosts, members):
    found = failure_domains.rank_hosts(hosts, members, stack=True)
    most = max(found)
    assert [most - step for step in found] == failure_domains.rank_hosts(
        hosts, members, stack=False)
    assert set(range(most + 1)) == set(found)
