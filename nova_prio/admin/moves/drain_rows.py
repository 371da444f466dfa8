# SPDX-License-Identifier: Apache-2.0

"""The rows of the plan of a drain, and of the instances that are left."""

from __future__ import annotations

from collections import abc
import typing

from nova.compute import vm_states

from nova_prio.admin.audit import guest_audit
from nova_prio.admin.moves import drain as drain_module
from nova_prio.admin.moves import one_move
from nova_prio.model.planner import fleet as planner_fleet

if typing.TYPE_CHECKING:
    from nova import objects

    from nova_prio.model.planner import plan as planner

#: States of a row: the command moves the instance, or it cannot, or Nova is
#: moving or changing it.
PLANNED, LEFT, RUNNING = 'planned', 'left', 'running'
COLUMNS = ('Instance', 'Class', 'Way', 'Source', 'Destination', 'State',
           'Reason', 'Instance Name')


class DrainRow(typing.NamedTuple):
    """An instance that must leave; the fields are those of COLUMNS."""

    uuid: str
    class_name: str
    way: str
    source: str
    destination: str
    state: str
    reason: str
    name: str


def list_rows(drain: drain_module.Drain) -> abc.Iterator[DrainRow]:
    """Yield the planned moves, and each instance that is left.

    Also yield the open migrations of other instances, which keep the hosts
    busy: the instances arrive, or have left and await a confirmation.

    :param drain: after ``refresh``
    """
    instances = {each.uuid: each for each in drain.cloud.instances}
    planned = set()
    for move in drain.plan.moves:
        planned.add(move.uuid)
        yield _make_row(drain, move, PLANNED, _describe_last_move(
            drain, instances[move.uuid]))
    # A miss is an instance for which the planner finds no move.
    misses = {miss.instance.uuid: miss for miss in drain.plan.misses}
    must_leave = drain.list_guests()
    for each in must_leave:
        if each.uuid not in planned:
            state = LEFT
            if drain.cloud.details[each.uuid].task_state is not None:
                state = RUNNING
            no_move = planner_fleet.Move(
                uuid=each.uuid, way='', source=each.host or '',
                destination=None)
            yield _make_row(drain, no_move, state, _explain(
                drain, misses.get(each.uuid), each))
    uuids = {each.uuid for each in must_leave}
    for migration in drain.list_open_migrations():
        if migration.instance_uuid not in uuids:
            move = planner_fleet.Move(
                uuid=migration.instance_uuid, way=migration.migration_type,
                source=migration.source_compute,
                destination=migration.dest_compute)
            state, reason = _describe_migration(migration)
            yield _make_row(drain, move, state, reason)


def _make_row(drain: drain_module.Drain, move: planner_fleet.Move, state: str,
              reason: str) -> DrainRow:
    """Return the row of a move, whose instance may be unknown.

    :param state: 'planned', 'left' (the command cannot move it) or 'running'
    :param reason: a clause, or ''
    """
    # The class is 'high', 'low' or 'ordinary', as the priority.
    class_name = name = ''
    details = drain.cloud.details.get(move.uuid)
    if details is not None:
        class_name, name = details.class_name, details.name
    return DrainRow(
        uuid=move.uuid, class_name=class_name, way=move.way,
        source=move.source, destination=move.destination or '', state=state,
        reason=reason, name=name)


def _describe_last_move(drain: drain_module.Drain,
                        instance: planner_fleet.Instance) -> str:
    """Return why an instance has not left by its last moves, or ''.

    ``drain.moves`` is UUID of an instance -> its moves up to now. A move is
    skipped if its instance was deleted or is being changed, and stuck if the
    nova-compute of one of its hosts is down.
    """
    moves = drain.moves.get(instance.uuid)
    if moves and moves[-1].state in (one_move.SKIPPED, one_move.STUCK):
        return moves[-1].reason
    # If Nova refused the last move, it is the last refusal. If that move was
    # done, an earlier refusal still tells why the next one may fail.
    return _describe_refusals(drain, instance)


def _describe_refusals(drain: drain_module.Drain,
                       instance: planner_fleet.Instance) -> str:
    """Return what Nova refused last, and what may be the cause, or ''."""
    refusals = drain.list_refusals(instance.uuid)
    if not refusals:
        return ''
    last = refusals[-1]
    text = 'Nova refused the %s: %s' % (
        one_move.describe(last.move), last.reason)
    # For a refused move without a destination, nova-scheduler found no host:
    # Nova did not try to move the guest.
    has_failed_live = any(
        each.move.way == planner_fleet.LIVE and each.move.destination
        for each in refusals)
    # In the bug below, Nova 33 expects I/O threads of a guest with NUMA cells,
    # which older releases do not give it.
    may_be_bug = bool(instance.needs.cells) and guest_audit.needs_io_threads()
    if has_failed_live and may_be_bug:
        text += ('; Nova 33 cannot live-migrate it if an older release '
                 'started its guest (Launchpad bug 2152697): then hard reboot '
                 'it, which also ends the state error, and drain the host '
                 'again')
    return text


def _describe_migration(migration: objects.Migration) -> tuple[str, str]:
    """Return the state and the reason of an open migration.

    :returns: (state of its row, as for :func:`_make_row`; a clause)
    """
    if drain_module.can_be_confirmed(migration):
        return PLANNED, 'to be confirmed by this command'
    if migration.status == drain_module.FINISHED:
        return LEFT, 'to be confirmed or reverted by its owner'
    return RUNNING, ('the status of its migration is "%s"; if it stays, run '
                     '"nova-prio audit --fix"' % migration.status)


def _find_live_obstacle(drain: drain_module.Drain,
                        instance: planner_fleet.Instance) -> str:
    """Return why an instance is not live-migrated to a host that fits, or ''.

    :returns: a clause; '' if the instance is stopped, and so is cold-migrated
    """
    if drain.cloud.details[instance.uuid].vm_state == vm_states.STOPPED:
        return ''
    # The caller has left out the states in which Nova live-migrates nothing.
    # The other cause is a device.
    if planner_fleet.LIVE not in instance.ways:
        return 'has PCI devices that Nova does not live-migrate'
    # ``not_live`` is name of a host -> hosts to which Nova live-migrates
    # nothing from it, because their hypervisor is older or of another type.
    if drain.cloud.not_live.get(instance.host or ''):
        return 'is on a newer or another hypervisor'
    return ''


def _explain(drain: drain_module.Drain, miss: planner.Miss | None,
             instance: planner_fleet.Instance) -> str:
    """Return why an instance is left, a clause.

    :param miss: why the planner has found no move for the instance; None if it
        has not looked for one
    """
    uuid = instance.uuid
    details = drain.cloud.details[uuid]
    # Which moves of the instance Nova has refused in this drain, or ''.
    refusal = _describe_refusals(drain, instance)
    if details.vm_state == vm_states.SHELVED:
        reason = 'is shelved: only --allow shelve removes it from the host'
    # Why the instance is not moved in any way, such as a lock, or ''.
    elif details.obstacle:
        reason = details.obstacle
    elif details.vm_state == vm_states.SUSPENDED:
        reason = 'is suspended: only --allow shelve moves it'
    elif miss is None:
        reason = ''
    else:
        # Why the code of nova-scheduler refuses all hosts, or '' if it finds
        # one. It knows more than the planner. What Nova has refused also says
        # more, so the reason of the miss is the last resort.
        reason = drain.verdicts.describe(uuid)
        if not reason and not refusal:
            reason = _find_live_obstacle(drain, instance) or miss.reason
    if reason and refusal:
        reason += '; '
    return reason + refusal
