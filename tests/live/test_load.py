# SPDX-License-Identifier: Apache-2.0

"""Bursts of creates with priorities: no host is oversold.

test_plain_load.py has the same bursts without this package.
"""

import collections

import pytest

from tests.live import load as loads
from tests.live import logs
from tests.live import watch

#: Fault of nova-scheduler, and fault of nova-conductor if the claims of all
#: chosen hosts failed.
NO_HOST, RETRIED = 'No valid host was found', 'Exceeded maximum number of'
#: Text after logs.RESCHEDULED if a claim refused an attempt.
CLAIMED = 're-scheduled: Insufficient compute resources: '


@pytest.fixture(scope='module', params=loads.NUMBERS)
def number(request):
    """Number of servers of one burst."""
    return request.param


@pytest.fixture(scope='module')
def written(layout, number):
    """The log lines of Nova's services during a burst."""
    return logs.NewLines(layout)


@pytest.fixture(scope='module')
def outcome(load, number, written):
    """The Outcome of a burst. Its servers are deleted at the end."""
    yield load.burst(number)
    load.delete_servers()


def test_each_create_is_accepted(outcome, number):
    assert [] == outcome.failed
    assert number == len(outcome.servers)


def test_each_server_runs_or_is_refused(outcome):
    assert {'ACTIVE', 'ERROR'} == {
        server.status for server in outcome.servers}
    assert {None} == {server.task_state for server in outcome.servers}


def test_no_row_is_oversold(outcome, record_property):
    record_property('hosts', outcome.record)
    assert {0} == {units for rows in outcome.oversold.values()
                   for units in rows.values()}


def test_invariants_hold(outcome, layout):
    """All invariants hold once each nova-compute has counted the servers."""
    assert [] == watch.settle(layout).violations


def test_half_of_each_row_is_sold(outcome):
    """The hosts must not refuse servers that fit."""
    for host, sold in outcome.sold.items():
        for row in 'high', 'low':
            assert sold[row] > outcome.sellable[host][row] / 2, (host, row)
    assert any(sold['ordinary'] for sold in outcome.sold.values())


def test_each_refusal_has_a_reason(outcome, written):
    """nova-scheduler or the last claim must give the reason."""
    refused = outcome.of('ERROR')
    assert refused
    attempts = [line for line in written.lines('nova-conductor')
                if logs.RESCHEDULED in line]
    for server in refused:
        assert server.fault['message'].startswith((NO_HOST, RETRIED))
        own = [line for line in attempts if server.id in line]
        assert own or not server.fault['message'].startswith(RETRIED)
        for line in own:
            assert CLAIMED in line


def test_active_servers_have_expected_allocations(outcome):
    expected = {server.id: loads.expected_allocation(server)
                for server in outcome.of('ACTIVE')}
    assert {server.id: expected.get(server.id, collections.Counter())
            for server in outcome.servers} == outcome.allocations


def test_allocations_do_not_exceed_capacity(outcome):
    assert {0} == {units for of_host in outcome.overallocated.values()
                   for units in of_host.values()}
