# SPDX-License-Identifier: Apache-2.0

"""Make room for new instances: plan, move, and plan again what failed."""

from __future__ import annotations

import collections
from collections import abc
import functools
import time
import typing

import nova.conf
from nova import objects

from nova_prio.admin.explain import answers
from nova_prio.admin.explain import requests
from nova_prio.admin.explain import units
from nova_prio.admin.fleet import cloud as fleet_cloud
from nova_prio.admin.moves import execution
from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import room_plan
from nova_prio.admin.moves import servers as servers_module
from nova_prio.admin.moves import verdicts as verdicts_module
from nova_prio.admin import nova_client
from nova_prio.model.planner import plan as planner

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report as report_client


class Room:
    """The moves after which new instances fit.

    ``cloud`` and ``plan`` are as of the last :meth:`refresh`. ``doubts`` are
    clauses, why the new instances may not fit.

    :param number: number of the new instances
    :param aggregate: name of an aggregate that they must use, or None
    """

    def __init__(self, context: nova_context.RequestContext,
                 placement: report_client.SchedulerReportClient,
                 flavor: objects.Flavor, number: int,
                 aggregate: str | None) -> None:
        self._context = context
        self._placement = placement
        self._flavor = flavor
        self._number = number
        self._aggregate = aggregate
        # UUID -> hosts that Nova refused.
        self._refused: dict[str, frozenset[str]] = (
            collections.defaultdict(frozenset))

    def refresh(self) -> None:
        """Read the cloud, and plan.

        If the judge places all new instances now, the plan has no moves.
        Otherwise the judge must accept each move, and the state after them.
        """
        self.cloud = fleet_cloud.read_fleet(self._context, self._placement)
        verdicts = verdicts_module.Verdicts(self._context, self._placement)
        self.doubts = verdicts.judge.list_doubts()
        placed = units.place(
            verdicts.judge, self._make_request(), self._number)
        if sum(placed.values()) == self._number:
            self.plan = planner.Plan((), hosts=tuple(
                host for host, number in placed.items()
                for _ in range(number)))
        else:
            self.plan = self._plan_moves(verdicts)

    def _plan_moves(self, verdicts: verdicts_module.Verdicts) -> planner.Plan:
        """Return a plan whose moves and result the judge accepts.

        On a host where fewer new instances fit than planned, only those that
        fit now are counted.
        """
        wanted = verdicts.judge.decide(
            self._make_request(), before_moves=True)
        closed = {name: answer for name, answer in wanted.answers.items()
                  if not answer.is_curable}
        now: dict[str, int] = {}
        fitting: dict[str, int] | None = None
        while True:
            missing = self._number - sum(now.values())
            plan = verdicts_module.plan_with(
                verdicts, self._refused, functools.partial(
                    room_plan.plan_room, self.cloud, self._flavor, missing,
                    self._aggregate, closed=frozenset(closed)))
            hosts = tuple(host for host, number in now.items()
                          for _ in range(number))
            obstacle = verdicts.check(plan, wanted)
            if obstacle is None:
                return plan._replace(
                    hosts=plan.hosts + hosts, misses=tuple(
                        _explain(miss, closed) for miss in plan.misses))
            closed[obstacle.host] = obstacle.answer
            if fitting is None:
                fitting = units.count(verdicts.judge, self._make_request())
            number = min(fitting.get(obstacle.host, 0), missing - 1)
            if number:
                now[obstacle.host] = number

    def _make_request(self) -> objects.RequestSpec:
        """Return the request for one of the new instances."""
        spec = requests.build_request(
            self._context, nova.conf.CONF, self._flavor, {}, None)
        if self._aggregate is not None:
            spec.requested_destination = objects.Destination(aggregates=[
                each.uuid for each in objects.AggregateList.get_all(
                    self._context) if each.name == self._aggregate])
        return spec

    def run(self, client: nova_client.NovaClient, end: float,
            observe: execution.Observer) -> str:
        """Make the moves; if Nova refuses one, plan again without it.

        ``plan`` is then as of the end.

        :param end: time of the timeout, as ``time.monotonic`` counts it
        :returns: why the new instances do not fit, one sentence, or ''
        :raises APIRefused: if the credentials do not allow a move
        """
        servers = servers_module.Servers(client)
        while True:
            run = execution.Execution(
                servers, self.plan.moves,
                self.cloud.group_of, self.cloud.format_instance, observe)
            run.run(end)
            if run.surprise:
                return run.surprise
            if run.count(one_move.DONE) == len(run.moves):
                self.refresh()
                if self.plan.moves or self.plan.misses:
                    return ('All moves were made, but nova-scheduler would '
                            'still refuse a new server.')
                return ''
            if time.monotonic() >= end:
                return 'The timeout is over.'
            refused = [each.move for each in run.moves
                       if each.state == one_move.REFUSED]
            for move in refused:
                if move.destination:
                    self._refused[move.uuid] |= {move.destination}
            if not all(move.destination for move in refused) or not refused:
                return 'A move was not made.'
            self.refresh()
            if self.plan.misses:
                return 'Nova refused a move, and no other moves make room.'


def _explain(miss: planner.Miss,
             closed: abc.Mapping[str, answers.Answer]) -> planner.Miss:
    """Return a miss with the reason of the judge, if it closed the host."""
    answer = closed.get(miss.host or '')
    if answer is None:
        return miss
    return miss._replace(reason='%s (%s)' % (answer.reason, answer.result))
