# SPDX-License-Identifier: Apache-2.0

"""Compare the host aggregates of Nova with their mirror in Placement."""

import functools

from nova import objects

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import repairs
from nova_prio.model import aggregate_metadata


class MirrorCheck:
    """Compares the host aggregates that restrict requests.

    The resource provider of a host may be in other aggregates to share
    resources. These are not compared.
    """

    def __init__(self, context):
        self._context = context
        self._aggregates = None

    def check(self, view):
        """Yield a finding if the aggregates of a HostView differ."""
        for must_read in self._aggregates is None, True:
            if must_read:
                # Hosts join and leave aggregates during the audit.
                self._aggregates = {
                    aggregate.uuid: aggregate for aggregate in
                    objects.AggregateList.get_all(self._context)
                    if aggregate_metadata.restricts_requests(aggregate)}
            expected, present = self._compare(view)
            if expected == present:
                return
        wanted = sorted((set(view.aggregates) - present) | expected)
        notes = []
        if expected - present:
            notes.append('"nova-manage placement sync_aggregates" adds the '
                         'missing aggregates to Placement.')
        if present - expected:
            notes.append(
                '"openstack --os-placement-api-version 1.1 resource provider '
                'aggregate set %s" removes the aggregates that only Placement '
                'has, which "nova-manage placement sync_aggregates" does not.'
                % ' '.join([view.node.uuid,
                            *('--aggregate ' + uuid for uuid in wanted)]))
        yield finding.Finding(
            view.name, finding.WRONG_AGGREGATES, needed=self._names(expected),
            placement=self._names(present), note=' '.join(notes),
            repair=functools.partial(
                repairs.replace_provider_data, view, 'aggregates', wanted))

    def _compare(self, view):
        """Return the UUIDs in Nova and the UUIDs in Placement, two sets."""
        return ({uuid for uuid, aggregate in self._aggregates.items()
                 if view.name in aggregate.hosts},
                self._aggregates.keys() & set(view.aggregates))

    def _names(self, uuids):
        return ', '.join(sorted(
            self._aggregates[uuid].name for uuid in uuids)) or 'none'
