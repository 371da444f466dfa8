# SPDX-License-Identifier: Apache-2.0

"""Audit a cloud, host by host."""

from __future__ import annotations

import collections
from collections import abc
from concurrent import futures
import contextlib
import dataclasses
import functools
import typing

from keystoneauth1 import exceptions as ks_exceptions
from nova import exception
from nova import objects

from nova_prio.admin.audit import aggregates
from nova_prio.admin.audit import allocation_audit
from nova_prio.admin.audit import finding
from nova_prio.admin.audit import guest_audit
from nova_prio.admin.audit import host_audit
from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import pin_conflicts
from nova_prio.admin.audit import providers
from nova_prio.admin.audit import unfinished_migrations
from nova_prio.admin import host_inventory
from nova_prio.placement import allocations
from nova_prio.virt.libvirt import guest_xml

if typing.TYPE_CHECKING:
    from nova import context as nova_context
    from nova.scheduler.client import report

#: Most requests to Placement at one time.
_MOST_REQUESTS = 4
_ContextAndHost = tuple['nova_context.RequestContext',
                        host_inventory.HostRecord]
_ReadGuests = abc.Callable[
    [], tuple[guest_audit.GuestHost, list[guest_xml.Guest]]]
_ERRORS = (
    allocations.PlacementRefused, guest_audit.GuestsUnreadable,
    host_view.CellUnreachable, exception.NovaException,
    ks_exceptions.ClientException) + host_inventory.DATABASE_ERRORS


class CloudAudit:
    """Find and repair differences between the sources for each host.

    The sources are Nova, Placement, nova-compute and libvirt.
    """

    def __init__(
            self, context: nova_context.RequestContext,
            client: report.SchedulerReportClient, name: str | None = None,
            read_guests: _ReadGuests | None = None) -> None:
        """Read nothing yet.

        :param context: targets no cell
        :param name: name of the host where the audit runs, to audit its
            guests, too; None if it is no compute host
        :param read_guests: function that returns this host and its guests;
            required with a name
        """
        self._context = context
        self._client = client
        self._local_host = name
        # Without a name, no host is the local one, and the function is not
        # called: the type need not allow None.
        self._read_guests = typing.cast(_ReadGuests, read_guests)
        self._read_aggregates = functools.cache(aggregates.read_aggregates)
        # In Placement, the providers that share disks with a host depend only
        # on the aggregates of the host.
        self._read_disks = functools.cache(host_view.read_shared_disks)
        # The traits and aggregates of all hosts, if all are audited.
        self._index: providers.Providers | None = None

    def run(
            self, names: abc.Iterable[str] | None = None,
    ) -> abc.Iterator[
            tuple[list[finding.Finding], host_view.HostView | None]]:
        """Audit hosts, one after the other.

        :param names: names of the hosts, or None for all
        :returns: iterator of the findings of a host, and its HostView; None
            in place of the HostView if a host or a cell cannot be read
        :raises nova.exception.HostMappingNotFound: if a host is unknown
        """
        self._index = None
        if names is not None:
            # The caller may repair a host before it asks for the next one.
            # Find all hosts now: an unknown name must prevent all repairs.
            found = [host_view.find_hosts(self._context, name)
                     for name in dict.fromkeys(names)]
            # A host may have several compute nodes.
            for nodes in found:
                for context, host in nodes:
                    yield self._audit_host(context, host)
            return
        # The index has the traits and aggregates of all hosts. If Placement
        # does not answer, go on without it: each host is then read by itself,
        # and its finding has the error.
        with contextlib.suppress(*_ERRORS):
            self._index = providers.Providers(
                self._client, self._read_aggregates(self._context))
        for cell in objects.CellMappingList.get_all(self._context):
            if cell.is_cell0():
                continue
            try:
                # ``amounts`` is a future: what Placement has of the host.
                for context, host, amounts in self._read_ahead(
                        host_view.list_hosts(self._context, cell)):
                    yield self._audit_host(context, host, amounts)
            except _ERRORS as error:
                name = 'cell %s' % (cell.name or cell.uuid)
                yield [_make_unread_finding(name, error)], None

    def _read_ahead(
            self, hosts: abc.Iterable[_ContextAndHost],
    ) -> abc.Iterator[tuple[nova_context.RequestContext,
                            host_inventory.HostRecord, host_view.Amounts]]:
        """Yield hosts with their amounts in Placement.

        Most of the time of an audit is that of Placement. So ask it, in
        threads, for some hosts while the caller audits an earlier one.

        :param hosts: the hosts, each with a context that targets its cell
        :returns: iterator of (context, host, future of the inventories and
            allocations at the host)
        """
        # The hosts for which Placement was asked, with futures of its answers.
        asked: collections.deque[tuple[
            nova_context.RequestContext, host_inventory.HostRecord,
            host_view.Amounts]] = collections.deque()
        with futures.ThreadPoolExecutor(_MOST_REQUESTS) as executor:
            for context, host in hosts:
                amounts = executor.submit(
                    host_view.read_amounts, self._client, host.node.uuid)
                asked.append((context, host, amounts))
                if len(asked) > _MOST_REQUESTS:
                    yield asked.popleft()
            yield from asked

    def _audit_host(
            self, context: nova_context.RequestContext,
            host: host_inventory.HostRecord,
            amounts: host_view.Amounts | None = None,
    ) -> tuple[list[finding.Finding], host_view.HostView | None]:
        """Return the findings of a host, and its HostView if it was read.

        Services write to Nova and to Placement one after the other, and hosts
        join and leave aggregates: only findings of two reads count. Two
        findings are equal if they differ at most in their ``repair``.

        :param context: targets the cell of the host
        :param amounts: a future with the inventories and allocations at the
            host, or None to read them
        """
        try:
            findings, view = self._find(context, host, self._index, amounts)
            if findings and self._index is not None:
                # The index has the traits and aggregates of all hosts. It is
                # older than the other data, and not complete: leave it out.
                findings, view = self._find(context, host)
            if findings:
                # Read everything again.
                self._read_aggregates.cache_clear()
                self._read_disks.cache_clear()
                host = dataclasses.replace(
                    host, node=objects.ComputeNode.get_by_id(
                        context, host.node.id))
                repeated, view = self._find(context, host)
                # Keep those of the second read: they repair what it has read.
                findings = [each for each in repeated if each in findings]
            return findings, view
        except _ERRORS as error:
            reason: Exception | str = error
        except Exception as error:
            # The other hosts must be audited all the same.
            reason = '%s: %s' % (type(error).__name__, error)
        return [_make_unread_finding(host.name, reason)], None

    def _find(self, cell_context: nova_context.RequestContext,
              host: host_inventory.HostRecord,
              index: providers.Providers | None = None,
              amounts: host_view.Amounts | None = None,
              ) -> tuple[list[finding.Finding], host_view.HostView]:
        """Read a host once; return its findings and its HostView.

        :param index: the traits and aggregates of all hosts; None to read
            those of the host
        :param amounts: a future with the inventories and allocations at the
            host; None to read them
        """
        view = host_view.read_host(
            cell_context, self._client, host, self._read_disks, index, amounts)
        # Repairs follow this order: some need capacity that an earlier repair
        # frees.
        findings = list(host_audit.check(view))
        findings += pin_conflicts.check(view)
        findings += aggregates.check(
            view, self._read_aggregates(self._context))
        findings += unfinished_migrations.check(view)
        findings += allocation_audit.check(view, self._client)
        # The guests of other hosts cannot be read from here. Of this host, the
        # function returns the CPU sets, a GuestHost, and a list of Guests.
        if host.name == self._local_host:
            guest_host, running = self._read_guests()
            findings += guest_audit.check(guest_host, running, view)
        return finding.set_host(host.name, findings), view

    def repair(self, view: host_view.HostView,
               repairable: finding.Finding) -> None:
        """Repair a finding.

        :param repairable: finding with a ``repair``
        :raises nova_prio.placement.allocations.PlacementRefused: if the
            finding could not be repaired, for whatever reason
        """
        assert repairable.repair is not None
        try:
            repairable.repair(view.context, self._client)
        except _ERRORS as error:
            # Nova, Placement or a database failed, or the data have changed.
            raise allocations.PlacementRefused(
                str(error).rstrip('.')) from error

    def summarize(self, view: host_view.HostView) -> finding.Finding:
        """Return the totals of a host in each source, as a Finding.

        The Finding has no kind, because the totals are no difference.

        The totals are those of VCPU, PCPU, MEMORY_MB and DISK_GB, which the
        flavors decide; used vCPUs in the report of nova-compute; and vCPUs of
        guests in libvirt.
        """
        expected: collections.Counter[str] = collections.Counter()
        present: collections.Counter[str] = collections.Counter()
        # The allocation of such an instance has no root disk.
        volume_backed = allocations.find_volume_backed(
            view.context, view.instances)
        for instance in view.instances:
            expected.update(allocations.get_expected(
                instance, instance.uuid in volume_backed))
        for resources in view.total_allocations.values():
            # Leave out the amounts of other resource classes.
            present.update(allocations.select_managed(resources))
        compute = libvirt = ''
        if view.report:
            compute = finding.format_amounts(view.report.used._asdict())
        if view.name == self._local_host:
            guest_host, running = self._read_guests()
            libvirt = guest_audit.summarize(guest_host, running)
        return finding.Finding(
            kind='', host=view.name, needed=finding.format_amounts(expected),
            placement=finding.format_amounts(present), compute=compute,
            libvirt=libvirt)


def _make_unread_finding(
        host: str, reason: Exception | str) -> finding.Finding:
    """Return the Finding that a host or a cell cannot be read.

    :param host: name of the host, or "cell NAME"
    :param reason: only its first line counts
    """
    return finding.Finding(
        finding.UNREAD, host=host,
        note='%s.' % host_inventory.format_first_line(reason))
