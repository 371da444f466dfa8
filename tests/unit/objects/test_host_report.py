# SPDX-License-Identifier: Apache-2.0

from oslo_serialization import jsonutils
from oslo_versionedobjects import fields
from oslo_versionedobjects import fixture
import pytest

from nova_prio.model import capacity
from nova_prio.objects import host_report

CPUS = capacity.HostCPUs(frozenset(range(8)), frozenset(range(8, 12)),
                         capacity.parse_ratio('2.0'), mix=True)


def make_report():
    return host_report.HostReport.from_usage(
        CPUS, capacity.Rows(4, 8, 2), 14, {1: 3}, 'no partition',
        frozenset((6, 7)), ['vm-b'], 'no report')


def test_fields_and_version_are_unchanged():
    """A changed field needs a new version, because old schedulers read it."""
    checker = fixture.ObjectVersionChecker(
        {'HostReport': [host_report.HostReport]})
    expected, actual = checker.test_hashes(
        {'HostReport': '1.5-d83342c60c54c698ead9bc643e26e8be'})
    assert expected == actual


def test_report_survives_a_round_trip():
    read = host_report.HostReport.from_stats(
        {host_report.STATS_KEY: make_report().to_stats()})
    assert ('0-7', '8-11', True, 12, '2.0', 14) == (
        read.cpu_dedicated_set, read.cpu_shared_set, read.mix,
        read.floating_cpus, read.cpu_allocation_ratio, read.vcpus_used)
    assert capacity.Rows(8, 16, 8) == read.sellable
    assert capacity.Rows(4, 8, 2) == read.used
    assert {'1': 3} == read.low_by_cell
    assert 'no partition' == read.partition_problem
    assert '6-7' == read.blocked_cpus
    assert 'vm-b' == read.blocked_by
    assert 'no report' == read.problem
    assert capacity.Rows(6, 8, 2) == read.used_or_blocked
    assert capacity.Rows(2, 8, 6) == read.remaining


def read_as(version, **data):
    """Return the report that a compute of another version wrote."""
    primitive = make_report().obj_to_primitive()
    primitive['nova_prio_object.version'] = version
    primitive['nova_prio_object.data'].update(data)
    for name in [name for name, value in data.items() if value is None]:
        del primitive['nova_prio_object.data'][name]
    return host_report.HostReport.from_stats(
        {host_report.STATS_KEY: jsonutils.dumps(primitive)})


def test_report_of_an_older_compute_is_read():
    read = read_as('1.0', low_by_cell=None, partition_problem=None,
                   blocked_cpus=None)
    assert capacity.Rows(4, 8, 2) == read.used
    assert {} == read.low_by_cell
    read = read_as('1.1', partition_problem=None, blocked_cpus=None)
    assert {'1': 3} == read.low_by_cell
    assert '' == read.partition_problem
    read = read_as('1.2', blocked_cpus=None)
    assert capacity.Rows(4, 8, 6) == read.remaining
    read = read_as('1.3', blocked_by=None, problem=None)
    assert ('6-7', '', '') == (
        read.blocked_cpus, read.blocked_by, read.problem)
    read = read_as('1.4', leased_cpus=None)
    assert {6, 7} == read.hidden


@pytest.mark.parametrize('names, text', [
    ([], ''),
    (['a', 'b', 'c'], 'a, b, c'),
    (['a', 'b', 'c', 'd', 'e'], 'a, b, c and 2 more'),
    (['x' * 100], 'x' * 64 + '...'),
])
def test_names_of_guests_are_shortened(names, text):
    made = host_report.HostReport.from_usage(
        CPUS, capacity.Rows(4, 8, 2), 14, {}, blocked_by=names)
    assert text == made.blocked_by


def test_report_of_a_problem_has_no_remaining_capacity():
    made = host_report.HostReport.from_problem('no report', 14)
    read = host_report.HostReport.from_stats(
        {host_report.STATS_KEY: made.to_stats()})
    assert ('no report', 14, False) == (
        read.problem, read.vcpus_used, read.mix)
    assert capacity.Rows(0, 0, 0) == read.remaining


def test_report_of_a_newer_compute_is_read():
    read = read_as('1.99', not_known_yet={'a': 1})
    assert capacity.Rows(4, 8, 2) == read.used
    assert {'1': 3} == read.low_by_cell


def test_unknown_field_is_ignored():
    with fixture.VersionedObjectRegistryFixture() as registry:
        class HostReport(host_report.HostReport):
            VERSION = '1.%d' % (
                int(host_report.HostReport.VERSION.split('.')[1]) + 1)
            fields = {'more': fields.DictOfIntegersField()}

        registry.register(HostReport)
        newer = HostReport.from_usage(CPUS, capacity.Rows(4, 8, 2), 14, {1: 3})
        newer.more = {'0': 1}
        text = newer.to_stats()
    assert '"more"' in text
    read = host_report.HostReport.from_stats({host_report.STATS_KEY: text})
    assert type(read) is host_report.HostReport
    assert (capacity.Rows(4, 8, 2), {'1': 3}) == (read.used, read.low_by_cell)


def test_unchanged_report_has_unchanged_text():
    assert make_report().to_stats() == make_report().to_stats()


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
