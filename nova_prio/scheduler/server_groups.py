# SPDX-License-Identifier: Apache-2.0

"""The hosts of the members of a server group, read once for each request.

:mod:`nova_prio.scheduler.failure_domains` explains domains and paths.
"""

import collections
import typing
import weakref

from nova import context as nova_context
from nova.db.api import api
from nova.db.api import models
from nova import objects
from oslo_log import log as logging

from nova_prio.scheduler import failure_domains
from nova_prio.scheduler import failures
from nova_prio.virt import demand

LOG = logging.getLogger(__name__)


class _Members(typing.NamedTuple):
    """The members of the server group of one request, read once."""

    #: Host of each member in the databases.
    hosts: list
    #: Number of hosts in the group of the request spec at that time. For each
    #: instance that Nova places, it appends a host.
    hosts_before: int
    #: Host -> path, of members and of candidates.
    paths: dict


class GroupMembers:
    """The members of the server groups of requests, with their domains.

    Nova asks the weighers again for each instance of a request. Read the
    databases for the first instance. For the next instances, add the hosts
    that Nova has chosen for the previous ones.

    :param keys: keys of aggregate metadata, from the widest level on
    :param same_priority: whether to count only the members whose priority, or
        lack of one, is the same as in the request
    """

    def __init__(self, keys, same_priority):
        """Know no members yet; the class describes the parameters."""
        self._keys = keys
        self._same_priority = same_priority
        # Request spec -> _Members, as long as Nova has the request spec.
        self._members = weakref.WeakKeyDictionary()
        self._warned = set()  # of keys

    def get_paths(self, request_spec, candidates):
        """Return the paths of the candidates and of the members, two lists.

        A path is a tuple of the failure domains of a host, and its last
        element is the host name. The path of a candidate is None if its
        aggregates cannot be read. The requested instance does not count: it is
        no member yet, or leaves its host.

        :param candidates: list of nova.scheduler.host_manager.HostState
        """
        group = request_spec.instance_group
        candidate_paths = [self._get_candidate_path(candidate)
                           for candidate in candidates]
        readable = [path for path in candidate_paths if path is not None]
        # Nova asks once for each instance of a request, with the same object:
        # read the databases only for the first instance. group.hosts does not
        # suffice, because at first it has each host once, whatever the number
        # of its members.
        members = self._members.get(request_spec)
        if members is None:
            members = _Members(hosts=self._read_hosts(request_spec),
                               hosts_before=len(group.hosts), paths={})
            self._members[request_spec] = members
            self._warn_of_unknown_keys(readable)
        # Nova appends the host of each instance that it has placed since then.
        new_hosts = group.hosts[members.hosts_before:]
        hosts = members.hosts + new_hosts
        # Any candidate may get an instance of this request.
        for path in readable:
            host = path[-1]
            members.paths[host] = path
        unknown_hosts = set(hosts).difference(members.paths)
        members.paths.update(self._read_paths(unknown_hosts))
        return candidate_paths, [members.paths[host] for host in hosts]

    def _warn_of_unknown_keys(self, paths):
        """Warn, once, of each key that no host has: it may be mistyped.

        :param paths: list of the paths of the hosts. For each key of aggregate
            metadata, a path has (whether the host has the key, its value).
        """
        for level, key in enumerate(self._keys):
            has_key = False
            for path in paths:
                host_has_key, _ = path[level]
                if host_has_key:
                    has_key = True
            if paths and not has_key and key not in self._warned:
                self._warned.add(key)
                LOG.warning(
                    'None of %(number)d hosts that a member of a server group '
                    'may go to is in an aggregate with the metadata %(key)s, '
                    'of [nova_prio] affinity_domains: each of them is a '
                    'domain of its own.', {'number': len(paths), 'key': key})

    def _read_hosts(self, request_spec):
        """Return the host of each member but the requested instance, a list.

        With the option affinity_same_priority, only members of the same
        priority count. A member without a host, or in a cell of Nova that does
        not answer, is left out.
        """
        others = set(request_spec.instance_group.members)
        others.discard(request_spec.instance_uuid)
        if not others:
            return []
        attributes = ['flavor'] if self._same_priority else []
        # UUID of a cell -> its instances, or a mark that it does not answer.
        answers = nova_context.scatter_gather_skip_cell0(
            nova_context.get_admin_context(),
            objects.InstanceList.get_by_filters,
            {'uuid': sorted(others), 'deleted': False},
            expected_attrs=attributes)
        priority = demand.get_priority(request_spec)
        hosts = []
        for cell, answer in answers.items():
            if nova_context.is_cell_failure_sentinel(answer):
                LOG.warning('Cell %s does not answer; members of a server '
                            'group that are in it do not count.', cell)
                continue
            for instance in answer:
                if instance.host and (
                        not self._same_priority or
                        demand.get_priority(instance) == priority):
                    hosts.append(instance.host)
        return hosts

    def _read_paths(self, hosts):
        """Return the failure domains of hosts, read from the database.

        Without keys of aggregate metadata, the host is its only domain.

        :param hosts: set of host names
        :returns: dict, host -> tuple of its failure domains
        """
        pairs = collections.defaultdict(list)
        if hosts and self._keys:
            for host, key, value in _read_metadata(
                    nova_context.get_admin_context(), self._keys, hosts):
                pairs[host].append((key, value))
        return {host: failure_domains.get_path(host, self._keys, pairs[host])
                for host in hosts}

    def _get_candidate_path(self, host_state):
        """Return the tuple of the failure domains of a host.

        :returns: None after an exception, which is logged
        """
        try:
            metadata = []
            for aggregate in host_state.aggregates:
                metadata.extend(aggregate.metadata.items())
            return failure_domains.get_path(
                host_state.host, self._keys, metadata)
        except Exception:
            failures.log_failure('A server group weigher',
                                 'the host weighs zero', host_state)
            return None


@api.context_manager.reader
def _read_metadata(context, keys, hosts):
    """Return (host, key, value) of all aggregates that the hosts are in.

    nova.objects.AggregateList also reads all other hosts of these aggregates,
    which in a large cloud takes longer than the rest of the request.

    :param keys: list of keys of aggregate metadata
    :param hosts: set of host names
    """
    member, metadata = models.AggregateHost, models.AggregateMetadata
    return context.session.query(
        member.host, metadata.key, metadata.value).join(
        metadata, metadata.aggregate_id == member.aggregate_id).where(
        metadata.key.in_(keys), member.host.in_(hosts)).all()
