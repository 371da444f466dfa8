# SPDX-License-Identifier: Apache-2.0

"""Compare the request filter with a request filter of Nova.

Both read aggregates from Nova's own database in a file, as in Nova's tests.
Nova's filter restricts the requests of a project to its aggregates, and also
reads all hosts of these aggregates. The filter of nova_prio restricts priority
requests to the priority aggregates. It forbids aggregates to new ordinary
requests, and reads whether an instance is new.
"""

import uuid

import nova.conf
from nova import context
from nova import objects
from nova.scheduler import request_filter

from benchmarks import clock
from benchmarks import groups
from benchmarks import request_specs
from nova_prio.model import aggregate_metadata
from nova_prio.scheduler import request_filter as prio_request_filter
from nova_prio_scenario import cloud


def measure(hosts=3000, repeats=5, number=20, aggregates=1):
    """Return figures of one request, with all hosts in some aggregates.

    :param hosts: number of hosts
    :param repeats: number of measurements of each filter
    :param number: number of requests in one measurement
    :param aggregates: number of aggregates, each with as many of the hosts
    :raises SystemExit: if a filter does not change a request
    """
    # The cloud reads its own configuration.
    nova.conf.CONF.clear()
    with cloud.Cloud.running():
        nova.conf.CONF.set_override(
            'limit_tenants_to_placement_aggregate', True, group='scheduler')
        found = {'request_filter.hosts': hosts}
        for request in request_specs.low(), request_specs.ordinary():
            admin = context.get_admin_context()
            request.spec.instance_uuid = str(uuid.uuid4())
            request.spec.project_id = str(uuid.uuid4())
            objects.InstanceMapping(
                admin, instance_uuid=request.spec.instance_uuid,
                project_id=request.spec.project_id, user_id='user',
                cell_mapping=None).create()
            for aggregate in range(aggregates):
                name = '%s-%d' % (request.key, aggregate)
                _create_aggregate(admin, hosts // aggregates, name, {
                    'filter_tenant_id': request.spec.project_id,
                    aggregate_metadata.AGGREGATE_KEYS[0]: 'true',
                    aggregate_metadata.ORDINARY_KEY: 'false'})

            def run(restrict):
                specs = [request.spec.obj_clone() for _ in range(number)]
                seconds, answers = clock.seconds(lambda: [
                    restrict(context.get_admin_context(), spec)
                    for spec in specs])
                if not all(answers):
                    raise SystemExit('%s does not change a request of class '
                                     '%s.' % (restrict, request.key))
                return seconds

            found.update(clock.figures(
                'request_filter.' + request.key, *clock.alternate(
                    lambda: run(request_filter.require_tenant_aggregate),
                    lambda: run(_restrict_as_first),
                    repeats), number))
    return found


def _restrict_as_first(ctxt, spec):
    """Restrict a request that is the first one in ``KEEP_SECONDS``."""
    prio_request_filter.find_excluding_ordinary.cache_clear()
    return prio_request_filter.restrict_request(ctxt, spec)


def _create_aggregate(admin, hosts, name, metadata):
    aggregate = objects.Aggregate(admin, name=name, metadata=metadata)
    aggregate.create()
    groups.save_hosts(admin, aggregate.id,
                      ['%s-%d' % (name, number) for number in range(hosts)])
