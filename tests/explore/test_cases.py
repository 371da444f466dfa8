# SPDX-License-Identifier: Apache-2.0

"""The names of cases, and how patterns select them."""

import pytest

from tests.explore import cases

POINT = 'Instance.save#1'


@pytest.mark.parametrize('patterns, expected', [
    (['migrate:high:audit', 'stop:low:delete_it'],
     ['migrate:high:audit', 'stop:low:delete_it']),
    (['confirm*:low:recount_*'],
     ['%s:low:recount_%s' % (operation, host)
      for operation in ('confirm', 'confirm_resize', 'confirm_on_host')
      for host in ('source', 'destination')]),
    # The source host is down.
    (['evacuate:high:*_source'], ['evacuate:high:return_source']),
    # The operation stays on its host.
    (['reboot:low-two-cells'], []),
])
def test_patterns_select_triples(patterns, expected):
    assert expected == list(map(str, cases.list_triples(patterns)))


def test_pattern_without_parts_selects_all_of_them():
    triples = cases.list_triples(['migrate'])
    assert triples == cases.list_triples(['migrate:*:*'])
    assert {'high', 'low-two-cells'} <= {each.kind for each in triples}


@pytest.mark.parametrize('case', [
    '*', 'migrate', 'migr*:high', '*:*:kill_*',
    'migrate:high:delete_it:' + POINT, 'migrate:high:nothing:None',
    'evacuate:high:return_source:' + POINT, 'evacuate:high:nothing:None',
    'migrate:low-two-cells:audit:' + POINT, 'migrate:high:sweep:0',
])
def test_good_case(case):
    cases.check(case)


@pytest.mark.parametrize('case, sentence', [
    ('migrat', 'selects no case'),
    ('', 'selects no case'),
    ('reboot:low-two-cells', 'selects no case'),
    ('migrate:high:sweep', 'selects no case'),
    ('migrate:high:audit:%s:0' % POINT, 'has more parts'),
    ('migr*:high:audit:' + POINT, 'is a pattern with a point'),
    ('migrate:high:audit:Instance.*', 'is a pattern with a point'),
    ('migrat:high:audit:' + POINT, '"migrat" is no operation'),
    ('migrate:hig:audit:' + POINT, '"hig" is no kind'),
    ('migrate:high:audi:' + POINT, '"audi" is no disturbance'),
    ('reboot:low-two-cells:audit:' + POINT, 'does not move an instance'),
    ('reboot:low-two-cells:sweep:0', 'does not move an instance'),
    ('migrate:high:return_source:' + POINT, 'operation is up'),
    ('evacuate:high:kill_source:' + POINT, 'operation is down'),
    ('migrate:high:nothing:' + POINT, 'is "None"'),
    ('migrate:high:audit:None', 'is "None"'),
    ('migrate:high:sweep:first', 'is 0 to'),
    ('migrate:high:sweep:-1', 'is 0 to'),
    ('migrate:high:sweep:00', 'is 0 to'),
])
def test_bad_case(case, sentence):
    with pytest.raises(ValueError, match=sentence):
        cases.check(case)


def test_greatest_number_of_sweep():
    count = len(cases.order_disturbances('migrate', 'high'))
    cases.check('migrate:high:sweep:%d' % (count - 1))
    with pytest.raises(ValueError, match='is 0 to %d$' % (count - 1)):
        cases.check('migrate:high:sweep:%d' % count)
