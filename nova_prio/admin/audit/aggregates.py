# SPDX-License-Identifier: Apache-2.0

"""Compare the host aggregates of Nova with the aggregates in Placement.

Only host aggregates that restrict requests are compared: the resource provider
of a host may be in other aggregates to share resources.
"""

import functools

from nova import objects

from nova_prio.admin.audit import finding
from nova_prio.admin.audit import repairs
from nova_prio.model import aggregate_metadata


def read_aggregates(context):
    """Return the host aggregates that restrict requests, a list."""
    return list(filter(aggregate_metadata.restricts_requests,
                       objects.AggregateList.get_all(context)))


def check(view, aggregates):
    """Yield a finding if the aggregates in Nova and in Placement differ.

    :param view: HostView
    :param aggregates: list of nova.objects.Aggregate that restrict requests
    """
    names = {each.uuid: each.name for each in aggregates}
    expected = {each.uuid for each in aggregates if view.name in each.hosts}
    present = names.keys() & set(view.aggregates)
    if expected == present:
        return
    # The repair must keep the aggregates that do not restrict requests.
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
    needed, placement = (
        ', '.join(sorted(names[uuid] for uuid in uuids)) or 'none'
        for uuids in (expected, present))
    yield finding.Finding(
        view.name, 'wrong_aggregates', needed=needed, placement=placement,
        note=' '.join(notes), repair=functools.partial(
            repairs.replace_provider_data, view, 'aggregates', wanted))
