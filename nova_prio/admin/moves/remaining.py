# SPDX-License-Identifier: Apache-2.0

"""The rows of the plan of a drain, and of the instances that are left."""

from __future__ import annotations

from collections import abc
import typing

from nova.compute import vm_states

from nova_prio.admin.moves import drain_plan
from nova_prio.admin.moves import one_move

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
    classes = {each.uuid: each.needs.class_name
               for each in drain.cloud.instances}
    listed = set()
    for move in drain.plan.moves:
        listed.add(move.uuid)
        yield Row(move.uuid, classes[move.uuid], move.way, move.source,
                  move.destination or '', PLANNED,
                  drain.skipped.get(move.uuid) or
                  _describe_refusal(drain.refusals.get(move.uuid, ())),
                  details[move.uuid].name)
    misses = {miss.instance.uuid: miss for miss in drain.plan.misses}
    for each in drain.list_guests():
        if each.uuid not in listed:
            is_running = details[each.uuid].task_state is not None
            yield Row(
                each.uuid, classes[each.uuid], '', each.host or '', '',
                RUNNING if is_running else LEFT,
                _explain(drain, misses.get(each.uuid), each.uuid),
                details[each.uuid].name)
    for migration in drain.list_open():
        uuid = migration.uuid
        yield Row(
            uuid, classes.get(uuid, ''), migration.migration_type,
            migration.source, migration.destination or '',
            *_describe_migration(migration),
            details[uuid].name if uuid in details else '')


def _describe_refusal(refusals: abc.Sequence[drain_plan.Refusal]) -> str:
    """Return the last refusal of Nova, a clause, or ''."""
    if not refusals:
        return ''
    move, reason = refusals[-1]
    return 'Nova refused the %s: %s' % (one_move.describe(move), reason)


def _describe_migration(migration: unfinished.Unfinished) -> tuple[str, str]:
    """Return the state and the reason of an open migration."""
    if migration.is_resize:
        return LEFT, 'to be confirmed or reverted by its owner'
    if migration.can_be_confirmed:
        return PLANNED, 'to be confirmed by this command'
    return RUNNING, ('the status of its migration is "%s"; if it stays, run '
                     '"nova-prio audit --fix"' % migration.status)


def _explain(drain: drain_module.Drain, miss: planner.Miss | None,
             uuid: str) -> str:
    """Return why an instance is left, a clause."""
    details = drain.cloud.details[uuid]
    refusals = drain.refusals.get(uuid, ())
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
        if not reason and not refusals:
            reason = miss.reason
    return '; '.join(filter(None, (reason, _describe_refusal(refusals))))
