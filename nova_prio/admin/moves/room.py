# SPDX-License-Identifier: Apache-2.0

"""Make room for new instances: plan, move, and plan again what failed."""

from __future__ import annotations

import collections
import time
import typing

from nova_prio.admin.fleet import cloud as fleet_cloud
from nova_prio.admin.moves import execution
from nova_prio.admin.moves import one_move
from nova_prio.admin.moves import room_plan
from nova_prio.admin.moves import servers as servers_module
from nova_prio.admin import nova_client

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova import objects
    from nova.scheduler.client import report as report_client


class Room:
    """The moves after which new instances fit.

    ``cloud`` and ``plan`` are as of the last :meth:`refresh`.

    :param number: number of the new instances
    :param aggregate: name of an aggregate that they must use, or None
    """

    def __init__(self, context: nova_context.RequestContext,
                 placement: report_client.SchedulerReportClient,
                 flavor: objects.Flavor, number: int,
                 aggregate: str | None) -> None:
        self._context = context
        self._placement = placement
        self._wanted = flavor, number, aggregate
        # UUID -> hosts that Nova refused.
        self._refused: dict[str, frozenset[str]] = (
            collections.defaultdict(frozenset))

    def refresh(self) -> None:
        """Read the cloud, and plan."""
        self.cloud = fleet_cloud.read_fleet(self._context, self._placement)
        self.plan = room_plan.plan_room(
            self.cloud, *self._wanted, refused=self._refused)

    def run(self, client: nova_client.NovaClient, end: float,
            observe: execution.Observer) -> str:
        """Make the moves; if Nova refuses one, plan again without it.

        :param end: time of the timeout, as ``time.monotonic`` counts it
        :returns: why not all moves were made, one sentence, or ''
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
