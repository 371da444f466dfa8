# SPDX-License-Identifier: Apache-2.0

"""First fit decreasing, compared with all arrangements of few servers."""

import math

import hypothesis
from hypothesis import strategies as st
import pytest

from nova_prio.model.planner import first_fit
from nova_prio.model.planner import host_fit
from tests.unit.model.planner import fleets

#: A host takes 8 vCPUs of high priority, 16 of low priority and 100 MB.
HOST = fleets.make_host('host', memory_mb=100)


def make_high(vcpus, memory_mb=1):
    return fleets.make_needs('high', dedicated=vcpus, memory_mb=memory_mb,
                             has_cells=True)


def make_low(vcpus, memory_mb=1, **more):
    return fleets.make_needs('low', shared=vcpus, memory_mb=memory_mb, **more)


def pack(hosts, *kinds):
    """Return the packed hosts, and the bound with its resource.

    :param hosts: list of (Host, number)
    :param kinds: tuples (Needs, number)
    """
    groups = [first_fit.HostGroup(host_fit.HostFit.from_host(host), number)
              for host, number in hosts]
    all_kinds = [first_fit.Kind(*kind) for kind in kinds]
    bound = first_fit.calculate_bound(groups, all_kinds)
    return (first_fit.pack(groups, all_kinds), bound.hosts, bound.resource)


@pytest.mark.parametrize('kinds, hosts, bound, resource', [
    ([], 0, 0, 'CPUs'),
    # The example of cpu_capacity.py fills one host.
    ([(make_low(4), 4), (fleets.make_needs('high', dedicated=4), 2)],
     1, 1, 'CPUs'),
    # 17 low vCPUs, but 16 fit on a host.
    ([(make_low(1), 17)], 2, 2, 'CPUs'),
    # 3 * 6 = 18 of 8 vCPUs, but no two of 6 fit together.
    ([(fleets.make_needs('high', dedicated=6), 3)], 3, 3, 'CPUs'),
    ([(fleets.make_needs('high', dedicated=5), 3)], 3, 2, 'CPUs'),
    # 5 * 40 = 200 MB, two servers on each host.
    ([(make_low(1, memory_mb=40), 5)], 3, 2, 'memory'),
])
def test_hosts_and_bound(kinds, hosts, bound, resource):
    assert (hosts, bound, resource) == pack([(HOST, 9)], *kinds)


def test_disk_limits():
    host = fleets.make_host('host', free_disk_gb=10)
    assert (3, 3, 'disk') == pack([(host, 9)], (make_low(1, disk_gb=5), 5))


def test_larger_server_comes_first():
    """6 + 2 and 5 + 3 fill two hosts; 2 + 3 would leave 6 and 5 alone."""
    kinds = [(fleets.make_needs('high', dedicated=number), 1)
             for number in (2, 3, 5, 6)]
    assert 2 == pack([(HOST, 9)], *kinds)[0]


def test_server_that_fits_nowhere():
    assert (None, math.inf, 'CPUs') == pack(
        [(HOST, 2)], (make_low(16), 3))
    assert pack([(HOST, 2)], (make_low(13), 1))[0] is None


def test_numa_cells_limit_pinned_servers():
    """Each of the two cells has 4 dedicated CPUs."""
    host = fleets.make_host('host', cells=2)
    assert 2 == pack([(host, 9)], (make_high(3), 3))[0]
    assert pack([(host, 9)], (make_high(5), 1))[0] is None


@pytest.mark.parametrize('needs, limit', [
    (make_low(1, memory_mb=50), 'memory'), (make_low(5), 'CPUs'),
    (make_low(3, memory_mb=200), 'memory'), (make_low(13), 'CPUs'),
    (make_low(6, memory_mb=50), 'CPUs, memory'), (make_high(5), 'NUMA cells'),
    (make_low(1, disk_gb=9), 'disk')])
def test_limit_of_a_full_host(needs, limit):
    host = fleets.make_host('host', memory_mb=100, cells=2, free_disk_gb=8)
    fit, number = host_fit.HostFit.from_host(host).fill(needs, 10)
    assert number < 10
    # Twice the server limits more than one resource.
    if limit == 'CPUs, memory':
        fit, _ = fit.fill(make_low(1), 4)
    assert limit == first_fit.find_limit(fit, needs)


SERVERS = st.lists(st.builds(
    lambda is_high, vcpus, memory_mb: (
        make_high if is_high else make_low)(vcpus, memory_mb),
    st.booleans(), st.integers(1, 5), st.integers(1, 60)), max_size=6)


def search_all(hosts, servers):
    """Return the fewest used hosts of all arrangements, None if none fits.

    :param hosts: list of HostFit, each with the servers before
    :param servers: list of Needs
    """
    if not servers:
        return sum(fit.used != (0, 0, 0) for fit in hosts)
    first, *others = servers
    found = []
    for number, fit in enumerate(hosts):
        cells = fit.choose_cells(first)
        if cells is not None:
            found.append(search_all(
                [*hosts[:number], fit.add(first, cells),
                 *hosts[number + 1:]], others))
        # An empty host is as good as the next empty one of this size.
        if fit.used == (0, 0, 0) and number:
            break
    return min((each for each in found if each is not None), default=None)


@hypothesis.given(SERVERS, st.sampled_from([1, 2]))
@hypothesis.settings(max_examples=60)
def test_bound_and_all_arrangements(servers, cells):
    """The bound is never above the fewest hosts, nor these above first fit."""
    # The first host is another one than the others.
    hosts = [fleets.make_host('a', dedicated=4, memory_mb=60, cells=cells)]
    hosts += [fleets.make_host('b', dedicated=6, memory_mb=100, cells=cells)
              for _ in servers]
    kinds = []
    for needs in set(servers):
        kinds.append((needs, servers.count(needs)))
    found, bound, _ = pack([(hosts[0], 1), (hosts[-1], len(servers))], *kinds)
    fewest = search_all(
        [host_fit.HostFit.from_host(host) for host in hosts], servers)
    if fewest is None:
        assert found is None
    else:
        assert bound <= fewest
        if found is not None:
            assert fewest <= found
