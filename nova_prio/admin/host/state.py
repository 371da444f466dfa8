# SPDX-License-Identifier: Apache-2.0

"""The state of a host in Nova and Placement, and its CPUs."""

import contextlib
import json
import math

from nova import context as nova_context
from nova.scheduler.client import report
import os_resource_classes as orc

from nova_prio.admin.audit import host_view
from nova_prio.admin import host as admin_host
from nova_prio.model import cpu_capacity
from nova_prio.model import inventory


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
    cell_context, host = found[0]
    return host_view.read_host(cell_context, client, host)


def find_existing_cpus(view: host_view.HostView) -> frozenset[int]:
    """Return the numbers of the CPUs of a host, none if they are unknown."""
    known: frozenset[int] = frozenset()
    has_cpu_sets = False
    for cell in view.cells:
        known |= cell.cpuset | cell.pcpuset
        # If no CPU set is configured, each CPU is in both sets of its cell,
        # and no CPU is missing. Otherwise the cells have only configured CPUs.
        has_cpu_sets |= cell.cpuset != cell.pcpuset
    if not has_cpu_sets:
        return known
    # How many CPUs the host has, or 0 if that is unknown: nova-compute may not
    # have reported the topology.
    count = 0
    with contextlib.suppress(ValueError, KeyError, TypeError):
        topology = json.loads(view.node.cpu_info)['topology']
        count = math.prod(topology[name] for name in (
            'cells', 'sockets', 'cores', 'threads'))
    # The CPUs are 0 to count - 1, unless offline CPUs leave gaps. A known CPU
    # beyond these shows that there are gaps, or that the count is unknown.
    # Otherwise assume that there are none.
    is_known_cpu_beyond = max(known) >= count
    if is_known_cpu_beyond:
        return frozenset()
    return frozenset(range(count))


def get_present_cpus(view: host_view.HostView) -> cpu_capacity.HostCPUs:
    """Return the CPU sets, the ratio and mix that a host has now.

    Mix is the option cpu_priority_mix_enable. Only nova-compute with the
    driver of this package has it, and reports it. With another driver, there
    is no report.
    """
    dedicated: frozenset[int] = frozenset()
    shared: frozenset[int] = frozenset()
    for cell in view.cells:
        shared |= cell.cpuset
        # Without CPU sets, Nova counts all CPUs of a cell as pcpuset, too, but
        # reports no PCPU.
        if orc.PCPU in view.inventories:
            dedicated |= cell.pcpuset
    vcpu = view.inventories.get(orc.VCPU, {})
    return cpu_capacity.HostCPUs(
        dedicated=dedicated, shared=shared,
        ratio=cpu_capacity.parse_ratio(vcpu.get('allocation_ratio', 1.0)),
        mix=bool(view.report and view.report.mix))


def plan_inventories(view: host_view.HostView,
                     planned_cpus: cpu_capacity.HostCPUs,
                     ) -> inventory.Inventories:
    """Return the inventories that a host will have with the planned CPUs.

    :returns: resource class -> inventory
    """
    # Start with the inventories of other resource classes, such as memory.
    inventories = {name: present for name, present in view.inventories.items()
                   if name not in (orc.VCPU, orc.PCPU)}
    # Keep nothing of the present inventories of CPUs: pass none.
    inventories.update(inventory.build_cpu_inventories(planned_cpus, {}))
    # The present instances keep their allocations, which the inventories must
    # cover: their usage may raise a total or a max_unit.
    return inventory.build_priority_inventories(
        inventories, planned_cpus, view.usage)
