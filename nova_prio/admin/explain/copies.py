# SPDX-License-Identifier: Apache-2.0

"""The decision about a host after moves that are only planned.

Nova's filters decide on copies of the host states. The free amounts of
Placement are copied too. Traits, aggregates and trees are the answers of
Placement. Devices of instances that leave do not become free.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import typing

from nova import exception
from nova import objects
from nova.virt import hardware

from nova_prio.admin.explain import answers
from nova_prio.admin.explain import candidates
from nova_prio.model import cpu_capacity
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
    """The hosts, and the free amounts of Placement, while instances move.

    :param the_judge: decides about each request on the present state first
    """

    def __init__(self, context: nova_context.RequestContext,
                 client: report.SchedulerReportClient,
                 the_judge: judge.Judge) -> None:
        self._context = context
        self._client = client
        self._judge = the_judge
        # Name of a host -> its state after the moves up to now.
        self._states: dict[str, host_manager.HostState] = {}
        # (UUID of a provider, resource class) -> amount that is free after the
        # moves up to now.
        self._free: candidates.Amounts = {}
        # UUIDs of the providers whose free amounts have been read.
        self._read_providers: set[str] = set()

    def arrive(self, decision: candidates.Decision, uuid: str,
               host: str) -> answers.Answer | None:
        """Put an instance on a host; return the refusal if it does not fit.

        :param decision: about the request on the present state. A host that
            no moves make fit is refused at once.
        :param uuid: UUID of the instance
        :param host: name of the host
        :returns: None if the instance fits, and is on the host from now on
        """
        answer = decision.answers.get(host)
        if answer is None:
            return answers.Answer(host=host, result=answers.CELL,
                                  reason='the host was unknown before')
        if not answer.may_fit_after_moves:
            return answer
        spec = decision.spec
        spec.instance_uuid = uuid
        state = self._get_state(host)
        # If the instance fits on this copy, the copy replaces the state.
        trial = _copy_state(state)
        # Placement has offered nothing on a host that was short at that time.
        offered = (decision.placement.by_provider.get(state.uuid) or
                   self._make_candidates(decision, state.uuid))
        for candidate in offered:
            # A provider outside of the tree of the host may share its disks.
            for provider in candidate['allocations']:
                self._read_free_amounts(provider)
        trial.allocation_candidates = candidates.select(offered, self._free)
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
        # PriorityFilter has limited the topology of the trial to the CPUs that
        # an instance of this priority may use. The next instance may use
        # others: add the instance to the whole topology, which was kept. The
        # flag lets the filter limit it again.
        trial.numa_topology = hardware.numa_usage_from_instance_numa(
            state.numa_topology, fitted)
        trial.is_limited_to_priority = False
        # Each move ends before the next one, so it adds no workload.
        trial.num_io_ops = state.num_io_ops
        trial.instances[uuid] = objects.Instance(uuid=uuid)
        # PriorityFilter reads the used vCPUs in the report of nova-compute.
        _add_to_report(trial, spec.flavor, fitted, times=1)
        self._states[host] = trial
        return None

    def depart(self, instance: objects.Instance) -> None:
        """Remove an instance from its host.

        Nothing becomes free if the judge does not know the host by its name:
        it was added after the hosts were read, or has several compute nodes.

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
            # If the record of the host does not have all pins, because two
            # instances have the same or nova-compute could not count them,
            # assume that no CPU of the instance becomes free.
            with contextlib.suppress(exception.CPUUnpinningInvalid,
                                     exception.CPUUnpinningUnknown):
                state.numa_topology = hardware.numa_usage_from_instance_numa(
                    state.numa_topology, topology, free=True)
        # PriorityFilter reads the used vCPUs in the report of nova-compute.
        _add_to_report(state, flavor, topology, times=-1)
        allocated = self._client.get_allocs_for_consumer(
            self._context, instance.uuid)['allocations']
        for uuid, allocation in allocated.items():
            # A provider outside of the tree of the host may be new here.
            self._read_free_amounts(uuid)
            for name, amount in allocation['resources'].items():
                self._free[uuid, name] += amount

    def get_changed(self, host: str) -> host_manager.HostState | None:
        """Return the state of a host after the moves up to now, if known.

        It is None if no move of a plan has used the host.

        :param host: name of the host
        """
        return self._states.get(host)

    def _get_state(self, host: str) -> host_manager.HostState:
        """Return the state of a host after the moves up to now.

        The first call reads the present state, and the free amounts of the
        providers of the host.
        """
        if host not in self._states:
            uuid = self._judge.find_uuid(host)
            # The callers have left out the hosts that the judge does not know.
            assert uuid is not None
            self._states[host] = self._judge.hosts.make_state(
                self._context, uuid)
            tree = allocations.get_json(
                self._client, '/resource_providers?in_tree=' + uuid)
            for provider in tree['resource_providers']:
                self._read_free_amounts(provider['uuid'])
        return self._states[host]

    def _read_free_amounts(self, uuid: str) -> None:
        """Read the free amounts of a provider, unless they have been read.

        Later reads would undo the moves that have changed the amounts here.
        """
        if uuid in self._read_providers:
            return
        self._read_providers.add(uuid)
        used = allocations.read_provider(self._client, uuid, 'usages')
        for name, inventory in allocations.read_provider(
                self._client, uuid, 'inventories').items():
            self._free[uuid, name] = (
                provider_rows.get_capacity(inventory) - used[name])

    def _make_candidates(self, decision: candidates.Decision, uuid: str,
                         ) -> list[candidates.Candidate]:
        """Return what Placement would offer on a host with enough free.

        Placement makes no allocation request for a host that has too little
        at present. Make one, in which the host itself has all resources.

        :param uuid: UUID of the compute node
        :returns: list of one allocation request, or an empty list if another
            provider than the compute node has some of the resources, or if the
            request has further groups of resources, such as for devices
        """
        request = decision.request
        assert request is not None
        # The group without a suffix has the resources of the flavor.
        resources = request.get_request_group(None).resources
        has_all_classes = all((uuid, name) in self._free for name in resources)
        if request.get_num_of_suffixed_groups() or not has_all_classes:
            return []
        # The mappings are name of a group, '' for that one -> providers.
        return [{'allocations': {uuid: {'resources': dict(resources)}},
                 'mappings': {'': [uuid]}}]


def consume(state: host_manager.HostState, spec: objects.RequestSpec,
            candidate: candidates.Candidate,
            ) -> objects.InstanceNUMATopology | None:
    """Let a host state take an instance; return its fitted NUMA topology.

    The fitted topology names the NUMA cells of the host, and the CPUs.

    :param state: of the host, which is changed
    :param candidate: the allocation request of Placement for the instance
    :returns: None if the instance has no NUMA topology
    """
    # As nova-scheduler does, tell from which providers the resources of each
    # group, such as devices, are taken.
    for group in spec.requested_resources:
        group.provider_uuids = candidate['mappings'][group.requester_id]
    topology = spec.numa_topology
    # Nova writes the host cells into the topology of the request. The request
    # is also for other hosts: give Nova a copy, and restore the topology.
    spec.numa_topology = topology and topology.obj_clone()
    state.consume_from_request(spec)
    fitted = spec.numa_topology
    spec.numa_topology = topology
    return fitted


def _copy_state(state: host_manager.HostState) -> host_manager.HostState:
    """Return a copy of a host state for filters and a new instance to change.

    What they change in place is copied too.
    """
    copied = copy.copy(state)
    copied.numa_topology = (
        state.numa_topology and state.numa_topology.obj_clone())
    copied.pci_stats = copy.deepcopy(state.pci_stats)
    copied.instances = dict(state.instances)
    copied.limits = {}
    return copied


def _add_to_report(state: host_manager.HostState, flavor: objects.Flavor,
                   topology: objects.InstanceNUMATopology | None,
                   times: int) -> None:
    """Add the vCPUs of an instance to the report of its host.

    nova-compute with our driver reports the used vCPUs of its host in the
    stats of the compute node, and PriorityFilter reads them there. They are
    three numbers, the rows: pinned vCPUs, all shared vCPUs, and shared vCPUs
    without low priority. ``vcpus_used`` is Nova's own count, of all vCPUs.

    :param topology: as it is fitted to the host, or None
    :param times: 1 if the instance arrives, -1 if it leaves
    """
    report = host_report.HostReport.from_stats(state.stats)
    if report is None:
        return
    needed = demand.ResourceRequest.from_flavor(flavor, topology)
    # NUMA cell of the host -> vCPUs of the low-priority instances on it.
    low_by_cell = collections.Counter(report.low_by_cell)
    if needed.priority == cpu_capacity.LOW:
        for cell, vcpus in demand.count_shared_by_cell(topology).items():
            low_by_cell[cell] += times * vcpus
    used = cpu_capacity.add_rows(report.used, needed.needed_rows, times)
    changed = dataclasses.replace(
        report, low_by_cell=low_by_cell, used=used,
        vcpus_used=report.vcpus_used + times * flavor.vcpus)
    # Copies of a state share the dict: do not change it in place.
    state.stats = dict(state.stats)
    state.stats[host_report.STATS_KEY] = (
        host_report.HostReport.to_stats(changed))
