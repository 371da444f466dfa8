# SPDX-License-Identifier: Apache-2.0

import logging

from nova import objects
from oslo_serialization import jsonutils
import pytest

from nova_prio.model import cpu_capacity
from nova_prio.model import memory_pages
from nova_prio.objects import host_report
from nova_prio.scheduler.filters import priority_filter as pf
from tests.unit import nova_objects as nova

NO_MIX = cpu_capacity.HostCPUs(nova.CPUS.dedicated, nova.CPUS.shared,
                               nova.CPUS.ratio, mix=False)


@pytest.fixture
def decide(caplog):
    """Return a function: (flavor, host) -> None or the refusal's numbers."""
    caplog.set_level(logging.DEBUG, logger=pf.LOG.name)

    def decide(flavor, state, pcpu=None):
        spec = nova.request_spec(flavor)
        before = jsonutils.dumps(spec.obj_to_primitive(), sort_keys=True)
        pinned = 'dedicated' in flavor.extra_specs.values()
        nova.candidate(state, **(
            {'PCPU': flavor.vcpus if pcpu is None else pcpu} if pinned
            else {'VCPU': flavor.vcpus}))
        caplog.clear()
        passes = pf.PriorityFilter().host_passes(state, spec)
        assert before == jsonutils.dumps(spec.obj_to_primitive(),
                                         sort_keys=True)
        refusals = [record for record in caplog.records
                    if record.name == pf.LOG.name]
        if passes:
            assert not refusals
            return None
        refusal, = refusals
        assert ('host1', 'node1') == (refusal.args['host'],
                                      refusal.args['node'])
        assert 'None' not in refusal.getMessage()
        refusal = refusal.args['refusal']
        return refusal.reason, refusal.needed, refusal.available

    return decide


@pytest.mark.parametrize('flavor, host, refusal', [
    # High: 8 dedicated CPUs.
    (nova.HIGH, dict(pinned=range(4)), None),
    (nova.HIGH, dict(pinned=range(5)), ('high_capacity', 4, 3)),
    (nova.HIGH, dict(pinned=range(4), low=16), None),
    # Low: (8 + 4) * 2 - 8 = 16 vCPUs.
    (nova.LOW, dict(low=12, pinned=range(8)), None),
    (nova.LOW, dict(low=13), ('low_capacity', 4, 3)),
    (nova.LOW, dict(low=8, ordinary=5), ('low_capacity', 4, 3)),
    # Ordinary: 4 * 2 = 8 vCPUs, and room in the low row too.
    (nova.ORDINARY, dict(ordinary=4), None),
    (nova.ORDINARY, dict(ordinary=5), ('ordinary_capacity', 4, 3)),
    (nova.ORDINARY, dict(low=13), ('low_capacity', 4, 3)),
    # Ordinary pinned ones take dedicated CPUs.
    (nova.PINNED, dict(pinned=range(5)), ('high_capacity', 4, 3)),
])
def test_rows_of_a_mix_host(decide, flavor, host, refusal):
    assert refusal == decide(flavor, nova.host_state(**host))


def test_counts_vcpus_consumed_by_the_same_request(decide):
    """For the second instance, only vcpus_used tells of the first."""
    state = nova.host_state(low=8)
    assert decide(nova.LOW, state) is None
    state.consume_from_request(nova.request_spec(nova.LOW))
    assert decide(nova.LOW, state) is None
    state.consume_from_request(nova.request_spec(nova.LOW))
    assert ('low_capacity', 4, 0) == decide(nova.LOW, state)


def test_counts_pins_of_the_same_request(decide):
    state = nova.host_state()
    for _ in range(2):
        assert decide(nova.HIGH, state) is None
        state.consume_from_request(nova.request_spec(nova.HIGH))
    assert ('high_capacity', 4, 0) == decide(nova.HIGH, state)


@pytest.mark.parametrize('extra_specs', [
    {'hw__cpu_thread_policy': 'isolate'},
    {'hw__cpu_realtime': 'yes', 'hw__cpu_realtime_mask': '^0'},
])
@pytest.mark.parametrize('priority', [{}, {'hw__cpu_priority': 'high'}])
def test_mix_host_refuses_whole_cores(
        decide, priority, extra_specs):
    flavor = nova.flavor(hw__cpu_policy='dedicated', **priority, **extra_specs)
    assert 'whole_cores' == decide(flavor, nova.host_state())[0]
    assert decide(flavor, nova.host_state(cpus=NO_MIX)) is None


def test_high_instance_needs_memory_that_is_not_oversold(decide):
    state = nova.host_state(cpus=NO_MIX)
    state.ram_allocation_ratio = 2.0
    state.free_ram_mb = 255
    assert ('memory', 256, 255) == decide(nova.HIGH, state)
    assert decide(nova.LOW, state) is None
    state.free_ram_mb = 256
    assert decide(nova.HIGH, state) is None


def host_with_pages(free_ram_mb, is_reported=True, used=0, cells=1, **kwargs):
    """Return a mix host with 512 MB in small pages, and 1792 in each cell.

    :param used: used huge pages of 2 MiB of the first cell
    """
    dedicated, shared = sorted(nova.CPUS.dedicated), sorted(nova.CPUS.shared)
    made = []
    for number in range(cells):
        cell = nova.numa_cell(number, dedicated[number::cells],
                              shared[number::cells])
        cell.mempages.append(objects.NUMAPagesTopology(
            size_kb=2048, total=896, used=0 if number else used))
        made.append(cell)
    state = nova.host_state(cells=made, small_pages=memory_pages.SmallPages(
        page_kb=4, total_mb=512, free_mb=0) if is_reported else None, **kwargs)
    state.free_ram_mb = free_ram_mb
    return state


SMALL, ANY, LARGE, OF_4_KIB, OF_2_MIB = [
    nova.flavor(vcpus=1, hw__cpu_priority='low', hw__cpu_policy='shared',
                hw__mem_page_size=size)
    for size in ('small', 'any', 'large', '4', '2MB')]


@pytest.mark.parametrize('flavor', [
    nova.HIGH, nova.LOW, nova.ORDINARY, nova.PINNED, SMALL, OF_4_KIB])
def test_small_pages_of_a_mix_host(decide, flavor):
    # 896 * 2 MiB = 1792 MiB are unused huge pages.
    for free_ram_mb, used, available in (
            (2048, 0, None), (2047, 0, 255), (255, 896, 255), (256, 896, None),
            (1791, 0, 0)):
        refusal = available is not None and ('small_pages', 256, available)
        if free_ram_mb == 255:
            refusal = ('memory', 256, 255)
        assert (refusal or None) == decide(
            flavor, host_with_pages(free_ram_mb, used=used))
    assert decide(flavor, host_with_pages(1791, is_reported=False)) is None
    without_mix = host_with_pages(1791, is_reported=False, cpus=NO_MIX)
    assert decide(flavor, without_mix) is None


@pytest.mark.parametrize('flavor', [LARGE, OF_2_MIB, ANY])
def test_guest_with_huge_pages_needs_no_small_pages(decide, flavor):
    assert decide(flavor, host_with_pages(1024)) is None
    full = host_with_pages(1024, used=896)
    if flavor == ANY:
        # Nova uses small pages if they suffice.
        assert decide(flavor, full) is None
        full = host_with_pages(255 + 254, used=896 - 127)
    assert ('numa_topology', None, None) == decide(flavor, full)


def test_any_page_size_uses_huge_pages_of_another_cell(decide):
    """Nova tries the first cell first, where it has counted no guest."""
    state = host_with_pages(1792 + 255, used=896, cells=2)
    assert decide(ANY, state) is None
    spec = nova.request_spec(ANY)
    state.consume_from_request(spec)
    assert [(1, 2048)] == [(cell.id, cell.pagesize)
                           for cell in spec.numa_topology.cells]


def test_counts_small_pages_consumed_by_the_same_request(decide):
    for flavor in nova.LOW, SMALL, nova.HIGH:
        state = host_with_pages(1792 + 511)
        assert decide(flavor, state) is None
        state.consume_from_request(nova.request_spec(flavor))
        assert ('small_pages', 256, 255) == decide(flavor, state)
    state = host_with_pages(1792 + 511)
    # Each instance takes 128 of the 896 huge pages.
    for _ in range(7):
        assert decide(LARGE, state) is None
        state.consume_from_request(nova.request_spec(LARGE))
    assert ('numa_topology', None, None) == decide(LARGE, state)
    assert decide(nova.LOW, state) is None


def test_more_low_vcpus_than_floating_cpus_are_refused(decide):
    large = nova.flavor(vcpus=13, hw__cpu_priority='low',
                        hw__cpu_policy='shared')
    assert ('too_many_vcpus', 13, 12) == decide(large, nova.host_state())


def test_more_shared_vcpus_than_shared_cpus_are_refused(decide):
    large = nova.flavor(vcpus=5)
    assert ('too_many_shared_vcpus', 5, 4) == decide(large, nova.host_state())
    assert decide(large, nova.host_state(cpus=NO_MIX)) is None
    mixed = nova.flavor(vcpus=6, hw__cpu_policy='mixed',
                        hw__cpu_dedicated_mask='0')
    assert ('too_many_shared_vcpus', 5, 4) == decide(mixed, nova.host_state())


@pytest.mark.parametrize('flavor', [nova.HIGH, nova.LOW])
@pytest.mark.parametrize('host, reason', [
    (dict(stats={}), 'no_report'),
    (dict(stats={host_report.STATS_KEY: 'x'}), 'unreadable_report'),
    (dict(aggregates=[]), 'not_a_priority_host'),
    (dict(aggregates=[nova.aggregate(priority_mix='false')]),
     'not_a_priority_host'),
    (dict(aggregates=[nova.aggregate(priority='nonsense')]),
     'not_a_priority_host'),
    # Other clouds use the key for ranks.
    (dict(aggregates=[nova.aggregate(priority='1')]), 'not_a_priority_host'),
])
def test_priority_needs_a_priority_host(decide, flavor, host, reason):
    assert reason == decide(flavor, nova.host_state(**host))[0]


@pytest.mark.parametrize('aggregates', [
    [nova.aggregate(priority_mix='true')],
    [nova.aggregate(priority='True')],
    [nova.aggregate(), nova.aggregate(priority_mix='true')],
])
@pytest.mark.parametrize('flavor', [nova.HIGH, nova.LOW])
def test_either_key_marks_a_priority_host(decide, flavor, aggregates):
    assert decide(flavor, nova.host_state(aggregates=aggregates)) is None


@pytest.mark.parametrize('host', [
    dict(cpus=NO_MIX, ordinary=100, low=100),
    dict(stats={}),
    dict(aggregates=[], ordinary=0),
])
def test_ordinary_instance_on_other_hosts_as_in_stock(decide, host):
    assert decide(nova.ORDINARY, nova.host_state(**host)) is None


@pytest.mark.parametrize('text', ['x', '[' * 100000])
def test_host_with_unreadable_report_refuses_all(decide, text):
    assert 'unreadable_report' == decide(nova.ORDINARY, nova.host_state(
        stats={host_report.STATS_KEY: text}))[0]


def test_pinned_ordinary_instance_must_fit_one_cell(decide):
    """On a host without mix, the answer is that of stock Nova."""
    assert ('numa_topology', None, None) == decide(
        nova.PINNED, nova.host_state(cpus=NO_MIX, pinned=range(5)))


def test_low_floats_on_shared_cpus_without_mix(decide):
    state = nova.host_state(cpus=NO_MIX, low=4)
    assert decide(nova.LOW, state) is None
    assert ('low_capacity', 4, 3) == decide(
        nova.LOW, nova.host_state(cpus=NO_MIX, low=5))


def test_candidate_with_vcpu_instead_of_pcpu_is_refused(decide):
    assert ('no_pcpu_candidate', 4, None) == decide(
        nova.HIGH, nova.host_state(), pcpu=0)
