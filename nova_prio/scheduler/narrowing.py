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

"""Which hosts a request is kept to, or from, before Placement is asked."""

from dogpile import cache
from nova import exception
from nova import objects
from oslo_log import log as logging

from nova_prio import policy
from nova_prio import priority_hosts

LOG = logging.getLogger(__name__)

#: The aggregates that keep ordinary instances off: each ordinary request needs
#: them, and most clouds have none. Nova tells of each change; a message of it
#: that is lost, or comes while they are read, is made up for by the time.
KEEPING_OFF = cache.make_region().configure(
    'dogpile.cache.memory', expiration_time=60)


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
    extra_specs = request_spec.flavor.extra_specs
    priority = policy.in_force(extra_specs)
    if policy.is_unfolded(
            extra_specs, request_spec.get_scheduler_hint(policy.HINT)):
        _check_unfolded(ctxt, request_spec, priority)
    if priority is None:
        return _keep_ordinary_off(ctxt, request_spec)
    uuids = {aggregate.uuid
             for key in priority_hosts.AGGREGATE_KEYS
             for aggregate in objects.AggregateList.get_by_metadata(
                 ctxt, key=key)
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
    uuids = KEEPING_OFF.get_or_create('uuids', lambda: {
        aggregate.uuid for aggregate in objects.AggregateList.get_by_metadata(
            ctxt, key=priority_hosts.ORDINARY_KEY)
        if priority_hosts.keeps_ordinary_off(aggregate)})
    if not uuids or not _is_new(ctxt, request_spec):
        return False
    _destination(request_spec).append_forbidden_aggregates(uuids)
    LOG.debug('Kept an ordinary request off aggregates %s.',
              ', '.join(sorted(uuids)))
    return True


def _destination(request_spec):
    if ('requested_destination' not in request_spec or
            request_spec.requested_destination is None):
        request_spec.requested_destination = objects.Destination()
    return request_spec.requested_destination


def _is_new(ctxt, request_spec):
    """Return whether the instance is being created: no cell has it yet."""
    return objects.InstanceMapping.get_by_instance_uuid(
        ctxt, request_spec.instance_uuid).cell_mapping is None


def _check_unfolded(ctxt, request_spec, priority):
    """Refuse a new instance; say of an older one that it is ordinary."""
    if _is_new(ctxt, request_spec):
        raise exception.RequestFilterFailed(reason=(
            "The instance asks for a CPU priority that nova-api did not fold "
            "into its flavor; set [nova_prio] enabled to true for nova-api."))
    if priority is None:
        LOG.warning(
            'The instance was created with a CPU priority that nova-api did '
            'not fold into its flavor; it is moved as an ordinary one.',
            instance_uuid=request_spec.instance_uuid)
