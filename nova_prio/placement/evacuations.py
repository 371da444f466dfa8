# SPDX-License-Identifier: Apache-2.0

"""Evacuations that Nova ends before the instance has its new host."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from nova import objects


def is_unfinished(instance: objects.Instance,
                  migration: objects.Migration) -> bool:
    """Return whether an ended evacuation will still move an instance.

    When the source host starts during the evacuation, Nova sets the status to
    "completed" and deletes the allocation there. The destination goes on. It
    clears the task of the instance, then sets the host, then deletes the
    migration context, then sets the status to "done". If the evacuation fails,
    the destination deletes the context and sets the status to "failed".

    :param instance: read before the migration, together with its migration
        context
    """
    context = instance.migration_context
    # The status is "done" if the destination set it after the instance was
    # read. Only an evacuation has these statuses while the instance is on the
    # source host with the migration context of this migration.
    return (migration.status in ('completed', 'done') and
            instance.host == migration.source_compute and
            context is not None and context.migration_id == migration.id)
