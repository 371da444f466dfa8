# SPDX-License-Identifier: Apache-2.0

"""Compare the weighers of server groups with those of Nova.

Our weighers read the hosts of the members from Nova's database, once for each
request. It is in a file, as in Nova's tests. Nova's weighers use the instances
of each host that nova-scheduler already has in memory.
"""

import copy
import uuid

import nova.conf
from nova import context
from nova.db.api import api
from nova.db.api import models
from nova import objects
from nova.scheduler import weights
from nova.scheduler.weights import affinity

from benchmarks import clock
from benchmarks import filters
from benchmarks import request_specs
from nova_prio.scenario import cloud
from nova_prio.scheduler.weights import group_weighers

#: Nova's weigher and ours.
WEIGHERS = {
    'soft_affinity': (affinity.ServerGroupSoftAffinityWeigher,
                      group_weighers.SoftAffinityWeigher),
    'soft_anti_affinity': (affinity.ServerGroupSoftAntiAffinityWeigher,
                           group_weighers.SoftAntiAffinityWeigher),
}
#: Failure domains by the name that they have in the figures.
DOMAINS = {'hosts': ['host'], 'domains': ['zone', 'rack', 'host']}
MEMBERS = 1000
#: Instances of each host beside the members, and hosts of racks and zones.
OTHERS, RACK, ZONE = 10, 20, 400


def measure(states, repeats):
    """Return figures of one weigher with a request of a group.

    ``first`` is the first instance of a request, for which our weigher reads
    the hosts of the members. The other instances need no read.

    :param states: list of HostState, not written to
    :raises SystemExit: if both sides rank the hosts differently
    """
    # The cloud reads its own configuration.
    nova.conf.CONF.clear()
    with cloud.Cloud.running():
        states = [copy.copy(state) for state in states]
        for state in states:
            state.instances = {str(uuid.uuid4()): None for _ in range(OTHERS)}
        _put_into_aggregates(states)
        members = [_member(states[number * len(states) // MEMBERS])
                   for number in range(MEMBERS)]
        hosts = sorted({state.host for state in states
                        if len(state.instances) > OTHERS})
        # Every other host of members takes no further instance.
        closed = set(hosts[::2])
        weighed = [weights.WeighedHost(state, 0.0) for state in states
                   if state.host not in closed]
        found = {}
        for policy, (stock, ours) in WEIGHERS.items():
            spec = request_specs.low().spec
            spec.instance_group = objects.InstanceGroup(
                policy=policy.replace('_', '-'), members=members, hosts=hosts)
            for key, domains in DOMAINS.items():
                nova.conf.CONF.set_override(
                    'affinity_domains', domains, group='nova_prio')
                found.update(_of_policy(
                    'groups.%s.%s' % (policy, key), stock, ours, weighed,
                    spec, repeats))
    return found


def _of_policy(key, stock, ours, weighed, spec_of_all, repeats):
    def run(weigher_class, first):
        # A weigher forgets its state with the request.
        spec = copy.copy(spec_of_all)
        weigher = weigher_class()
        if not first:
            filters.asked_by_handler(weigher, weighed, spec)
        return clock.seconds(
            lambda: filters.asked_by_handler(weigher, weighed, spec))

    found = {}
    for part, first in ('', False), ('.first', True):
        sides = clock.alternate(lambda: run(stock, first),
                                lambda: run(ours, first), repeats)
        if key.endswith('.hosts'):
            ranks = [_ranks(answer) for side in sides
                     for _, (answer, _) in side]
            if any(each != ranks[0] for each in ranks):
                raise SystemExit(
                    '%s and %s rank hosts differently.' % (
                        stock.__name__, ours.__name__))
        found.update(clock.figures(
            key + part, *([seconds for seconds, _ in side]
                          for side in sides), len(weighed)))
    return found


def _ranks(found):
    """Return the rank of each weight among all weights."""
    place = {weight: number for number, weight in enumerate(
        sorted(set(found)))}
    return [place[weight] for weight in found]


def _put_into_aggregates(states):
    """Put hosts, in their order, into aggregates of zones and racks."""
    for key, size in (('zone', ZONE), ('rack', RACK)):
        for number, first in enumerate(range(0, len(states), size)):
            aggregate = objects.Aggregate(
                context.get_admin_context(), name='%s %d' % (key, number))
            aggregate.create()
            aggregate.update_metadata({key: str(number)})
            of_aggregate = states[first:first + size]
            aggregate.hosts = [state.host for state in of_aggregate]
            save_hosts(context.get_admin_context(), aggregate.id,
                       aggregate.hosts)
            for state in of_aggregate:
                state.aggregates = [*state.aggregates, aggregate]


@api.context_manager.writer
def save_hosts(context, aggregate_id, hosts):
    """Write the hosts of an aggregate at once; Nova writes one at a time.

    :param context: nova.context.RequestContext, as the decorator names it
    :param hosts: names of the hosts
    """
    context.session.add_all(
        models.AggregateHost(host=host, aggregate_id=aggregate_id)
        for host in hosts)


def _member(state):
    """Put an instance on a host; returns its UUID."""
    instance = objects.Instance(
        context.get_admin_context(), uuid=str(uuid.uuid4()), host=state.host,
        user_id='user', project_id='project')
    instance.create()
    state.instances[instance.uuid] = instance
    return instance.uuid
