# SPDX-License-Identifier: Apache-2.0

"""The compute hosts of a cloud and their reports, from Nova's databases.

No API of Nova shows the statistics of a compute node, which hold the report.
Only Placement knows which hosts are disabled for priority instances.
"""

from __future__ import annotations

import collections
from collections import abc
import contextlib
import dataclasses
import functools
import operator
import typing

from nova import context as nova_context
from nova.db.api import api as api_db
from nova.db.main import api as main_db
from nova import objects
from nova import rpc
from nova import servicegroup
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import enginefacade
from oslo_utils import importutils
import sqlalchemy.exc

from nova_prio.api import flavor_preview
from nova_prio.model import aggregate_metadata
from nova_prio.model import capacity_report
from nova_prio.model import cpu_capacity
from nova_prio.model import traits
from nova_prio.objects import host_report
from nova_prio.placement import allocations
from nova_prio.virt import demand

if typing.TYPE_CHECKING:
    from nova.scheduler.client import report as report_client
    from oslo_config import cfg

_Record = typing.TypeVar('_Record')

#: Number of compute nodes that one query reads.
PAGE = 100
#: Errors of Nova's objects if a database cannot be read.
DATABASE_ERRORS = (db_exception.DBError, db_exception.CantStartEngineError,
                   sqlalchemy.exc.SQLAlchemyError, ImportError)

#: Problem of a host that is not registered; see ``HostRecord``.
NOT_REGISTERED = 'nova-compute has not written the resources of the host yet'
#: Warning with the UUID of a cell.
SILENT_CELL = ('Cell %s does not answer; its hosts are omitted. Check the '
               'database of the cell.')


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostRecord:
    """A compute host in Nova's databases.

    ``node`` is its compute node, ``cell`` the UUID of its cell, ``service``
    its nova-compute, or None if it is unknown. ``aggregates`` are those with
    this host. ``is_disabled`` says whether ``nova-prio host disable`` has
    disabled it; it is false if Placement was not asked.
    """

    node: objects.ComputeNode
    cell: str
    service: objects.Service | None
    aggregates: abc.Sequence[objects.Aggregate]
    is_disabled: bool = False

    @property
    def name(self) -> str:
        """The name of the host."""
        return self.node.host

    @property
    def is_registered(self) -> bool:
        """Whether nova-compute has written the resources of the host.

        nova-compute creates the record, then asks Placement, and then writes
        the free memory. Until then, the column is NULL.
        """
        return self.node.free_ram_mb is not None

    @property
    def has_our_driver(self) -> bool:
        """Whether nova-compute runs the compute driver of this package."""
        # Only this driver writes a report of the CPUs into the statistics.
        return host_report.STATS_KEY in (self.node.stats or {})

    @functools.cached_property
    def _report_and_problem(
            self) -> tuple[capacity_report.CapacityReport | None, str | None]:
        """The values of ``report`` and ``problem``."""
        # nova-compute has created the record of the compute node, but has not
        # written the resources yet.
        if not self.is_registered:
            return None, NOT_REGISTERED
        try:
            return host_report.HostReport.from_stats(self.node.stats), None
        except host_report.UnreadableReport as error:
            return None, str(error)

    @property
    def report(self) -> capacity_report.CapacityReport | None:
        """What nova-compute reports about the CPUs of the host.

        None with another driver, or if the report has a problem.
        """
        return self._report_and_problem[0]

    @property
    def problem(self) -> str | None:
        """Why the record is incomplete, or the report cannot be read.

        None if neither is so, or if the host has another driver.
        """
        return self._report_and_problem[1]

    @functools.cached_property
    def is_up(self) -> bool:
        """Whether the nova-compute of the host is up."""
        return self.service is not None and (
            servicegroup.API().service_is_up(self.service))

    @functools.cached_property
    def cells(self) -> list[objects.NUMACell]:
        """The NUMA cells of the host."""
        text = self.node.numa_topology
        if not text:
            return []
        return objects.NUMATopology.obj_from_db_obj(text).cells

    @property
    def cpus_by_mix(
            self) -> tuple[cpu_capacity.HostCPUs, cpu_capacity.HostCPUs]:
        """The CPUs (without, with) the option cpu_priority_mix_enable.

        The report of nova-compute, which the host must have, gives the rest of
        the configuration.
        """
        assert self.report is not None
        cpus = self.report.cpus
        # nova-compute refuses the option unless both CPU sets are given.
        can_mix = bool(cpus.dedicated and cpus.shared)
        return (dataclasses.replace(cpus, mix=False),
                dataclasses.replace(cpus, mix=can_mix))

    @property
    def allows_priority(self) -> bool:
        """Whether an aggregate marks the host for priority instances."""
        return any(aggregate_metadata.allows_priority(aggregate)
                   for aggregate in self.aggregates)


def get_resource_request(
        flavor: objects.Flavor,
        hints: dict[str, typing.Any] | None = None) -> demand.ResourceRequest:
    """Return the ResourceRequest of an instance of a flavor.

    It has the priority, the vCPUs and the memory that the instance needs. As
    in nova-api, write the priority that the flavor or a hint requests into the
    copy of the flavor that the instance has.

    :param hints: scheduler hints, name -> value; None if there are none
    :raises nova_prio.model.flavor_specs.RequestRefused: if flavor and hints
        contradict each other
    :raises nova.exception.NovaException: if stock Nova refuses the flavor
    """
    # The copy of the flavor with its priority, and the NUMA topology that it
    # asks for. The image is empty: the flavor alone counts.
    own_flavor, topology = flavor_preview.fit_request(
        flavor, objects.ImageMeta.from_dict({}), hints or {})
    return demand.ResourceRequest.from_flavor(own_flavor, topology)


def list_hosts(context: nova_context.RequestContext,
               disabled: abc.Container[str] = (),
               ) -> tuple[list[HostRecord], list[str]]:
    """Return the compute hosts, and the cells that do not answer.

    :param disabled: UUIDs of the hosts that an operator has disabled for
        priority instances, the result of :func:`list_disabled`
    :returns: (hosts sorted by name, UUIDs of the cells)
    """
    aggregates = objects.AggregateList.get_all(context)
    answers, silent_cells = read_cells(
        context, _list_hosts_of_cell, aggregates, disabled)
    hosts = []
    for hosts_of_cell in answers.values():
        hosts += hosts_of_cell
    hosts.sort(key=operator.attrgetter('name'))
    return hosts, silent_cells


def _list_hosts_of_cell(*args: typing.Any) -> list[HostRecord]:
    """Return the hosts of a cell; the arguments are for iterate_hosts."""
    return list(iterate_hosts(*args))


def iterate_hosts(context: nova_context.RequestContext,
                  aggregates: abc.Iterable[objects.Aggregate],
                  disabled: abc.Container[str] = (),
                  ) -> abc.Iterator[HostRecord]:
    """Yield the compute hosts of a cell, page by page.

    :param context: targets the cell
    :param aggregates: all host aggregates of the cloud
    :param disabled: UUIDs of the hosts that an operator has disabled for
        priority instances, the result of :func:`list_disabled`
    """
    # Name of a host -> its aggregates.
    aggregates_of = collections.defaultdict(list)
    for aggregate in aggregates:
        for name in aggregate.hosts:
            aggregates_of[name].append(aggregate)
    services = _read_services_of_cell(context)
    read_page = functools.partial(
        objects.ComputeNodeList.get_by_pagination, context)
    for node in iterate_pages(read_page, 'id', PAGE):
        yield HostRecord(
            node=node, cell=context.cell_uuid, service=services.get(node.host),
            aggregates=aggregates_of[node.host],
            is_disabled=node.uuid in disabled)


def read_cells(context: nova_context.RequestContext,
               read: abc.Callable[..., typing.Any], *args: typing.Any,
               ) -> tuple[dict[str, typing.Any], list[str]]:
    """Call a function for each cell except cell0.

    :param read: function of a context, which targets the cell, and of the
        further arguments
    :returns: (UUID of a cell -> answer; UUIDs of the cells that do not answer)
    """
    answers, silent_cells = {}, []
    for cell, answer in nova_context.scatter_gather_skip_cell0(
            context, read, *args).items():
        if nova_context.is_cell_failure_sentinel(answer):
            silent_cells.append(cell)
        else:
            answers[cell] = answer
    return answers, silent_cells


def _read_services_of_cell(context: nova_context.RequestContext,
                           ) -> dict[str, objects.Service]:
    """Return the nova-compute services of a cell by host."""
    return {service.host: service for service in
            objects.ServiceList.get_by_binary(
                context, 'nova-compute', include_disabled=True)}


def read_services(context: nova_context.RequestContext,
                  ) -> dict[str, objects.Service]:
    """Return the nova-compute services of the cells that answer, by host."""
    services: dict[str, objects.Service] = {}
    answers, _ = read_cells(context, _read_services_of_cell)
    for services_of_cell in answers.values():
        services.update(services_of_cell)
    return services


def group_by_aggregate(
        hosts: abc.Iterable[HostRecord]) -> dict[str, list[HostRecord]]:
    """Return name of an aggregate -> its hosts, sorted by name.

    A host is in each of its aggregates, and a host without one in none.
    """
    members = collections.defaultdict(list)
    for host in hosts:
        for aggregate in host.aggregates:
            members[aggregate.name].append(host)
    return dict(sorted(members.items()))


def list_disabled(client: report_client.SchedulerReportClient) -> set[str]:
    """Return the UUIDs of the hosts disabled for priority instances.

    An operator disables a host with "nova-prio host disable", which gives its
    resource provider a trait. The UUID is that of the provider and of the
    compute node.

    :raises nova_prio.placement.allocations.PlacementRefused: if Placement
        cannot be read
    """
    trait = traits.CPU_PRIORITY_DISABLED
    # Before the first host is disabled, Placement may not know the trait. It
    # refuses a filter by a trait that does not exist.
    if not allocations.get_json(client, '/traits?name=in:' + trait)['traits']:
        return set()
    return {provider['uuid']
            for provider in allocations.list_providers(client, trait)}


def iterate_pages(read_page: abc.Callable[..., abc.Sequence[_Record]],
                  marker_name: str, limit: int) -> abc.Iterator[_Record]:
    """Yield the records of a query that is read page by page.

    :param read_page: function of ``limit`` and ``marker`` that returns records
    :param marker_name: name of an attribute; its value in the last record of a
        page is the marker of the next page
    :param limit: number of records of a page
    """
    marker = None
    while page := read_page(limit=limit, marker=marker):
        yield from page
        marker = getattr(page[-1], marker_name)
        # Keep no page in memory while the next one is read.
        del page


def format_first_line(error: Exception | str) -> str:
    """Return the first line of an error, without a period at its end.

    If an exception has no text, return the name of its class.
    """
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip('.')


def connect_databases(conf: cfg.ConfigOpts) -> None:
    """Let Nova's objects read the databases, as nova-status does.

    Further calls are allowed. They have no effect once a database was read.

    :param conf: Nova's configuration, which has read its files
    """
    objects.register_all()
    # The URLs of cells may refer to options of oslo.messaging.
    rpc.init(conf)
    # If osprofiler is installed, Nova reads its options.
    profiler = importutils.try_import('osprofiler.opts')
    if profiler:
        profiler.set_defaults(conf)
    for group, database in (('database', main_db), ('api_database', api_db)):
        # Services wait for a database that starts later; commands do not.
        conf.set_override('max_retries', 0, group=group)
        # After the first query, oslo.db refuses to configure a database.
        with contextlib.suppress(enginefacade.AlreadyStartedError):
            database.configure(conf)
