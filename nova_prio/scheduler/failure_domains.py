# SPDX-License-Identifier: Apache-2.0

"""The rank of hosts for a server group that stacks or spreads its members.

A host is in one failure domain of each level, such as zone, rack and host. The
path of a host has one element per level, from the widest to the narrowest.
The path identifies the domain, so that each zone may have a rack 1.
"""

import collections


def get_path(host, keys, metadata):
    """Return the path of a host, a tuple.

    :param keys: keys of aggregate metadata, from the widest level on. A host
        without a key is a domain of its own on that level.
    :param metadata: iterable of (key, value), of all aggregates of the host.
        If a key has several values, all of them together are the domain.
    """
    values = collections.defaultdict(set)
    for key, value in metadata:
        values[key].add(value)
    # The boolean tells a host from a domain whose value is its name.
    return (*((True, ','.join(sorted(values[key]))) if key in values
              else (False, host) for key in keys), host)


def rank_hosts(candidates, members, stack):
    """Return the number of ranks that each host is above the worst host.

    Compare hosts by the number of members in their widest domain, then in the
    next one, and last on the host. Hosts that compare equal have the same
    rank, and no rank is left out.

    :param candidates: list of paths, all of one length
    :param members: iterable of paths, also of hosts that are no candidates
    :param stack: whether many members are better, or few
    :returns: list of int from 0 on, in the order of the candidates
    """
    counts = collections.Counter(
        member[:level] for member in members
        for level in range(1, len(member) + 1))
    sign = 1 if stack else -1
    merits = [tuple(sign * counts[candidate[:level]]
                    for level in range(1, len(candidate) + 1))
              for candidate in candidates]
    ranks = {merit: rank for rank, merit in enumerate(sorted(set(merits)))}
    return [ranks[merit] for merit in merits]
