# SPDX-License-Identifier: Apache-2.0

"""Run a drain: Nova chooses where each instance goes.

Each instance is sent away without a destination: by a live migration, then by
a cold migration, if the operator allows it. If Nova finds no host, the planner
names hosts, and may move other instances out of the way. Shelving comes last.
Whenever an instance has left, what Nova refused is tried again.
"""

from __future__ import annotations

from collections import abc
import dataclasses
import time

from nova_prio.admin import host as admin_host
from nova_prio.admin import host_inventory
from nova_prio.admin.moves import drain as drain_module
from nova_prio.admin.moves import execution
from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import servers as servers_module
from nova_prio.admin import nova_client
from nova_prio.placement import allocations

#: Errors of a refresh. A host is unknown while its cell does not answer.
_REFRESH_ERRORS = (
    (admin_host.HostRefused, allocations.PlacementRefused) +
    allocations.CLIENT_ERRORS + host_inventory.DATABASE_ERRORS)


@dataclasses.dataclass(eq=False)
class DrainRun:
    """The requests to Nova that drain hosts.

    ``drain`` was refreshed. ``end`` is the time of the timeout, as
    ``time.monotonic`` counts it, and ``concurrency`` the maximum number of
    moves at the same time. ``observe`` is called with a sentence about each
    change, and with whether an instance has left.
    """

    drain: drain_module.Drain
    servers: servers_module.Servers
    end: float
    observe: execution.Observer
    concurrency: int
    # UUIDs of the instances that this run has moved away, of those about which
    # Nova has answered the last request, and of those whose tasks it awaits.
    _leaving: set[str] = dataclasses.field(default_factory=set)
    _asked: set[str] = dataclasses.field(default_factory=set)
    _busy: set[str] = dataclasses.field(default_factory=set)

    def run(self) -> str:
        """Move the instances until nothing improves; return why it ended.

        Each stage of the drain permits other moves. Begin with the first one
        again whenever an instance has left, because it leaves room for what
        Nova has refused before.

        The result is one sentence, or '' if no more instance can be moved.
        The drain was refreshed last, unless an exception ends this.

        :raises APIRefused: if the credentials do not allow a move
        """
        stages = self.drain.list_stages()
        index = 0
        while True:
            self._finish_moves()
            tasks_before = self._get_tasks()
            stage_run = self._make_execution(stages[index])
            # This makes the moves until none can go on, or until the time
            # ``end``, the timeout.
            stage_run.run(self.end)
            for each in stage_run.moves:
                self.drain.moves.setdefault(each.move.uuid, []).append(each)
                if each.state == one_move.DONE:
                    self._leaving.add(each.move.uuid)
            self._refresh()
            # An instance is on another host than planned.
            if stage_run.surprise:
                return stage_run.surprise
            may_improve = True
            if stage_run.count(one_move.DONE):
                index = 0
            elif index + 1 < len(stages):
                index += 1
            else:
                # No stage moves an instance now. Wait until a task of Nova on
                # an instance ends or begins, or an instance leaves or arrives.
                may_improve = self._wait_for_change(tasks_before)
                index = 0
            if self._is_over() and not self.drain.is_empty():
                return 'The timeout is over.'
            if not may_improve:
                return ''

    def _is_over(self) -> bool:
        """Return whether the timeout is over."""
        return time.monotonic() >= self.end

    def _finish_moves(self) -> None:
        """Confirm cold migrations, and remove shelved instances from hosts.

        Nova waits for a request for each. An earlier call of the command, or
        an operator, has begun these moves from the drained hosts.
        """
        for migration in self.drain.list_confirmable():
            self._ask(
                migration.instance_uuid, self.servers.confirm,
                'confirm the cold migration from %s to %s' % (
                    migration.source_compute, migration.dest_compute))
        for each in self.drain.list_shelved():
            self._ask(each.uuid, self.servers.offload,
                      'remove the shelved instance from %s' % each.host)

    def _ask(self, uuid: str, request: abc.Callable[[str], None],
             action: str) -> None:
        """Send a request about an instance, unless Nova has answered one.

        Tell the observer the answer. A refusal raises no error.

        :param request: function that sends it, called with the UUID
        :param action: what is requested, for a sentence
        """
        if uuid in self._asked:
            return
        # Whether the observer counts the instance as one that has left. It
        # does when Nova accepts: no later event tells that Nova is done.
        has_left = True
        outcome = 'done'
        try:
            request(uuid)
            # The run waits until Nova has ended this move, or the timeout.
            self._leaving.add(uuid)
        except nova_client.APIRefused as error:
            has_left = False
            outcome = 'refused, because %s' % error
        except nova_client.APIUnavailable:
            # Nova has not answered, so that the next call sends it again.
            return
        self._asked.add(uuid)
        self.observe('Instance %s: %s: %s.' % (
            self.drain.cloud.format_instance(uuid), action, outcome),
            has_left)

    def _make_execution(self, stage: str) -> execution.Execution:
        """Return the moves of a stage of the drain, one of STAGES."""
        # UUID of an instance -> its server group, or None. By these, a move
        # waits for the earlier moves of its group. Only the plan has an order
        # in which the policy of the group allows each move. In the other
        # stages, Nova refuses a move that the policy forbids.
        groups: abc.Mapping[str, str | None] = {}
        if stage == drain_module.PLANNED:
            groups = self.drain.cloud.group_of
        choose = None
        if self.drain.within:
            # Nova would choose any host, not only those of this aggregate.
            choose = self.drain.choose
        return execution.Execution(
            servers=self.servers, moves=self.drain.list_moves(stage),
            groups=groups, observe=self.observe, choose=choose,
            format_instance=self.drain.cloud.format_instance,
            concurrency=self.concurrency)

    def _get_tasks(self) -> dict[str, str | None]:
        """Return the tasks of the instances that must leave.

        :returns: UUID of an instance -> its task state, or None
        """
        return {each.uuid: self.drain.cloud.details[each.uuid].task_state
                for each in self.drain.list_guests()}

    def _wait_for_change(self, before: dict[str, str | None]) -> bool:
        """Wait while Nova works; return whether an instance has changed.

        It has if its task is another one, or if it has left or arrived.

        :param before: earlier result of :meth:`_get_tasks`
        """
        while self._get_tasks() == before:
            if not self._is_waiting() or self._is_over():
                return False
            time.sleep(execution.INTERVAL_SECONDS)
            self._refresh()
        return True

    def _is_waiting(self) -> bool:
        """Return whether a change may come without a new move.

        It may if an instance has a task, and its host is up; if Nova has not
        ended a move that this run has made; and if this run must still ask
        Nova to confirm a cold migration. It does not ask again after a
        refusal.
        """
        # Read again which hosts are up.
        self.servers.forget_services()
        cloud = self.drain.cloud
        # The instances with moves from the hosts, and with moves to them. The
        # latter must leave after they have arrived.
        moving = {each.instance_uuid
                  for each in self.drain.list_open_migrations()}
        must_leave = {each.uuid for each in self.drain.list_guests()}
        waited_for = moving | must_leave
        busy = set()
        try:
            for each in cloud.instances:
                if (each.uuid in waited_for and each.host and
                        cloud.details[each.uuid].task_state is not None and
                        self.servers.is_up(each.host)):
                    busy.add(each.uuid)
        except nova_client.APIUnavailable:
            # It is not known which hosts are up: wait until the API answers.
            return True
        # ``_busy`` is the result of the last call. Tell the observer once.
        has_new_task = bool(busy - self._busy)
        if has_new_task:
            names = [cloud.format_instance(uuid) for uuid in sorted(busy)]
            # The observer counts the instances that have left: here, none.
            has_left = False
            self.observe('Waiting for the tasks of these instances: %s.'
                         % ', '.join(names), has_left)
        self._busy = busy
        confirmable = {each.instance_uuid
                       for each in self.drain.list_confirmable()}
        # ``_leaving`` has the instances that this run has moved away.
        has_open_move = bool(moving & self._leaving)
        # ``_asked`` has the instances whose last request Nova has answered.
        must_confirm = bool(confirmable - self._asked)
        return bool(busy) or has_open_move or must_confirm

    def _refresh(self) -> None:
        """Read the cloud again; until the timeout, retry after an error."""
        while True:
            try:
                return self.drain.refresh()
            except _REFRESH_ERRORS:
                if self._is_over():
                    raise
                time.sleep(execution.INTERVAL_SECONDS)
