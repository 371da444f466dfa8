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
def test_get_path(keys, metadata, path):
    assert path == failure_domains.get_path('h', keys, metadata.items())


def test_get_path_joins_contradicting_aggregates():
    assert ((True, 'a,b'), 'h') == failure_domains.get_path(
        'h', ['zone'], [('zone', 'b'), ('zone', 'a'), ('zone', 'b')])


def test_host_differs_from_domain_with_the_same_name():
    alone = failure_domains.get_path('a', ['zone'], [])
    other = failure_domains.get_path('h', ['zone'], [('zone', 'a')])
    assert {alone: 0, other: 1} == failure_domains.rank_hosts(
        [alone, other], [alone], prefers_many=False)


# Two racks in zone a, and one in zone b. The names of the racks repeat.
A1, A2, B1 = (('a', '1'), ('a', '2'), ('b', '1'))


@pytest.mark.parametrize('candidates, members, spread, stacked', [
    # Hosts without further domains, ranked by their members.
    ([('h1',), ('h2',), ('h3',)], 3 * [('h1',)] + [('h3',)],
     [0, 2, 1], [2, 0, 1]),
    # No member, or as many on each host.
    ([('h1',), ('h2',)], [], [0, 0], [0, 0]),
    ([('h1',), ('h2',)], [('h1',), ('h2',)], [0, 0], [0, 0]),
    ([], [('h1',)], [], []),
    # The zone decides first, even if the host in it has no member.
    ([(*A1, 'h1'), (*B1, 'h3')], [(*A1, 'h0'), (*A1, 'h0'), (*B1, 'h3')],
     [0, 1], [1, 0]),
    # Then the rack, then the host.
    ([(*A1, 'h1'), (*A2, 'h2'), (*A2, 'h4')], [(*A1, 'h0')],
     [0, 1, 1], [1, 0, 0]),
    ([(*A1, 'h1'), (*A1, 'h2')], [(*A1, 'h1')], [0, 1], [1, 0]),
    # A rack of another zone with the same name is another rack.
    ([(*A1, 'h1'), (*A2, 'h2')], [(*B1, 'h3')], [0, 0], [0, 0]),
    # Members on other hosts count for the domains of the candidates.
    ([(*A1, 'h1'), (*B1, 'h3')], [(*A2, 'full')], [0, 1], [1, 0]),
])
def test_rank_hosts(candidates, members, spread, stacked):
    for stack, expected in (False, spread), (True, stacked):
        assert dict(zip(candidates, expected)) == failure_domains.rank_hosts(
            candidates, iter(members), stack)


PATHS = st.tuples(st.sampled_from('ab'), st.sampled_from('12'),
                  st.sampled_from(['h1', 'h2', 'h3']))


@given(st.lists(PATHS, min_size=1, max_size=12, unique=True), st.data())
def test_spreading_evens_out_each_level(hosts, data):
    """If all hosts have room, the members per domain differ by one at most."""
    members = []
    for _ in range(data.draw(st.integers(1, 30))):
        ranks = failure_domains.rank_hosts(hosts, members, prefers_many=False)
        members.append(max(ranks, key=ranks.get))
    for level in range(3):
        below = collections.defaultdict(set)
        for host in hosts:
            below[host[:level]].add(host[:level + 1])
        by_domain = collections.Counter(
            member[:level + 1] for member in members)
        for siblings in below.values():
            counts = [by_domain[each] for each in siblings]
            assert max(counts) - min(counts) <= 1


@given(st.lists(PATHS, min_size=1, max_size=12, unique=True),
       st.lists(PATHS, max_size=12))
def test_stacking_is_the_reverse_of_spreading(hosts, members):
    ranks = failure_domains.rank_hosts(hosts, members, prefers_many=True)
    most = max(ranks.values())
    assert ({host: most - rank for host, rank in ranks.items()} ==
            failure_domains.rank_hosts(hosts, members, prefers_many=False))
    assert set(range(most + 1)) == set(ranks.values())
