# SPDX-License-Identifier: Apache-2.0

"""The state of a host in Nova and Placement."""

from __future__ import annotations

import contextlib
import json
import math
import typing

from nova import objects
from nova import servicegroup

from nova_prio.admin.audit import host_view
from nova_prio.admin import host as admin_host
from nova_prio.model import aggregate_metadata

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report


class HostState(typing.NamedTuple):
    """The records of a host, and its state.

    ``in_priority_aggregate`` says whether the host is in a host aggregate for
    priority instances, ``is_up`` whether its nova-compute is up.
    """

    view: host_view.HostView
    in_priority_aggregate: bool
    is_up: bool

    @property
    def has_our_driver(self) -> bool:
        """Whether nova-compute runs the compute driver of this package."""
        # Only this driver writes reports. ``problem`` says that the report
        # cannot be read.
        return bool(self.view.report or self.view.problem)


def read_state(context: nova_context.RequestContext,
               client: report.SchedulerReportClient, host: str) -> HostState:
    """Return the HostState of the host with this name.

    :raises nova_prio.admin.host.HostRefused: if the host has no compute node,
        or several
    """
    nodes = host_view.list_nodes_of_host(context, host)
    if len(nodes) != 1:
        raise admin_host.HostRefused(
            "HOST is '%s', which has %d compute nodes; allowed are hosts with "
            'one.' % (host, len(nodes)))
    (cell_context, node), = nodes
    aggregates = objects.AggregateList.get_by_host(context, host)
    return HostState(
        host_view.read_host(cell_context, client, node),
        in_priority_aggregate=any(
            map(aggregate_metadata.allows_priority, aggregates)),
        is_up=servicegroup.API().service_is_up(
            objects.Service.get_by_compute_host(cell_context, host)))


def find_existing_cpus(view: host_view.HostView) -> frozenset[int]:
    """Return the numbers of the CPUs of a host, none if they are unknown."""
    known = frozenset().union(
        *(cell.cpuset | cell.pcpuset for cell in view.cells))
    # Without CPU sets, each CPU is in both sets of its cell, and no CPU is
    # missing. Otherwise the cells have only the CPUs of the CPU sets.
    if all(cell.cpuset == cell.pcpuset for cell in view.cells):
        return known
    number = 0
    with contextlib.suppress(ValueError, KeyError, TypeError):
        topology = json.loads(view.node.cpu_info)['topology']
        number = math.prod(topology[name] for name in (
            'cells', 'sockets', 'cores', 'threads'))
    # If CPUs are offline, the numbers of the others have gaps.
    return frozenset(range(number) if max(known) < number else ())
