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

    :param host: host name
    :param keys: keys of aggregate metadata, from the widest level on, such as
        zone and rack. A host without a key is a domain of its own on that
        level.
    :param metadata: iterable of (key, value), of all aggregates of the host.
        If a key has several values, all of them together are the domain.
    :returns: for each key (whether the host has the key, its value or the host
        name), and last the host name
    """
    # Key of aggregate metadata -> its values.
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


def rank_hosts(candidates, members, prefers_many):
    """Return the rank of each host; the worst hosts have rank 0.

    Compare hosts by the number of members in their widest domain, then in the
    next domain, and last on the host. Hosts that compare equal have the same
    rank, and the next better hosts have the next rank.

    :param candidates: iterable of the paths of the hosts, all of one length.
        A path is a tuple of the failure domains of a host, such as zone, rack
        and host.
    :param members: iterable of the path of the host of each member, which may
        be no candidate
    :param prefers_many: whether a host with many members is better than one
        with few
    :returns: dict, path of a candidate -> int from 0 on
    """
    # Each beginning of a path stands for one domain. Count its members.
    counts = collections.Counter()
    for path in members:
        for prefix in _list_prefixes(path):
            counts[prefix] += 1
    sign = 1 if prefers_many else -1
    scores = {}
    for path in candidates:
        # A larger score is better, as tuples compare.
        score = [sign * counts[prefix] for prefix in _list_prefixes(path)]
        scores[path] = tuple(score)
    worst_first = sorted(set(scores.values()))
    ranks = {score: rank for rank, score in enumerate(worst_first)}
    return {path: ranks[score] for path, score in scores.items()}


def _list_prefixes(path):
    """Return the beginnings of a path, the shortest first.

    Each identifies one domain: racks of two zones may have the same name.
    """
    return [path[:length] for length in range(1, len(path) + 1)]
