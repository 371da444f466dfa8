# SPDX-License-Identifier: Apache-2.0

"""The request filter, which restricts requests before Placement is asked.

nova-api folds the priority of an instance: it writes the priority into the
copy of the flavor that Nova stores with the instance
(:mod:`nova_prio.api.priority_fold`). Only a folded priority is in force.

The request filter reads the aggregates for each priority request. For
ordinary requests it reads them once in ``KEEP_SECONDS``: with a real database,
the query is 5 % of the processor time of nova-scheduler. Within these seconds,
an aggregate that now excludes ordinary instances is left to PriorityFilter,
which learns of the change from Nova's notification.
"""

import collections
import functools
import time
import types

from nova import context as nova_context
from nova.db.api import api
from nova.db.api import models
from nova import exception
from nova import objects
from oslo_log import log as logging

from nova_prio.model import aggregate_metadata
from nova_prio.model import flavor_specs
from nova_prio.model import traits
from nova_prio.scheduler import failures

LOG = logging.getLogger(__name__)

#: Maximum age in seconds of the aggregates for ordinary requests.
KEEP_SECONDS = 5


def restrict_request(ctxt, request_spec):
    """Restrict a request to the hosts that may take the instance.

    A priority request requires the trait of this package and the aggregates
    for priority instances. A new ordinary request forbids the aggregates with
    ``priority_ordinary=false``.

    :param request_spec: nova.objects.RequestSpec, written to as Nova's own
        request filters do
    :returns: whether the request was restricted, as Nova expects
    :raises nova.exception.RequestFilterFailed: if there is no aggregate for
        priority instances, or if nova-api did not write the priority of a new
        instance into its flavor
    """
    try:
        return _restrict(ctxt, request_spec)
    except exception.RequestFilterFailed:
        raise
    except Exception as error:
        failures.log_failure('The request filter',
                             'priority instances are refused')
        # Let an instance without a priority pass. nova-api has also written a
        # priority from a hint into this extra spec.
        if flavor_specs.EXTRA_SPEC not in request_spec.flavor.extra_specs:
            return False
        raise exception.RequestFilterFailed(reason=(
            'The request filter of nova-prio failed; see the log of '
            'nova-scheduler.')) from error


def _restrict(ctxt, request_spec):
    """Do the work of :func:`restrict_request`, without handling errors.

    :returns: whether the request was restricted
    """
    priority = flavor_specs.get_priority(request_spec.flavor.extra_specs)
    # This refuses a new instance whose priority is not in its flavor.
    _check_requested_priority(ctxt, request_spec, priority)
    if priority is None:
        # The database is read once for each value of the argument, thus once
        # in KEEP_SECONDS.
        period = time.monotonic() // KEEP_SECONDS
        uuids = find_excluding_ordinary(period)
        # An existing instance without a priority may move to any host.
        if not uuids or not is_new_instance(ctxt, request_spec.instance_uuid):
            return False
        _get_destination(request_spec).append_forbidden_aggregates(set(uuids))
        LOG.debug('Forbade aggregates %s to an ordinary request.',
                  ', '.join(uuids))
        return True
    uuids = _find_aggregates(ctxt, aggregate_metadata.allows_priority)
    if not uuids:
        # Each of the keys suffices. Name priority_mix: clouds may use the
        # other one, priority, for other purposes.
        raise exception.RequestFilterFailed(reason=(
            'No host aggregate has the metadata %s=true, which a '
            '%s-priority instance needs.'
            % (aggregate_metadata.AGGREGATE_KEYS[0], priority)))
    _get_destination(request_spec).require_aggregates(uuids)
    request_spec.root_required.add(traits.CPU_PRIORITY)
    LOG.debug('Restricted a %(priority)s-priority request to aggregates '
              '%(aggregates)s.', {'priority': priority,
                                  'aggregates': ', '.join(uuids)})
    return True


def _check_requested_priority(ctxt, request_spec, priority):
    """Refuse a new instance whose requested priority is not in its flavor.

    Only warn of an existing instance. While the priorities are not enabled,
    nova-api accepts a request for a priority, but does not write (fold) the
    priority into the flavor.

    :param priority: the priority in force, which the flavor has, or None
    """
    uuid = request_spec.instance_uuid
    hint = request_spec.get_scheduler_hint(flavor_specs.HINT)
    # Does the request have a priority that is not written into the flavor?
    if not flavor_specs.is_unfolded(request_spec.flavor.extra_specs, hint):
        return
    if is_new_instance(ctxt, uuid):
        raise exception.RequestFilterFailed(reason=(
            'The instance requests a CPU priority that nova-api did not fold '
            'into its flavor; set [nova_prio] enabled to true for nova-api.'))
    # If another priority is in force, a later resize has decided it.
    if priority is None:
        LOG.warning(
            'The instance was created with a CPU priority that nova-api did '
            'not fold into its flavor; it is moved as an ordinary one.',
            instance_uuid=uuid)


@functools.lru_cache(maxsize=1)
def find_excluding_ordinary(period):
    """Return the UUIDs of the aggregates that exclude ordinary instances.

    These are instances without a priority.

    :param period: number of the period of ``KEEP_SECONDS``; each period reads
        the database once
    """
    return _find_aggregates(nova_context.get_admin_context(),
                            aggregate_metadata.excludes_ordinary)


def _find_aggregates(ctxt, predicate):
    """Return the sorted UUIDs of the aggregates that a predicate accepts.

    :param predicate: function that takes an object with the dict ``metadata``
        and returns a bool
    """
    metadata = collections.defaultdict(dict)
    for uuid, key, value in _read_metadata(ctxt):
        metadata[uuid][key] = value
    accepted = []
    for uuid, pairs in metadata.items():
        # Nova's own Aggregate would need more fields than were read.
        aggregate = types.SimpleNamespace(metadata=pairs)
        if predicate(aggregate):
            accepted.append(uuid)
    return sorted(accepted)


@api.context_manager.reader
def _read_metadata(context):
    """Return (aggregate UUID, key, value) of ``aggregate_metadata.KEYS``.

    These are the keys of aggregate metadata that this package reads.

    nova.objects.AggregateList also reads all hosts of the aggregates, which
    takes 28 ms for 3,000 hosts.
    """
    aggregate, metadata = models.Aggregate, models.AggregateMetadata
    return context.session.query(
        aggregate.uuid, metadata.key, metadata.value).join(
        metadata, metadata.aggregate_id == aggregate.id).where(
        metadata.key.in_(aggregate_metadata.KEYS)).all()


def _get_destination(request_spec):
    """Return the requested destination, which this function adds if needed."""
    if ('requested_destination' not in request_spec or
            request_spec.requested_destination is None):
        request_spec.requested_destination = objects.Destination()
    return request_spec.requested_destination


def is_new_instance(ctxt, instance_uuid):
    """Return whether an instance is being created: no cell has it yet.

    It is also new if Nova does not know it: "nova-prio explain" asks for an
    instance that does not exist.
    """
    try:
        mapping = objects.InstanceMapping.get_by_instance_uuid(
            ctxt, instance_uuid)
    except exception.InstanceMappingNotFound:
        return True
    return mapping.cell_mapping is None
