# SPDX-License-Identifier: Apache-2.0

"""The unfinished moves of instances that leave a host or arrive there."""

from __future__ import annotations

from collections import abc
import typing

from nova import objects
from nova.objects import fields

from nova_prio.admin import host_inventory
from nova_prio.objects import migration_states

if typing.TYPE_CHECKING:
    from nova import context as nova_context

#: Status of a resize or cold migration that awaits a confirmation.
_FINISHED = 'finished'


class Unfinished(typing.NamedTuple):
    """An open migration from a host, or to a host."""

    uuid: str
    source: str
    destination: str | None
    migration_type: str
    status: str

    @property
    def is_resize(self) -> bool:
        """Whether the owner must confirm or revert a resize."""
        return (self.migration_type == fields.MigrationType.RESIZE and
                self.status == _FINISHED)

    @property
    def can_be_confirmed(self) -> bool:
        """Whether a cold migration of an operator awaits a confirmation."""
        return (self.migration_type == fields.MigrationType.MIGRATION and
                self.status == _FINISHED)


def list_unfinished(context: nova_context.RequestContext,
                    hosts: abc.Container[str]) -> list[Unfinished]:
    """Return the open migrations from hosts, and to hosts.

    :param context: targets no cell
    :param hosts: names of the hosts
    """
    answers, _ = host_inventory.read_cells(
        context, objects.MigrationList.get_by_filters,
        {'status': list(migration_states.OPEN_STATUSES)})
    return [
        Unfinished(each.instance_uuid, each.source_compute, each.dest_compute,
                   each.migration_type, each.status)
        for migrations in answers.values() for each in migrations
        if each.source_compute in hosts or each.dest_compute in hosts]
