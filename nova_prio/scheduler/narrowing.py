# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Which hosts a request is kept to, or from, before Placement is asked.

The aggregates are read for each request, in one query without their hosts.
They are not kept between requests, because an answer that is out of date can
misplace an instance. Nova notifies the schedulers of a change after its API
has answered, and a notification can be late or lost. Until it arrives,
``host_state.aggregates`` is out of date, too, and a forced host skips the
filters: nothing after the request filter would notice that

* an aggregate is no longer marked for priority instances, or
* an aggregate keeps ordinary instances off from now on.

With a fresh answer here, a late notification can only lead to a refusal:
PriorityFilter refuses the hosts of an aggregate that is newly marked, or that
admits ordinary instances again, until it is notified.
"""

import collections
import typing

from nova.db.api import api
from nova.db.api import models
from nova import exception
from nova import objects
from oslo_log import log as logging

from nova_prio import policy
from nova_prio import priority_hosts
from nova_prio.scheduler import failures

LOG = logging.getLogger(__name__)


class _Aggregate(typing.NamedTuple):
    """UUID and metadata of an aggregate, as ``priority_hosts`` reads them."""

    uuid: str
    metadata: dict


def narrow(ctxt, request_spec):
    """Narrow a request to the hosts that may take it, for Nova's scheduler.

    It runs before Placement is asked, for forced hosts too. The allocation
    candidates of a priority request then come from hosts with our driver that
    are in an aggregate for priority instances, however many other hosts there
    are; those of a new ordinary instance from hosts in no aggregate that
    keeps such instances off.

    :param ctxt: nova.context.RequestContext
    :param request_spec: nova.objects.RequestSpec; the required trait and
        aggregates are added to it, as Nova's own request filters do
    :returns: whether the request was narrowed
    :raises nova.exception.RequestFilterFailed: where there is no aggregate
        for priority instances, or where a new instance asks for a priority
        that nova-api did not fold into its flavor
    """
    try:
        return _narrow(ctxt, request_spec)
    except exception.RequestFilterFailed:
        raise
    except Exception as error:
        failures.log('The request filter', 'priority instances are refused')
        if policy.EXTRA_SPEC not in request_spec.flavor.extra_specs:
            return False
        raise exception.RequestFilterFailed(reason=(
            'The request filter of nova-prio failed; see the log of '
            'nova-scheduler.')) from error


def _narrow(ctxt, request_spec):
    extra_specs = request_spec.flavor.extra_specs
    priority = policy.in_force(extra_specs)
    if policy.is_unfolded(
            extra_specs, request_spec.get_scheduler_hint(policy.HINT)):
        _check_unfolded(ctxt, request_spec, priority)
    if priority is None:
        return _keep_ordinary_off(ctxt, request_spec)
    uuids = {aggregate.uuid for aggregate in _aggregates(ctxt)
             if priority_hosts.is_marked(aggregate)}
    if not uuids:
        raise exception.RequestFilterFailed(reason=(
            "No host aggregate has the metadata %s=true, which a "
            "%s-priority instance needs."
            % (priority_hosts.AGGREGATE_KEYS[0], priority)))
    _destination(request_spec).require_aggregates(sorted(uuids))
    request_spec.root_required.add(priority_hosts.TRAIT)
    LOG.debug('Narrowed a %(priority)s-priority request to aggregates '
              '%(aggregates)s.', {'priority': priority,
                                  'aggregates': ', '.join(sorted(uuids))})
    return True


def _keep_ordinary_off(ctxt, request_spec):
    uuids = {aggregate.uuid for aggregate in _aggregates(ctxt)
             if priority_hosts.keeps_ordinary_off(aggregate)}
    if not uuids or not is_new(ctxt, request_spec.instance_uuid):
        return False
    _destination(request_spec).append_forbidden_aggregates(uuids)
    LOG.debug('Kept an ordinary request off aggregates %s.',
              ', '.join(sorted(uuids)))
    return True


def _aggregates(ctxt):
    """Return a list of the _Aggregates that have metadata of ours."""
    metadata = collections.defaultdict(dict)
    for uuid, key, value in _read_metadata(ctxt):
        metadata[uuid][key] = value
    return [_Aggregate(*each) for each in metadata.items()]


@api.context_manager.reader
def _read_metadata(context):
    """Return (UUID, key, value) of the metadata of ours of all aggregates.

    Nova's objects would read all hosts of the aggregates, too, which takes
    28 ms for 3,000 hosts.
    """
    aggregate, metadata = models.Aggregate, models.AggregateMetadata
    return context.session.query(
        aggregate.uuid, metadata.key, metadata.value).join(
        metadata, metadata.aggregate_id == aggregate.id).filter(
        metadata.key.in_(priority_hosts.KEYS)).all()


def _destination(request_spec):
    if ('requested_destination' not in request_spec or
            request_spec.requested_destination is None):
        request_spec.requested_destination = objects.Destination()
    return request_spec.requested_destination


def is_new(ctxt, instance_uuid):
    """Return whether an instance is being created: no cell has it yet.

    :param ctxt: nova.context.RequestContext
    """
    return objects.InstanceMapping.get_by_instance_uuid(
        ctxt, instance_uuid).cell_mapping is None


def _check_unfolded(ctxt, request_spec, priority):
    """Refuse a new instance; say of an older one that it is ordinary."""
    if is_new(ctxt, request_spec.instance_uuid):
        raise exception.RequestFilterFailed(reason=(
            "The instance asks for a CPU priority that nova-api did not fold "
            "into its flavor; set [nova_prio] enabled to true for nova-api."))
    if priority is None:
        LOG.warning(
            'The instance was created with a CPU priority that nova-api did '
            'not fold into its flavor; it is moved as an ordinary one.',
            instance_uuid=request_spec.instance_uuid)
