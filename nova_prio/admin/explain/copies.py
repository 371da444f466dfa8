# SPDX-License-Identifier: Apache-2.0

"""The judge on a state that does not exist yet, such as after moves.

Nova's filters decide on copies of the host states, and Placement's rows are
copied too. Traits, aggregates and trees are the answers of Placement. Devices
of instances that leave do not become free.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import typing

from nova import objects
from nova.virt import hardware

from nova_prio.admin.explain import answers
from nova_prio.admin.explain import candidates
from nova_prio.model import capacity
from nova_prio.model import provider_rows
from nova_prio.objects import host_report
from nova_prio.placement import allocations
from nova_prio.virt import demand

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report
    from nova.scheduler import host_manager

    from nova_prio.admin.explain import judge


class Copies:
    """The hosts and the rows of Placement while instances move.

    :param of_cloud: decides about each request on the present state first
    """

    def __init__(self, context: nova_context.RequestContext,
                 client: report.SchedulerReportClient,
                 of_cloud: judge.Judge) -> None:
        self._context = context
        self._client = client
        self._judge = of_cloud
        self._states: dict[str, host_manager.HostState] = {}
        self._free: candidates.Rows = {}
        self._read: set[str] = set()

    def arrive(self, decision: candidates.Decision, uuid: str,
               host: str) -> answers.Answer | None:
        """Put an instance on a host; return the refusal if it does not fit.

        :param decision: about the request on the present state
        :param uuid: UUID of the instance
        """
        answer = decision.answers.get(host)
        if answer is None:
            return answers.Answer(host=host, result=answers.CELL,
                                  reason='the host was unknown before')
        if not answer.is_curable:
            return answer
        spec = decision.spec
        spec.instance_uuid = uuid
        state = self._get_state(host)
        trial = _copy_state(state)
        trial.allocation_candidates = candidates.select(
            decision.placement.of_provider.get(state.uuid) or
            self._make_candidates(decision, state.uuid), self._free)
        if not trial.allocation_candidates:
            return answers.Answer(
                host=host, result=answers.PLACEMENT, reason='after the '
                'planned moves, the host has too little free')
        refusal = self._judge.filter_one(spec, trial)
        if refusal:
            return refusal
        candidate = trial.allocation_candidates[0]
        candidates.take(candidate, self._free)
        fitted = consume(trial, spec, candidate)
        # For the filter, the topology has only the CPUs that this instance may
        # use. Another instance may use others.
        trial.numa_topology = hardware.numa_usage_from_instance_numa(
            state.numa_topology, fitted)
        trial.is_limited_to_priority = False
        # Each move ends before the next one, so it adds no workload.
        trial.num_io_ops = state.num_io_ops
        trial.instances[uuid] = objects.Instance(uuid=uuid)
        _change_report(trial, spec.flavor, fitted, sign=1)
        self._states[host] = trial
        return None

    def depart(self, instance: objects.Instance) -> None:
        """Remove an instance from its host.

        If the judge does not know the host, or if the host has several nodes,
        nothing becomes free.

        :param instance: with flavor and NUMA topology
        """
        if self._judge.find_uuid(instance.host) is None:
            return
        state = self._get_state(instance.host)
        flavor = instance.flavor
        state.free_ram_mb += flavor.memory_mb
        state.free_disk_mb += (flavor.root_gb + flavor.ephemeral_gb) * 1024
        state.vcpus_used -= flavor.vcpus
        state.num_instances -= 1
        state.instances.pop(instance.uuid, None)
        topology = instance.numa_topology
        if state.numa_topology and topology:
            state.numa_topology = hardware.numa_usage_from_instance_numa(
                state.numa_topology, topology, free=True)
        _change_report(state, flavor, topology, sign=-1)
        held = self._client.get_allocs_for_consumer(
            self._context, instance.uuid)['allocations']
        for uuid, allocation in held.items():
            self._read_rows(uuid)
            for name, amount in allocation['resources'].items():
                self._free[uuid, name] += amount

    def _get_state(self, host: str) -> host_manager.HostState:
        """Return the copy of the state of a host."""
        if host not in self._states:
            uuid = self._judge.find_uuid(host)
            assert uuid is not None
            state, = self._judge.hosts.get_host_states_by_uuids(
                self._context, [uuid], None)
            self._states[host] = state
            for each in allocations.get_json(
                    self._client, '/resource_providers?in_tree=' + uuid,
            )['resource_providers']:
                self._read_rows(each['uuid'])
        return self._states[host]

    def _read_rows(self, uuid: str) -> None:
        """Read the free amounts of a provider, if they are not known."""
        if uuid in self._read:
            return
        self._read.add(uuid)
        used = allocations.read_provider(self._client, uuid, 'usages')
        for name, inventory in allocations.read_provider(
                self._client, uuid, 'inventories').items():
            self._free[uuid, name] = (
                provider_rows.get_capacity(inventory) - used[name])

    def _make_candidates(self, decision: candidates.Decision, uuid: str,
                         ) -> list[candidates.Candidate]:
        """Return the allocation request of a host that is short now.

        :returns: empty if another provider than that of the host has some of
            the resources, or if the request names groups of resources
        """
        request = decision.request
        assert request is not None
        resources = request.get_request_group(None).resources
        if request.get_num_of_suffixed_groups() or not all(
                (uuid, name) in self._free for name in resources):
            return []
        return [{'allocations': {uuid: {'resources': dict(resources)}},
                 'mappings': {'': [uuid]}}]


def consume(state: host_manager.HostState, spec: objects.RequestSpec,
            candidate: candidates.Candidate,
            ) -> objects.InstanceNUMATopology | None:
    """Let a host state take an instance; return its fitted topology.

    :param candidate: the allocation request of Placement for the instance
    """
    for group in spec.requested_resources:
        group.provider_uuids = candidate['mappings'][group.requester_id]
    topology = spec.numa_topology
    # Nova writes the fit into the request.
    spec.numa_topology = topology and topology.obj_clone()
    state.consume_from_request(spec)
    fitted, spec.numa_topology = spec.numa_topology, topology
    return fitted


def _copy_state(state: host_manager.HostState) -> host_manager.HostState:
    """Return a copy that filters and a consumption may change."""
    copied = copy.copy(state)
    copied.numa_topology = (
        state.numa_topology and state.numa_topology.obj_clone())
    copied.pci_stats = copy.deepcopy(state.pci_stats)
    copied.instances = dict(state.instances)
    copied.limits = {}
    return copied


def _change_report(state: host_manager.HostState, flavor: objects.Flavor,
                   topology: objects.InstanceNUMATopology | None,
                   sign: int) -> None:
    """Change the report of nova-compute in the state of a host.

    :param topology: as it is fitted to the host, or None
    :param sign: 1 if the instance arrives, -1 if it leaves
    """
    report = host_report.HostReport.from_stats(state.stats)
    if report is None:
        return
    needed = demand.ResourceRequest.from_flavor(flavor, topology)
    low_by_cell = collections.Counter(report.low_by_cell)
    if needed.priority == capacity.LOW:
        for cell, vcpus in demand.count_shared_by_cell(topology).items():
            low_by_cell[cell] += sign * vcpus
    changed = dataclasses.replace(
        report, low_by_cell=low_by_cell,
        used=capacity.add_rows(report.used, needed.needed_rows, sign),
        vcpus_used=report.vcpus_used + sign * flavor.vcpus)
    # The copied states share their stats.
    state.stats = dict(state.stats)
    state.stats[host_report.STATS_KEY] = (
        host_report.HostReport.to_stats(changed))
