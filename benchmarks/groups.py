# SPDX-License-Identifier: Apache-2.0

"""Compare the weighers of server groups with the weighers of Nova.

The weighers of nova_prio read the hosts of the members from Nova's database,
once for each request. The database is in a file, as in Nova's tests. Nova's
weighers use the instances of each host that nova-scheduler has in memory.
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
from nova_prio.scheduler.weights import group_weighers
from nova_prio_scenario import cloud

#: Policy -> (weigher of Nova, weigher of nova_prio).
WEIGHERS = {
    'soft_affinity': (affinity.ServerGroupSoftAffinityWeigher,
                      group_weighers.SoftAffinityWeigher),
    'soft_anti_affinity': (affinity.ServerGroupSoftAntiAffinityWeigher,
                           group_weighers.SoftAntiAffinityWeigher),
}
#: Name in the figures -> failure domains.
DOMAINS = {'hosts': ['host'], 'domains': ['zone', 'rack', 'host']}
MEMBERS = 1000
#: Instances on each host that are not members, hosts of a rack and of a zone.
OTHERS, RACK, ZONE = 10, 20, 400


def measure(states, repeats):
    """Return the figures of the group weighers.

    ``first`` is the first instance of a request. Only for this instance, the
    weigher of nova_prio reads the hosts of the members.

    :param states: list of HostState; they are not changed
    :raises SystemExit: if the two weighers rank the hosts differently
    """
    # The cloud reads its own configuration.
    nova.conf.CONF.clear()
    with cloud.Cloud.running():
        states = [copy.copy(state) for state in states]
        for state in states:
            state.instances = {str(uuid.uuid4()): None for _ in range(OTHERS)}
        _put_into_aggregates(states)
        members = [_create_member(states[number * len(states) // MEMBERS])
                   for number in range(MEMBERS)]
        hosts = sorted({state.host for state in states
                        if len(state.instances) > OTHERS})
        # Half of the hosts with members are not among the weighed hosts.
        filtered = set(hosts[::2])
        weighed = [weights.WeighedHost(state, 0.0) for state in states
                   if state.host not in filtered]
        found = {}
        for policy, (stock, ours) in WEIGHERS.items():
            spec = request_specs.low().spec
            spec.instance_group = objects.InstanceGroup(
                policy=policy.replace('_', '-'), members=members, hosts=hosts)
            for key, domains in DOMAINS.items():
                nova.conf.CONF.set_override(
                    'affinity_domains', domains, group='nova_prio')
                found.update(_measure_policy(
                    'groups.%s.%s' % (policy, key), stock, ours, weighed,
                    spec, repeats))
    return found


def _measure_policy(key, stock, ours, weighed, group_spec, repeats):
    """Return the figures of one policy with one list of failure domains."""
    def run(weigher_class, first):
        # A copy is a new request: the weigher keeps its state per request.
        spec = copy.copy(group_spec)
        weigher = weigher_class()
        if not first:
            filters.call_as_handler(weigher, weighed, spec)
        return clock.seconds(
            lambda: filters.call_as_handler(weigher, weighed, spec))

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
    rank = {weight: number for number, weight in enumerate(
        sorted(set(found)))}
    return [rank[weight] for weight in found]


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
    """Write all hosts of an aggregate at once; Nova writes one at a time.

    :param context: nova.context.RequestContext; the decorator needs this name
    :param hosts: names of the hosts
    """
    context.session.add_all(
        models.AggregateHost(host=host, aggregate_id=aggregate_id)
        for host in hosts)


def _create_member(state):
    """Create an instance on a host and return its UUID."""
    instance = objects.Instance(
        context.get_admin_context(), uuid=str(uuid.uuid4()), host=state.host,
        user_id='user', project_id='project')
    instance.create()
    state.instances[instance.uuid] = instance
    return instance.uuid
