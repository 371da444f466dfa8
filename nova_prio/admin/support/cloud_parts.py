# SPDX-License-Identifier: Apache-2.0

"""The parts of a bundle about the cloud, from its databases and Placement."""

from __future__ import annotations

import dataclasses
import functools
import typing

from nova import context as nova_context
from nova import objects
from nova import servicegroup

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import guests
from nova_prio.admin.audit import run
from nova_prio.admin import host_inventory
from nova_prio.admin.support import source
from nova_prio.admin import upgrade_checks
from nova_prio_host import command as host_command

_Rows = list[dict[str, typing.Any]]


def run_upgrade_check(sources: source.Source) -> _Rows:
    """Return the results of ``nova-prio-status upgrade check``."""
    rows = []
    for title, service, find in upgrade_checks.list_checks(
            host_command.find_problems):
        result = upgrade_checks.run_check(sources.conf, service, find)
        rows.append({'check': title, 'result': result.code.name,
                     'details': result.details})
    return rows


def list_capacity(sources: source.Source) -> _Rows:
    """Return the vCPUs of the hosts, as ``nova-prio capacity show`` does."""
    hosts, _ = sources.hosts
    return [{'host': host.name, **{
        state: rows._asdict() for state, rows in (
            ('sold', host.report.used), ('sellable', host.report.sellable),
            ('left', host.report.remaining))}}
            for host in hosts if host.report]


def list_reports(sources: source.Source) -> dict[str, typing.Any]:
    """Return the compute nodes with their reports."""
    hosts, silent_cells = sources.hosts
    return {
        'silent_cells': silent_cells,
        'hosts': [
            {'host': host.name, 'uuid': host.uuid, 'problem': host.problem,
             'changed_at': str(host.changed_at),
             'free_memory_mb': host.free_memory_mb,
             'report': host.report and host.report.obj_to_primitive()}
            for host in hosts]}


def list_aggregates(sources: source.Source) -> _Rows:
    """Return the host aggregates with their hosts and metadata."""
    sources.require_databases()
    return [{'uuid': aggregate.uuid, 'name': aggregate.name,
             'hosts': aggregate.hosts, 'metadata': aggregate.metadata}
            for aggregate in objects.AggregateList.get_all(sources.context)]


def list_services(sources: source.Source) -> _Rows:
    """Return the services of all cells that answer."""
    sources.require_databases()
    api = servicegroup.API()
    return [
        {'cell': cell, 'host': service.host, 'binary': service.binary,
         'version': service.version, 'is_up': api.service_is_up(service),
         'disabled': service.disabled,
         'disabled_reason': service.disabled_reason,
         'forced_down': service.forced_down,
         'last_seen_up': str(service.last_seen_up)}
        for cell, services in nova_context.scatter_gather_all_cells(
            sources.context, objects.ServiceList.get_all).items()
        if not nova_context.is_cell_failure_sentinel(services)
        for service in services]


def list_disabled(sources: source.Source) -> _Rows:
    """Return the hosts that are disabled for priority instances."""
    hosts, _ = sources.hosts
    disabled = host_inventory.list_disabled(sources.make_client())
    return [{'host': host.name, 'uuid': host.uuid} for host in hosts
            if host.uuid in disabled]


def audit(sources: source.Source) -> _Rows:
    """Return the findings of ``nova-prio audit``."""
    conf = sources.conf
    if sources.has_databases:
        cloud = run.CloudAudit(
            sources.context, sources.make_client(),
            conf.host if sources.is_compute else None,
            functools.partial(guests.read_guests, conf))
        findings = [each for found, _ in cloud.run() for each in found]
    else:
        sources.require_compute()
        findings = list(guests.check(conf.host, *guests.read_guests(conf)))
    names = [field.name for field in dataclasses.fields(finding.Finding)
             if field.name != 'repair']
    return [{**{name: getattr(each, name) for name in names},
             'remedy': each.remedy} for each in findings]
