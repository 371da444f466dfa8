# SPDX-License-Identifier: Apache-2.0

"""How well hosts suit a server group that stacks or spreads its members.

A host is in a domain of each level, such as its zone, its rack and itself. Its
path has one element for each level, from the widest to the narrowest. The path
identifies the domain, so that each zone may have a rack 1.
"""

import collections


def get_path(host, keys, metadata):
    """Return the path of a host, a tuple.

    :param host: name of the host, its narrowest domain
    :param keys: keys of aggregate metadata, from the widest level on. Without
        such a key, the host is a domain of its own on that level.
    :param metadata: iterable of (key, value), of all aggregates of the host.
        If these contradict each other, all values together are the domain.
    """
    values = collections.defaultdict(set)
    for key, value in metadata:
        values[key].add(value)
    # A host cannot be mistaken for a domain whose value is its name.
    return (*((True, ','.join(sorted(values[key]))) if key in values
              else (False, host) for key in keys), host)


def rank_hosts(candidates, members, stack):
    """Return for each host the number of ranks above the worst one.

    Hosts are compared by the number of members in their widest domain first,
    then in the next one, and last by their own. Hosts that compare equal have
    the same rank, and no rank is left out.

    :param candidates: list of paths, all of one length
    :param members: iterable of paths: for each member that of its host, which
        need not be a candidate
    :param stack: whether many members are better, or few
    :returns: list of int from 0 on, in the order of the candidates
    """
    there = collections.Counter(
        member[:level] for member in members
        for level in range(1, len(member) + 1))
    sign = 1 if stack else -1
    merits = [tuple(sign * there[candidate[:level]]
                    for level in range(1, len(candidate) + 1))
              for candidate in candidates]
    step = {merit: number for number, merit in enumerate(sorted(set(merits)))}
    return [step[merit] for merit in merits]
