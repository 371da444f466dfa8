# SPDX-License-Identifier: Apache-2.0

"""Read the content of the page of ``nova-prio capacity show`` from Nova."""

from __future__ import annotations

import collections
from collections import abc
import dataclasses
import functools
import typing

from nova.compute import vm_states
from nova import context as nova_context
from nova import objects
from nova.scheduler.client import report as report_client
from nova.virt import hardware
from oslo_utils import timeutils

from nova_prio.admin import aggregate_checks
from nova_prio.admin.audit import finding
from nova_prio.admin import host_inventory
from nova_prio.admin.page import content
from nova_prio.model import admission
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity
from nova_prio.model import flavor_cpus
from nova_prio.placement import allocations
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
    'To learn why a server got no host, run "nova-prio explain SERVER".']


def build(context: nova_context.RequestContext, conf: cfg.ConfigOpts,
          hosts: abc.Collection[host_inventory.HostRecord],
          silent_cells: abc.Collection[str],
          selected: abc.Sequence[host_inventory.HostRecord],
          request: demand.ResourceRequest | None,
          units: abc.Mapping[str, int], flavor: str | None,
          data: typing.Any) -> content.Page:
    """Return the page of a cloud.

    :param context: targets no cell
    :param conf: Nova's configuration
    :param hosts: all hosts of the cells that answer
    :param silent_cells: UUIDs of the other cells
    :param selected: the hosts to show, which have a report
    :param request: of one server of the flavor, or None
    :param units: name of a host -> number of servers of the flavor that fit
    :param flavor: the name or ID that the operator gave, or None
    :param data: see ``content.Page``
    """
    warnings = [host_inventory.SILENT_CELL % cell for cell in silent_cells]
    warnings += aggregate_checks.find_warnings(
        conf, (), objects.AggregateList.get_all(context), hosts,
        not silent_cells)
    try:
        # In some releases the client asks Placement when it is made.
        disabled = host_inventory.list_disabled(
            report_client.SchedulerReportClient())
    except (allocations.PlacementRefused, *allocations.CLIENT_ERRORS) as error:
        disabled = set()
        warnings.append(
            'Placement does not answer: %s. This page does not show which '
            'hosts "nova-prio host disable" has disabled.'
            % host_inventory.format_first_line(error))
    selected = [dataclasses.replace(
        host, is_disabled=host.node.uuid in disabled) for host in selected]
    shown, cells_without_servers = list_hosts(context, selected, request)
    if request:
        shown = [_count_units(host, units.get(host.name, 0))
                 for host in shown]
    warnings += ['Cell %s did not answer for its servers, which are missing '
                 'on its hosts. Run the command again.' % cell
                 for cell in cells_without_servers if cell not in silent_cells]
    return content.Page(
        title='CPU capacity of priority hosts', steps=[content.Step(shown)],
        data=data, flavor=flavor, notes=NOTES, warnings=warnings,
        flavor_row=(request and request.priority) or flavor_cpus.ORDINARY,
        lead=['%d of %d hosts of the cloud. Read from Nova at %s UTC.' % (
            len(selected), len(hosts),
            timeutils.utcnow().isoformat(' ', 'minutes'))])


def _count_units(host: content.HostSection, units: int) -> content.HostSection:
    """Return a host with the number of servers that fit."""
    shortage = host.shortage or '"nova-prio explain" tells why'
    return dataclasses.replace(
        host, units=units, shortage='' if units else shortage)


def list_hosts(context: nova_context.RequestContext,
               hosts: abc.Sequence[host_inventory.HostRecord],
               request: demand.ResourceRequest | None = None,
               ) -> tuple[list[content.HostSection], list[str]]:
    """Return the content of hosts that have a report.

    Send queries for each cell, not for each host.

    :param context: targets no cell
    :param request: of one server of the flavor to fit, or None
    :returns: (hosts, UUIDs of the cells that do not answer)
    """
    instances: dict[str, list[objects.Instance]] = collections.defaultdict(
        list)
    answers, silent_cells = host_inventory.read_cells(
        context, _list_instances, [host.name for host in hosts])
    for found in answers.values():
        for instance in found:
            instances[instance.host].append(instance)
    return [_make_host(host, instances[host.name], request)
            for host in hosts], silent_cells


def _list_instances(context: nova_context.RequestContext,
                    hosts: list[str]) -> list[objects.Instance]:
    """Return the instances of hosts in the cell of a context."""
    read_page = functools.partial(
        objects.InstanceList.get_by_filters, context,
        {'deleted': False, 'host': hosts}, sort_dir='asc',
        expected_attrs=['flavor', 'numa_topology'])
    return sorted(host_inventory.iterate_pages(read_page, 'uuid', PAGE),
                  key=lambda instance: (instance.display_name, instance.uuid))


def _make_host(host: host_inventory.HostRecord,
               instances: abc.Collection[objects.Instance],
               request: demand.ResourceRequest | None) -> content.HostSection:
    """Return the content of a host with a report."""
    report, service = host.report, host.service
    assert report is not None
    cpus = report.cpus
    pins = {instance.uuid: frozenset(demand.get_instance_pins(instance))
            for instance in instances}
    is_omitted = service is not None and (
        service.disabled or service.forced_down)
    problems = list(_find_problems(host, pins))
    if host.is_disabled:
        problems.append('"nova-prio host disable" has disabled this host for '
                        'servers with a priority.')
    if not host.allows_priority:
        problems.append(content.NO_PRIORITY_AGGREGATE)
    return content.HostSection(
        name=host.name,
        aggregates=[aggregate.name for aggregate in host.aggregates],
        dedicated=cpus.dedicated, shared=cpus.shared,
        rows=content.make_rows(
            report.used, report.sellable, report.left),
        guests=[_make_guest(
            instance, pins[instance.uuid], demand.find_floating_cpus(
                instance, cpus, host.cells)) for instance in instances],
        facts=[('Dedicated CPUs', hardware.format_cpu_spec(
                    cpus.dedicated) or 'none'),
               ('Shared CPUs', hardware.format_cpu_spec(
                   cpus.shared) or 'none'),
               ('CPU allocation ratio', str(cpus.ratio)),
               ('Mix', 'on' if report.mix else 'off')],
        held=demand.get_host_pins(host.node.numa_topology).difference(
            *pins.values()) - report.blocked,
        blocked=report.blocked,
        problems=problems,
        shortage=_describe_shortage(host, request) if request else '',
        is_open=not is_omitted,
        takes_priority=host.allows_priority and not host.is_disabled)


def _describe_shortage(host: host_inventory.HostRecord,
                       request: demand.ResourceRequest) -> str:
    """Return why a host takes no instance of a request, or ''."""
    if request.priority is None and any(
            map(aggregate_metadata.excludes_ordinary, host.aggregates)):
        return 'an aggregate has priority_ordinary=false'
    report = host.report
    assert report is not None
    # Pass the memory of one instance as free, so that memory never limits.
    refusals = admission.find_refusals(
        report, request, report.remaining, request.memory_mb)
    return '; '.join(
        '%s %s vCPUs left, %s needed' % (
            refusal.available, refusal.reason.removesuffix('_capacity'),
            refusal.needed)
        if refusal.reason.endswith('_capacity') else refusal.detail
        for refusal in refusals)


def _make_guest(instance: objects.Instance, pinned: frozenset[int],
                floating: frozenset[int]) -> content.Guest:
    """Return the content of an instance."""
    state = instance.vm_state
    return content.Guest(
        name=instance.display_name, uuid=instance.uuid,
        row=flavor_cpus.get_class(instance.flavor.extra_specs),
        state='%s (%s)' % (state, instance.task_state)
        if instance.task_state else state,
        pinned=pinned, floating=floating, flavor=instance.flavor.name,
        is_stopped=state == vm_states.STOPPED)


def _find_problems(host: host_inventory.HostRecord,
                   pins: abc.Mapping[str, frozenset[int]],
                   ) -> abc.Iterator[str]:
    """Yield the problems of a host that Nova's databases tell, as sentences.

    :param pins: UUID of an instance -> CPUs
    """
    report, service = host.report, host.service
    assert report is not None
    if service is not None and service.disabled:
        yield 'nova-compute is disabled%s: the scheduler omits this host.' % (
            ' (%s)' % service.disabled_reason
            if service.disabled_reason else '')
    if service is not None and service.forced_down:
        yield 'nova-compute is forced down: the scheduler omits this host.'
    for problem in (report.problem, report.partition_problem):
        if problem:
            yield '%s.' % problem.rstrip('.')
    for row in capacity.find_oversold_rows(report.sellable, report.used):
        yield 'The %s row is oversold: %d of %d vCPUs are sold. %s' % (
            row, getattr(report.used, row), getattr(report.sellable, row),
            finding.REMEDIES['oversold'])
    if report.blocked:
        yield ('CPUs %s take no pinned server: guests on stale CPU sets or '
               'orphan guests use them%s.' % (
                   hardware.format_cpu_spec(report.blocked),
                   report.blocked_by and ' (%s)' % report.blocked_by))
    for uuid, text in finding.find_pin_conflicts(pins):
        yield 'Instance %s is pinned to %s. %s' % (
            uuid, text, finding.REMEDIES['pin_conflict'])
    for uuid, text in finding.find_pins_outside(pins, report.cpus.dedicated):
        yield ('Instance %s is pinned to %s, outside of cpu_dedicated_set. %s'
               % (uuid, text, finding.REMEDIES['cpu_outside']))
