# SPDX-License-Identifier: Apache-2.0

"""Make room for new instances: plan, move, and plan again what failed.

The code of nova-scheduler, which :mod:`verdicts` asks, must accept each plan.
"""

from __future__ import annotations

import collections
from collections import abc
import dataclasses
import time
import typing

import nova.conf
from nova import objects

from nova_prio.admin.explain import answers
from nova_prio.admin.explain import requests
from nova_prio.admin.explain import units
from nova_prio.admin.fleet import cloud_fleet
from nova_prio.admin.fleet import fleet_instances
from nova_prio.admin.moves import execution
from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import servers as servers_module
from nova_prio.admin.moves import verdicts as verdicts_module
from nova_prio.admin import nova_client
from nova_prio.api import flavor_preview
from nova_prio.model import cpu_capacity
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan as planner

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report as report_client


#: The allowed ways of each attempt, the least harmful first. The planner
#: itself prefers one shelved instance to two live migrations. If it may
#: migrate an instance, it does not shelve it, and may fill another host: the
#: last attempt shelves only.
_ATTEMPTS = [planner_fleet.WAYS[:1], planner_fleet.WAYS[:2],
             planner_fleet.WAYS, (planner_fleet.SHELVE,)]


@dataclasses.dataclass(eq=False)
class RoomPlan:
    """The moves after which a number of new instances fit.

    ``aggregate`` is the name of an aggregate that they must use, or None.
    ``cloud`` and ``plan`` are as of the last :meth:`refresh`. ``doubts`` are
    clauses, why the new instances may not fit.

    :param context: targets no cell
    """

    context: nova_context.RequestContext
    placement: report_client.SchedulerReportClient
    flavor: objects.Flavor
    number: int
    aggregate: str | None
    # UUID of an instance -> hosts that Nova refused.
    _refused: dict[str, frozenset[str]] = dataclasses.field(
        default_factory=dict)

    def refresh(self) -> None:
        """Read the cloud, and plan.

        If all new instances fit now, the plan has no moves. Otherwise the
        code of nova-scheduler must accept each move, and the new instances
        after the moves.
        """
        self.cloud = cloud_fleet.read_fleet(self.context, self.placement)
        verdicts = verdicts_module.Verdicts(self.context, self.placement)
        # Clauses, why nova-scheduler may refuse a host that passes here.
        self.doubts = verdicts.judge.list_doubts()
        # Name of a host -> number of new instances that fit there now.
        placed = collections.Counter(units.place(
            verdicts.judge, self._make_request(), self.number))
        if placed.total() == self.number:
            # ``hosts`` of a plan has the name of a host for each new instance.
            self.plan = planner.Plan(
                moves=(), hosts=tuple(placed.elements()))
        else:
            self.plan = self._plan_moves(verdicts)

    def _plan_moves(self, verdicts: verdicts_module.Verdicts) -> planner.Plan:
        """Return a plan whose moves and result nova-scheduler would accept.

        The planner does not know all that nova-scheduler considers. Check each
        of its plans, and plan again without what is refused. If fewer new
        instances fit on a host after the moves than planned, only those that
        fit there without moves are counted.
        """
        # The judge runs the code of nova-scheduler. For each host, its answer
        # tells whether a new instance fits now, or may fit after moves.
        wanted = verdicts.judge.decide(
            self._make_request(), before_moves=True)
        # Name of a host that the plan must not use -> why it does not fit.
        closed = {name: answer for name, answer in wanted.answers.items()
                  if not answer.may_fit_after_moves}
        # Name of such a host -> number of new instances that it takes now.
        now: collections.Counter[str] = collections.Counter()
        # How many new instances fit now on each host, without moves. None
        # until the first host needs it, because it takes time to find.
        fitting: units.Units | None = None
        refused = self.cloud.add_not_live(self._refused)
        while True:
            missing = self.number - now.total()
            plan = self._plan_attempts(missing, frozenset(closed), refused)
            # This adds the destinations that would be refused to ``refused``.
            if verdicts.add_refused_hosts(plan, refused):
                continue
            # Check the new instances that need no moves, too: a move of the
            # plan may take their room.
            plan = plan._replace(hosts=plan.hosts + tuple(now.elements()))
            # Each move is accepted: an obstacle is that of a new instance.
            obstacle = verdicts.check(plan, wanted)
            if obstacle is None:
                misses = [_add_reason(miss, closed) for miss in plan.misses]
                return plan._replace(misses=tuple(misses))
            host = obstacle.answer.host
            if host in now:
                del now[host]
            else:
                closed[host] = obstacle.answer
                if fitting is None:
                    fitting = units.find(verdicts.judge, self._make_request())
                # How many new instances fit on this host now. Without moves,
                # not all of them fit: leave at least one to plan.
                number = min(fitting.count([host]), missing - 1)
                if number:
                    now[host] = number
            # The next plan does not use this host, so that its moves differ:
            # forget what would be refused among the moves of this plan.
            refused = self.cloud.add_not_live(self._refused)

    def _plan_attempts(self, number: int, closed: frozenset[str],
                       refused: abc.Mapping[str, frozenset[str]],
                       ) -> planner.Plan:
        """Return the plan that makes room for the most new instances.

        Try the ways to move instances, the least harmful first, until all new
        instances fit. Only low-priority instances may be shelved.

        :param number: number of the new instances that need room, 1 or more
        :param closed: hosts that the new instances must not use
        :param refused: UUID of an instance -> hosts to which Nova has refused
            to move it, or would refuse
        :raises nova_prio.model.flavor_specs.RequestRefused: if nova-api would
            refuse the flavor
        :raises nova.exception.NovaException: if stock Nova refuses the flavor
        """
        # The flavor as nova-api would embed it in the instances. They have no
        # scheduler hints, and an image without properties.
        image = objects.ImageMeta.from_dict({})
        embedded, topology = flavor_preview.fit_request(
            self.flavor, image, hints={})
        aggregates = frozenset[str]()
        if self.aggregate is not None:
            aggregates = frozenset([self.aggregate])
        # Whether they will boot from a volume is unknown: make room for disks.
        needs = fleet_instances.make_needs(
            embedded, topology, is_volume_backed=False, aggregates=aggregates)
        needs = dataclasses.replace(needs, is_new=True, refused_hosts=closed)
        # A new instance has no UUID: the text stands for one.
        wanted = planner_fleet.Instance('wanted', needs)
        instances = [_limit_shelving(each) for each in self.cloud.instances]
        cloud = self.cloud._replace(instances=tuple(instances))
        fleet = cloud.make_fleet(refused=refused)
        # A plan has a host for each new instance that fits after its moves,
        # and a miss if some do not fit.
        best = planner.plan_room(fleet, wanted, number, _ATTEMPTS[0])
        for ways in _ATTEMPTS[1:]:
            if not best.misses:
                break
            plan = planner.plan_room(fleet, wanted, number, ways)
            if len(plan.hosts) > len(best.hosts):
                best = plan
        return best

    def _make_request(self) -> objects.RequestSpec:
        """Return the request for one of the new instances."""
        spec = requests.build_request(
            self.context, nova.conf.CONF, self.flavor, hints={}, image=None)
        if self.aggregate is not None:
            aggregates = objects.AggregateList.get_all(self.context)
            # One UUID: Nova has no two aggregates of a name, and the command
            # has checked that this one exists.
            uuids = [each.uuid for each in aggregates
                     if each.name == self.aggregate]
            spec.requested_destination = objects.Destination(aggregates=uuids)
        return spec

    def run(self, client: nova_client.NovaClient, end: float,
            observe: execution.Observer) -> str:
        """Make the moves; if Nova refuses one, plan again without it.

        After success, ``plan`` has the hosts on which the new instances fit.

        :param end: time of the timeout, as ``time.monotonic`` counts it
        :returns: why the new instances do not fit, one sentence, or ''
        :raises APIRefused: if the credentials do not allow a move
        """
        servers = servers_module.Servers(client)
        while True:
            run = execution.Execution(
                servers=servers, moves=self.plan.moves,
                groups=self.cloud.group_of, observe=observe,
                format_instance=self.cloud.format_instance)
            run.run(end)
            # An instance is on another host than planned.
            if run.surprise:
                return run.surprise
            if run.count(one_move.DONE) == len(run.moves):
                # Plan anew: if the new instances fit, no moves are needed.
                self.refresh()
                if self.plan.moves or self.plan.misses:
                    return ('All moves were made, but nova-scheduler would '
                            'still refuse a new server.')
                return ''
            if time.monotonic() >= end:
                return 'The timeout is over.'
            refused = [each.move for each in run.moves
                       if each.state == one_move.REFUSED]
            if not refused:
                return 'A move was not made.'
            for move in refused:
                if not move.destination:
                    # It is shelving: no other destination can help.
                    return 'A move was not made.'
                self._refused[move.uuid] = self._refused.get(
                    move.uuid, frozenset()) | {move.destination}
            self.refresh()
            if self.plan.misses:
                return 'Nova refused a move, and no other moves make room.'


def _add_reason(miss: planner.Miss,
                closed: abc.Mapping[str, answers.Answer]) -> planner.Miss:
    """Return why a new instance does not fit, as nova-scheduler would say.

    :param miss: why it does not fit, as the planner says. Its host is the one
        that is closest to fit, or None if there is none.
    :param closed: name of a host that must not be used -> answer of the code
        of nova-scheduler about it. Its ``result`` is the part of Nova that
        refuses the host, such as the name of a filter, and its ``reason`` is a
        clause.
    """
    answer = closed.get(miss.host or '')
    if answer is None:
        return miss
    return miss._replace(reason='%s (%s)' % (answer.reason, answer.result))


def _limit_shelving(
        instance: planner_fleet.Instance) -> planner_fleet.Instance:
    """Return an instance that may be shelved only if it has low priority."""
    if instance.needs.class_name == cpu_capacity.LOW:
        return instance
    return dataclasses.replace(
        instance, ways=instance.ways - {planner_fleet.SHELVE})
