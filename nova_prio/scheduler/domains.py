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

"""How well hosts suit a server group whose members are to stack or to spread.

Pure. A host is in a domain of each level, such as its zone, its rack and
itself; its path has one element for each level, from the widest to the
narrowest. A domain is told from others by the path that leads to it, so that
each zone may have a rack 1.
"""

import collections


def path(host, keys, metadata):
    """Return the path of a host.

    :param host: name of the host, its narrowest domain
    :param keys: keys of aggregate metadata, from the widest level on
    :param metadata: dict, key -> value, of the aggregates of the host; where
        a key is missing, the host is a domain of its own on that level
    :returns: tuple
    """
    # A host cannot be mistaken for a domain whose value is its name.
    return (*((True, metadata[key]) if key in metadata else (False, host)
              for key in keys), host)


def steps(candidates, members, stack):
    """Return how many steps each host is better than the worst of them.

    Hosts are compared by the members in their widest domain first, where
    these are as many by those in the next, and last by their own. Hosts that
    compare equal are on the same step, and no step is left out.

    :param candidates: list of paths, all of one length
    :param members: iterable of the paths of the hosts that the members are
        on, one for each member; hosts need not be among the candidates
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
