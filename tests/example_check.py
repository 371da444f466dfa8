# SPDX-License-Identifier: Apache-2.0

"""Play the worked example as a user does, and check its result.

Some test environments name this file. Its own name keeps it out of the other
test runs.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PROGRAM = pathlib.Path(sys.executable).with_name('nova-prio')


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    """The path of the page that ``--html`` writes."""
    return tmp_path_factory.mktemp('page') / 'seed.html'


@pytest.fixture(scope='module')
def played(page):
    """The document that ``--format json`` prints."""
    done = subprocess.run(
        [PROGRAM, 'scenario', 'play', '--format', 'json', '--html', page,
         ROOT / 'examples' / 'seed.yaml'],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def servers(played, priority, status):
    return [server for server in played['servers']
            if (server['priority'], server['status']) == (priority, status)]


def test_two_high_and_four_low_run_and_one_of_each_is_refused(played):
    assert {
        ('high', 'ACTIVE'): 2, ('high', 'ERROR'): 1,
        ('low', 'ACTIVE'): 4, ('low', 'ERROR'): 1,
    } == collections.Counter((server['priority'], server['status'])
                             for server in played['servers'])


def test_high_is_pinned_one_to_one_on_the_dedicated_cpus(played):
    pins = [cpus for server in servers(played, 'high', 'ACTIVE')
            for cpus in server['cpus']]
    assert [[cpu] for cpu in range(8)] == sorted(pins)


def test_low_floats_over_all_cpus(played):
    for server in servers(played, 'low', 'ACTIVE'):
        assert list(range(12)) == server['cpus']


def test_partitions(played):
    for priority in ('high', 'low'):
        for server in servers(played, priority, 'ACTIVE'):
            assert '/%s_prio_machine' % priority == server['partition']


def test_refusals_give_the_numbers(played):
    high, = servers(played, 'high', 'ERROR')
    assert '4 PCPU needed, 0 free of 8' in high['fault']
    low, = servers(played, 'low', 'ERROR')
    assert '4 VCPU needed, 0 free of 16' in low['fault']


def test_placement_and_the_rows_are_full(played):
    host, = played['hosts']
    vcpu = host['inventory']['VCPU']
    assert (12, 4, 2.0) == (
        vcpu['total'], vcpu['reserved'], vcpu['allocation_ratio'])
    assert 8 == host['inventory']['PCPU']['total']
    assert {'sellable': 8, 'used': 8} == host['classes']['high']
    assert {'sellable': 16, 'used': 16} == host['classes']['low']


def test_page_has_the_same_result(played, page):
    embedded = re.search(
        '<script type="application/json" id="data">(.*?)</script>',
        page.read_text())
    assert played == json.loads(embedded[1])
