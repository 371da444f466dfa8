# SPDX-License-Identifier: Apache-2.0

"""The CPUs of a guest, read from its XML, and the JSON document."""

import pytest

from nova_prio.scenario import result

XML = """<domain><vcpu%s>2</vcpu><cputune>%s</cputune>%s</domain>"""


@pytest.mark.parametrize('vcpu, pins, cpus', [
    ('', {}, [0, 1, 2, 3]),
    (' cpuset="0-1,3"', {}, [0, 1, 3]),
    ('', {1: '2', 0: '3'}, [[3], [2]]),
    ('', {0: '0', 1: '2-3'}, [[0], [2, 3]]),
])
def test_cpus_of_a_guest(vcpu, pins, cpus):
    tune = ''.join('<vcpupin vcpu="%d" cpuset="%s"/>' % pin
                   for pin in pins.items())
    assert result.parse_guest(XML % (vcpu, tune, ''), 4) == (cpus, None)


def test_partition_of_a_guest():
    xml = XML % ('', '', '<resource><partition>/low_prio_machine</partition>'
                 '</resource>')
    assert result.parse_guest(xml, 1) == ([0], '/low_prio_machine')


def test_pins_and_floating_cpus():
    server = result.Server('s', cpus=[[4], [8, 9], [7]])
    assert server.pins == {0: 4, 2: 7}
    assert server.floats_on == {8, 9}
    assert result.Server('s', cpus=[8, 9]).floats_on == {8, 9}
    assert result.Server('s', cpus=[8, 9]).pins == {}
    assert result.Server('s').pins == {}


def test_document_has_the_keys_of_the_json_format():
    found = result.Result(
        [result.Server('s', faults={1: 'no', 2: 'no room'})],
        [result.Host('a', 4, frozenset(), frozenset(), None,
                     {'VCPU': {}}, {'c': {}}, 'down',
                     {'rack': '1'})], ['surprise'])
    assert found.document() == {
        'servers': [{
            'name': 's', 'id': None, 'priority': None, 'status': 'REFUSED',
            'host': None, 'cpus': None, 'partition': None,
            'fault': 'no\nno room'}],
        'hosts': [{'name': 'a', 'state': 'down', 'domains': {'rack': '1'},
                   'classes': None, 'inventory': {'VCPU': {}},
                   'allocations': {'c': {}}}]}


@pytest.mark.parametrize('low_used, ordinary_used, remaining', [
    (4, 2, {'high': 8, 'low': 12, 'ordinary': 6}),      # 16 - 4, 8 - 2
    (16, 0, {'high': 8, 'low': 0, 'ordinary': 0}),      # the low row is full
    (18, 9, {'high': 8, 'low': 0, 'ordinary': 0}),      # oversold
])
def test_remaining_cpus(low_used, ordinary_used, remaining):
    host = result.Host('a', 12, frozenset(), frozenset(), classes={
        'high': {'sellable': 8, 'used': 0},
        'low': {'sellable': 16, 'used': low_used},
        'ordinary': {'sellable': 8, 'used': ordinary_used}})
    assert host.remaining == remaining


def test_no_remaining_cpus_with_the_stock_driver():
    assert result.Host('a', 12, frozenset(), frozenset()).remaining == {}


@pytest.mark.parametrize('text, cpus', [
    ('0-3', {0, 1, 2, 3}),
    ('7', {7}),
    ('0-3,^2,8', {0, 1, 3, 8}),
    ('^2,0-3', {0, 1, 3}),
    ('^1', set()),
])
def test_parse_cpus(text, cpus):
    assert cpus == result.parse_cpus(text)


@pytest.mark.parametrize('text', ['', 'a', '3-1', '1-', '1,,2'])
def test_parse_cpus_refuses(text):
    with pytest.raises(ValueError):
        result.parse_cpus(text)


@pytest.mark.parametrize('cpus, text', [
    ([], ''), ([5], '5'), ([3, 0, 1, 2, 7, 9, 8], '0-3,7-9')])
def test_format_cpus(cpus, text):
    assert text == result.format_cpus(cpus)
