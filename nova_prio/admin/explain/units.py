# SPDX-License-Identifier: Apache-2.0

"""How many equal new instances fit on each host.

As for a request for several instances, Nova's host states, and copies of the
free amounts of Placement, take one instance after the other.
"""

from __future__ import annotations

import typing

from nova_prio.admin.explain import candidates
from nova_prio.admin.explain import copies

if typing.TYPE_CHECKING:
    from nova import objects
    from nova.scheduler import host_manager

    from nova_prio.admin.explain import judge

#: Most instances that are counted on one host.
MOST = 1000


def count(the_judge: judge.Judge, spec: objects.RequestSpec,
          ) -> dict[str, int]:
    """Return how many instances fit on each host if the others take none.

    :param the_judge: decides about each host with the code of nova-scheduler
    :returns: name of a host -> number, without zeros
    """
    decision = the_judge.decide(spec)
    found = {}
    for state in decision.passing:
        free = dict(decision.placement.free)
        found[the_judge.get_name(state)] = _fill_host(
            the_judge, state, spec, free, MOST)
    return found


def place(the_judge: judge.Judge, spec: objects.RequestSpec, number: int,
          ) -> dict[str, int]:
    """Return on which hosts a number of instances fit together.

    :param the_judge: decides about each host with the code of nova-scheduler
    :returns: name of a host -> number; the sum is smaller than ``number`` if
        not all of them fit
    """
    decision = the_judge.decide(spec)
    free = decision.placement.free
    found: dict[str, int] = {}
    for state in decision.passing:
        left = number - sum(found.values())
        # Earlier hosts may have taken what they share with this one: disk.
        if left and candidates.select(state.allocation_candidates, free):
            found[the_judge.get_name(state)] = _fill_host(
                the_judge, state, spec, free, left)
    return found


def _fill_host(the_judge: judge.Judge, state: host_manager.HostState,
               spec: objects.RequestSpec, free: candidates.Amounts,
               most: int) -> int:
    """Put instances on a host while they fit; return their number.

    :param state: the host, on which the first instance passes the filters
    :param free: the free amounts of Placement, from which the instances take
    :param most: maximum number of instances
    """
    number = 0
    while number < most:
        state.allocation_candidates = candidates.select(
            state.allocation_candidates, free)
        # nova-scheduler runs the filters again for each further instance.
        if number and not all(
                the_judge.hosts.run_filter(each, [state], spec, index=number)
                for each in the_judge.hosts.enabled_filters):
            break
        if not state.allocation_candidates:
            break
        candidate = state.allocation_candidates[0]
        candidates.take(candidate, free)
        copies.consume(state, spec, candidate)
        number += 1
    return number
