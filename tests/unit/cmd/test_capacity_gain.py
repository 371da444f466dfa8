# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio capacity gain`` without a cloud."""

import decimal
import json

from lxml import html
import pytest

from nova_prio.cmd import gain_answers
from nova_prio.cmd import gain_input
from nova_prio.cmd import main
from nova_prio.model.planner import first_fit
from nova_prio.model.planner import gain
from tests import pages
from tests.unit.model.planner import fleets

SIZE = '{vcpus: 4, memory_mb: 1024, share: 100}'


@pytest.fixture
def run(capsys):
    """Return a function that runs the command.

    The function returns (exit status, standard output, standard error).
    """

    def capacity_gain(*arguments):
        status = main.main(['capacity', 'gain', *arguments])
        return status, *capsys.readouterr()

    return capacity_gain


@pytest.fixture
def demand(tmp_path):
    """Return a function that writes a file of servers; return its path."""

    def write(text):
        path = tmp_path / 'demand.yaml'
        path.write_text(text)
        return str(path)

    return write


def test_host_lists_the_example_of_the_design(run):
    status, out, _err = run('--host', 'cpus=12', '--ratio=2', '-f', 'json')
    assert 0 == status
    rows = {row['Dedicated']: row for row in json.loads(out)}
    assert list(range(13)) == list(rows)
    assert {'Ratio': 2.0, 'Dedicated': 8, 'Shared': 4, 'Low Without Mix': 8,
            'Low With Mix': 16, 'vCPUs Per CPU': 2.0} == rows[8]
    # Mix needs both CPU sets.
    assert 0 == rows[12]['Low With Mix']


def test_hosts_that_are_enough(run, demand, tmp_path):
    page = tmp_path / 'page.html'
    # 300 pinned vCPUs need 28 hosts with 11 dedicated CPUs, or 38 with 8. The
    # shared CPU of the former sells 11 * 2 - 11 + 2 = 13 vCPUs with mix, so 28
    # hosts sell more than 300. Without mix, the latter sell 4 * 2 = 8 each.
    status, out, err = run(
        '--host', 'cpus=12,memory=64G', '--ratio=2', '-f', 'json',
        '--html', str(page), '--demand', demand(
            '{servers: 600, sizes: [%s]}' % SIZE.replace('4', '1', 1)))
    assert 0 == status
    rows = [list(row.values()) for row in json.loads(out)
            if row['Pinned %'] == 50]
    assert [[50, 2.0, False, 8, 4, 38, 38, 'CPUs', 100],
            [50, 2.0, True, 11, 1, 28, 28, 'CPUs', 74]] == rows
    assert 'Assumed: the sizes of high- and low-priority servers' in err
    tree = html.document_fromstring(page.read_text())
    without, mixed = tree.findall('.//polyline')
    assert 5 == len(without.get('points').split()) == len(
        mixed.get('points').split())
    assert 10 == len(tree.findall('.//tbody/tr'))


def test_no_servers_is_an_answer(run, demand):
    status, out, err = run(
        '--host', 'cpus=12,memory=64G', '-f', 'json', '--demand',
        demand('{servers: 0, sizes: []}'))
    assert 0 == status
    assert {0} == {row['Hosts'] for row in json.loads(out)}
    assert 'No host is needed.' in err


def test_servers_that_no_division_suits_are_named(run, demand):
    """One server needs only dedicated CPUs, and one needs both kinds."""
    kinds = gain_input.load_demand(demand(
        '{servers: 1, sizes: [%s]}' % SIZE.replace('4', '12', 1)))
    kinds.append(first_fit.Kind(
        fleets.make_needs(dedicated=1, shared=1), number=1))
    host = gain.make_host(cpus=12, cells=1, memory_mb=9999, usable_mb=9999,
                          disk_gb=None)
    answers = []
    for mix in False, True:
        answers.append(gain.find_fewest(
            [first_fit.HostGroup(host, number=1)], kinds,
            gain.Setup(decimal.Decimal(2), mix)))
    assert ('No division of the CPUs suits all servers: with the best one, a '
            'server of high priority, 12 vCPUs, 1024 MB and 0 GB of disk '
            'fits on no host.') == gain_answers.summarize([
                gain_answers.Comparison(50, *answers)])


def test_servers_that_fit_without_mix_only_are_named(run, demand):
    _status, _out, err = run(
        '--host', 'cpus=16,memory=64G', '--ratio=1', '--demand', demand(
            '{servers: 10, sizes: [%s]}' % SIZE.replace('4', '15', 1)))
    assert 'No division of the CPUs suits all servers with mix: with' in err


@pytest.mark.parametrize('servers, numbers', [(10, [3, 3, 2, 2]), (1, [1])])
def test_no_server_is_lost_by_rounding(demand, servers, numbers):
    sizes = ', '.join([SIZE.replace('100', '25')] * 4)
    kinds = gain_input.load_demand(demand(
        '{servers: %d, sizes: [%s]}' % (servers, sizes)))
    # Each server is there once with each priority.
    assert numbers == [kind.number for kind in kinds[::2]]


@pytest.mark.parametrize('host, expected', [
    ('cpu=3', "A key of --host is 'cpu'; allowed are cells, cpus, disk, mem"),
    ('cpus=4,cpus=4', "A key of --host is 'cpus'; allowed are"),
    ('memory=64G', "without the key cpus; required are cpus and memory."),
    ('cpus=4', "without the key memory; required are cpus and memory."),
    ('cpus=0,memory=64G', "cpus of --host is '0'; allowed are whole numbers"),
    ('cpus=x,memory=64G', "cpus of --host is 'x'; allowed are whole numbers"),
    ('cpus=4,memory=64', "memory of --host is '64'; allowed are numbers with"),
    ('cpus=4,memory=64G,disk=-5G', "disk of --host is '-5G'; allowed are num"),
    ('cpus=4,memory=G', "memory of --host is 'G'; allowed are numbers with"),
    ('cpus=12,memory=64G,cells=5', "cells of --host is '5'; allowed are div"),
    ('cpus=12,memory=64G,reserved=64G', '--host leaves 0 MB of 65536 MB for'),
    ('cpus=12,memory=64G,small-pages=65G', '--host leaves 66560 MB of 65536'),
    ('cpus=4,memory=64G,cells=2', 'a server of high priority, 4 vCPUs, 1024'),
    ('cpus=12,memory=900M', 'a server of high priority, 4 vCPUs, 1024 MB'),
    ('cpus=12,memory=9G,small-pages=1G,reserved=1M', '4 vCPUs, 1024 MB'),
])
def test_wrong_hosts_are_refused(run, demand, host, expected):
    status, out, err = run('--host', host, '--demand', demand(
        '{servers: 1, sizes: [%s]}' % SIZE))
    assert (1, '') == (status, out)
    line, = err.splitlines()
    assert expected in line


@pytest.mark.parametrize('text, expected', [
    ('[', 'expected the node content'),
    ('[]', 'its keys must be servers and sizes'),
    ('{servers: 1}', 'its keys must be servers and sizes'),
    ('{servers: 1, sizes: [], more: 1}', 'its keys must be servers and sizes'),
    ('{servers: -1, sizes: []}', "servers is '-1'; allowed are whole numbers"),
    ('{servers: 1, sizes: 2}', 'sizes must be a list'),
    ('{servers: 1, sizes: [4]}', "a size is '4'; its keys must be vcpus, mem"),
    ('{servers: 1, sizes: [{vcpus: 4}]}', 'its keys must be vcpus, memory_mb'),
    ('{servers: 1, sizes: [%s]}' % SIZE.replace('4', '0', 1),
     "vcpus of a size is '0'; allowed are whole numbers from 1 on"),
    ('{servers: 1, sizes: [%s]}' % SIZE.replace('1024', '0.5'),
     "memory_mb of a size is '0.5'; allowed are whole numbers from 1 on"),
    ('{servers: 1, sizes: [%s]}' % SIZE.replace('100', '.nan'),
     "share of a size is 'nan'; allowed are numbers from 0 to 100"),
    ('{servers: 1, sizes: [%s]}' % SIZE.replace('100', '99.9'),
     'the shares of the sizes add up to 99.9; they must add up to 100'),
])
def test_wrong_demands_are_refused(run, demand, text, expected):
    status, out, err = run(
        '--host', 'cpus=12,memory=64G', '--demand', demand(text))
    assert (1, '') == (status, out)
    line, = err.splitlines()
    assert "demand.yaml': " in line
    assert expected in line


@pytest.mark.parametrize('arguments, expected', [
    (['--demand=/none', '--host=cpus=4,memory=1G'],
     "--demand is '/none', which cannot be read: No such file"),
    (['--host=cpus=4', '--ratio=0'],
     "--ratio is '0'; allowed are numbers above 0, up to 1000."),
    (['--host=cpus=4', '--ratio=x'], "--ratio is 'x'; allowed are numbers"),
    (['--host=cpus=4', '--html=x'], '--html is given without --demand or --w'),
    (['--host=cpus=4', 'compute-1'], '--host describes one host that does n'),
    (['--host=cpus=4', '--all'], '--host describes one host that does not'),
    (['--all', '--what-if'], '--what-if is given without --low; name the fl'),
    (['--all', '--low=all'], '--low is given without --what-if.'),
    (['--all', '--ratio=2'], '--ratio is given without --host or --what-if.'),
    (['--all', '--what-if', '--low=all', '--flavor=x'],
     '--flavor is given with --what-if; give one of them.'),
])
def test_wrong_options_are_refused(run, arguments, expected):
    status, out, err = run(*arguments)
    assert (1, '') == (status, out)
    line, = err.splitlines()
    assert expected in line


#: Demand, GB for each CPU, and the smallest and the largest part of the hosts
#: without mix, for ratio 2 and 3 and 30 to 70 percent of pinned vCPUs. They
#: are those of a first fit that knows no NUMA cells.
PUBLISHED = [('ovhcloud-2023', 8, 0.68, 0.88), ('azure-2017', 4, 0.73, 0.95)]


@pytest.mark.parametrize('demand, gb, least, most', PUBLISHED)
def test_published_demands(demand, gb, least, most):
    kinds = gain_input.load_demand(
        pages.ROOT / 'examples' / 'demand' / (demand + '.yaml'))
    vcpus = gain.count_vcpus(kinds)['high']
    memory_mb = 128 * gb * 1024
    host = gain.make_host(cpus=128, cells=1, memory_mb=memory_mb,
                          usable_mb=memory_mb, disk_gb=None)
    groups = [first_fit.HostGroup(host, number=1)]
    parts = []
    for share, ratio in (30, 3), (50, 2), (70, 3):
        changed = gain.change_share(kinds, vcpus, share)
        hosts = [gain.find_fewest(groups, changed, gain.Setup(
            decimal.Decimal(ratio), mix)) for mix in (False, True)]
        assert hosts[0].hosts > 200
        parts.append(hosts[1].hosts / hosts[0].hosts)
    assert min(parts) == pytest.approx(least, rel=0.1)
    assert max(parts) == pytest.approx(most, rel=0.1)
