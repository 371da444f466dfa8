# SPDX-License-Identifier: Apache-2.0

"""Drain hosts for maintenance: Nova chooses where each instance goes.

Each instance is sent away without a destination: by a live migration, then by
a cold migration, if the operator allows it. If Nova finds no host, the planner
looks for other instances to move out of the way. Shelving comes last. Whenever
an instance has left, what Nova refused is tried again.
"""

from __future__ import annotations

import collections
from collections import abc
import functools
import time
import typing

from nova.compute import vm_states

from nova_prio.admin.fleet import cloud as fleet_cloud
from nova_prio.admin import host as admin_host
from nova_prio.admin import host_inventory
from nova_prio.admin.moves import drain_plan
from nova_prio.admin.moves import execution
from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import servers as servers_module
from nova_prio.admin.moves import unfinished
from nova_prio.admin.moves import verdicts
from nova_prio.admin import nova_client
from nova_prio.model.planner import fleet as planner_fleet
from nova_prio.placement import allocations

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report as report_client


class Drain:
    """The instances that must leave hosts, and their moves.

    ``cloud`` and ``unfinished`` are as of the last :meth:`refresh`, ``plan``
    and ``verdicts`` as of the last :meth:`make_plan`. ``refusals`` are all
    moves that Nova refused, by UUID. ``skipped`` are the reasons why moves did
    not end, by UUID.

    :param hosts: names of the hosts
    :param allowed: the ``drain_plan.OPTIONAL_WAYS`` that the operator allows
    :param within: name of an aggregate to whose hosts all instances go, or
        None
    """

    def __init__(self, context: nova_context.RequestContext,
                 placement: report_client.SchedulerReportClient,
                 hosts: abc.Sequence[str],
                 allowed: abc.Container[str] = (),
                 within: str | None = None) -> None:
        self.hosts = hosts
        self._within = within
        self._context = context
        self._placement = placement
        self._allowed = allowed
        self.refusals: dict[str, list[drain_plan.Refusal]] = (
            collections.defaultdict(list))
        self.skipped: dict[str, str] = {}
        # The instances whose moves away have ended here, and those whose
        # confirmation Nova has answered.
        self._leaving: set[str] = set()
        self._asked: set[str] = set()
        self._busy: set[str] = set()

    def refresh(self, cloud: fleet_cloud.CloudFleet | None = None) -> None:
        """Read the cloud.

        :param cloud: if it was read just now
        :raises nova_prio.admin.host.HostRefused: if a host is unknown
        """
        self.cloud = cloud or fleet_cloud.read_fleet(
            self._context, self._placement)
        self._is_planned = False
        known = {host.name for host in self.cloud.hosts}
        for name in self.hosts:
            if name not in known:
                raise admin_host.HostRefused(
                    "HOST is '%s'; allowed are names of compute hosts with "
                    'one compute node, in a cell that answers.' % name)
        self.unfinished = unfinished.list_unfinished(self._context, self.hosts)

    def make_plan(self) -> None:
        """Plan the moves, and ask the judge about their destinations."""
        if self._is_planned:
            return
        self.verdicts = verdicts.Verdicts(self._context, self._placement)
        open_hosts = self._list_open_hosts().union(self.hosts)
        closed = frozenset(host.name for host in self.cloud.hosts
                           if host.name not in open_hosts)
        refused = {each.uuid: closed for each in self.cloud.instances}
        for uuid, refusals in self.refusals.items():
            refused[uuid] = closed.union(
                each.move.destination for each in refusals
                if each.move.destination)
        self.plan = verdicts.plan_with(
            self.verdicts, refused, functools.partial(
                drain_plan.plan_drain, self.cloud, self.hosts, self._allowed))
        self._is_planned = True

    def _list_open_hosts(self) -> set[str]:
        """Return the hosts to which the instances may go."""
        return {host.name for host in self.cloud.hosts
                if self._within is None or any(
                    each.name == self._within for each in host.aggregates)
                }.difference(self.hosts)

    def can_begin(self) -> bool:
        """Return whether an instance may leave, or all have left."""
        self.make_plan()
        guests = self.list_guests()
        if self.plan.moves or not guests or self.list_confirmable():
            return True
        if any(self.cloud.details[each.uuid].task_state for each in guests):
            return True
        open_hosts = self._list_open_hosts()
        return any(each.ways and self.verdicts.choose(each.uuid, open_hosts)
                   for each in guests)

    def list_guests(self) -> list[planner_fleet.Instance]:
        """Return the instances that must leave the hosts.

        A soft-deleted instance may stay: its guest does not run.
        """
        return [each for each in self.cloud.instances if each.host in
                self.hosts and self.cloud.details[each.uuid].vm_state !=
                vm_states.SOFT_DELETED]

    def list_open(self) -> list[unfinished.Unfinished]:
        """Return the other open migrations from the hosts, and to them."""
        guests = {each.uuid for each in self.list_guests()}
        return [each for each in self.unfinished if each.uuid not in guests]

    def list_confirmable(self) -> list[unfinished.Unfinished]:
        """Return the cold migrations from the hosts to be confirmed."""
        return [each for each in self.unfinished
                if each.can_be_confirmed and each.source in self.hosts]

    def list_empty_hosts(self) -> list[str]:
        """Return the names of the hosts without guests and open moves."""
        busy = {each.host for each in self.list_guests()}.union(*(
            (each.source, each.destination) for each in self.unfinished))
        return [name for name in self.hosts if name not in busy]

    def is_empty(self) -> bool:
        """Return whether no host has guests."""
        return len(self.list_empty_hosts()) == len(self.hosts)

    def run(self, client: nova_client.NovaClient, end: float,
            observe: execution.Observer,
            concurrency: int = 1) -> str:
        """Move the instances until nothing improves; return why it ended.

        The result is one sentence, or '' if no more instance can be moved.
        ``refresh`` was called last, unless an exception ends this.

        :param end: time of the timeout, as ``time.monotonic`` counts it
        :raises APIRefused: if the credentials do not allow a move
        """
        servers = servers_module.Servers(client)
        stage = 0
        while True:
            self._finish(servers, observe)
            before = self._get_state()
            run = self._make_execution(
                drain_plan.STAGES[stage], servers, observe, concurrency)
            run.run(end)
            self._note(run)
            self._refresh_until(end)
            if run.surprise:
                return run.surprise
            has_next = True
            if run.count(one_move.DONE):
                stage = 0
            elif stage + 1 < len(drain_plan.STAGES):
                stage += 1
            else:
                has_next = self._wait_for_change(servers, observe, before, end)
                stage = 0
            if time.monotonic() >= end and not self.is_empty():
                return 'The timeout is over.'
            if not has_next:
                return ''

    def _note(self, run: execution.Execution) -> None:
        """Note how the moves ended."""
        for each in run.moves:
            uuid = each.move.uuid
            self.skipped.pop(uuid, None)
            if each.state in (one_move.SKIPPED, one_move.STUCK):
                self.skipped[uuid] = each.reason
            elif each.state == one_move.REFUSED:
                self.refusals[uuid].append(
                    drain_plan.Refusal(each.move, each.reason))
            elif each.state == one_move.DONE:
                self._leaving.add(uuid)

    def _make_execution(self, stage: str, servers: servers_module.Servers,
                        observe: execution.Observer, concurrency: int,
                        ) -> execution.Execution:
        """Return the moves of a stage of the drain."""
        groups: abc.Mapping[str, str | None] = {}
        if stage == drain_plan.PLANNED:
            self.make_plan()
            moves = [move for move in self.plan.moves if move.destination]
            # Only the planned moves depend on each other.
            groups = self.cloud.group_of
        else:
            moves = drain_plan.list_moves(
                stage, self.list_guests(), self._allowed)
        return execution.Execution(
            servers, moves, groups, self.cloud.format_instance, observe,
            concurrency, self._choose if self._within else None)

    def _choose(self, uuid: str) -> str | None:
        """Return the best host for an instance now, or None."""
        return verdicts.Verdicts(self._context, self._placement).choose(
            uuid, self._list_open_hosts())

    def _get_state(self) -> dict[str, str | None]:
        """Return the task of each instance that must leave."""
        return {each.uuid: self.cloud.details[each.uuid].task_state
                for each in self.list_guests()}

    def _wait_for_change(self, servers: servers_module.Servers,
                         observe: execution.Observer,
                         before: dict[str, str | None], end: float) -> bool:
        """Wait while Nova works; return whether an instance has changed."""
        while self._get_state() == before:
            if (not self._is_waiting(servers, observe) or
                    time.monotonic() >= end):
                return False
            time.sleep(execution.INTERVAL_SECONDS)
            self._refresh_until(end)
        return True

    def _refresh_until(self, end: float) -> None:
        """Refresh; until the timeout, wait for services that fail."""
        while True:
            try:
                return self.refresh()
            # A host is unknown while its cell does not answer.
            except (admin_host.HostRefused, allocations.PlacementRefused,
                    *allocations.CLIENT_ERRORS,
                    *host_inventory.DATABASE_ERRORS):
                if time.monotonic() >= end:
                    raise
                time.sleep(execution.INTERVAL_SECONDS)

    def _is_waiting(self, servers: servers_module.Servers,
                    observe: execution.Observer) -> bool:
        """Return whether Nova still works on an instance."""
        servers.forget_services()
        # An instance that arrives must leave again.
        waited_for = {each.uuid for each in self.list_guests()}.union(
            each.uuid for each in self.list_open())
        try:
            busy = {each.uuid for each in self.cloud.instances if
                    each.uuid in waited_for and
                    self.cloud.details[each.uuid].task_state is not None and
                    each.host and servers.is_up(each.host)}
        except nova_client.APIUnavailable:
            return True
        if busy - self._busy:
            observe('Waiting for the tasks of these instances: %s.'
                    % ', '.join(map(self.cloud.format_instance,
                                    sorted(busy))), False)
        self._busy = busy
        return bool(busy) or any(
            each.uuid in self._leaving for each in self.unfinished) or any(
            each.uuid not in self._asked for each in self.list_confirmable())

    def _finish(self, servers: servers_module.Servers,
                observe: execution.Observer) -> None:
        """Finish the moves from the hosts that wait for a request.

        An earlier call of the command, or an operator, has begun them.
        """
        requests = [(each.uuid, 'confirm the cold migration from %s to %s' % (
            each.source, each.destination), servers.confirm)
            for each in self.list_confirmable()]
        if planner_fleet.SHELVE in self._allowed:
            requests += [(each.uuid, 'remove the shelved instance from %s'
                          % each.host, servers.offload)
                         for each in self.list_guests() if
                         self.cloud.details[each.uuid].vm_state ==
                         vm_states.SHELVED]
        for uuid, action, request in requests:
            if uuid in self._asked:
                continue
            name = self.cloud.format_instance(uuid)
            try:
                request(uuid)
                self._leaving.add(uuid)
                observe('Instance %s: %s: done.' % (name, action), True)
            except nova_client.APIRefused as error:
                observe('Instance %s: %s: refused, because %s.' % (
                    name, action, error), False)
            except nova_client.APIUnavailable:
                continue
            self._asked.add(uuid)
