# SPDX-License-Identifier: Apache-2.0

"""The judge: the decision of nova-scheduler about each host, with its reason.

Nova decides in this order: request filters, Placement, filters, weighers. All
of it is Nova's own code, on records that are read once. Of the weighers, only
PriorityWeighter is shown.
"""

from __future__ import annotations

import collections
from collections import abc
import typing

import nova.conf
from nova import exception
from nova import objects
from nova.scheduler import host_manager
from nova.scheduler import request_filter
from nova.scheduler import utils

from nova_prio.admin.explain import answers
from nova_prio.admin.explain import candidates
from nova_prio.admin.explain import hosts as explain_hosts
from nova_prio.admin import host_inventory
from nova_prio.compat import hooks
from nova_prio.model import reasons
from nova_prio.placement import allocations
from nova_prio.scheduler import config_checks
from nova_prio.scheduler import request_filter as prio_filter

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report
    from nova.scheduler import filters

#: Reasons of PriorityFilter for which nova-compute also refuses.
_CLAIM_REASONS = {*reasons.FILTER_AND_CLAIM, 'numa_topology'}
#: Error with which a request ends for all hosts -> result.
_RESULT_OF_ERROR = {
    exception.RequestFilterFailed: answers.REQUEST_FILTER,
    exception.NoValidHost: answers.SCHEDULER,
    allocations.RequestInvalid: answers.PLACEMENT}
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
        hooks.install_request_filter(prio_filter.restrict_request)
        self.hosts = explain_hosts.Hosts(context)
        self._aggregate_names = {
            each.uuid: each.name
            for each in self.hosts.aggs_by_id.values()}
        numbers = collections.Counter(
            node.host for node, _ in self.hosts.nodes)
        self._names = {
            node.uuid: node.host if numbers[node.host] == 1 else
            '%s:%s' % (node.host, node.hypervisor_hostname)
            for node, _ in self.hosts.nodes}

    @property
    def silent_cells(self) -> list[str]:
        """The UUIDs of the cells that do not answer."""
        return self.hosts.silent_cells

    def list_doubts(self) -> list[str]:
        """Return why a host that passes may not fit, clauses."""
        return [*('filter %s cannot run here (%s)' % each
                  for each in sorted(self.hosts.unusable.items())),
                *('this nova.conf is not that of nova-scheduler, which would '
                  'not start with it: %s' % str(each).rstrip('.')
                  for each in config_checks.find_problems(nova.conf.CONF))]

    def answer(self, spec: objects.RequestSpec) -> list[answers.Answer]:
        """Return the decision about each host, the closest one first.

        :param spec: the request, which Nova's request filters write to
        :raises nova_prio.placement.allocations.PlacementRefused: if Placement
            refuses a request
        """
        decision = self.decide(spec)
        passing = {state.uuid: decision.answers[self.get_name(state)]
                   for state in decision.passing}
        for state in decision.passing:
            passing[state.uuid].reason = answers.describe_failed_builds(
                self.hosts.weighers, state)
        answers.weigh(spec, passing, decision.passing)
        return sorted(decision.answers.values(), key=answers.get_position)

    def decide(self, spec: objects.RequestSpec,
               before_moves: bool = False) -> candidates.Decision:
        """Return the Decision about a request.

        The other arguments and the errors are those of :meth:`answer`.

        :param before_moves: whether instances may move away first. Then also
            run the filters on the hosts that are only short of resources, to
            find those that no move makes fit
        """
        found = answers.Answers(self._names)
        decision = self._decide(spec, found, before_moves)
        for state in decision.passing:
            found.add(state.uuid, answers.PASSES, '').is_curable = True
        return decision._replace(answers={
            each.host: each for each in found.of_node.values()})

    def filter_one(self, spec: objects.RequestSpec,
                   state: host_manager.HostState) -> answers.Answer | None:
        """Return why a filter refuses a host in some state, or None."""
        offered = list(state.allocation_candidates)
        for each in self.hosts.enabled_filters:
            if not self.hosts.run_filter(each, [state], spec):
                state.allocation_candidates = offered
                return _describe_refusal(
                    each, state, spec, answers.Answers(self._names))
        if state.allocation_candidates:
            return None
        return answers.Answer(
            self.get_name(state), answers.PLACEMENT, _ALL_ON_OTHERS)

    def get_uuid(self, name: str) -> str:
        """Return the UUID of the node with a name, as in answers."""
        return next(uuid for uuid, each in self._names.items()
                    if each == name)

    def get_name(self, state: host_manager.HostState) -> str:
        """Return the name of a host, as in answers."""
        return self._names[state.uuid]

    def _exclude_by_records(self, spec: objects.RequestSpec,
                            found: answers.Answers) -> abc.Iterator[str]:
        """Answer for the nodes that a record excludes; yield the others."""
        ignored = {name.lower() for name in spec.ignore_hosts or ()}
        enabled = {cell.uuid for cell in self.hosts.enabled_cells}
        for node, cell in self.hosts.nodes:
            if cell not in enabled:
                found.add(node.uuid, answers.CELL, 'its cell is disabled')
            elif node.host.lower() in ignored:
                found.add(
                    node.uuid, answers.SCHEDULER,
                    'the server is on this host; a move needs another host')
            else:
                yield node.uuid

    def _decide(self, spec: objects.RequestSpec, found: answers.Answers,
                before_moves: bool) -> candidates.Decision:
        """Return the Decision without its answers, which go to ``found``."""
        uuids = list(self._exclude_by_records(spec, found))
        try:
            request_filter.process_reqspec(self._context, spec)
            request = utils.resources_from_request_spec(
                self._context, spec, self.hosts)
            offered = candidates.read(self._client, request)
        except tuple(_RESULT_OF_ERROR) as error:
            for uuid in uuids:
                found.add(uuid, _RESULT_OF_ERROR[type(error)],
                          host_inventory.format_first_line(str(error)))
            return candidates.Decision(spec)
        in_tree = request.get_request_group(None).in_tree
        refused = []
        for uuid in uuids:
            if uuid in offered.of_provider:
                continue
            if in_tree in (None, uuid):
                refused.append(uuid)
            else:
                found.add(uuid, answers.PLACEMENT,
                          'the request names another host')
        candidates.answer_not_offered(
            self._client, request, refused, self._aggregate_names,
            offered.is_complete, found.add)
        utils.setup_instance_group(self._context, spec)
        states = self._make_states(spec, found, [
            uuid for uuid in uuids
            if before_moves or uuid in offered.of_provider])
        return candidates.Decision(
            spec, request=request, offered=offered.of_provider,
            passing=self._filter(spec, found, states, offered.of_provider),
            free=offered.free)

    def _make_states(self, spec: objects.RequestSpec, found: answers.Answers,
                     uuids: list[str]) -> list[host_manager.HostState]:
        """Return the states of the hosts that may fit, now or after moves."""
        wanted = {uuid for uuid in uuids if uuid not in found.of_node or
                  found.of_node[uuid].is_curable}
        states = list(self.hosts.get_host_states_by_uuids(
            self._context, wanted, spec))
        for uuid in wanted.difference(state.uuid for state in states):
            found.add(uuid, answers.CELL, 'the server is in another cell, or '
                      'no nova-compute is known')
        return states

    def _filter(self, spec: objects.RequestSpec, found: answers.Answers,
                states: list[host_manager.HostState],
                offered: abc.Mapping[str, list[candidates.Candidate]],
                ) -> list[host_manager.HostState]:
        """Return the hosts that pass all filters; answer for the others.

        Also run Nova's filters on the hosts that are only short of resources:
        if a filter refuses such a host, no move makes it fit.

        :param offered: UUID of a host -> its allocation requests
        """
        named = self.hosts.run_filter(None, states, spec)
        for state in _list_removed(states, named):
            found.add(state.uuid, answers.SCHEDULER,
                      'the request names another host')
        passing = [each for each in named if each.uuid in offered]
        short = [each for each in named if each.uuid not in offered]
        for state in passing:
            state.allocation_candidates = list(offered[state.uuid])
        if spec.force_hosts or spec.force_nodes:
            # Nova calls no filter, and nova-compute claims.
            for state in list(passing):
                refusal = answers.find_refusal(state, spec)
                if refusal and refusal.reason in _CLAIM_REASONS:
                    passing.remove(state)
                    found.refuse(state, spec, answers.COMPUTE, refusal)
            return passing
        for each in self.hosts.enabled_filters:
            kept = self.hosts.run_filter(each, passing, spec)
            removed = _list_removed(passing, kept)
            passing = kept
            for state in removed:
                # The filter has removed those that it refuses.
                state.allocation_candidates = list(offered[state.uuid])
                _describe_refusal(each, state, spec, found)
            if not explain_hosts.is_priority_filter(each):
                kept = self.hosts.run_filter(each, short, spec)
                for state in _list_removed(short, kept):
                    found.of_node[state.uuid].is_curable = False
                short = kept
            short += [state for state in removed
                      if found.of_node[state.uuid].is_curable]
        for state in list(passing):
            if not state.allocation_candidates:
                passing.remove(state)
                found.add(state.uuid, answers.PLACEMENT, _ALL_ON_OTHERS)
        return passing


def _list_removed(before: abc.Iterable[host_manager.HostState],
                  after: abc.Iterable[host_manager.HostState],
                  ) -> list[host_manager.HostState]:
    """Return the host states that a filter has removed."""
    kept = {state.uuid for state in after}
    return [state for state in before if state.uuid not in kept]


def _describe_refusal(
        the_filter: filters.BaseHostFilter, state: host_manager.HostState,
        spec: objects.RequestSpec, found: answers.Answers) -> answers.Answer:
    """Add and return the answer about a host that a filter refuses."""
    refusal = None
    if explain_hosts.is_priority_filter(the_filter):
        refusal = answers.find_refusal(state, spec)
    if refusal:
        return found.refuse(state, spec, answers.PRIORITY_FILTER, refusal)
    return found.add(state.uuid, type(the_filter).__name__,
                     'the host does not pass this filter: %s'
                     % explain_hosts.describe_filter(the_filter))
