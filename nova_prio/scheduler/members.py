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

"""Where the members of a server group are, read once for each request."""

import collections
import itertools
import weakref

from nova import context as nova_context
from nova import objects
from oslo_log import log as logging

from nova_prio import policy
from nova_prio.scheduler import domains

LOG = logging.getLogger(__name__)


class Members:
    """Gives the members of the group that a request is about.

    Nova asks the weighers anew for each instance of a request; the databases
    are read for the first one, and what the request has placed since is
    added.
    """

    def __init__(self, keys, same_priority):
        """Prepare for requests.

        :param keys: keys of aggregate metadata, from the widest level on
        :param same_priority: whether only members count that have the
            priority of the request, or like it none
        """
        self._keys = keys
        self._same_priority = same_priority
        self._read = weakref.WeakKeyDictionary()

    def paths(self, request_spec):
        """Return the paths of the hosts that the members are on.

        The instance that is placed is no member yet, or is being moved from
        where it is, and is not counted.

        :param request_spec: nova.objects.RequestSpec with a server group
        :returns: list of paths as of nova_prio.scheduler.domains, one for
            each member that is on a host
        """
        group = request_spec.instance_group
        found = self._read.get(request_spec)
        if found is None:
            context = nova_context.get_admin_context()
            hosts = self._hosts_of(context, request_spec)
            found = _Found(hosts, len(group.hosts),
                           self._metadata_by_host(context))
            self._read[request_spec] = found
        placed = group.hosts[found.hosts_before:]
        return [domains.path(host, self._keys, found.metadata[host])
                for host in itertools.chain(found.hosts, placed)]

    def path(self, host_state):
        """Return the path of a host that the instance may be placed on."""
        return domains.path(host_state.host, self._keys, _metadata(
            self._keys, host_state.aggregates))

    def _hosts_of(self, context, request_spec):
        """Return the host of each member, from all cells that answer."""
        others = set(request_spec.instance_group.members)
        others.discard(request_spec.instance_uuid)
        if not others:
            return []
        wanted = ['flavor'] if self._same_priority else []
        answers = nova_context.scatter_gather_skip_cell0(
            context, objects.InstanceList.get_by_filters,
            {'uuid': sorted(others), 'deleted': False}, expected_attrs=wanted)
        hosts = []
        for cell, answer in answers.items():
            if nova_context.is_cell_failure_sentinel(answer):
                LOG.warning('Cell %s does not answer; members of a server '
                            'group that are in it do not count.', cell)
                continue
            hosts.extend(
                instance.host for instance in answer
                if instance.host and self._counts(instance, request_spec))
        return hosts

    def _counts(self, instance, request_spec):
        return not self._same_priority or (
            policy.in_force(instance.flavor.extra_specs) ==
            policy.in_force(request_spec.flavor.extra_specs))

    def _metadata_by_host(self, context):
        """Return the metadata of all hosts: any may get a member yet."""
        aggregates = collections.defaultdict(list)
        for key in self._keys:
            for aggregate in objects.AggregateList.get_by_metadata_key(
                    context, key):
                for host in aggregate.hosts:
                    aggregates[host].append(aggregate)
        return collections.defaultdict(dict, {
            host: _metadata(self._keys, found)
            for host, found in aggregates.items()})


_Found = collections.namedtuple('_Found', 'hosts hosts_before metadata')


def _metadata(keys, aggregates):
    """Return the values that aggregates have for the keys.

    Where they contradict each other, all values together are the domain.
    """
    found = {}
    for key in keys:
        values = sorted({aggregate.metadata[key] for aggregate in aggregates
                         if key in aggregate.metadata})
        if values:
            found[key] = ','.join(values)
    return found
