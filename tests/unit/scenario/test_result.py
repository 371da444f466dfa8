# SPDX-License-Identifier: Apache-2.0

"""The CPUs of a guest, read from its XML, and the JSON document."""

import pytest

from nova_prio_scenario import result

XML = """<domain><vcpu%s>2</vcpu><cputune>%s</cputune>%s</domain>"""


@pytest.mark.parametrize('vcpu, pins, cpus', [
    ('', {}, [0, 1, 2, 3]),
    (' cpuset="0-1,3"', {}, [0, 1, 3]),
    ('', {1: '2', 0: '3'}, [[3], [2]]),
    ('', {0: '0', 1: '2-3'}, [[0], [2, 3]]),
])
def test_parse_guest_returns_cpus(vcpu, pins, cpus):
    tune = ''.join('<vcpupin vcpu="%d" cpuset="%s"/>' % pin
                   for pin in pins.items())
    assert result.parse_guest(XML % (vcpu, tune, ''), 4) == (cpus, None)


def test_parse_guest_returns_partition():
    xml = XML % ('', '', '<resource><partition>/low_prio_machine</partition>'
                 '</resource>')
    assert result.parse_guest(xml, 1) == ([0], '/low_prio_machine')


@pytest.mark.parametrize('cpus, pinned_on, floats_on', [
    ([[4], [8, 9], [7]], [4, 7], {8, 9}),
    ([8, 9], [], {8, 9}),
    ([8], [], {8}),
    (None, [], set()),
])
def test_pinned_and_floating_cpus(cpus, pinned_on, floats_on):
    server = result.Server('s', cpus=cpus)
    assert (server.pinned_on, server.floats_on) == (pinned_on, floats_on)


def test_to_dict_has_the_keys_of_the_json_format():
    found = result.Result(
        [result.Server('s', faults={1: 'no', 2: 'no room'})],
        [{'name': 'a'}, {'name': 'b'}], ['surprise'], {'b': {3: 'no start'}})
    assert found.to_dict() == {
        'servers': [{
            'name': 's', 'id': None, 'priority': None, 'status': 'REFUSED',
            'host': None, 'cpus': None, 'partition': None,
            'fault': 'no\nno room'}],
        'hosts': [{'name': 'a', 'fault': None},
                  {'name': 'b', 'fault': 'no start'}]}


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
def test_parse_cpus_refuses_malformed_text(text):
    with pytest.raises(ValueError):
        result.parse_cpus(text)


@pytest.mark.parametrize('cpus, text', [
    ([], ''), ([5], '5'), ([3, 0, 1, 2, 7, 9, 8], '0-3,7-9')])
def test_format_cpus(cpus, text):
    assert text == result.format_cpus(cpus)
