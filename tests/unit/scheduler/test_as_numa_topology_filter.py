# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Ordinary requests on hosts without mix, decided as Nova's filter does."""

import copy

import hypothesis
from hypothesis import strategies as st
from nova import exception
from nova import objects
from nova.scheduler.filters import numa_topology_filter

from nova_prio.scheduler.filters import priority_filter
from tests.unit import nova_objects

WISHES = {
    'hw:cpu_thread_policy': st.sampled_from(['prefer', 'require', 'isolate']),
    'hw:emulator_threads_policy': st.sampled_from(['isolate', 'share']),
    'hw:mem_page_size': st.sampled_from(['small', 'large', 'any', '2048']),
    'hw:numa_nodes': st.sampled_from(['1', '2', '3']),
}


@st.composite
def cells(draw, number):
    """Draw a host cell of up to 8 CPUs with threads, pins and memory."""
    threads = draw(st.sampled_from([1, 2]))
    cpus = list(range(number * 8, number * 8 + threads * draw(
        st.integers(2, 4))))
    dedicated = draw(st.sampled_from([set(cpus), set(cpus[1:]), set()]))
    pinned = set(draw(st.lists(st.sampled_from(sorted(dedicated)), max_size=4)
                      if dedicated else st.just(())))
    memory = draw(st.sampled_from([1024, 512]))
    used = draw(st.sampled_from([0, 0, 0, 256, 512]))
    pages = [objects.NUMAPagesTopology(
        size_kb=4, total=memory * 256, used=used * 256, reserved=0)]
    if draw(st.booleans()):
        pages.append(objects.NUMAPagesTopology(
            size_kb=2048, total=256, used=draw(st.integers(0, 256)),
            reserved=0))
    return objects.NUMACell(
        id=number, socket=0, cpuset=set(cpus) - dedicated,
        pcpuset=dedicated, pinned_cpus=pinned, memory=memory,
        memory_usage=used, cpu_usage=draw(st.integers(0, 8)),
        mempages=draw(st.sampled_from([pages, []])),
        siblings=[set(cpus[first:first + threads])
                  for first in range(0, len(cpus), threads)],
        network_metadata=objects.NetworkMetadata(
            physnets=set(), tunneled=False))


@st.composite
def hosts(draw):
    """Draw a host with none to three NUMA cells, without a report."""
    state = nova_objects.host_state(stats={})
    number = draw(st.sampled_from([1, 1, 2, 3, 0]))
    state.numa_topology = number and objects.NUMATopology(
        cells=[draw(cells(each)) for each in range(number)]) or None
    state.cpu_allocation_ratio = draw(st.sampled_from([0.5, 1.0, 2.0]))
    state.ram_allocation_ratio = draw(st.sampled_from([0.5, 1.0, 1.5]))
    nova_objects.candidate(state, VCPU=1)
    state.allocation_candidates *= draw(st.sampled_from([1] * 6 + [2, 0]))
    return state


@st.composite
def requests(draw):
    """Draw a request spec that Nova's API accepts."""
    vcpus = draw(st.sampled_from([2, 1, 3, 4, 6]))
    extra_specs = {'hw:cpu_policy': draw(st.sampled_from(
        ['dedicated', 'dedicated', 'dedicated', 'shared', 'mixed']))}
    wishes = draw(st.fixed_dictionaries({}, optional=WISHES))
    # One wish at a time shows best what it changes.
    for wish in draw(st.sampled_from([[], sorted(wishes)[:1], wishes])):
        extra_specs[wish] = wishes[wish]
    if extra_specs['hw:cpu_policy'] == 'mixed':
        extra_specs['hw:cpu_dedicated_mask'] = draw(
            st.sampled_from(['0', '^0']))
    flavor = nova_objects.flavor(vcpus=vcpus)
    flavor.memory_mb = draw(st.sampled_from([256, 256, 512, 768]))
    flavor.extra_specs = extra_specs
    try:
        return nova_objects.request_spec(flavor)
    except (exception.NovaException, ValueError):
        hypothesis.reject()


def outcome(filter_class, states, spec):
    """Return, for each host, candidates that are left and limits, or None."""
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


@hypothesis.settings(max_examples=600, deadline=None)
@hypothesis.given(requests(), st.lists(hosts(), min_size=1, max_size=4))
def test_same_decision(spec, states):
    before = spec.obj_to_primitive()
    assert outcome(
        numa_topology_filter.NUMATopologyFilter, states, spec) == outcome(
            priority_filter.PriorityFilter, states, spec)
    assert before == spec.obj_to_primitive()
