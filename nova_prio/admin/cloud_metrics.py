# SPDX-License-Identifier: Apache-2.0

"""The metrics of a cloud for Prometheus.

A row is a number of vCPUs that a host may sell, and how many of them are sold.
A host has three rows; see :mod:`nova_prio.model.cpu_capacity`.
"""

from __future__ import annotations

import collections
from collections import abc
import time
import typing

from nova import context as nova_context
from nova import objects
from prometheus_client import core

from nova_prio.admin.audit import finding
from nova_prio.admin.explain import judge
from nova_prio.admin.explain import units
from nova_prio.admin import host_inventory
from nova_prio.model import aggregate_metadata

if typing.TYPE_CHECKING:
    from nova.scheduler.client import report as report_client


class Gauge(typing.NamedTuple):
    """The names of the labels of a gauge, and a help."""

    labels: tuple[str, ...]
    help: str


#: Name of a metric -> Gauge.
METRICS = {
    'nova_prio_cpus': Gauge(
        ('host', 'row', 'state'), 'vCPUs of a row of a host: those that are '
        'sold, sellable, or remaining.'),
    'nova_prio_units': Gauge(
        ('host', 'flavor'), 'New servers of a flavor that fit on a host if '
        'the other hosts take none.'),
    'nova_prio_aggregate_info': Gauge(
        ('host', 'aggregate', 'priority'), 'A host in a host aggregate; '
        'whether the aggregate is for priority instances.'),
    'nova_prio_blocked_cpus': Gauge(
        ('host',), 'Dedicated CPUs without a pinned instance that other '
        'guests use.'),
    'nova_prio_low_supply_cpus': Gauge(
        ('host',), 'CPUs whose time low-priority guests can get: their idle '
        'time, and the time that these guests use.'),
    'nova_prio_low_wait_ratio': Gauge(
        ('host',), 'Part of the time that the vCPUs of low-priority guests '
        'wait for a CPU.'),
    'nova_prio_partition_problem': Gauge(
        ('host',), 'Whether the host cannot start guests with a priority.'),
    'nova_prio_report_problem': Gauge(
        ('host',), 'Whether the report of the host cannot be read, or the '
        'host refuses all priority instances.'),
    'nova_prio_report_changed_timestamp_seconds': Gauge(
        ('host',), 'Time of the last change of the record of the compute '
        'node.'),
    'nova_prio_service_seen_timestamp_seconds': Gauge(
        ('host',), 'Time of the last heartbeat of nova-compute.'),
    'nova_prio_service_disabled': Gauge(
        ('host',), 'Whether nova-compute is disabled.'),
    'nova_prio_priority_disabled': Gauge(
        ('host',), 'Whether nova-prio host disable has disabled the host for '
        'priority instances.'),
    'nova_prio_audit_findings': Gauge(
        ('kind',), 'Findings of nova-prio audit.'),
    'nova_prio_collection_success': Gauge(
        (), 'Whether Placement and all databases of Nova could be read.'),
    'nova_prio_collection_duration_seconds': Gauge(
        (), 'Duration of this collection.'),
    'nova_prio_collection_timestamp_seconds': Gauge(
        (), 'Start of this collection, in seconds since 1970.'),
}

#: Name of a metric, values of its labels, its value.
_Sample = tuple[str, tuple[str, ...], float]


def collect(context: nova_context.RequestContext,
            client: report_client.SchedulerReportClient,
            findings: abc.Iterable[finding.Finding] | None = None,
            requests: abc.Mapping[str, objects.RequestSpec] | None = None,
            ) -> tuple[list[core.Metric], list[str]]:
    """Measure the cloud.

    :param context: targets no cell
    :param findings: those of an audit, which runs when they are read; None to
        omit them
    :param requests: name of a flavor -> request for a new server, to count the
        servers that fit; None to omit them. For each request, the code of
        nova-scheduler decides about all hosts, which takes time
    :returns: (families of ``METRICS``, UUIDs of the cells that do not answer)
    :raises nova.exception.NovaException: if Nova cannot be read
    :raises nova_prio.placement.allocations.PlacementRefused: if Placement
        cannot be read
    """
    started_at, start_seconds = time.time(), time.monotonic()
    # list_disabled names the hosts that an operator has disabled for priority
    # instances.
    hosts, silent_cells = host_inventory.list_hosts(
        context, host_inventory.list_disabled(client))
    # Tuples: (name of a metric, values of its labels, its value).
    samples: list[_Sample] = []
    for host in hosts:
        if host.has_our_driver:
            samples += measure_host(host)
    if requests:
        samples += _count_units(context, client, hosts, requests)
    if findings is not None:
        samples += _count_findings(findings)
    seconds = time.monotonic() - start_seconds
    # The first argument is whether Placement and all databases could be read.
    # Without Placement, the calls above raise: only a cell may be missing.
    samples += describe_collection(not silent_cells, started_at)
    samples.append(('nova_prio_collection_duration_seconds', (), seconds))
    return list(make_families(samples)), silent_cells


def _count_units(context: nova_context.RequestContext,
                 client: report_client.SchedulerReportClient,
                 hosts: abc.Iterable[host_inventory.HostRecord],
                 requests: abc.Mapping[str, objects.RequestSpec],
                 ) -> abc.Iterator[_Sample]:
    """Yield how many new servers of each flavor fit on each host.

    A Judge runs the code of nova-scheduler for a request, and places nothing.

    :param requests: name of a flavor -> request for a new server
    """
    scheduler = judge.Judge(context, client)
    for flavor, request in requests.items():
        # The servers that fit on each host if the other hosts take none.
        fitting = units.find(scheduler, request)
        for host in hosts:
            if host.has_our_driver:
                yield ('nova_prio_units', (host.name, flavor),
                       fitting.count([host.name]))


def _count_findings(findings: abc.Iterable[finding.Finding],
                    ) -> abc.Iterator[_Sample]:
    """Yield the number of findings of each kind.

    :param findings: differences that an audit of the cloud found
    :returns: iterator of (name of the metric, values of its labels, number)
    """
    # REMEDIES has all kinds. Prometheus needs the zeros to see an increase.
    count = collections.Counter(dict.fromkeys(finding.REMEDIES, 0))
    count.update(each.kind for each in findings)
    for kind, number in count.items():
        yield 'nova_prio_audit_findings', (kind,), number


def make_families(samples: abc.Iterable[_Sample],
                  ) -> abc.Iterator[core.Metric]:
    """Yield the samples in families of prometheus_client, one per metric.

    :param samples: each is (name of a metric, values of its labels, value)
    """
    families = {
        name: core.GaugeMetricFamily(
            name, gauge.help, labels=gauge.labels)
        for name, gauge in METRICS.items()}
    for name, labels, value in samples:
        families[name].add_metric(labels, value)
    for family in families.values():
        if family.samples:
            yield family


def describe_collection(has_succeeded: bool,
                        started_at: float) -> abc.Iterator[_Sample]:
    """Yield the samples for a collection.

    :param has_succeeded: whether Placement and all databases could be read
    :param started_at: in seconds since 1970. The hosts are read at the start,
        and the alerts compare the times of their heartbeats with it. The end
        may be minutes later, and all heartbeats would look old then.
    :returns: iterator of (name of a metric, values of its labels, its value)
    """
    yield 'nova_prio_collection_success', (), has_succeeded
    yield 'nova_prio_collection_timestamp_seconds', (), started_at


def measure_host(host: host_inventory.HostRecord,
                 ) -> abc.Iterator[_Sample]:
    """Yield the samples of a host with the driver of this package.

    Its nova-compute reports, among others, the sold, sellable and remaining
    vCPUs of each row. A row is a number of vCPUs that the host may sell: one
    for pinned vCPUs, one for all others, and one for the others without low
    priority. A blocked CPU is a dedicated CPU without a pinned instance that
    other guests use. A partition is the cgroup of all guests of one priority.

    :returns: iterator of (name of a metric, values of its labels, its value)
    """
    name, report, service = host.name, host.report, host.service
    yield 'nova_prio_priority_disabled', (name,), host.is_disabled
    if service:
        yield 'nova_prio_service_disabled', (name,), service.disabled
        # Nova, too, takes the time of the creation before the first heartbeat.
        seen_at = service.last_seen_up or service.created_at
        yield ('nova_prio_service_seen_timestamp_seconds', (name,),
               seen_at.timestamp())
    yield 'nova_prio_report_problem', (name,), bool(
        report is None or report.problem)
    for aggregate in host.aggregates:
        is_marked = aggregate_metadata.allows_priority(aggregate)
        yield 'nova_prio_aggregate_info', (
            name, aggregate.name, str(is_marked).lower()), 1
    changed_at = host.node.updated_at or host.node.created_at
    yield ('nova_prio_report_changed_timestamp_seconds', (name,),
           changed_at.timestamp())
    # Without a readable report, the numbers below are unknown.
    if report is None:
        return
    yield 'nova_prio_blocked_cpus', (name,), len(report.blocked)
    yield 'nova_prio_partition_problem', (name,), bool(
        report.partition_problem)
    # The CPU time that low-priority guests can get, None if it is unknown.
    supply = report.low_supply
    if supply is not None:
        yield 'nova_prio_low_supply_cpus', (name,), supply.cpus
        if supply.wait_percent is not None:
            yield ('nova_prio_low_wait_ratio', (name,),
                   supply.wait_percent / 100)
    for state, rows in (('sold', report.used), ('sellable', report.sellable),
                        ('remaining', report.left)):
        for row, vcpus in rows._asdict().items():
            yield 'nova_prio_cpus', (name, row, state), vcpus
