# SPDX-License-Identifier: Apache-2.0

"""The content of the page of a scenario."""

from nova_prio.admin.page import content
from nova_prio_scenario import page
from nova_prio_scenario import result

HOST = {'name': 'a', 'cpus': 12, 'dedicated': '0-7', 'shared': '8-11',
        'ratio': 2.0, 'mix': True, 'driver': 'prio', 'state': 'up',
        'status': 'enabled',
        'aggregate': {'zone': 'east', 'priority_mix': 'true'},
        'classes': {'high': {'sellable': 8, 'used': 4},
                    'low': {'sellable': 16, 'used': 12},
                    'ordinary': {'sellable': 8, 'used': 0}}}


def test_host_has_its_rows_and_sets():
    host = page.make_host(HOST, [], frozenset())
    # As much is left in the ordinary row as in the low row.
    assert host.rows == {'high': (4, 8, 4), 'low': (12, 16, 4),
                         'ordinary': (0, 8, 4)}
    assert (host.dedicated, host.shared) == (
        frozenset(range(8)), frozenset(range(8, 12)))
    assert host.aggregates == ['priority_mix=true,zone=east']
    assert host.is_open and host.takes_priority
    assert [] == host.problems


def test_host_in_no_priority_aggregate_takes_no_priority_servers():
    for aggregate in None, {'priority_mix': 'false'}:
        host = page.make_host(
            {**HOST, 'aggregate': aggregate}, [], frozenset())
        assert host.is_open and not host.takes_priority
        problem, = host.problems
        assert 'in no aggregate' in problem
        assert host.is_open_for('ordinary') and not host.is_open_for('low')


def test_host_with_the_stock_driver_has_no_rows():
    host = page.make_host(
        {**HOST, 'dedicated': None, 'ratio': None, 'aggregate': {},
         'classes': None}, [], frozenset())
    assert (host.rows, host.dedicated, host.aggregates) == (
        {}, frozenset(), [])
    assert ('CPU allocation ratio', "Nova's") in host.facts
    assert not host.takes_priority
    # The page says in place of the rows that the driver is another one.
    assert [] == host.problems


def test_host_that_is_down_or_disabled_is_not_available():
    for change in {'state': 'down'}, {'status': 'disabled'}:
        host = page.make_host({**HOST, **change}, [], frozenset())
        assert not host.is_open
        problem, = host.problems
        assert list(change.values())[0] in problem


def test_cpus_of_no_shown_server_are_held():
    guest = page.make_guest(result.Server(
        'db', 'id', 'high', 'ACTIVE', 'a', cpus=[[0], [1]]))
    host = page.make_host(HOST, [guest], frozenset(range(4)))
    assert host.held == {2, 3}


def test_server_has_pinned_and_floating_cpus():
    guest = page.make_guest(result.Server(
        'db', None, None, 'SHUTOFF', 'a', cpus=[[3], [8, 9], [8, 9]]))
    assert guest == content.GuestOnPage(
        name='db', uuid='', row='ordinary', state='SHUTOFF',
        pinned=frozenset({3}), floating=frozenset({8, 9}), is_stopped=True)


def test_equal_refusals_are_grouped():
    fault = 'step 3 (resize to b (c)): No valid host (was) found: x\na: y\nb:'
    other = 'step 3 (create): HTTP 400: z'
    assert page.group_refusals({'p': fault, 'q': other, 'r': fault}) == [
        (['p', 'r'], 'No valid host (was) found: x', ['a: y', 'b:'], ''),
        (['q'], 'HTTP 400: z', [], '')]


def test_line_about_placement_is_above_the_reasons():
    heading = result.NO_CANDIDATE + 'PCPU 4:'
    refusal, = page.group_refusals(
        {'db': 'step 3 (create): No valid host.\n%s\na: full' % heading})
    assert (refusal.heading, refusal.reasons) == (heading, ['a: full'])
