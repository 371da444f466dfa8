# SPDX-License-Identifier: Apache-2.0

"""The rank of hosts for a server group that stacks or spreads its members.

A host is in one failure domain of each level, such as zone, rack and host. The
path of a host is a tuple with one domain per level, from the widest level to
the host. A domain is identified by the path to it, because racks of two zones
may have the same name.
"""

import collections


def get_path(host, keys, metadata):
    """Return the failure domains of a host, a tuple, the widest first.

    The last domain is the host itself.

    :param host: host name
    :param keys: keys of aggregate metadata, from the widest level on. A host
        without a key is a domain of its own on that level.
    :param metadata: iterable of (key, value), of all aggregates of the host.
        If a key has several values, all of them together are the domain.
    """
    values = collections.defaultdict(set)
    for key, value in metadata:
        values[key].add(value)
    domains = []
    for key in keys:
        # The boolean distinguishes a host without a key from a domain whose
        # value is the name of this host.
        if key in values:
            domains.append((True, ','.join(sorted(values[key]))))
        else:
            domains.append((False, host))
    domains.append(host)
    return tuple(domains)


def rank_hosts(candidates, members, stack):
    """Return the rank of each host; the worst hosts have rank 0.

    Compare hosts by the number of members in their widest domain, then in the
    next domain, and last on the host. Hosts that compare equal have the same
    rank, and the next better hosts have the next rank.

    :param candidates: iterable of the paths of the hosts, all of one length
    :param members: iterable of paths, also of hosts that are no candidates
    :param stack: whether many members are better, or few
    :returns: dict, path of a candidate -> int from 0 on
    """
    counts = collections.Counter()
    for member in members:
        counts.update(_list_domains(member))
    sign = 1 if stack else -1
    scores = {}
    for candidate in candidates:
        scores[candidate] = tuple(
            sign * counts[domain] for domain in _list_domains(candidate))
    worst_first = sorted(set(scores.values()))
    ranks = {score: rank for rank, score in enumerate(worst_first)}
    return {candidate: ranks[score] for candidate, score in scores.items()}


def _list_domains(path):
    """Return the path of each domain that a host is in, the widest first."""
    return [path[:level] for level in range(1, len(path) + 1)]
