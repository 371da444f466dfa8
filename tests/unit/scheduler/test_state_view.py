# SPDX-License-Identifier: Apache-2.0

import gc
import tracemalloc
import types

from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.objects import host_report
from nova_prio.scheduler import state_view
from tests.unit import nova_objects


def large_host(number):
    """Return the state of a host whose report differs from all others."""
    cells = {cell: number for cell in range(8)}
    report = capacity_report.CapacityReport.from_usage(
        nova_objects.CPUS, cpu_capacity.calculate_used(4, 30, 4), 38 + number,
        cells)
    return types.SimpleNamespace(
        stats={host_report.STATS_KEY: host_report.HostReport.to_stats(report)})


def test_same_text_is_read_once():
    state_view._read_report.cache_clear()
    assert state_view.get_report(large_host(0)) is state_view.get_report(
        large_host(0))


def test_reports_of_all_hosts_take_at_most_10_mib():
    state_view._read_report.cache_clear()
    state_view.get_report(large_host(0))
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(4200):
            state_view.get_report(large_host(number))
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (state_view._read_report.cache_info().currsize ==
            state_view.MOST_REPORTS)
    assert kept < 10 * 1024 * 1024
