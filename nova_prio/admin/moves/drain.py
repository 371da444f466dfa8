# SPDX-License-Identifier: Apache-2.0

"""The instances that must leave hosts for maintenance, and their plan.

The way of a move is a live migration, a cold migration or shelving. An open
migration is in progress, or awaits a confirmation.
"""

from __future__ import annotations

from collections import abc
import dataclasses
import typing

from nova.compute import vm_states
from nova import objects
from nova.objects import fields

from nova_prio.admin.fleet import cloud_fleet
from nova_prio.admin import host as admin_host
from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import verdicts
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.model.planner import plan as planner

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report as report_client


#: Ways that the operator may allow. A cold migration restarts a running guest,
#: and shelving ends it.
OPTIONAL_WAYS = planner_fleet.WAYS[1:]
#: The stages of a drain; each begins if no instance can leave by those before.
#: Only the planned moves name their destinations. ``list_stages`` may put them
#: first.
STAGES = DIRECT, COLD, PLANNED, SHELVE = (
    'direct', planner_fleet.COLD, 'planned', planner_fleet.SHELVE)
#: Status of a resize or cold migration that awaits a confirmation.
FINISHED = 'finished'


@dataclasses.dataclass(eq=False)
class Drain:
    """The instances that must leave hosts, and their planned moves.

    ``hosts`` are the names of the hosts, and ``allowed`` the OPTIONAL_WAYS
    that the operator allows. ``within`` is the name of an aggregate to whose
    hosts all instances go, or None. ``moves`` are all moves up to now: UUID of
    an instance -> list. ``cloud`` is as of the last :meth:`refresh`.

    :param context: targets no cell
    """

    context: nova_context.RequestContext
    placement: report_client.SchedulerReportClient
    hosts: list[str]
    allowed: frozenset[str]
    within: str | None
    moves: dict[str, list[one_move.OneMove]] = dataclasses.field(
        default_factory=dict)

    def refresh(self) -> None:
        """Read the cloud.

        :raises nova_prio.admin.host.HostRefused: if a host is unknown
        """
        self.cloud = cloud_fleet.read_fleet(self.context, self.placement)
        known = {host.name for host in self.cloud.hosts}
        for name in self.hosts:
            if name not in known:
                raise admin_host.HostRefused(
                    "HOST is '%s'; allowed are names of compute hosts with "
                    'one compute node, in a cell that answers.' % name)
        # None: the property ``plan`` makes the plan at its next use.
        self._plan: planner.Plan | None = None

    def select(self, hosts: list[str]) -> None:
        """Drain other hosts, on the records of the last refresh."""
        self.hosts = hosts
        self._plan = None

    @property
    def plan(self) -> planner.Plan:
        """The moves that drain the hosts; nova-scheduler would accept them.

        The first use after a refresh plans them, and sets ``verdicts``, which
        asks the code of nova-scheduler.
        """
        if self._plan is None:
            self.verdicts = verdicts.Verdicts(self.context, self.placement)
            self._plan = self._make_plan()
        return self._plan

    def _make_plan(self) -> planner.Plan:
        """Plan the moves again until nova-scheduler would accept all of them.

        Each attempt excludes the destinations that nova-scheduler would refuse
        in the attempts before.
        """
        # The hosts outside of the aggregate to which the operator limits the
        # moves. The planner itself excludes the drained hosts.
        inside = self._list_open_hosts().union(self.hosts)
        outside = frozenset(host.name for host in self.cloud.hosts
                            if host.name not in inside)
        # UUID of an instance -> hosts that it may not use.
        refused = {each.uuid: outside for each in self.cloud.instances}
        for uuid in self.moves:
            # Nova has refused these destinations in earlier moves.
            refused[uuid] = outside.union(
                each.move.destination for each in self.list_refusals(uuid)
                if each.move.destination)
        while True:
            # Harm is an outage: a cold migration restarts a running guest, and
            # shelving ends it.
            plan = self._plan_least_harm(refused)
            # This adds the destinations that would be refused to ``refused``.
            if not self.verdicts.add_refused_hosts(plan, refused):
                return plan

    def _plan_least_harm(self, refused: abc.Mapping[str, frozenset[str]],
                         ) -> planner.Plan:
        """Plan the moves with the least harm to the guests.

        Live-migrate the running instances and cold-migrate the stopped ones.
        If an instance does not fit anywhere, also allow the next of the more
        harmful ways that the operator allows, and plan again.

        :param refused: UUID of an instance -> hosts that it may not use
        """
        # ``given`` have all ways by which Nova can move an instance, and
        # ``instances`` only those of the present attempt.
        given = {each.uuid: each for each in self.cloud.instances}
        instances = {
            uuid: dataclasses.replace(each, ways=self.get_harmless_ways(each))
            for uuid, each in given.items()}
        while True:
            attempt = self.cloud._replace(instances=tuple(instances.values()))
            # Nova live-migrates no instance to a host with an older or another
            # hypervisor: add_not_live adds these hosts to the refused ones.
            plan = planner.plan_drain(
                attempt.make_fleet(refused=attempt.add_not_live(refused)),
                self.hosts)
            has_changed = False
            # A miss is an instance that fits nowhere by the ways tried here.
            for miss in plan.misses:
                uuid, tried = miss.instance.uuid, miss.instance.ways
                possible = given[uuid].ways & self.allowed
                ways = _add_way(possible, tried)
                if ways != tried:
                    has_changed = True
                    instances[uuid] = dataclasses.replace(
                        given[uuid], ways=ways)
            # All allowed ways of the instances that fit nowhere were tried.
            if not has_changed:
                return plan

    def get_harmless_ways(
            self, instance: planner_fleet.Instance) -> frozenset[str]:
        """Return the way to move an instance without an outage of its guest.

        This way is always allowed. The operator must allow the others, which
        restart or end a guest.

        :returns: a set of one way: a live migration, or a cold one if the
            instance is stopped; empty if Nova cannot move the instance so
        """
        way = planner_fleet.LIVE
        vm_state = self.cloud.details[instance.uuid].vm_state
        if vm_state == vm_states.STOPPED:
            way = planner_fleet.COLD
        return instance.ways.intersection([way])

    def list_refusals(self, uuid: str) -> list[one_move.OneMove]:
        """Return the moves of an instance that Nova refused."""
        return [each for each in self.moves.get(uuid, ())
                if each.state == one_move.REFUSED]

    def _list_open_hosts(self) -> set[str]:
        """Return the hosts to which the instances may go.

        The drained hosts, ``hosts``, take none. The operator may limit the
        others to those of an aggregate, ``within``.
        """
        if self.within is None:
            names = [host.name for host in self.cloud.hosts]
        else:
            names = self.cloud.list_members(self.within)
        return set(names).difference(self.hosts)

    def choose(self, uuid: str) -> str | None:
        """Return the best host for an instance, or None if none fits.

        The code of nova-scheduler decides, among the hosts to which the
        operator limits the moves. The hosts are read again, because earlier
        moves have changed them.
        """
        return verdicts.Verdicts(self.context, self.placement).choose(
            uuid, self._list_open_hosts())

    def can_begin(self) -> bool:
        """Return whether it makes sense to begin the drain.

        It does if all instances have left; if an instance has a planned move,
        a cold migration to be confirmed, or a task of Nova that may end; or
        if the code of nova-scheduler finds a host for an instance.
        """
        guests = self.list_guests()
        if self.plan.moves or not guests or self.list_confirmable():
            return True
        if any(self.cloud.details[each.uuid].task_state for each in guests):
            return True
        return any(self.verdicts.choose(each.uuid, self._list_usable(each))
                   for each in guests)

    def _list_usable(self, instance: planner_fleet.Instance) -> set[str]:
        """Return the hosts that Nova considers for a move of an instance.

        :returns: names; empty if the instance may not be moved in any way
        """
        # The harmless way leaves the guest running, or stopped as it is, so it
        # is always allowed. The operator may have allowed others.
        ways = self.get_harmless_ways(instance) | (
            instance.ways & self.allowed)
        if not ways:
            return set()
        hosts = self._list_open_hosts()
        if ways == {planner_fleet.LIVE}:
            # Nova cannot live-migrate from the present host to these.
            hosts.difference_update(
                self.cloud.not_live.get(instance.host or '', ()))
        return hosts

    def list_stages(self) -> tuple[str, ...]:
        """Return the stages of the drain in their order.

        PLANNED makes the moves of the plan. In the other stages, which move
        the instances without harm (DIRECT), by cold migration (COLD) and by
        shelving (SHELVE), no move names a destination.

        First, Nova chooses the destinations. But if little room is left, its
        choice for one instance may leave no room for another. If that would
        happen to an instance that the plan moves, the planned moves, which
        name their destinations, come first.
        """
        planned = {move.uuid for move in self.plan.moves if move.destination}
        usable = {each.uuid: self._list_usable(each)
                  for each in self.list_guests() if each.uuid in planned}
        # This returns UUID -> host without the instances that do not fit.
        if len(self.verdicts.place_all(usable)) == len(usable):
            return STAGES
        return PLANNED, DIRECT, COLD, SHELVE

    def list_moves(self, stage: str) -> list[planner_fleet.Move]:
        """Return the moves of a stage.

        :param stage: 'direct' to move each instance without harm to its guest,
            'planned' for the plan, which names destinations, or one of the
            ways 'cold' and 'shelve' if the operator allows it
        :returns: for 'planned', maybe several moves of an instance; for the
            others, at most one of each. A migration without a destination
            goes to the host that Nova chooses or, with ``within``, that
            :meth:`choose` returns.
        """
        if stage == PLANNED:
            return [move for move in self.plan.moves if move.destination]
        moves = []
        for each in self.list_guests():
            assert each.host is not None
            ways = self.get_harmless_ways(each)
            if stage != DIRECT:
                # The stage is also the name of a way. Leave it out if it is
                # the one that the stage DIRECT has tried.
                allowed = each.ways & self.allowed
                ways = allowed.intersection([stage]) - ways
            # A set of one way, or of none.
            for way in ways:
                moves.append(planner_fleet.Move(
                    uuid=each.uuid, way=way, source=each.host,
                    destination=None))
        return moves

    def list_guests(self) -> list[planner_fleet.Instance]:
        """Return the instances that must leave the hosts.

        A soft-deleted instance may stay: its guest does not run.
        """
        guests = []
        for each in self.cloud.instances:
            vm_state = self.cloud.details[each.uuid].vm_state
            if each.host in self.hosts and vm_state != vm_states.SOFT_DELETED:
                guests.append(each)
        return guests

    def list_shelved(self) -> list[planner_fleet.Instance]:
        """Return the shelved instances that may be removed from the hosts."""
        if planner_fleet.SHELVE not in self.allowed:
            return []
        return [each for each in self.list_guests() if
                self.cloud.details[each.uuid].vm_state == vm_states.SHELVED]

    def list_open_migrations(self) -> list[objects.Migration]:
        """Return the open migrations from the hosts, and to them.

        They are in progress, or await a confirmation.
        """
        return [each for each in self.cloud.migrations
                if each.source_compute in self.hosts or
                each.dest_compute in self.hosts]

    def list_confirmable(self) -> list[objects.Migration]:
        """Return the cold migrations from the hosts to be confirmed."""
        return [each for each in self.list_open_migrations()
                if can_be_confirmed(each)
                and each.source_compute in self.hosts]

    def list_empty_hosts(self) -> list[str]:
        """Return the names of the hosts without guests and open moves."""
        busy = {each.host for each in self.list_guests()}
        for migration in self.list_open_migrations():
            busy.update((migration.source_compute, migration.dest_compute))
        return [name for name in self.hosts if name not in busy]

    def is_empty(self) -> bool:
        """Return whether no host has guests or open moves."""
        return len(self.list_empty_hosts()) == len(self.hosts)


def can_be_confirmed(migration: objects.Migration) -> bool:
    """Return whether a cold migration of an operator may be confirmed.

    Only the owner may confirm or revert a resize.
    """
    return (migration.migration_type == fields.MigrationType.MIGRATION and
            migration.status == FINISHED)


def _add_way(possible: frozenset[str], ways: frozenset[str]) -> frozenset[str]:
    """Return the ways to try next for an instance that fits nowhere.

    :param possible: ways of the instance that the operator allows
    :param ways: the ways that were tried
    :returns: the same ways if all possible ones were tried
    """
    for way in OPTIONAL_WAYS:
        if way in possible and way not in ways:
            # Leave out the live migration, by which it fits nowhere.
            return ways.difference([planner_fleet.LIVE]).union([way])
    return ways
