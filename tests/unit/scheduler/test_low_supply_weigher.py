# SPDX-License-Identifier: Apache-2.0

import nova.conf
from nova.scheduler import weights
import pytest

from nova_prio.compat import hooks
from nova_prio.model import low_supply
from nova_prio.objects import host_report
from nova_prio.scheduler.weights import low_supply_weigher
from tests.unit import nova_objects as nova_obj

hooks.register_options()
CONF = nova.conf.CONF
UNREADABLE = {'stats': {host_report.STATS_KEY: 'x'}}


@pytest.fixture(autouse=True)
def multiplier():
    """Enable the weigher."""
    CONF.set_override('low_supply_weight_multiplier', 1.0, group='nova_prio')
    yield
    CONF.clear_override('low_supply_weight_multiplier', group='nova_prio')


def host(cpu_percent=None, **kwargs):
    """Return the arguments of a host with a low supply."""
    if cpu_percent is not None:
        kwargs['low_supply'] = low_supply.LowSupply(cpu_percent, 0)
    return kwargs


def weigh(flavor, *hosts, placed=()):
    """Return the weights of hosts as Nova's weight handler gives them.

    :param placed: vCPUs of placed instances of the same request on each host
    """
    states = [nova_obj.host_state(**each) for each in hosts]
    for state, vcpus in zip(states, placed):
        state.vcpus_used += vcpus
    weighed = weights.HostWeightHandler().get_weighed_objects(
        [low_supply_weigher.LowSupplyWeigher()], states,
        nova_obj.request_spec(flavor))
    found = {id(each.obj): each.weight for each in weighed}
    return [round(found[id(state)], 3) for state in states]


@pytest.mark.parametrize('hosts, expected', [
    # An instance of 4 vCPUs: 12, 6 and 0 CPUs.
    ([host(1200), host(600), host(0)], [1, .5, 0]),
    # 8 / 4, 8 / 8 and 8 / 12 CPUs for each low vCPU.
    ([host(800), host(800, low=4), host(800, low=8)], [1, .5, .333]),
    # Other guests share no supply, which is what they leave: 6 / 4 each.
    ([host(600, ordinary=4), host(600, pinned=range(4)), host(600)],
     [1, 1, 1]),
    # An unknown host weighs as the mean of 1200 and 400.
    ([host(1200), host(), host(400)], [1, .667, .333]),
    ([host(1200), UNREADABLE, {'stats': {}}, host(400)],
     [1, .667, .667, .333]),
    ([host(), host()], [0, 0]),
    # All are equal, and zero.
    ([host(0), host(0)], [0, 0]),
])
def test_weight_of_a_low_instance(hosts, expected):
    assert expected == weigh(nova_obj.LOW, *hosts)


def test_absurd_supply_is_unknown():
    """The host has 12 floating CPUs."""
    assert [1, .667, .333] == weigh(
        nova_obj.LOW, host(1200), host(1201), host(400))


def test_instances_of_one_request_spread():
    """The states are read once, for all instances of the request."""
    assert [.5, 1] == weigh(
        nova_obj.LOW, host(800), host(800), placed=(4, 0))


@pytest.mark.parametrize('flavor', [
    nova_obj.HIGH, nova_obj.ORDINARY, nova_obj.PINNED,
    # Not folded: the filter refuses it.
    nova_obj.flavor(hw__cpu_priority='low')])
def test_other_instances_weigh_zero(flavor):
    assert [0, 0] == weigh(flavor, host(1200), host(400))


def test_default_has_no_effect():
    CONF.clear_override('low_supply_weight_multiplier', group='nova_prio')
    assert [0, 0] == weigh(nova_obj.LOW, host(1200), host(400))


def test_multiplier_of_an_aggregate():
    strong = [nova_obj.aggregate(low_supply_weight_multiplier='3')]
    assert [1.5, 1] == weigh(
        nova_obj.LOW, host(600, aggregates=strong), host(1200))


def test_error_weighs_zero(monkeypatch, caplog):
    def fail(*args):
        raise RuntimeError('broken')
    monkeypatch.setattr(low_supply_weigher, 'get_supply_per_vcpu', fail)
    assert [0, 0] == weigh(nova_obj.LOW, host(1200), host(400))
    assert 'all hosts weigh zero' in caplog.text


def test_weigher_alone_with_a_host_weighs_zero():
    weigher = low_supply_weigher.LowSupplyWeigher()
    assert 0 == weigher._weigh_object(
        nova_obj.host_state(**host(1200)),
        nova_obj.request_spec(nova_obj.LOW))
