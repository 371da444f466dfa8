# SPDX-License-Identifier: Apache-2.0

"""How many equal new instances fit on each host.

As for a request for several instances, Nova's host states and copies of
Placement's rows take one instance after the other.
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


def count(of_cloud: judge.Judge, spec: objects.RequestSpec,
          ) -> dict[str, int]:
    """Return how many instances fit on each host if the others take none.

    :returns: name of a host -> number, without zeros
    """
    decision = of_cloud.decide(spec)
    return {of_cloud.get_name(state): _count_on(
        of_cloud, state, spec, dict(decision.placement.free), MOST)
        for state in decision.passing}


def place(of_cloud: judge.Judge, spec: objects.RequestSpec, number: int,
          ) -> dict[str, int]:
    """Return on which hosts a number of instances fit together.

    :returns: name of a host -> number; the sum is smaller than ``number`` if
        not all of them fit
    """
    decision = of_cloud.decide(spec)
    free = decision.placement.free
    found: dict[str, int] = {}
    for state in decision.passing:
        left = number - sum(found.values())
        if left and candidates.select(state.allocation_candidates, free):
            found[of_cloud.get_name(state)] = _count_on(
                of_cloud, state, spec, free, left)
    return found


def _count_on(of_cloud: judge.Judge, state: host_manager.HostState,
              spec: objects.RequestSpec, free: candidates.Rows,
              most: int) -> int:
    """Return how many instances fit on a host that passes for the first one.

    :param free: the rows, which the instances take
    """
    number = 0
    while number < most:
        state.allocation_candidates = candidates.select(
            state.allocation_candidates, free)
        if number and not all(
                of_cloud.hosts.run_filter(each, [state], spec, number)
                for each in of_cloud.hosts.enabled_filters):
            break
        if not state.allocation_candidates:
            break
        candidate = state.allocation_candidates[0]
        candidates.take(candidate, free)
        copies.consume(state, spec, candidate)
        number += 1
    return number
