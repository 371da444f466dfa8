# SPDX-License-Identifier: Apache-2.0

"""The time of single functions of the filters, and the memory in use."""

import copy
import gc
import itertools
import statistics
import tracemalloc

from nova import objects
from nova.virt import hardware

from benchmarks import clock
from benchmarks import hosts
from nova_prio.objects import host_report
from nova_prio.scheduler import state_view

#: Numbers of used vCPUs, each of which makes a new text of a report.
_NEVER_SEEN = itertools.count(1000000)


def measure_times(request, states, repeats):
    """Return microseconds per host of the functions that the filters call.

    :param request: benchmarks.request_specs.Request for one pinned NUMA cell
    :param states: list of HostState, every other one full
    """
    found = {}

    def measure_part(key, items, call):
        seconds = []
        for _ in range(repeats):
            fresh = items()
            seconds.append(clock.seconds(
                lambda: [call(item) for item in fresh])[0] / len(fresh))
        found['parts.%s_us' % key] = statistics.median(seconds) * 1e6

    def limits(_):
        return objects.NUMATopologyLimits(
            cpu_allocation_ratio=2.0, ram_allocation_ratio=1.0)

    limits_of_fit = limits(None)

    def fit(item):
        state, topology = item
        return hardware.numa_fit_instance_to_host(
            state.numa_topology, topology, limits=limits_of_fit,
            pci_requests=[], pci_stats=state.pci_stats, provider_mapping={})

    def to_fit(of_group):
        return lambda: [(state, request.spec.numa_topology.obj_clone())
                        for state in of_group]

    with_devices = [hosts.host(number, has_pci_devices=True)
                    for number in range(len(states) // 10)]
    measure_part('request_copy', lambda: states,
                 lambda _: request.spec.obj_clone())
    measure_part('nova_fit.feasible', to_fit(states[::2]), fit)
    measure_part('nova_fit.full', to_fit(states[1::2]), fit)
    measure_part('pci_copy', lambda: with_devices,
                 lambda state: copy.deepcopy(state.pci_stats))
    measure_part('limits', lambda: states, limits)
    measure_part('free_cpus', lambda: states, lambda state: [
        cell.pcpuset - cell.pinned_cpus for cell in state.numa_topology.cells])
    measure_part('report', lambda: hosts.copy_for(request, states),
                 state_view.get_report)
    measure_part('first_report', lambda: list(map(_with_new_report, states)),
                 state_view.get_report)
    return found


def measure_memory(number=200):
    """Return KiB per host of Nova's HostState and of the data of nova_prio.

    The text of the report is part of the HostState. The parsed report is
    cached with its text, once for all hosts with an equal text.
    """
    def measure_kib(create):
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        created = create()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        return (after - before) / number / 1024, created

    def read_reports():
        for state in states:
            state_view.get_report(_with_new_report(state))

    # Objects that only the first host creates are not counted.
    state_view.get_report(hosts.host(0))
    tracemalloc.start()
    host_state_kib, states = measure_kib(
        lambda: [hosts.host(each) for each in range(number)])
    report_kept_kib, _ = measure_kib(read_reports)
    tracemalloc.stop()
    return {
        'host_state_kib': host_state_kib,
        'report_text_kib': statistics.mean(
            len(state.stats[host_report.STATS_KEY]) for state in states
        ) / 1024,
        'report_kept_kib': report_kept_kib,
    }


def _with_new_report(state):
    """Return a copy of a host with a report that is not cached."""
    state = copy.copy(state)
    state.stats = {host_report.STATS_KEY: hosts.report(
        True, 4, 4, next(_NEVER_SEEN))}
    return state
