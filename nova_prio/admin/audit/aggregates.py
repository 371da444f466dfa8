# SPDX-License-Identifier: Apache-2.0

"""Compare the host aggregates of Nova with the aggregates in Placement.

Only host aggregates that restrict requests are compared: the resource provider
of a host may be in other aggregates to share resources.
"""

from __future__ import annotations

from collections import abc
import functools

from nova import context as nova_context
from nova import objects

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import host_view
from nova_prio.admin.audit import repairs
from nova_prio.model import aggregate_metadata


def read_aggregates(
        context: nova_context.RequestContext) -> list[objects.Aggregate]:
    """Return the host aggregates that restrict requests."""
    return [each for each in objects.AggregateList.get_all(context)
            if aggregate_metadata.restricts_requests(each)]


def check(view: host_view.HostView,
          aggregates: abc.Collection[objects.Aggregate]) -> finding.Findings:
    """Yield a finding if the aggregates in Nova and in Placement differ.

    Only the given aggregates are compared. In Placement, the host may be in
    others, by which it shares resources with other providers.

    :param aggregates: the host aggregates whose metadata restrict which
        instances their hosts take
    """
    names = {each.uuid: each.name for each in aggregates}
    # UUIDs of the compared aggregates of the host, in Nova and in Placement.
    expected = {each.uuid for each in aggregates if view.name in each.hosts}
    present = names.keys() & set(view.provider_aggregates)
    if expected == present:
        return
    # The repair replaces all aggregates of the host in Placement, so it must
    # keep those that are not compared.
    wanted = sorted((set(view.provider_aggregates) - present) | expected)
    notes = []
    if expected - present:
        notes.append('"nova-manage placement sync_aggregates" adds the '
                     'missing aggregates to Placement.')
    if present - expected:
        arguments = [view.node.uuid]
        arguments += ['--aggregate ' + uuid for uuid in wanted]
        notes.append(
            '"openstack --os-placement-api-version 1.1 resource provider '
            'aggregate set %s" removes the aggregates that only Placement '
            'has, which "nova-manage placement sync_aggregates" does not.'
            % ' '.join(arguments))
    repair = functools.partial(
        repairs.replace_provider_data, view, 'aggregates',
        view.provider_aggregates, wanted)
    yield finding.Finding(
        'wrong_aggregates', needed=_join(expected, names),
        placement=_join(present, names), note=' '.join(notes), repair=repair)


def _join(uuids: abc.Iterable[str], names: dict[str, str]) -> str:
    """Return the names of aggregates as a text.

    :param names: UUID of an aggregate -> its name
    """
    return ', '.join(sorted(names[uuid] for uuid in uuids)) or 'none'
