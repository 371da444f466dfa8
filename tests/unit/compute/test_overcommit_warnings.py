# SPDX-License-Identifier: Apache-2.0

import dataclasses
import logging

import fixtures
import pytest

from nova_prio.compute import oversold_warnings
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages
from nova_prio.model import usage

LOW = usage.Usage(cpu_capacity.Demand('low', 0, 6), {}, 6, 512, 512, {})
ORDINARY = usage.Usage(cpu_capacity.Demand(None, 0, 4), {}, 4, 512, 512, {})
HIGH = usage.Usage(cpu_capacity.Demand('high', 2, 0), {}, 0, 512, 512, {})


@pytest.fixture
def log():
    with fixtures.FakeLogger(
            name=oversold_warnings.LOG.name, level=logging.WARNING,
            format='%(instance_uuid)s %(message)s') as logger:
        yield logger


def report_of(usages, ratio, mix=True):
    """Return the report of a host with 4 dedicated and 4 shared CPUs."""
    totals = usage.Totals(used for _, used in usages)
    return capacity_report.CapacityReport.from_usage(
        cpu_capacity.HostCPUs(frozenset(range(4)), frozenset(range(4, 8)),
                              cpu_capacity.parse_ratio(ratio), mix),
        cpu_capacity.calculate_used(
            2, totals.low_shared, totals.ordinary_shared),
        vcpus_used=12, low_by_cell={})


def warned(log):
    """Return pairs (instance, row) that were warned of."""
    lines = [line.split() for line in log.output.splitlines()]
    return [(line[0], line[line.index('row') - 1]) for line in lines]


def test_each_instance_on_an_oversold_row_once_while_it_lasts(log):
    said = oversold_warnings.OversoldWarnings()
    usages = [('low', LOW), ('ordinary', ORDINARY), ('high', HIGH)]
    # Low: 4 * 2 + 4 * 1 = 12 sellable and 10 sold; ordinary: 8 and 4.
    said.warn(report_of(usages, '2.0'), usages)
    assert [] == warned(log)
    # 4 * 2 = 8 of the low row without mix.
    said.warn(report_of(usages, '2.0', mix=False), usages)
    expected = [('low', 'low'), ('ordinary', 'low')]
    assert expected == warned(log)
    # 4 * 0.5 = 2 of either row: only new warnings are logged.
    said.warn(report_of(usages, '0.5'), usages)
    expected += [('ordinary', 'ordinary')]
    assert expected == warned(log)
    said.warn(report_of(usages, '2.0'), usages)
    said.warn(report_of(usages, '0.5'), usages)
    assert 2 * expected == warned(log)


def test_warning_names_row_and_amounts(log):
    usages = [('low', LOW)]
    oversold_warnings.OversoldWarnings().warn(report_of(usages, '1.0'), usages)
    assert log.output.startswith(
        'low Too much is sold of the low row of this host: 6 of 4 CPUs, 6 of '
        'them to this instance. The instance keeps running')


def test_an_instance_that_is_resized_on_its_host_counts_twice(log):
    usages = [('low', LOW), ('low', LOW)]
    oversold_warnings.OversoldWarnings().warn(report_of(usages, '1.0'), usages)
    assert '12 of 4 CPUs, 12 of them' in log.output


def test_small_pages_once_while_they_are_oversold(log):
    said = oversold_warnings.OversoldWarnings()
    host = report_of([], '2.0')
    for free_mb in 0, -5, -9, 0, -5:
        small = memory_pages.SmallPages(4, total_mb=512, free_mb=free_mb)
        said.warn(dataclasses.replace(host, small_pages=small), [])
    said.warn(host, [])
    lines = log.output.splitlines()
    assert 2 == len(lines)
    assert lines[0].startswith(
        'None Too much is sold of the small pages of this host, which are its '
        'memory outside of huge pages: 5 MB more than it has.')
