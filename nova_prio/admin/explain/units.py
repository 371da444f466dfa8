# SPDX-License-Identifier: Apache-2.0

"""How many equal new instances fit on hosts.

As for a request for several instances, Nova's host states, and copies of the
free amounts of Placement, take one instance after the other.
"""

from __future__ import annotations

import collections
from collections import abc
import typing

from nova_prio.admin.explain import candidates
from nova_prio.admin.explain import copies

if typing.TYPE_CHECKING:
    from nova import objects
    from nova.scheduler import host_manager

    from nova_prio.admin.explain import judge

#: Most instances that are counted on one host.
MOST = 1000


class Units(typing.NamedTuple):
    """The instances that fit on each host if the other hosts take none.

    ``taken`` is name of a host -> the allocation request of each instance,
    without the hosts that do not pass. ``free`` are the free amounts of
    Placement before these instances.
    """

    taken: abc.Mapping[str, list[candidates.Candidate]]
    free: candidates.Amounts

    def count(self, hosts: abc.Iterable[str]) -> int:
        """Return how many instances fit on some hosts together.

        This may be less than the sum of the hosts: they may share a provider,
        such as one of disks.

        :param hosts: names of hosts; one that does not pass takes none
        """
        # ``taken`` is name of a host -> the allocation request of each of the
        # instances that fit there if the other hosts take none.
        # Writes to this map leave self.free as it is.
        free = collections.ChainMap(candidates.Amounts(), self.free)
        number = 0
        for host in hosts:
            for candidate in self.taken.get(host, ()):
                if candidates.select([candidate], free):
                    candidates.take(candidate, free)
                    number += 1
        return number


def find(the_judge: judge.Judge, spec: objects.RequestSpec) -> Units:
    """Find the instances of a request that fit on each host.

    :param the_judge: decides about each host with the code of nova-scheduler
    :param spec: request for one instance
    """
    decision = the_judge.decide(spec)
    # Name of a host -> the allocation request of each of its instances.
    taken = {}
    for state in decision.passing:
        # The instances of one host take from a copy of the free amounts.
        free = dict(decision.placement.free)
        # The filters run again for each instance. So that this ends in time,
        # count no more than MOST instances.
        taken[the_judge.get_name(state)] = _fill_host(
            the_judge, state, spec, free, MOST)
    return Units(taken, decision.placement.free)


def place(the_judge: judge.Judge, spec: objects.RequestSpec, number: int,
          ) -> dict[str, int]:
    """Return on which hosts a number of instances fit together.

    :param the_judge: decides about each host with the code of nova-scheduler
    :param spec: request for one of the instances
    :returns: name of a host -> number; the sum is smaller than ``number`` if
        not all of them fit
    """
    decision = the_judge.decide(spec)
    # (UUID of a provider, resource class) -> free amount. _fill_host subtracts
    # from it in place, so that the hosts together take no more.
    free = decision.placement.free
    found: dict[str, int] = {}
    for state in decision.passing:
        left = number - sum(found.values())
        # Instances on earlier hosts may have taken the disk that these hosts
        # share with this one.
        if left and candidates.select(state.allocation_candidates, free):
            found[the_judge.get_name(state)] = len(_fill_host(
                the_judge, state, spec, free, left))
    return found


def _fill_host(the_judge: judge.Judge, state: host_manager.HostState,
               spec: objects.RequestSpec, free: candidates.Amounts,
               most: int) -> list[candidates.Candidate]:
    """Put instances on a host while they fit.

    :param state: the host, on which the first instance passes the filters. It
        is changed in place, as ``free`` is.
    :param free: the free amounts of Placement, from which the amounts of the
        instances are subtracted
    :param most: maximum number of instances
    :returns: the allocation request of each instance
    """
    taken: list[candidates.Candidate] = []
    while len(taken) < most:
        # Keep the candidates for which the earlier instances left enough.
        state.allocation_candidates = candidates.select(
            state.allocation_candidates, free)
        # nova-scheduler runs the filters again for each further instance.
        if taken and not all(
                the_judge.hosts.run_filter(each, [state], spec,
                                           index=len(taken))
                for each in the_judge.hosts.enabled_filters):
            break
        if not state.allocation_candidates:
            break
        candidate = state.allocation_candidates[0]
        candidates.take(candidate, free)
        # Let the state take the instance. Unlike Nova's method, this leaves
        # the request as it is, for the next instance.
        copies.consume(state, spec, candidate)
        taken.append(candidate)
    return taken
