# SPDX-License-Identifier: Apache-2.0

import dataclasses

from oslo_serialization import jsonutils
from oslo_versionedobjects import fields
from oslo_versionedobjects import fixture
import pytest

from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import low_supply
from nova_prio.model import memory_pages
from nova_prio.objects import host_report

CPUS = cpu_capacity.HostCPUs(frozenset(range(8)), frozenset(range(8, 12)),
                             cpu_capacity.parse_ratio('2.0'), mix=True)


def make_report():
    return capacity_report.CapacityReport.from_usage(
        CPUS, cpu_capacity.Rows(4, 8, 2), 14, {1: 3},
        partition_problem='no partition', blocked=frozenset((6, 7)),
        blocked_by='vm-b', problem='no report', leased=frozenset((5,)),
        small_pages=memory_pages.SmallPages(4, 2048, -512),
        low_supply=low_supply.LowSupply(360, 20))


def write(report):
    """Return the stats of a compute node with a report."""
    return {host_report.STATS_KEY: host_report.HostReport.to_stats(report)}


def test_fields_and_version_are_unchanged():
    """A changed field needs a new version, because old schedulers read it."""
    checker = fixture.ObjectVersionChecker(
        {'HostReport': [host_report.HostReport]})
    expected, actual = checker.test_hashes(
        {'HostReport': '1.7-90d2a6122a7802acecdf0688e4331fc8'})
    assert expected == actual


def test_report_survives_a_round_trip():
    read = host_report.HostReport.from_stats(write(make_report()))
    assert make_report() == read
    assert (True, 12, 4, {5, 6, 7}) == (
        read.mix, read.floating_cpus, read.shared_cpus, read.hidden)
    assert cpu_capacity.Rows(8, 16, 8) == read.sellable
    assert cpu_capacity.Rows(6, 8, 2) == read.used_or_blocked
    assert cpu_capacity.Rows(2, 8, 6) == read.remaining


def test_stored_text_is_unchanged():
    """Schedulers of all releases with this major version read it."""
    assert {'nova_prio_object.name': 'HostReport',
            'nova_prio_object.namespace': 'nova_prio',
            'nova_prio_object.version': '1.7',
            'nova_prio_object.data': {
                'blocked_by': 'vm-b', 'blocked_cpus': '6-7',
                'cpu_allocation_ratio': '2.0', 'cpu_dedicated_set': '0-7',
                'cpu_shared_set': '8-11', 'floating_cpus': 12,
                'high_sellable': 8, 'high_used': 4, 'leased_cpus': '5',
                'low_by_cell': {'1': 3}, 'low_sellable': 16,
                'low_supply': {'cpu_percent': 360, 'wait_percent': 20},
                'low_used': 8,
                'mix': True, 'ordinary_sellable': 8, 'ordinary_used': 2,
                'partition_problem': 'no partition', 'problem': 'no report',
                'small_pages': {
                    'free_mb': -512, 'page_kb': 4, 'total_mb': 2048},
                'vcpus_used': 14}} == jsonutils.loads(
        write(make_report())[host_report.STATS_KEY])


def read_as(version, **data):
    """Return the report that a compute of another version wrote."""
    primitive = jsonutils.loads(
        write(make_report())[host_report.STATS_KEY])
    primitive['nova_prio_object.version'] = version
    primitive['nova_prio_object.data'].update(data)
    for name in [name for name, value in data.items() if value is None]:
        del primitive['nova_prio_object.data'][name]
    return host_report.HostReport.from_stats(
        {host_report.STATS_KEY: jsonutils.dumps(primitive)})


def test_report_of_an_older_compute_is_read():
    read = read_as('1.0', low_by_cell=None, partition_problem=None,
                   blocked_cpus=None)
    assert cpu_capacity.Rows(4, 8, 2) == read.used
    assert {} == read.low_by_cell
    read = read_as('1.1', partition_problem=None, blocked_cpus=None)
    assert {1: 3} == read.low_by_cell
    assert '' == read.partition_problem
    read = read_as('1.2', blocked_cpus=None)
    assert cpu_capacity.Rows(4, 8, 6) == read.remaining
    read = read_as('1.3', blocked_by=None, problem=None)
    assert ({6, 7}, '', '') == (read.blocked, read.blocked_by, read.problem)
    read = read_as('1.4', leased_cpus=None)
    assert {6, 7} == read.hidden
    read = read_as('1.5', small_pages=None)
    assert read.small_pages is None
    assert {5, 6, 7} == read.hidden
    read = read_as('1.6', low_supply=None)
    assert read.low_supply is None
    assert 2048 == read.small_pages.total_mb


@pytest.mark.parametrize('stored', [
    {}, {'wait_percent': 20}, {'cpu_percent': -1, 'wait_percent': 20},
    {'cpu_percent': 1201, 'wait_percent': 20},
    {'cpu_percent': 360, 'wait_percent': 101}])
def test_absurd_low_supply_is_unknown(stored):
    """The host has 12 floating CPUs. The rest of the report counts."""
    read = read_as('1.7', low_supply=stored)
    assert read.low_supply is None
    assert cpu_capacity.Rows(4, 8, 2) == read.used


def test_wait_may_be_unknown():
    report = dataclasses.replace(
        make_report(), low_supply=low_supply.LowSupply(360, None))
    assert report == host_report.HostReport.from_stats(write(report))


@pytest.mark.parametrize('names, text', [
    ([], ''),
    (['a', 'b', 'c'], 'a, b, c'),
    (['a', 'b', 'c', 'd', 'e'], 'a, b, c and 2 more'),
    (['x' * 100], 'x' * 64 + '...'),
])
def test_names_of_guests_are_shortened(names, text):
    assert text == capacity_report.shorten_names(names)


def test_report_of_a_problem_has_no_remaining_capacity():
    made = capacity_report.CapacityReport.from_problem('no report', 14)
    read = host_report.HostReport.from_stats(write(made))
    assert ('no report', 14, False) == (
        read.problem, read.vcpus_used, read.mix)
    assert read.small_pages is None
    assert cpu_capacity.Rows(0, 0, 0) == read.remaining


def test_report_of_a_newer_compute_is_read():
    read = read_as('1.99', not_known_yet={'a': 1})
    assert cpu_capacity.Rows(4, 8, 2) == read.used
    assert {1: 3} == read.low_by_cell


def test_unknown_field_is_ignored():
    with fixture.VersionedObjectRegistryFixture() as registry:
        class HostReport(host_report.HostReport):
            VERSION = '1.%d' % (
                int(host_report.HostReport.VERSION.split('.')[1]) + 1)
            fields = {'more': fields.DictOfIntegersField()}

        registry.register(HostReport)
        text = HostReport.to_stats(make_report()).replace(
            '"mix":', '"more": {"0": 1}, "mix":')
    assert '"more"' in text
    read = host_report.HostReport.from_stats({host_report.STATS_KEY: text})
    assert make_report() == read


def test_unchanged_report_has_unchanged_text():
    assert write(make_report()) == write(make_report())


@pytest.mark.parametrize('stats', [None, {}, {'uptime': 'x'}])
def test_stats_without_report(stats):
    assert host_report.HostReport.from_stats(stats) is None


@pytest.mark.parametrize('text', [
    '', 'x', '[]', '{}', 'null', '{"nova_prio_object.name": "Other"}',
    '{"nova_prio_object.name": "HostReport",'
    ' "nova_prio_object.namespace": "nova_prio",'
    ' "nova_prio_object.version": "1.0", "nova_prio_object.data": {}}',
    '{"nova_prio_object.name": "HostReport",'
    ' "nova_prio_object.namespace": "nova_prio",'
    ' "nova_prio_object.version": "99.0", "nova_prio_object.data": {}}',
])
def test_unreadable_report_is_an_error(text):
    with pytest.raises(host_report.UnreadableReport):
        host_report.HostReport.from_stats({host_report.STATS_KEY: text})
