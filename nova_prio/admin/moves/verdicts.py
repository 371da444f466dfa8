# SPDX-License-Identifier: Apache-2.0

"""What the code of nova-scheduler says about moves.

It decides about a request on the present records, once for equal requests. A
move of a plan may need the room that an earlier move leaves, so it also
decides on copies of the records after that move.
"""

from __future__ import annotations

from collections import abc
import typing

from oslo_serialization import jsonutils
from oslo_utils import uuidutils

from nova_prio.admin.explain import answers as explain_answers
from nova_prio.admin.explain import candidates
from nova_prio.admin.explain import copies
from nova_prio.admin.explain import judge
from nova_prio.admin.explain import requests
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan as planner

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova import objects
    from nova.scheduler.client import report as report_client

#: Fields of a request that differ between equal requests.
_OWN_FIELDS = ('id', 'instance_uuid', 'security_groups')


class RefusedMove(typing.NamedTuple):
    """A refusal of a planned move; the UUID of a new instance is None."""

    uuid: str | None
    answer: explain_answers.Answer


class Verdicts:
    """The answers about moves of instances, on the records of one time.

    :param context: targets no cell
    """

    def __init__(self, context: nova_context.RequestContext,
                 placement: report_client.SchedulerReportClient) -> None:
        self._context = context
        self._placement = placement
        # Decides about a request with the code of nova-scheduler.
        self.judge = judge.Judge(context, placement)
        # Text that equal requests share -> decision.
        self._by_request: dict[str, candidates.Decision] = {}
        # UUID of an instance -> decision about its move; None if the instance
        # is gone, or its cell does not answer.
        self._by_instance: dict[str, candidates.Decision | None] = {}
        # UUID of an instance -> its host; None if it is on no host.
        self._hosts: dict[str, str | None] = {}

    def decide(self, uuid: str) -> candidates.Decision | None:
        """Return the decision about the move of an instance.

        Instances with equal requests share a decision, on whatever hosts they
        are. So it also has an answer about the host of the instance itself.

        :returns: None if the instance is gone, or its cell does not answer
        """
        if uuid not in self._by_instance:
            self._by_instance[uuid] = None
            try:
                server = requests.read_server(self._context, uuid)
            except requests.ServerRefused:
                return None
            self._hosts[uuid] = server.host
            spec = server.spec
            # The request ignores the host of the instance. Let it ignore none,
            # so that it can equal the requests of instances on other hosts.
            spec.ignore_hosts = None
            key = _make_key(spec)
            if key not in self._by_request:
                # The decision also tells which hosts may fit after moves.
                self._by_request[key] = self.judge.decide(
                    spec, before_moves=True)
            self._by_instance[uuid] = self._by_request[key]
        return self._by_instance[uuid]

    def list_answers(self, uuid: str) -> list[explain_answers.Answer]:
        """Return the answers about the other hosts for an instance."""
        decision = self.decide(uuid)
        if decision is None:
            return []
        return [each for each in decision.answers.values()
                if each.host != self._hosts[uuid]]

    def check(self, plan: planner.Plan,
              wanted: candidates.Decision | None = None) -> RefusedMove | None:
        """Return the first refusal of nova-scheduler, or None.

        :param plan: its moves are checked in their order, each on the state
            after the earlier moves
        :param wanted: decision about the new instances of the plan, which are
            put on its hosts after the moves; None to check the moves only
        :returns: the answer about the host that refuses, with the UUID of the
            instance; the UUID is None if it is a new one
        """
        # Copies of the hosts after the moves up to now. ``arrive`` puts an
        # instance on one of them, or returns why the host refuses it.
        world = copies.Copies(self._context, self._placement, self.judge)
        for move in plan.moves:
            # None if the instance is gone, or its cell does not answer. The
            # move is then not checked: it is skipped, or Nova refuses it.
            decision = self.decide(move.uuid)
            # A move without a destination is shelving.
            if move.destination and decision:
                refusal = world.arrive(decision, move.uuid, move.destination)
                if refusal:
                    return RefusedMove(move.uuid, refusal)
            if move.way == planner_fleet.EVACUATE:
                # The source host is lost, so nothing becomes free there.
                continue
            # Free the room of the instance on the copy of its host, if it is
            # still there.
            instance = requests.read_instance(self._context, move.uuid)
            if instance is not None and instance.host == move.source:
                world.depart(instance)
        if wanted is not None:
            for host in plan.hosts:
                refusal = world.arrive(
                    wanted, uuidutils.generate_uuid(), host)
                if refusal:
                    return RefusedMove(None, refusal)
        return None

    def add_refused_hosts(self, plan: planner.Plan,
                          refused: dict[str, frozenset[str]]) -> bool:
        """Add the hosts that nova-scheduler would refuse to ``refused``.

        While the result is true, plan again without these hosts.

        :param refused: UUID of an instance -> hosts that it may not use
        :returns: whether a move of the plan has a refused destination
        """
        has_refused = False
        # First add the hosts that no moves of other instances make fit.
        for move in plan.moves:
            if move.destination:
                hosts = refused.get(move.uuid, frozenset()).union(
                    self.find_refusing(move.uuid))
                refused[move.uuid] = hosts
                has_refused |= move.destination in hosts
        if has_refused:
            return True
        # Other hosts may not fit after the earlier moves of the plan. Such an
        # obstacle is a move with a destination, so that the loop above has
        # added its UUID to ``refused``.
        obstacle = self.check(plan)
        if obstacle is None:
            return False
        assert obstacle.uuid is not None
        # ``answer`` is the refusal, of the host to which the move goes.
        refused[obstacle.uuid] |= {obstacle.answer.host}
        return True

    def find_refusing(self, uuid: str) -> frozenset[str]:
        """Return the hosts that no moves make fit for an instance."""
        return frozenset(
            each.host for each in self.list_answers(uuid)
            if not each.may_fit_after_moves)

    def describe(self, uuid: str) -> str:
        """Return the reason of the host that is closest to fit, a clause.

        :param uuid: UUID of the instance that would move
        :returns: '' if a host fits
        """
        answers = self.list_answers(uuid)
        if any(each.result == explain_answers.PASSES for each in answers):
            return ''
        # Leave out hosts on which nova-scheduler runs no filters, such as one
        # that is not registered.
        others = [each for each in answers
                  if each.result != explain_answers.SCHEDULER]
        closest = explain_answers.find_closest(others)
        if closest is None:
            # No host lacks an amount of something. Take the host that is first
            # in the order of the command "explain". The sentence below calls
            # it the closest in the same words, and gives its reason.
            closest = min(
                others, key=explain_answers.get_position, default=None)
        if closest is None:
            return 'no other hosts'
        return 'fits on no host; %s lacks least: %s (%s)' % (
            closest.host, closest.reason, closest.result)

    def choose(self, uuid: str, hosts: abc.Container[str]) -> str | None:
        """Return the best of some hosts for an instance, or None.

        :param hosts: names of the hosts
        :returns: the host that passes the filters and has the largest weight;
            None if none passes, or if nothing is known about the instance
        """
        # Which hosts pass for the request of the instance. None if the
        # instance is gone, or its cell does not answer.
        decision = self.decide(uuid)
        if decision is None:
            return None
        for host in self._rank_hosts(uuid, decision):
            if host in hosts:
                return host
        return None

    def _rank_hosts(self, uuid: str, decision: candidates.Decision,
                    world: copies.Copies | None = None) -> list[str]:
        """Return the hosts that pass, the best one of Nova's weighers first.

        :param decision: result of :meth:`decide`. Other instances may share
            it, so that the host of the instance may be among those that pass.
        :param world: the hosts after earlier moves; None for the present ones
        """
        # Objects HostState of Nova.
        passing = []
        for state in decision.passing:
            name = self.judge.get_name(state)
            if name != self._hosts[uuid]:
                # None if no earlier move has used the host.
                changed = world and world.get_changed(name)
                passing.append(changed or state)
        if not passing:
            return []
        weighed = self.judge.hosts.get_weighed_hosts(passing, decision.spec)
        return [self.judge.get_name(each.obj) for each in weighed]

    def place_all(self, usable: abc.Mapping[str, abc.Container[str] | None],
                  ) -> dict[str, str]:
        """Return the hosts that Nova would choose for instances in turn.

        :param usable: UUID of an instance -> names of the hosts that it may
            use, None for all; in the order in which Nova is asked
        :returns: UUID -> name of a host, without the instances that do not
            fit beside the earlier ones
        """
        # Copies of the hosts with the instances that have been placed.
        world = copies.Copies(self._context, self._placement, self.judge)
        found: dict[str, str] = {}
        for uuid, hosts in usable.items():
            # Which hosts pass for the request of the instance. None if the
            # instance is gone, or its cell does not answer.
            decision = self.decide(uuid)
            if decision is None:
                continue
            for host in self._rank_hosts(uuid, decision, world):
                is_usable = hosts is None or host in hosts
                # This puts the instance on the copy, or returns a refusal.
                if is_usable and not world.arrive(decision, uuid, host):
                    found[uuid] = host
                    break
        return found


def _make_key(spec: objects.RequestSpec) -> str:
    """Return a text that is the same for equal requests.

    Leave out the fields that tell apart the instances of equal requests, such
    as the UUID.
    """
    primitive = spec.obj_to_primitive()
    data = primitive['nova_object.data']
    for name in _OWN_FIELDS:
        data.pop(name, None)
    primitive.pop('nova_object.changes', None)
    group = data.get('instance_group')
    if group:
        # Nova's filters read on which hosts the other members are, so that
        # the request of a member equals no other.
        data['member'] = spec.instance_uuid
    return jsonutils.dumps(primitive, sort_keys=True)
