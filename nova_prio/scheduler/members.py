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
import weakref

from nova import context as nova_context
from nova.db.api import api
from nova.db.api import models
from nova import objects
from oslo_log import log as logging

from nova_prio import policy
from nova_prio.scheduler import domains
from nova_prio.scheduler import failures

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
        self._warned = set()

    def paths(self, request_spec, candidates):
        """Return where an instance may go, and where the members are.

        The instance that is placed is no member yet, or is being moved from
        where it is, and is not counted.

        :param request_spec: nova.objects.RequestSpec with a server group
        :param candidates: list of nova.scheduler.host_manager.HostState
        :returns: paths as of nova_prio.scheduler.domains: a list with one for
            each candidate, None if its aggregates cannot be read, and another
            with one for each member that is on a host, candidate or not
        """
        group = request_spec.instance_group
        to_candidates = list(map(self._path_to, candidates))
        readable = list(filter(None, to_candidates))
        found = self._read.get(request_spec)
        if found is None:
            found = _Found(self._hosts_of(request_spec), len(group.hosts), {})
            self._read[request_spec] = found
            self._warn_of_unknown_keys(readable)
        hosts = [*found.hosts, *group.hosts[found.hosts_before:]]
        # Any candidate may get an instance of this request.
        found.paths.update((path[-1], path) for path in readable)
        found.paths.update(self._paths_to(set(hosts).difference(found.paths)))
        return to_candidates, [found.paths[host] for host in hosts]

    def _warn_of_unknown_keys(self, paths):
        """Warn, once, of each key that no host has: it may be mistyped."""
        for key, domains_of_key in zip(self._keys, zip(*paths)):
            if key not in self._warned and not any(
                    is_value for is_value, _ in domains_of_key):
                self._warned.add(key)
                LOG.warning(
                    'None of %(number)d hosts that a member of a server group '
                    'may go to is in an aggregate with the metadata %(key)s, '
                    'of [nova_prio] affinity_domains: each of them is a '
                    'domain of its own.', {'number': len(paths), 'key': key})

    def _hosts_of(self, request_spec):
        """Return the host of each member, from all cells that answer."""
        others = set(request_spec.instance_group.members)
        others.discard(request_spec.instance_uuid)
        if not others:
            return []
        wanted = ['flavor'] if self._same_priority else []
        answers = nova_context.scatter_gather_skip_cell0(
            nova_context.get_admin_context(),
            objects.InstanceList.get_by_filters,
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

    def _paths_to(self, hosts):
        """Return dict, host -> path, of hosts that are no candidates."""
        pairs = collections.defaultdict(list)
        if hosts and self._keys:
            for host, *pair in _read_metadata(
                    nova_context.get_admin_context(), self._keys, hosts):
                pairs[host].append(pair)
        return {host: self._path(host, pairs[host]) for host in hosts}

    def _path_to(self, state):
        """Return the path of a candidate; None if it cannot be read."""
        try:
            return self._path(state.host, (
                (key, aggregate.metadata[key])
                for aggregate in state.aggregates
                for key in self._keys if key in aggregate.metadata))
        except Exception:
            failures.log('A server group weigher', 'the host weighs zero',
                         state)
            return None

    def _path(self, host, pairs):
        """Return the path of a host.

        Where its aggregates contradict each other, all values of a key
        together are the domain.

        :param pairs: iterable of (key, value), of all aggregates of the host
        """
        values = collections.defaultdict(set)
        for key, value in pairs:
            values[key].add(value)
        return domains.path(host, self._keys, {
            key: ','.join(sorted(found)) for key, found in values.items()})


_Found = collections.namedtuple('_Found', 'hosts hosts_before paths')


@api.context_manager.reader
def _read_metadata(context, keys, hosts):
    """Return (host, key, value) of all aggregates that hosts are in.

    Nova's objects would bring all other hosts of these aggregates too, which
    in a large cloud takes longer than all the rest of the request.
    """
    of_host, of_metadata = models.AggregateHost, models.AggregateMetadata
    return context.session.query(
        of_host.host, of_metadata.key, of_metadata.value).join(
        of_metadata, of_metadata.aggregate_id == of_host.aggregate_id).filter(
        of_metadata.key.in_(keys), of_host.host.in_(hosts)).all()
