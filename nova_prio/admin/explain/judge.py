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
from nova.scheduler import weights

from nova_prio.admin.explain import answers
from nova_prio.admin.explain import hosts as explain_hosts
from nova_prio.admin import host_inventory
from nova_prio.model import admission
from nova_prio.model import reasons
from nova_prio.placement import allocations
from nova_prio.placement import obstacles
from nova_prio.placement import refused_providers
from nova_prio.scheduler import config_checks
from nova_prio.scheduler import request_view
from nova_prio.scheduler.weights import priority_weighter

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report
    from nova.scheduler import filters

#: Reasons of PriorityFilter for which nova-compute also refuses.
_CLAIM_REASONS = {*reasons.FILTER_AND_CLAIM, 'numa_topology'}


class Judge:
    """Decides about requests as nova-scheduler does, on the present records.

    The request filter of this package must be installed in Nova.

    :param context: targets no cell
    """

    def __init__(self, context: nova_context.RequestContext,
                 client: report.SchedulerReportClient) -> None:
        self._context = context
        self._client = client
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
        ignored = {name.lower() for name in spec.ignore_hosts or ()}
        enabled = {cell.uuid for cell in self.hosts.enabled_cells}
        found, uuids = [], []
        for node, cell in self.hosts.nodes:
            name = self._names[node.uuid]
            if cell not in enabled:
                found.append(answers.Answer(
                    name, answers.CELL, 'its cell is disabled'))
            elif node.host.lower() in ignored:
                found.append(answers.Answer(
                    name, answers.SCHEDULER,
                    'the server is on this host; a move needs another host'))
            else:
                uuids.append(node.uuid)
        found += self._answer_open(spec, uuids)
        return sorted(found, key=answers.get_position)

    def _make(self, uuid: str, result: str, reason: str) -> answers.Answer:
        """Return the answer about a node with a UUID."""
        return answers.Answer(self._names[uuid], result, reason)

    def _answer_open(self, spec: objects.RequestSpec, uuids: list[str],
                     ) -> abc.Iterator[answers.Answer]:
        """Yield the answers of nodes that no record excludes."""
        def refuse_all(result: str, reason: str) -> list[answers.Answer]:
            """Return the same refusal for each node."""
            return [self._make(uuid, result, reason) for uuid in uuids]

        try:
            request_filter.process_reqspec(self._context, spec)
            request = utils.resources_from_request_spec(
                self._context, spec, self.hosts)
        except exception.RequestFilterFailed as error:
            yield from refuse_all(answers.REQUEST_FILTER,
                                  host_inventory.format_first_line(error))
            return
        except exception.NoValidHost as error:
            yield from refuse_all(answers.SCHEDULER,
                                  host_inventory.format_first_line(error))
            return
        unknown = refused_providers.find_unknown_names(self._client, request)
        if unknown:
            yield from refuse_all(answers.PLACEMENT, unknown)
            return
        candidates = self._read_candidates(spec, request)
        in_tree = request.get_request_group(None).in_tree
        offered, refused = [], []
        for uuid in uuids:
            if uuid in candidates:
                offered.append(uuid)
            elif in_tree in (None, uuid):
                refused.append(uuid)
            else:
                yield self._make(uuid, answers.PLACEMENT,
                                 'the request names another host')
        has_all = request._limit is None or request._limit > sum(
            map(len, candidates.values()))
        yield from self._answer_not_offered(request, refused, has_all)
        utils.setup_instance_group(self._context, spec)
        states = {state.uuid: state for state in
                  self.hosts.get_host_states_by_uuids(
                      self._context, offered, spec)}
        for uuid in offered:
            if uuid in states:
                states[uuid].allocation_candidates = list(candidates[uuid])
            else:
                yield self._make(uuid, answers.CELL, 'the server is in '
                                 'another cell, or no nova-compute is known')
        yield from self._filter_and_weigh(
            spec, list(states.values()), candidates)

    def _read_candidates(self, spec: objects.RequestSpec,
                         request: utils.ResourceRequest,
                         ) -> dict[str, list[dict[str, typing.Any]]]:
        """Return the allocation requests for each provider.

        As nova-scheduler does, also ask for VCPU in place of PCPU if an option
        allows this.
        """
        requests = [request]
        if (request.cpu_pinning_requested and not
                nova.conf.CONF.workarounds.disable_fallback_pcpu_query):
            requests.append(utils.resources_from_request_spec(
                self._context, spec, self.hosts,
                enable_pinning_translate=False))
        found = collections.defaultdict(list)
        for each in requests:
            answer = allocations.get_json(
                self._client, '/allocation_candidates?' +
                each.to_querystring(), refused_providers.CANDIDATES_VERSION)
            for candidate in answer['allocation_requests']:
                for uuid in candidate['allocations']:
                    found[uuid].append(candidate)
            for uuid in answer['provider_summaries']:
                found.setdefault(uuid, [])
        return dict(found)

    def _answer_not_offered(self, request: utils.ResourceRequest,
                            uuids: list[str], has_all: bool,
                            ) -> abc.Iterator[answers.Answer]:
        """Yield the answers of hosts that Placement does not offer.

        :param has_all: whether Placement may have returned all candidates
        """
        found = refused_providers.find_obstacles(
            self._client, request, uuids, self._aggregate_names)
        for uuid in uuids:
            of_host = found[uuid]
            restrictions = [each for each in of_host if each.is_restriction]
            if restrictions:
                yield self._make(uuid, answers.REQUEST_FILTER,
                                 _join(restrictions))
            elif of_host:
                # If the host has other obstacles, no amount makes it fit.
                is_short = all(each.missing for each in of_host)
                answer = self._make(uuid, answers.PLACEMENT, _join(of_host))
                if is_short:
                    answer.missing = {each.resource: each.missing
                                      for each in of_host if each.resource}
                yield answer
            else:
                yield self._make(
                    uuid, answers.PLACEMENT, 'no reason found' if has_all else
                    'left out, because [scheduler] max_placement_results is '
                    '%s' % request._limit)

    def _filter_and_weigh(self, spec: objects.RequestSpec,
                          states: list[host_manager.HostState],
                          candidates: abc.Mapping[str, list[typing.Any]],
                          ) -> abc.Iterator[answers.Answer]:
        """Yield the answers of hosts that Placement offers.

        :param candidates: UUID of a host -> its allocation requests
        """
        passing = self.hosts.run_filter(None, states, spec)
        for state in _list_removed(states, passing):
            yield self._make(state.uuid, answers.SCHEDULER,
                             'the request names another host')
        is_forced = bool(spec.force_hosts or spec.force_nodes)
        if is_forced:
            for state in list(passing):
                refusal = answers.find_refusal(state, spec)
                if refusal and refusal.reason in _CLAIM_REASONS:
                    passing.remove(state)
                    yield self._refuse(state, spec, answers.COMPUTE, refusal)
        else:
            for each in self.hosts.enabled_filters:
                kept = self.hosts.run_filter(each, passing, spec)
                for state in _list_removed(passing, kept):
                    # The filter has removed those that it refuses.
                    state.allocation_candidates = list(candidates[state.uuid])
                    yield self._describe_refusal(each, state, spec)
                passing = kept
        for state in list(passing):
            if not state.allocation_candidates:
                passing.remove(state)
                yield self._make(state.uuid, answers.PLACEMENT,
                                 'all its allocations are on other providers')
        yield from self._weigh(spec, passing)

    def _describe_refusal(self, the_filter: filters.BaseHostFilter,
                          state: host_manager.HostState,
                          spec: objects.RequestSpec) -> answers.Answer:
        """Return the answer of a host that a filter refuses."""
        if explain_hosts.is_priority_filter(the_filter):
            refusal = answers.find_refusal(state, spec)
            if refusal:
                return self._refuse(
                    state, spec, answers.PRIORITY_FILTER, refusal)
        return self._make(state.uuid, type(the_filter).__name__,
                          'the host does not pass this filter: %s'
                          % explain_hosts.describe_filter(the_filter))

    def _refuse(self, state: host_manager.HostState,
                spec: objects.RequestSpec, result: str,
                refusal: admission.Refusal) -> answers.Answer:
        """Return the answer of a host that PriorityFilter refuses."""
        answer = self._make(state.uuid, result, '%s: %s' % (
            refusal.reason, refusal.detail))
        answer.missing = answers.get_missing(
            state, request_view.read_request(spec), refusal)
        return answer

    def _weigh(self, spec: objects.RequestSpec,
               passing: list[host_manager.HostState],
               ) -> abc.Iterator[answers.Answer]:
        """Yield the answers of the hosts that pass."""
        weigher = priority_weighter.PriorityWeighter()
        scores = weigher.weigh_objects(
            [weights.WeighedHost(state, 0.0) for state in passing], spec)
        weighed = sorted(
            ((score * weigher.weight_multiplier(state),
              self._names[state.uuid])
             for score, state in zip(scores, passing)),
            key=lambda pair: (-pair[0], pair[1]))
        for rank, (weight, name) in enumerate(weighed, start=1):
            yield answers.Answer(
                name, answers.PASSES, rank=rank, weight=weight)


def _list_removed(before: abc.Iterable[host_manager.HostState],
                  after: abc.Iterable[host_manager.HostState],
                  ) -> list[host_manager.HostState]:
    """Return the host states that a filter has removed."""
    kept = {state.uuid for state in after}
    return [state for state in before if state.uuid not in kept]


def _join(found: abc.Iterable[obstacles.Obstacle]) -> str:
    """Return the texts of obstacles."""
    return '; '.join(each.text for each in found)
