# SPDX-License-Identifier: Apache-2.0

"""Ordinary requests on hosts without mix, decided as Nova's filter does."""

import collections
import copy
import logging

import hypothesis
from hypothesis import strategies as st
from nova import objects
from nova.scheduler.filters import numa_topology_filter
from nova.scheduler import host_manager
from oslo_utils.fixture import uuidsentinel as uuids
import pytest

from nova_prio.model import cpu_capacity
from nova_prio.objects import host_report
from nova_prio.scheduler.filters import priority_filter
from tests.unit import nova_objects
from tests.unit.scheduler import drawn_hosts

NO_MIX = cpu_capacity.HostCPUs(
    nova_objects.CPUS.dedicated, nova_objects.CPUS.shared,
    nova_objects.CPUS.ratio, mix=False)
OTHER = nova_objects.host_state(stats={})
OURS = nova_objects.host_state(cpus=NO_MIX)


def draw_request(rnd):
    """Return an ordinary request, some with PCI devices or networks."""
    spec = drawn_hosts.request(rnd)
    more = rnd.choice(['pci', 'network', None, None])
    if more == 'pci':
        spec.pci_requests = drawn_hosts.pci_requests(rnd)
    elif more == 'network':
        spec.network_metadata = objects.NetworkMetadata(
            physnets=set(rnd.choice(
                [(), drawn_hosts.PHYSNETS[:1], drawn_hosts.PHYSNETS])),
            tunneled=rnd.choice([True, False]))
    if rnd.choice([False] * 49 + [True]):
        spec.scheduler_hints = {'_nova_check_type': ['rebuild']}
    return spec


def draw_host(rnd):
    """Return a host without mix, of our driver or of another."""
    kind = rnd.choice(['ours'] * 6 + ['other'] * 6 + ['no stats', 'new'])
    if kind == 'new':
        # Found by the scheduler before its compute wrote anything.
        return host_manager.HostState('host1', 'node1', uuids.cell)
    state = copy.copy(OURS if kind == 'ours' else OTHER)
    if kind == 'no stats':
        state.stats = None
    state.numa_topology = rnd.choice([True] * 19 + [False]) and (
        drawn_hosts.numa_topology(
            rnd, is_legacy=rnd.choice([False, False, True])))
    state.pci_stats = drawn_hosts.pci_stats(rnd, state.numa_topology)
    # 4.0 is what Nova has before it knows the ratio that is in force.
    state.cpu_allocation_ratio = rnd.choice(
        [0.5, 1.0, 1.0, 2.0, 2.0, 2.0, 4.0, 4.0, 0.0])
    state.ram_allocation_ratio = rnd.choice([0.5, 1.0, 1.0, 1.5])
    state.allocation_candidates = [
        drawn_hosts.candidate(rnd, state, VCPU=1 + number)
        for number in range(rnd.choice([1] * 6 + [2, 3, 3, 0]))]
    return state


def outcome(filter_class, states, spec):
    """Return (remaining candidates, limits) of each host that passes."""
    fresh = []
    for number, state in enumerate(states):
        state = copy.copy(state)
        state.limits = {}
        state.host = number
        state.numa_topology = state.numa_topology and (
            objects.NUMATopology.obj_from_db_obj(
                state.numa_topology._to_json()))
        fresh.append(state)
    passed = {}
    for state in filter_class().filter_all(fresh, spec):
        limits = state.limits.get('numa_topology')
        passed[state.host] = (state.allocation_candidates,
                              limits and limits.obj_to_primitive())
    return passed


def kinds(spec):
    """Return the features of a request, for each of which both must agree."""
    topology = spec.numa_topology
    found = {'PCI devices': spec.pci_requests.requests,
             'networks': 'network_metadata' in spec}
    if topology is not None:
        cell = topology.cells[0]
        found.update({
            'policy %s' % cell.cpu_policy: True,
            'several cells': len(topology.cells) > 1,
            'page size': cell.pagesize,
            'thread policy': cell.cpu_thread_policy,
            'emulator thread': topology.emulator_threads_isolated,
            'real-time': 'hw:cpu_realtime' in spec.flavor.extra_specs,
            'by hand': 'hw:numa_cpus.0' in spec.flavor.extra_specs,
            'image': spec.image.properties.obj_what_changed()})
    return {kind for kind, is_shown in found.items() if is_shown}


@pytest.fixture(autouse=True)
def quiet(caplog):
    """Keep Nova's log of each attempt out of the report of a failure."""
    caplog.set_level(logging.ERROR, logger='nova')


def test_same_decision():
    answers = collections.defaultdict(set)

    @hypothesis.settings(max_examples=1000, derandomize=True)
    @hypothesis.given(st.randoms(use_true_random=False))
    def decide(rnd):
        spec = draw_request(rnd)
        states = [draw_host(rnd) for _ in range(rnd.choice([1, 2, 3, 4]))]
        before = spec.obj_to_primitive()
        expected = outcome(
            numa_topology_filter.NUMATopologyFilter, states, spec)
        assert expected == outcome(
            priority_filter.PriorityFilter, states, spec)
        assert before == spec.obj_to_primitive()
        for kind in kinds(spec):
            answers[kind].update(
                number in expected for number in range(len(states)))

    decide()
    assert {True, False} == set.intersection(*answers.values())
    assert 13 == len(answers)


def of_cells(name, value):
    """Return a function that gives all NUMA cells of a host a value."""
    def change(state):
        for cell in state.numa_topology.cells:
            setattr(cell, name, value)
    return change


def of_report(before, after):
    """Return a function that changes the text of a host's report."""
    def change(state):
        text = state.stats[host_report.STATS_KEY]
        assert before in text
        state.stats = {host_report.STATS_KEY: text.replace(before, after)}
    return change


def of_state(name, value):
    """Return a function that gives a host state a value."""
    return lambda state: setattr(state, name, value)


def without_dedicated_cpus(state):
    """Give the host the NUMA cells of Nova's releases before Train."""
    state.numa_topology = objects.NUMATopology(cells=[
        objects.NUMACell(**{
            name: getattr(cell, name) for name in cell.fields
            if name != 'pcpuset'}) for cell in state.numa_topology.cells])


FLAVORS = [
    (nova_objects.HIGH, {'PCPU': 4}),
    (nova_objects.PINNED, {'PCPU': 4}),
    (nova_objects.flavor(hw__cpu_policy='dedicated',
                         hw__cpu_thread_policy='prefer'), {'PCPU': 4}),
    (nova_objects.flavor(hw__cpu_policy='mixed', hw__cpu_dedicated_mask='0'),
     {'PCPU': 1, 'VCPU': 3}),
    (nova_objects.LOW, {'VCPU': 4}),
    (nova_objects.flavor(hw__cpu_priority='low', hw__cpu_policy='shared',
                         hw__numa_nodes='1'), {'VCPU': 4}),
    (nova_objects.ORDINARY, {'VCPU': 4}),
    (nova_objects.flavor(hw__numa_nodes='1'), {'VCPU': 4}),
]


@pytest.mark.parametrize('change', [
    of_state('cpu_allocation_ratio', None),
    of_state('ram_allocation_ratio', None),
    of_state('numa_topology', objects.NUMATopology(cells=[])),
    of_state('pci_stats', None),
    of_state('stats', {host_report.STATS_KEY: None}),
    of_state('stats', {host_report.STATS_KEY: 'null'}),
    of_report('"%s"' % host_report.HostReport.VERSION, 'null'),
    of_report('"%s"' % host_report.HostReport.VERSION, '"1"'),
    of_report('"vcpus_used": 0', '"vcpus_used": "x"'),
    of_report('"low_by_cell": {}', '"low_by_cell": []'),
    of_report('"small_pages": {}', '"small_pages": {"free_mb": 0}'),
    of_report('"2.0"', '"x"'),
    of_report('"blocked_cpus": ""', '"blocked_cpus": "x"'),
    of_report('"2.0"', '"NaN"'),
    of_state('free_ram_mb', None),
    of_cells('siblings', []),
    without_dedicated_cpus,
])
@pytest.mark.parametrize('cpus', [nova_objects.CPUS, NO_MIX])
def test_bad_host_record_fails_no_request(caplog, cpus, change):
    """Such a host is refused with a reason, or the bad value is unused."""
    caplog.set_level(logging.DEBUG, logger=priority_filter.LOG.name)
    for flavor, resources in FLAVORS:
        good, bad = [
            nova_objects.candidate(
                nova_objects.host_state(cpus=cpus), **resources)
            for _ in range(2)]
        bad.host = 'bad'
        change(bad)
        caplog.clear()
        passed = list(priority_filter.PriorityFilter().filter_all(
            [bad, good], nova_objects.request_spec(flavor)))
        assert good in passed
        refusals = [(record.args['host'], bool(record.args['refusal']))
                    for record in caplog.records
                    if record.name == priority_filter.LOG.name]
        assert refusals == ([] if bad in passed else [('bad', True)])
