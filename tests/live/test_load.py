# SPDX-License-Identifier: Apache-2.0

"""Bursts of creates with priorities: no host is oversold.

test_plain_load.py has the same bursts without this package.
"""

import collections

import pytest

from tests.live import load as loads
from tests.live import logs
from tests.live import watch

#: Fault of nova-scheduler, and fault of nova-conductor if the chosen hosts are
#: full by then.
NO_HOST, RETRIED = 'No valid host was found', 'Exceeded maximum number of'
#: Text after logs.FORMER if a claim refused an attempt.
CLAIMED = 're-scheduled: Insufficient compute resources: '


@pytest.fixture(scope='module', params=loads.NUMBERS)
def number(request):
    """Number of servers of one burst."""
    return request.param


@pytest.fixture(scope='module')
def written(layout, number):
    """The log lines of Nova's services during a burst."""
    return logs.Written(layout)


@pytest.fixture(scope='module')
def outcome(load, number, written):
    """The Outcome of a burst, whose servers are deleted at the end."""
    yield load.burst(number)
    load.end()


def test_each_create_is_accepted(outcome, number):
    assert [] == outcome.failed
    assert number == len(outcome.servers)


def test_each_server_runs_or_is_refused(outcome):
    assert {'ACTIVE', 'ERROR'} == {
        server.status for server in outcome.servers}
    assert {None} == {server.task_state for server in outcome.servers}


def test_nothing_is_oversold(outcome, record_property):
    record_property('hosts', outcome.record)
    assert {0} == {units for rows in outcome.oversold.values()
                   for units in rows.values()}


def test_all_rules_hold(outcome, layout):
    """All invariants hold once each nova-compute has counted the servers."""
    assert [] == watch.settle(layout).violations


def test_most_is_sold(outcome):
    """The hosts do not refuse too much: half of each row must be sold."""
    for host, sold in outcome.sold.items():
        for row in 'high', 'low':
            assert sold[row] > outcome.sellable[host][row] / 2, (host, row)
    assert any(sold['ordinary'] for sold in outcome.sold.values())


def test_each_refusal_has_a_reason(outcome, written):
    """nova-scheduler or the last claim must give the reason."""
    refused = outcome.of('ERROR')
    assert refused
    attempts = [line for line in written.lines('nova-conductor')
                if logs.FORMER in line]
    for server in refused:
        assert server.fault['message'].startswith((NO_HOST, RETRIED))
        own = [line for line in attempts if server.id in line]
        assert own or not server.fault['message'].startswith(RETRIED)
        for line in own:
            assert CLAIMED in line


def test_placement_holds_what_runs(outcome):
    needed = {server.id: loads.needs(server)
              for server in outcome.of('ACTIVE')}
    assert {server.id: needed.get(server.id, collections.Counter())
            for server in outcome.servers} == outcome.held


def test_placement_gave_no_more_than_there_is(outcome):
    assert {0} == {units for of_host in outcome.excess.values()
                   for units in of_host.values()}
