# SPDX-License-Identifier: Apache-2.0

"""The state of a host in Nova and Placement."""

from __future__ import annotations

import contextlib
import json
import math
import typing

from nova_prio.admin.audit import host_view
from nova_prio.admin import host as admin_host

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report


def read_state(context: nova_context.RequestContext,
               client: report.SchedulerReportClient,
               name: str) -> host_view.HostView:
    """Return the HostView of the host with this name.

    :raises nova_prio.admin.host.HostRefused: if the host has no compute node,
        or several
    """
    found = host_view.find_hosts(context, name)
    if len(found) != 1:
        raise admin_host.HostRefused(
            "HOST is '%s', which has %d compute nodes; allowed are hosts with "
            'one.' % (name, len(found)))
    (cell_context, host), = found
    return host_view.read_host(cell_context, client, host)


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
