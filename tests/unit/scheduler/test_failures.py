# SPDX-License-Identifier: Apache-2.0

import logging

import nova.conf
from nova import objects
from nova.scheduler import weights
import pytest

from nova_prio.compat import hooks
from nova_prio.scheduler import failures
from nova_prio.scheduler.filters import priority_filter
from nova_prio.scheduler import state_view
from nova_prio.scheduler.weights import group_weighers
from nova_prio.scheduler.weights import priority_weighter
from tests.unit import nova_objects as nova_obj

hooks.register_options()


@pytest.fixture
def logged(caplog):
    """Return a function: () -> (host, error) of each new log record."""
    failures._log_once.cache_clear()

    def logged():
        records = [record for record in caplog.records
                   if record.name == failures.LOG.name]
        caplog.clear()
        assert all(record.levelno == logging.ERROR for record in records)
        return [(record.args['subject'], record.exc_info[0])
                for record in records]

    return logged


def host(name, **kwargs):
    """Return the state of a host with a name."""
    state = nova_obj.candidate(nova_obj.host_state(**kwargs), VCPU=4)
    state.host = state.nodename = name
    return state


def weighed(weigher, states, spec):
    """Return weights times multiplier, as Nova's weight handler sees them."""
    found = {each.obj.host: each.weight for each in (
        weights.HostWeightHandler().get_weighed_objects(
            [weigher], states, spec))}
    return [found[state.host] for state in states]


@pytest.mark.parametrize('flavor, hosts', [
    (nova_obj.LOW, ['good']),
    # Nova's own filter decides about the other two.
    (nova_obj.ORDINARY, ['a', 'b', 'good'])])
def test_filter_logs_each_type_of_exception_once_per_host(
        logged, monkeypatch, flavor, hosts):
    def passed():
        return [state.host for state in priority_filter.PriorityFilter(
            ).filter_all([host(name) for name in ('a', 'b', 'good')],
                         nova_obj.request_spec(flavor))]

    room = state_view.get_remaining

    def fail(host_state, report, request):
        if host_state.host == 'good':
            return room(host_state, report, request)
        raise error('x')

    monkeypatch.setattr(state_view, 'get_remaining', fail)
    for error in (KeyError, ValueError):
        for expected in ([('host a, node a', error),
                          ('host b, node b', error)], []):
            assert hosts == passed()
            assert expected == logged()


@pytest.mark.parametrize('flavor', [nova_obj.LOW, nova_obj.ORDINARY])
@pytest.mark.parametrize('attribute', ['vcpus_used', 'aggregates'])
def test_weigher_scores_zero_and_logs_once(logged, flavor, attribute):
    states = [host('bad'), host('half', low=4), host('empty')]
    setattr(states[0], attribute, None)
    for expected in ([('host bad, node bad', TypeError)], []):
        found = weighed(priority_weighter.PriorityWeighter(), states,
                        nova_obj.request_spec(flavor))
        assert found[0] == 0.0 < found[1] < found[2] == 1.0
        assert expected == logged()


@pytest.mark.parametrize('weigher_class, expected', [
    (group_weighers.SoftAffinityWeigher, [0.0, 1.0, 0.0]),
    (group_weighers.SoftAntiAffinityWeigher, [0.0, 0.0, 1.0]),
])
def test_group_weighers_score_a_bad_host_zero(
        logged, monkeypatch, weigher_class, expected):
    nova.conf.CONF.set_override(
        'affinity_domains', ['rack', 'host'], group='nova_prio')
    try:
        weigher = weigher_class()
    finally:
        nova.conf.CONF.clear_override('affinity_domains', group='nova_prio')
    weigher._multiplier = 1.0
    states = [host('bad'), host('member'), host('empty')]
    states[0].aggregates = None
    spec = nova_obj.request_spec(nova_obj.LOW)
    spec.instance_group = objects.InstanceGroup(
        policy=weigher.policy, members=[], hosts=[])
    assert [0.0] * 3 == weighed(weigher, states, spec)
    assert [('host bad, node bad', TypeError)] == logged()
    # The first instance of the request was placed.
    spec.instance_group.hosts = ['member']
    assert expected == weighed(weigher, states, spec)
    assert [] == logged()
    # The databases cannot be read.
    monkeypatch.setattr(weigher._members, '_read_paths', lambda hosts: 1 / 0)
    assert [0.0] * 3 == weighed(weigher, states, spec)
    assert [('the request', ZeroDivisionError)] == logged()


def test_memory_of_logged_exceptions_is_bounded(caplog):
    failures._log_once.cache_clear()
    state = host('a')
    for number in range(failures.MOST_LOGGED + 10):
        state.host = 'host%d' % number
        try:
            raise KeyError(number)
        except KeyError:
            failures.log_failure('Test', 'nothing happens', state)
    assert failures._log_once.cache_info().currsize == failures.MOST_LOGGED
