# SPDX-License-Identifier: Apache-2.0

"""Placement's mirror of the host aggregates, against those of Nova."""

import functools

from nova import objects

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import repairs
from nova_prio.model import aggregate_metadata


class Aggregates:
    """Compares the host aggregates that restrict requests with Placement."""

    def __init__(self, context):
        """Read nothing yet.

        :param context: nova.context.RequestContext, of no cell
        """
        self._context = context
        self._known = None

    def findings(self, view):
        """Yield a finding if the aggregates of a host differ.

        Other aggregates are not compared: the provider may be in them to share
        resources, and this package does not ask for them.

        :param view: HostView
        """
        if self._known is None or self._differ(view):
            # Hosts join and leave aggregates while others are audited.
            self._known = {
                aggregate.uuid: aggregate for aggregate in
                objects.AggregateList.get_all(self._context)
                if aggregate_metadata.restricts_requests(aggregate)}
        if not self._differ(view):
            return
        wanted, there = self._of_nova(view), self._of_placement(view)
        after = sorted((set(view.aggregates) - there) | wanted)
        notes = []
        if wanted - there:
            notes.append('"nova-manage placement sync_aggregates" adds what '
                         'is missing in Placement.')
        if there - wanted:
            notes.append(
                '"openstack --os-placement-api-version 1.1 resource provider '
                'aggregate set %s" removes what is in Placement alone, which '
                '"nova-manage placement sync_aggregates" does not.' % ' '.join(
                    [view.node.uuid,
                     *('--aggregate ' + uuid for uuid in after)]))
        yield finding.Finding(
            view.name, finding.WRONG_AGGREGATES, needed=self._names(wanted),
            placement=self._names(there), note=' '.join(notes),
            repair=functools.partial(
                repairs.replace_provider_data, view.node.uuid, 'aggregates',
                view.aggregates, after))

    def _differ(self, view):
        return self._of_nova(view) != self._of_placement(view)

    def _of_nova(self, view):
        return {uuid for uuid, aggregate in self._known.items()
                if view.name in aggregate.hosts}

    def _of_placement(self, view):
        return self._known.keys() & set(view.aggregates)

    def _names(self, uuids):
        return ', '.join(sorted(
            self._known[uuid].name for uuid in uuids)) or 'none'
