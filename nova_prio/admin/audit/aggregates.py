# SPDX-License-Identifier: Apache-2.0

"""Compare the host aggregates of Nova with the aggregates in Placement.

Only host aggregates that restrict requests are compared: the resource provider
of a host may be in other aggregates to share resources.
"""

from __future__ import annotations

from collections import abc
import functools
import typing

from nova import objects

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import repairs
from nova_prio.model import aggregate_metadata

if typing.TYPE_CHECKING:
    from nova import context as nova_context

    from nova_prio.admin.audit import host_view


def read_aggregates(
        context: nova_context.RequestContext) -> list[objects.Aggregate]:
    """Return the host aggregates that restrict requests."""
    return list(filter(aggregate_metadata.restricts_requests,
                       objects.AggregateList.get_all(context)))


def check(view: host_view.HostView,
          aggregates: abc.Collection[objects.Aggregate],
          ) -> abc.Iterator[finding.Finding]:
    """Yield a finding if the aggregates in Nova and in Placement differ.

    :param aggregates: host aggregates that restrict requests
    """
    names = {each.uuid: each.name for each in aggregates}
    expected = {each.uuid for each in aggregates if view.name in each.hosts}
    present = names.keys() & set(view.provider_aggregates)
    if expected == present:
        return
    # The repair must keep the aggregates that do not restrict requests.
    wanted = sorted((set(view.provider_aggregates) - present) | expected)
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
    needed, placement = (
        ', '.join(sorted(names[uuid] for uuid in uuids)) or 'none'
        for uuids in (expected, present))
    yield finding.Finding(
        view.name, 'wrong_aggregates', needed=needed, placement=placement,
        note=' '.join(notes), repair=functools.partial(
            repairs.replace_provider_data, view, 'aggregates',
            view.provider_aggregates, wanted))
