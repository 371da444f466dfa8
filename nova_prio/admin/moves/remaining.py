# SPDX-License-Identifier: Apache-2.0

"""The rows of the plan of a drain, and of the instances that are left."""

from __future__ import annotations

from collections import abc
import typing

from nova.compute import vm_states

from nova_prio.admin.audit import guests
from nova_prio.admin.moves import one_move
from nova_prio.model.planner import fleet as planner_fleet

if typing.TYPE_CHECKING:
    from nova_prio.admin.moves import drain as drain_module
    from nova_prio.admin.moves import unfinished
    from nova_prio.model.planner import plan as planner

PLANNED, LEFT, RUNNING = 'planned', 'left', 'running'
COLUMNS = ('Instance', 'Class', 'Way', 'Source', 'Destination', 'State',
           'Reason', 'Instance Name')


class Row(typing.NamedTuple):
    """An instance that must leave; the fields are those of COLUMNS."""

    uuid: str
    class_name: str
    way: str
    source: str
    destination: str
    state: str
    reason: str
    name: str


def list_rows(drain: drain_module.Drain) -> abc.Iterator[Row]:
    """Yield the planned moves, and each instance that remains.

    :param drain: after ``refresh``
    """
    drain.make_plan()
    details = drain.cloud.details
    instances = {each.uuid: each for each in drain.cloud.instances}
    listed = set()
    for move in drain.plan.moves:
        listed.add(move.uuid)
        instance = instances[move.uuid]
        yield Row(move.uuid, instance.needs.class_name, move.way, move.source,
                  move.destination or '', PLANNED,
                  drain.skipped.get(move.uuid) or
                  _describe_refusals(drain, instance),
                  details[move.uuid].name)
    misses = {miss.instance.uuid: miss for miss in drain.plan.misses}
    for each in drain.list_guests():
        if each.uuid not in listed:
            is_running = details[each.uuid].task_state is not None
            yield Row(
                each.uuid, each.needs.class_name, '', each.host or '', '',
                RUNNING if is_running else LEFT,
                _explain(drain, misses.get(each.uuid), each),
                details[each.uuid].name)
    for migration in drain.list_open():
        uuid = migration.uuid
        yield Row(
            uuid,
            instances[uuid].needs.class_name if uuid in instances else '',
            migration.migration_type,
            migration.source, migration.destination or '',
            *_describe_migration(migration),
            details[uuid].name if uuid in details else '')


def _describe_refusals(drain: drain_module.Drain,
                       instance: planner_fleet.Instance) -> str:
    """Return what Nova refused last, and what may be the cause, or ''."""
    refusals = drain.refusals.get(instance.uuid)
    if not refusals:
        return ''
    move, reason = refusals[-1]
    text = 'Nova refused the %s: %s' % (one_move.describe(move), reason)
    has_failed_live = any(
        each.move.way == planner_fleet.LIVE and each.move.destination
        for each in refusals)
    if has_failed_live and instance.needs.cells and (
            guests.needs_io_threads()):
        text += ('; Nova 33 cannot live-migrate it if an older release '
                 'started its guest (Launchpad bug 2152697): then hard reboot '
                 'it, which also ends the state error, and drain the host '
                 'again')
    return text


def _describe_migration(migration: unfinished.Unfinished) -> tuple[str, str]:
    """Return the state and the reason of an open migration."""
    if migration.is_resize:
        return LEFT, 'to be confirmed or reverted by its owner'
    if migration.can_be_confirmed:
        return PLANNED, 'to be confirmed by this command'
    return RUNNING, ('the status of its migration is "%s"; if it stays, run '
                     '"nova-prio audit --fix"' % migration.status)


def _explain(drain: drain_module.Drain, miss: planner.Miss | None,
             instance: planner_fleet.Instance) -> str:
    """Return why an instance is left, a clause."""
    uuid = instance.uuid
    details = drain.cloud.details[uuid]
    refusal = _describe_refusals(drain, instance)
    if details.vm_state == vm_states.SHELVED:
        reason = 'is shelved: only --allow shelve removes it from the host'
    elif details.obstacle:
        reason = details.obstacle
    elif details.vm_state == vm_states.SUSPENDED:
        reason = 'is suspended: only --allow shelve moves it'
    elif miss is None:
        reason = ''
    else:
        reason = drain.verdicts.describe(uuid)
        if not reason and not refusal:
            reason = miss.reason
    return '; '.join(filter(None, (reason, refusal)))
