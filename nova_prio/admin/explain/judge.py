# SPDX-License-Identifier: Apache-2.0

"""The judge: the decision of nova-scheduler about each host, with its reason.

Nova decides in this order: request filters, Placement, filters, weighers. All
of it is Nova's own code, on records that are read once. Of the weighers, only
PriorityWeighter and LowSupplyWeigher are shown.
"""

from __future__ import annotations

import collections
from collections import abc
import typing

import nova.conf
from nova import exception
from nova import objects
from nova.scheduler.filters import pci_passthrough_filter
from nova.scheduler import host_manager
from nova.scheduler import request_filter
from nova.scheduler import utils
from nova.scheduler import weights

from nova_prio.admin.explain import answers
from nova_prio.admin.explain import candidates
from nova_prio.admin.explain import host_snapshot
from nova_prio.admin import host_inventory
from nova_prio.compat import hooks
from nova_prio.model import cpu_capacity
from nova_prio.model import reasons
from nova_prio.placement import allocations
from nova_prio.scheduler import request_filter as prio_filter
from nova_prio.scheduler import request_view
from nova_prio.scheduler import scheduler_checks
from nova_prio.scheduler.weights import low_supply_weigher
from nova_prio.scheduler.weights import priority_weighter

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report
    from nova.scheduler import filters

_PCI_FILTER = pci_passthrough_filter.PciPassthroughFilter()
#: Reasons of PriorityFilter for which nova-compute also refuses.
_CLAIM_REASONS = reasons.FILTER_AND_CLAIM.keys() | {'numa_topology'}
#: Error with which a request ends for all hosts -> result.
_RESULT_OF_ERROR = {
    exception.RequestFilterFailed: answers.REQUEST_FILTER,
    exception.NoValidHost: answers.SCHEDULER,
    allocations.RequestInvalid: answers.PLACEMENT}
#: Reason for a host on which Placement offers no allocation.
_ALL_ON_OTHERS = 'all its allocations are on other providers'


class Judge:
    """Decides about requests as nova-scheduler does, on the present records.

    :param context: targets no cell
    :raises nova_prio.compat.contract.StartRefused: if nova-scheduler would not
        start with this release of Nova
    """

    def __init__(self, context: nova_context.RequestContext,
                 client: report.SchedulerReportClient) -> None:
        self._context = context
        self._client = client
        # As nova-scheduler does when it starts: Nova's code then runs our
        # request filter in this process, too.
        hooks.install_request_filter(prio_filter.restrict_request)
        self.hosts = host_snapshot.Hosts(context)
        self._aggregate_names = {
            each.uuid: each.name
            for each in self.hosts.aggs_by_id.values()}
        # A node is listed with the UUID of its cell.
        numbers = collections.Counter(
            node.host for node, _ in self.hosts.nodes)
        # UUID of a compute node -> its name in answers, which is that of its
        # host unless the host has several nodes.
        self._names = {}
        for node, _ in self.hosts.nodes:
            name = node.host
            if numbers[name] > 1:
                name += ':' + node.hypervisor_hostname
            self._names[node.uuid] = name

    def list_doubts(self) -> list[str]:
        """Return why nova-scheduler may refuse a host that passes here.

        :returns: clauses
        """
        doubts = []
        # Name of a filter that cannot run here -> why.
        for name, problem in sorted(self.hosts.unusable_filters.items()):
            doubts.append('filter %s cannot run here (%s)' % (name, problem))
        # Problems for which nova-scheduler does not start.
        for problem in scheduler_checks.find_problems(nova.conf.CONF):
            doubts.append(
                'this nova.conf is not that of nova-scheduler, which would '
                'not start with it: %s' % str(problem).rstrip('.'))
        return doubts

    def answer(self, spec: objects.RequestSpec) -> list[answers.Answer]:
        """Return the decision about each host, the closest one first.

        :param spec: the request, which Nova's request filters write to
        :raises nova_prio.placement.allocations.PlacementRefused: if Placement
            refuses a request
        """
        decision = self.decide(spec)
        # Only hosts that pass the filters have a weight and a rank.
        weigher = priority_weighter.PriorityWeighter()
        scores = weigher.weigh_objects(
            [weights.WeighedHost(state, 0.0) for state in decision.passing],
            spec)
        for score, state in zip(scores, decision.passing):
            answer = decision.get_answer(state.uuid)
            answer.weight = score * weigher.weight_multiplier(state)
            # The host passes: say why Nova may still prefer another one.
            answer.reason = answers.describe_failed_builds(
                self.hosts.weighers, state)
        self._rank(decision, weigher)
        return sorted(decision.answers.values(), key=answers.get_position)

    def _rank(self, decision: candidates.Decision,
              weigher: priority_weighter.PriorityWeighter) -> None:
        """Set the ranks of the hosts that pass, and their low supply.

        The low supply is the CPU time that low-priority guests can get. It
        counts in the ranks if nova.conf enables LowSupplyWeigher. As in Nova,
        each weigher adds its multiplier at most.
        """
        if not decision.passing:
            return
        weighers = [weigher]
        for each in self.hosts.weighers:
            if isinstance(each, low_supply_weigher.LowSupplyWeigher):
                weighers.append(each)
        weighed = weights.HostWeightHandler().get_weighed_objects(
            weighers, decision.passing, decision.spec)
        request = request_view.read_request(decision.spec)
        ordered = []
        for each in weighed:
            answer = decision.get_answer(each.obj.uuid)
            if request.priority == cpu_capacity.LOW:
                answer.low_supply = low_supply_weigher.get_supply_per_vcpu(
                    each.obj, request)
            # The largest weight comes first; the name decides a tie.
            ordered.append((-each.weight, answer.host))
        for rank, (_, name) in enumerate(sorted(ordered), start=1):
            decision.answers[name].rank = rank

    def decide(self, spec: objects.RequestSpec,
               before_moves: bool = False) -> candidates.Decision:
        """Return the Decision about a request.

        The request ``spec`` and the errors are those of :meth:`answer`.

        :param before_moves: whether other instances may move away before the
            request. Then also run the filters on the hosts that only lack
            what these moves may free: if such a host does not pass another
            filter, no move makes it fit
        """
        decision = candidates.Decision(spec=spec, names=self._names)
        uuids = list(self._exclude_by_records(decision))
        try:
            request_filter.process_reqspec(self._context, spec)
            decision.request = utils.resources_from_request_spec(
                self._context, spec, self.hosts)
            decision.placement = candidates.read(
                self._client, decision.request)
        except tuple(_RESULT_OF_ERROR) as error:
            # Nova refuses the request for all hosts. It raises no subclass of
            # these errors here.
            result = _RESULT_OF_ERROR[type(error)]
            reason = host_inventory.format_first_line(str(error))
            for uuid in uuids:
                decision.add(uuid, result, reason)
            return decision
        # UUID of the node that the request names, or None.
        only_node = decision.request.get_request_group(None).in_tree
        # UUIDs of the nodes whose hosts the filters test, and of the others.
        to_filter, not_offered = [], []
        for uuid in uuids:
            if uuid in decision.placement.by_provider:
                to_filter.append(uuid)
            elif only_node is None or only_node == uuid:
                not_offered.append(uuid)
            else:
                decision.add(uuid, answers.PLACEMENT,
                             'the request names another host')
        candidates.answer_not_offered(
            self._client, decision, not_offered, self._aggregate_names)
        if before_moves:
            to_filter += [uuid for uuid in not_offered
                          if decision.get_answer(uuid).may_fit_after_moves]
        utils.setup_instance_group(self._context, spec)
        self._filter(decision, self._make_states(decision, to_filter))
        for state in decision.passing:
            answer = decision.add(state.uuid, answers.PASSES)
            answer.may_fit_after_moves = True
        return decision

    def filter_one(self, spec: objects.RequestSpec,
                   state: host_manager.HostState) -> answers.Answer | None:
        """Return why a host does not pass, None if it passes.

        :param state: of the host, as it is after planned moves, with the
            ``allocation_candidates`` that fit on it
        """
        decision = candidates.Decision(spec=spec, names=self._names)
        offered = list(state.allocation_candidates)
        for each in self.hosts.enabled_filters:
            if not self.hosts.run_filter(each, [state], spec):
                # Explain the refusal by all candidates: the filter may have
                # removed some from the state.
                state.allocation_candidates = offered
                return _add_refusal(each, state, decision)
        # The filters pass a host whose resources are all on other providers,
        # but nova-scheduler takes no host without an allocation candidate.
        if state.allocation_candidates:
            return None
        return decision.add(state.uuid, answers.PLACEMENT, _ALL_ON_OTHERS)

    def find_uuid(self, name: str) -> str | None:
        """Return the UUID of the compute node with a name, or None.

        :param name: that of a host with one node, or HOST:NODE
        """
        for uuid, each in self._names.items():
            if each == name:
                return uuid
        return None

    def get_name(self, state: host_manager.HostState) -> str:
        """Return the name of a host, as in answers."""
        return self._names[state.uuid]

    def _exclude_by_records(self, decision: candidates.Decision,
                            ) -> abc.Iterator[str]:
        """Add the answers for the compute nodes that a record excludes.

        The records are those of the cells and the compute nodes in Nova.

        :returns: iterator of the UUIDs of the other compute nodes
        """
        ignored = {name.lower() for name in decision.spec.ignore_hosts or ()}
        usable = {cell.uuid for cell in self.hosts.enabled_cells}
        destination = decision.spec.requested_destination
        if destination and 'cell' in destination:
            # Nova still moves servers within a cell that is disabled.
            usable.add(destination.cell.uuid)
        for node, cell_uuid in self.hosts.nodes:
            if cell_uuid not in usable:
                decision.add(node.uuid, answers.CELL, 'its cell is disabled')
            elif node.host.lower() in ignored:
                # Nova does not store the hosts to ignore. For a move, the
                # module nova_prio.admin.explain.requests sets this field of
                # the request to the host of the server.
                decision.add(
                    node.uuid, answers.SCHEDULER,
                    'the server is on this host; a move needs another host')
            elif node.free_disk_gb is None:
                # Of such a node, Nova makes an empty state without a UUID.
                decision.add(node.uuid, answers.SCHEDULER,
                             host_inventory.NOT_REGISTERED)
            else:
                yield node.uuid

    def _make_states(self, decision: candidates.Decision,
                     uuids: list[str]) -> list[host_manager.HostState]:
        """Return the states of hosts; add answers for those without a state.

        :param uuids: UUIDs of their compute nodes
        """
        wanted = set(uuids)
        states = list(self.hosts.get_host_states_by_uuids(
            self._context, wanted, decision.spec))
        # Nova makes no state of a host in a cell that the request excludes, or
        # whose nova-compute service has no record.
        for uuid in wanted.difference(state.uuid for state in states):
            decision.add(uuid, answers.CELL, 'the server is in another cell, '
                         'or no nova-compute is known')
        return states

    def _filter(self, decision: candidates.Decision,
                states: list[host_manager.HostState]) -> None:
        """Set the hosts that pass all filters; add answers for the others.

        Some hosts are only short of resources: Placement does not offer them,
        or PriorityFilter refuses them for a shortage. Run the other filters on
        these, too: if one refuses such a host, no move makes it fit.
        """
        spec, offered = decision.spec, decision.placement.by_provider
        # With no filter, Nova still removes the hosts that the request ignores
        # and, if it names a host, all others.
        named, others = self.hosts.split(None, states, spec)
        for state in others:
            decision.add(state.uuid, answers.SCHEDULER,
                         'the request names another host')
        passing = [each for each in named if each.uuid in offered]
        short = [each for each in named if each.uuid not in offered]
        for state in passing:
            state.allocation_candidates = list(offered[state.uuid])
        if spec.force_hosts or spec.force_nodes:
            # Nova runs no filter then, but the claim of nova-compute refuses
            # for some of the reasons of PriorityFilter, and for PCI devices.
            for state in passing:
                refusal = answers.find_refusal(state, spec)
                if refusal and refusal.reason in _CLAIM_REASONS:
                    decision.refuse(state, answers.COMPUTE, refusal)
                elif not _PCI_FILTER.host_passes(state, spec):
                    decision.add(state.uuid, answers.COMPUTE,
                                 'the requested PCI devices are not free')
                else:
                    decision.passing.append(state)
            return
        for each in self.hosts.enabled_filters:
            passing, removed = self.hosts.split(each, passing, spec)
            if not host_snapshot.is_priority_filter(each):
                # PriorityFilter would refuse all of them for their shortage.
                short, unfit = self.hosts.split(each, short, spec)
                for state in unfit:
                    answer = decision.get_answer(state.uuid)
                    answer.may_fit_after_moves = False
            for state in removed:
                # Explain the refusal by all candidates: the filter may have
                # removed some.
                state.allocation_candidates = list(offered[state.uuid])
                answer = _add_refusal(each, state, decision)
                if answer.may_fit_after_moves:
                    short.append(state)
        for state in passing:
            # Nova drops a host without allocation candidates, whose resources
            # are all on other providers.
            if state.allocation_candidates:
                decision.passing.append(state)
            else:
                decision.add(state.uuid, answers.PLACEMENT, _ALL_ON_OTHERS)


def _add_refusal(
        the_filter: filters.BaseHostFilter, state: host_manager.HostState,
        decision: candidates.Decision) -> answers.Answer:
    """Add and return the answer about a host that a filter refuses.

    Only PriorityFilter tells its reason. For another filter, the reason is
    the first line of its docstring.
    """
    if host_snapshot.is_priority_filter(the_filter):
        refusal = answers.find_refusal(state, decision.spec)
        if refusal:
            return decision.refuse(state, answers.PRIORITY_FILTER, refusal)
    return decision.add(state.uuid, type(the_filter).__name__,
                        'the host does not pass this filter: %s'
                        % host_snapshot.describe_filter(the_filter))
