# SPDX-License-Identifier: Apache-2.0

import pytest

import nova.conf
from nova.scheduler import weights

from nova_prio.compat import hooks
from nova_prio.objects import host_report
from nova_prio.scheduler.weights import priority_weighter
from tests.unit import nova_objects as nova_obj

hooks.register_options()
CONF = nova.conf.CONF


def ranked(flavor, *hosts):
    """Return (index of host, weight) as Nova's weight handler ranks them."""
    states = [nova_obj.host_state(**host) for host in hosts]
    handler = weights.HostWeightHandler()
    weighed = handler.get_weighed_objects(
        [priority_weighter.PriorityWeighter()], states,
        nova_obj.request_spec(flavor))
    return [(states.index(host.obj), host.weight) for host in weighed]


@pytest.mark.parametrize('flavor, hosts, ranking', [
    # High: 4, 8 and 0 dedicated CPUs are free; normalised by the largest.
    (nova_obj.HIGH,
     [dict(pinned=range(4)), dict(low=16), dict(pinned=range(8))],
     [(1, 1.0), (0, 0.5), (2, 0.0)]),
    # Low: 8, 12 and 16 of 16 are free.
    (nova_obj.LOW,
     [dict(low=8), dict(ordinary=4), dict(pinned=range(8))],
     [(2, 1.0), (1, 0.75), (0, 0.5)]),
    # Ordinary as Nova's CPU weigher: total * ratio - used = 8, 4, 2.
    (nova_obj.ORDINARY,
     [dict(), dict(ordinary=4), dict(low=6)],
     [(0, 1.0), (1, 0.5), (2, 0.25)]),
])
def test_ranking(flavor, hosts, ranking):
    assert ranking == ranked(flavor, *hosts)


@pytest.mark.parametrize('stats', [{}, {host_report.STATS_KEY: 'x'}])
def test_host_without_a_readable_report_weighs_zero(stats):
    assert [(1, 1.0), (0, 0.0)] == ranked(
        nova_obj.HIGH, dict(stats=stats), dict())


def test_negative_multiplier_stacks(monkeypatch):
    CONF.set_override('priority_weight_multiplier', -2.0, group='nova_prio')
    try:
        assert [(1, -1.0), (0, -2.0)] == ranked(
            nova_obj.HIGH, dict(), dict(pinned=range(4)))
    finally:
        CONF.clear_override('priority_weight_multiplier', group='nova_prio')


def test_multiplier_of_an_aggregate():
    fast = nova_obj.aggregate(priority_weight_multiplier='3')
    assert [(0, 3.0), (1, 1.0)] == ranked(
        nova_obj.HIGH, dict(aggregates=[fast]), dict())
