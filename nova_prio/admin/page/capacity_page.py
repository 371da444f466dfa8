# SPDX-License-Identifier: Apache-2.0

"""Read the content of the page of ``nova-prio capacity show`` from Nova."""

from __future__ import annotations

import collections
from collections import abc
import dataclasses
import functools
import operator
import typing

from nova.compute import vm_states
from nova import context as nova_context
from nova import objects
from nova.virt import hardware
from oslo_utils import timeutils

from nova_prio.admin import aggregate_checks
from nova_prio.admin.audit import finding
from nova_prio.admin.explain import units as explain_units
from nova_prio.admin import host_inventory
from nova_prio.admin.page import content
from nova_prio.model import admission
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import flavor_cpus
from nova_prio.placement import allocations
from nova_prio.placement import authentication
from nova_prio.virt import demand

if typing.TYPE_CHECKING:
    from oslo_config import cfg

#: Number of instances that one query reads.
PAGE = 500
NOTES = [
    'The rows are those of the last report of each nova-compute.',
    'The servers are those in Nova, with the CPUs that Nova gives to a server '
    'when it starts. A guest on a stale CPU set may float on other CPUs: '
    '"nova-prio audit" on the host finds it.',
    'The low supply is the CPU time that low-priority servers can get, as '
    'measured: idle time, and the time that they use. The wait is the part of '
    'the time that their vCPUs wait for a CPU.',
    'To learn why a server got no host, run "nova-prio explain SERVER".']


def build(context: nova_context.RequestContext, conf: cfg.ConfigOpts,
          hosts: abc.Collection[host_inventory.HostRecord],
          silent_cells: abc.Collection[str],
          selected: abc.Sequence[host_inventory.HostRecord],
          request: demand.ResourceRequest | None,
          units: explain_units.Units | None, flavor: str | None,
          data: typing.Any) -> content.Page:
    """Return the page of a cloud.

    :param context: targets no cell
    :param conf: Nova's configuration
    :param hosts: all hosts of the cells that answer
    :param silent_cells: UUIDs of the other cells
    :param selected: the hosts among them to show, which have a report
    :param request: of one server of the flavor, or None
    :param units: the servers of the flavor that fit on each host, or None
    :param flavor: the name or ID that the operator gave, or None
    :param data: the result of the same run for ``-f json``
    """
    warnings = [host_inventory.SILENT_CELL % cell for cell in silent_cells]
    # Without the names of services, there is no warning about the weighers.
    warnings += aggregate_checks.find_warnings(
        conf, (), objects.AggregateList.get_all(context), hosts,
        all_hosts_known=not silent_cells)
    try:
        disabled = host_inventory.list_disabled(
            authentication.make_placement_client())
    except (allocations.PlacementRefused, *allocations.CLIENT_ERRORS) as error:
        disabled = set()
        warnings.append(
            'Placement does not answer: %s. This page does not show which '
            'hosts "nova-prio host disable" has disabled.'
            % host_inventory.format_first_line(error))
    instances, cells_without_servers = _read_instances(
        context, [host.name for host in selected])
    # 'high', 'low' or 'ordinary', the class of a server of the flavor.
    flavor_row = flavor_cpus.ORDINARY
    if request:
        flavor_row = request.priority or flavor_row
    shown = []
    for host in selected:
        section = _make_host(host, instances[host.name],
                             is_disabled=host.node.uuid in disabled)
        if request and units:
            section = _add_units(
                section, host, request, units.count([host.name]))
        shown.append(section)
    for cell in cells_without_servers:
        if cell not in silent_cells:
            warnings.append(
                'Cell %s did not answer for its servers, which are missing on '
                'its hosts. Run the command again.' % cell)
    now = timeutils.utcnow().isoformat(' ', 'minutes')
    lead = '%d of %d hosts of the cloud. Read from Nova at %s UTC.' % (
        len(selected), len(hosts), now)
    return content.Page(
        title='CPU capacity of priority hosts',
        steps=[content.PageStep(shown, units=_add_up_units(selected, units))],
        data=data, flavor=flavor,
        notes=NOTES, warnings=warnings,
        flavor_row=flavor_row, lead=[lead])


def _add_units(section: content.HostSection, host: host_inventory.HostRecord,
               request: demand.ResourceRequest,
               fitting: int) -> content.HostSection:
    """Return a host with its units: the servers of a flavor that fit.

    :param section: the host without this number
    :param request: of one of the servers
    :param fitting: the number
    """
    shortage = ''
    if not fitting:
        # The page knows only some reasons, such as too few vCPUs.
        shortage = (_describe_shortage(host, request) or
                    '"nova-prio explain" tells why')
    return dataclasses.replace(section, units=fitting, shortage=shortage)


def _add_up_units(selected: abc.Iterable[host_inventory.HostRecord],
                  units: explain_units.Units | None) -> dict[str, int]:
    """Return name of an aggregate -> number of servers that fit together.

    :param units: the servers that fit on each host; None for no numbers
    """
    if units is None:
        return {}
    sums = {}
    for name, hosts in host_inventory.group_by_aggregate(selected).items():
        sums[name] = units.count([host.name for host in hosts])
    return sums


def _read_instances(
        context: nova_context.RequestContext, hosts: list[str],
) -> tuple[dict[str, list[objects.Instance]], list[str]]:
    """Read the instances of hosts with queries for each cell, not each host.

    :param context: targets no cell
    :param hosts: names of hosts
    :returns: (name of a host -> instances, UUIDs of the cells that do not
        answer)
    """
    instances_of = collections.defaultdict(list)
    # UUID of a cell -> its instances on the hosts.
    answers, silent_cells = host_inventory.read_cells(
        context, _list_instances, hosts)
    for instances in answers.values():
        for instance in instances:
            # The record of a shelved offloaded instance may name a host, but
            # the instance uses no resources there.
            if not vm_states.allow_resource_removal(
                    instance.vm_state, instance.task_state):
                instances_of[instance.host].append(instance)
    return instances_of, silent_cells


def _list_instances(context: nova_context.RequestContext,
                    hosts: list[str]) -> list[objects.Instance]:
    """Return the instances of hosts in the cell of a context, by name.

    Soft-deleted instances count, too, until nova-compute reclaims them: Nova
    leaves them out unless ``soft_deleted`` is true.

    :param hosts: names of hosts
    """
    read_page = functools.partial(
        objects.InstanceList.get_by_filters, context,
        {'deleted': False, 'soft_deleted': True, 'host': hosts},
        sort_dir='asc',
        expected_attrs=['flavor', 'numa_topology'])
    return sorted(host_inventory.iterate_pages(read_page, 'uuid', PAGE),
                  key=operator.attrgetter('display_name', 'uuid'))


def _make_host(host: host_inventory.HostRecord,
               instances: abc.Collection[objects.Instance],
               is_disabled: bool) -> content.HostSection:
    """Return the content of a host with a report.

    The report is what nova-compute writes about the CPUs of its host. A CPU
    is blocked if it is dedicated, but a guest that should not run there uses
    it. No instance is pinned to a blocked CPU.

    :param is_disabled: whether ``nova-prio host disable`` has disabled it
    """
    report = host.report
    assert report is not None
    cpus = report.cpus
    # UUID of an instance -> its CPUs.
    pins: dict[str, frozenset[int]] = {}
    guests = []
    # CPUs that Nova counts as pinned, less those of the instances below: they
    # are held by a move, or as the thread sibling of an isolated vCPU. The
    # page shows a CPU in one way: blocked, pinned or held.
    held = demand.get_host_pins(host.node.numa_topology) - report.blocked
    for instance in instances:
        pinned = frozenset(demand.get_instance_pins(instance))
        pins[instance.uuid] = pinned
        held -= pinned
        # The CPUs where those of its vCPUs may run that are not pinned.
        floating = demand.find_floating_cpus(instance, cpus, host.cells)
        guests.append(_make_guest(instance, pinned, floating))
    # If there is a reason, nova-scheduler places no new instance on the host.
    reasons_to_omit = _find_reasons_to_omit(host.service)
    problems = reasons_to_omit + list(_find_problems(report, pins))
    if is_disabled:
        problems.append('"nova-prio host disable" has disabled this host for '
                        'servers with a priority.')
    if not host.allows_priority:
        problems.append(content.NO_PRIORITY_AGGREGATE)
    mix = 'on' if report.mix else 'off'
    return content.HostSection(
        name=host.name,
        aggregates=[aggregate.name for aggregate in host.aggregates],
        dedicated=cpus.dedicated, shared=cpus.shared,
        # Three numbers each, of the vCPUs that the host may sell: of pinned
        # ones, of all others, and of the others without low priority.
        rows=content.make_rows(
            report.used, report.sellable, report.left),
        guests=guests,
        facts=[('Dedicated CPUs', _format_cpus(cpus.dedicated)),
               ('Shared CPUs', _format_cpus(cpus.shared)),
               ('CPU allocation ratio', str(cpus.ratio)),
               ('Mix', mix),
               ('Low supply in CPUs (wait)',
                content.format_low_supply(report.low_supply))],
        held=held, blocked=report.blocked, problems=problems,
        is_open=not reasons_to_omit,
        takes_priority=host.allows_priority and not is_disabled)


def _format_cpus(cpus: frozenset[int]) -> str:
    """Return CPUs as a text for the page."""
    return hardware.format_cpu_spec(cpus) or 'none'


def _describe_shortage(host: host_inventory.HostRecord,
                       request: demand.ResourceRequest) -> str:
    """Return why a host takes no instance of a request, or ''.

    The host has a report of its CPUs, which nova-compute writes. The memory is
    never the reason, because the page with this text does not show it.

    :param request: of one instance
    """
    # An ordinary instance has no priority.
    if request.priority is None:
        for aggregate in host.aggregates:
            if aggregate_metadata.excludes_ordinary(aggregate):
                return 'an aggregate has priority_ordinary=false'
    report = host.report
    assert report is not None
    texts = []
    # So that memory is no reason, pass just enough free memory for the
    # instance, and None for no limit on the memory in small pages.
    for refusal in admission.find_refusals(
            report, request, report.remaining,
            free_memory_mb=request.memory_mb, small=None):
        # A reason such as "high_capacity" names a kind of vCPUs of which too
        # few are left.
        if refusal.reason.endswith('_capacity'):
            kind = refusal.reason.removesuffix('_capacity')
            text = '%s %s vCPUs left, %s needed' % (
                refusal.available, kind, refusal.needed)
        else:
            text = refusal.detail
        texts.append(text)
    return '; '.join(texts)


def _make_guest(instance: objects.Instance, pinned: frozenset[int],
                floating: frozenset[int]) -> content.GuestOnPage:
    """Return the content of an instance.

    :param pinned: CPUs to which its vCPUs are pinned
    :param floating: CPUs where its other vCPUs may run
    """
    state = instance.vm_state
    if instance.task_state:
        state += ' (%s)' % instance.task_state
    # The priority, 'high' or 'low', or else 'ordinary'.
    row = flavor_cpus.get_class(instance.flavor.extra_specs)
    return content.GuestOnPage(
        name=instance.display_name, uuid=instance.uuid, row=row, state=state,
        pinned=pinned, floating=floating, flavor=instance.flavor.name,
        is_stopped=instance.vm_state == vm_states.STOPPED)


def _find_reasons_to_omit(service: objects.Service | None) -> list[str]:
    """Return why the scheduler omits a host, sentences.

    :param service: nova-compute of the host, or None if it is unknown
    """
    reasons = []
    if service is not None and service.disabled:
        reason = ''
        if service.disabled_reason:
            reason = ' (%s)' % service.disabled_reason
        reasons.append('nova-compute is disabled%s: the scheduler omits this '
                       'host.' % reason)
    if service is not None and service.forced_down:
        reasons.append(
            'nova-compute is forced down: the scheduler omits this host.')
    return reasons


def _find_problems(report: capacity_report.CapacityReport,
                   pins: abc.Mapping[str, frozenset[int]],
                   ) -> abc.Iterator[str]:
    """Yield the problems that the report and the instances of a host show.

    nova-compute writes the report about the CPUs of its host. A row is a
    number of vCPUs of one kind that the host may sell. An orphan guest runs
    although its instance is not on the host. A partition is the cgroup of all
    guests of one priority.

    :param pins: UUID of an instance -> CPUs to which it is pinned
    :returns: sentences
    """
    for problem in (report.problem, report.partition_problem):
        if problem:
            yield '%s.' % problem.rstrip('.')
    for row in cpu_capacity.find_oversold_rows(report.sellable, report.used):
        yield 'The %s row is oversold: %d of %d vCPUs are sold. %s' % (
            row, getattr(report.used, row), getattr(report.sellable, row),
            finding.REMEDIES['oversold'])
    # The dedicated CPUs that are used by guests that should not run there.
    if report.blocked:
        names = ''
        # A text: the names of the orphan guests among these guests.
        if report.blocked_by:
            names = ' (%s)' % report.blocked_by
        yield ('CPUs %s take no pinned server: guests on stale CPU sets or '
               'orphan guests use them%s.'
               % (hardware.format_cpu_spec(report.blocked), names))
    # The texts name the CPUs that two instances have, or that are outside.
    for uuid, text in finding.find_pin_conflicts(pins):
        yield 'Instance %s is pinned to %s. %s' % (
            uuid, text, finding.REMEDIES['pin_conflict'])
    for uuid, text in finding.find_pins_outside(pins, report.cpus.dedicated):
        yield ('Instance %s is pinned to %s, outside of cpu_dedicated_set. %s'
               % (uuid, text, finding.REMEDIES['cpu_outside']))
