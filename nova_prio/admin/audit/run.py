# SPDX-License-Identifier: Apache-2.0


"""The audit of a cloud, host by host."""

import collections
import functools

from keystoneauth1 import exceptions as ks_exceptions
from nova import exception
from nova import objects

from nova_prio.admin.audit import aggregates
from nova_prio.admin.audit import allocations
from nova_prio.admin.audit import finding
from nova_prio.admin.audit import guests
from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import hosts
from nova_prio.admin.audit import migrations
from nova_prio.admin import host_inventory
from nova_prio.placement import allocations as prio_allocations

_ERRORS = (prio_allocations.PlacementRefused, guests.GuestsUnreadable, exception.NovaException,
           ks_exceptions.ClientException, *host_inventory.DATABASE_ERRORS)


class CloudAudit:
    """Compares what is said of hosts, and mends what does not agree."""

    def __init__(self, context, client, name=None, read_guests=None):
        """Read nothing yet.

        :param context: nova.context.RequestContext
        :param client: nova.scheduler.client.report.SchedulerReportClient
        :param name: name of this host, where it runs guests
        :param read_guests: function without arguments that returns the
            ``guests.Host`` of this host and a list of ``guest_xml.Guest``
        """
        self._context = context
        self._client = client
        self._name = name
        self._read_guests = read_guests
        self._aggregates = aggregates.Aggregates(context)
        # Hosts in the same aggregates share the same disks.
        self._read_disks = functools.cache(host_view.read_shared_disks)

    def run(self, names=None):
        """Look at hosts, one after the other.

        :param names: of those that are asked for, or None for all
        :returns: iterator of (list of Finding, HostView or None)
        :raises nova.exception.HostMappingNotFound: where one is unknown
        """
        if names is not None:
            places = [('', host_view.list_nodes_of_host(self._context, name))
                      for name in dict.fromkeys(names)]
        else:
            places = [('cell %s' % (cell.name or cell.uuid),
                       host_view.list_nodes(self._context, cell))
                      for cell in objects.CellMappingList.get_all(
                          self._context) if not cell.is_cell0()]
        for place, nodes in places:
            try:
                for context, node in nodes:
                    yield self._look_twice(context, node)
            except _ERRORS as error:
                yield [make_unread_finding(place, error)], None

    def _look_twice(self, context, node):
        """Return what is wrong with a host, and the HostView.

        What is wrong is looked at again: services write to Nova and to
        Placement one after the other.
        """
        try:
            found, view = self._look(context, node)
            if found:
                self._read_disks.cache_clear()
                again, view = self._look(
                    context, objects.ComputeNode.get_by_id(context, node.id))
                found = [each for each in again if each in found]
        except _ERRORS as error:
            return [make_unread_finding(node.host, error)], None
        except Exception as error:
            # The others are looked at all the same.
            return [make_unread_finding(node.host, '%s: %s' % (
                type(error).__name__, error))], None
        return found, view

    def _look(self, context, node):
        view = host_view.read_host(
            context, self._client, node, self._read_disks)
        # Repairs are made in this order: some need room that others make.
        found = [*hosts.check(view), *self._aggregates.findings(view),
                 *migrations.check(view),
                 *allocations.check(view, self._context, self._client)]
        if node.host == self._name:
            found += guests.check(self._name, *self._read_guests(), view)
        return found, view

    def mend(self, view, found):
        """Mend what a Finding is about.

        :param view: HostView that it was found in
        :param found: Finding with a repair
        :raises holdings.NotMended: where it could not be mended
        """
        try:
            found.repair(view.context, self._client)
        except _ERRORS as error:
            raise prio_allocations.PlacementRefused(
                str(error).rstrip('.')) from error

    def summary(self, view):
        """Return what is said of a host, side by side, as a Finding.

        :param view: HostView
        """
        needs, held = collections.Counter(), collections.Counter()
        from_volume = prio_allocations.find_volume_backed(
            view.context, view.instances)
        for instance in view.instances:
            needs.update(prio_allocations.get_expected(
                instance, instance.uuid in from_volume))
        for resources in view.held.values():
            held.update(prio_allocations.select_own(resources))
        return finding.Finding(
            view.name, '', needed=finding.format_amounts(needs),
            placement=finding.format_amounts(held),
            compute=finding.format_amounts(view.report.used._asdict())
            if view.report else '',
            libvirt=guests.summarize(*self._read_guests())
            if view.name == self._name else '')


def make_unread_finding(host, error):
    """Return the Finding of a host that cannot be looked at.

    :param error: exception or str that says why
    """
    return finding.Finding(
        host, finding.UNREAD,
        note='%s.' % str(error).strip().splitlines()[0].rstrip('.'))
