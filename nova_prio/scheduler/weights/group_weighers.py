# SPDX-License-Identifier: Apache-2.0

"""The scheduler weighers of the soft policies of server groups."""

import nova.conf
from nova.scheduler import weights

from nova_prio.scheduler import failure_domains
from nova_prio.scheduler import failures
from nova_prio.scheduler import server_groups

CONF = nova.conf.CONF


class _GroupWeigher(weights.BaseHostWeigher):
    """Weighs a host by its ranks above the worst one, times the multiplier.

    All other weighers give a host at most their own multiplier more than
    another. If this one's is larger than the sum of theirs, the policy of the
    group decides first.
    """

    # Nova does not change weights between these, nor cut off larger ones.
    minval = 0
    maxval = 1

    #: The policy of the groups that are weighed, and whether it stacks.
    policy = None
    stack = None

    def __init__(self):
        *keys, _host = CONF.nova_prio.affinity_domains
        self._members = server_groups.GroupMembers(
            keys, CONF.nova_prio.affinity_same_priority)
        self._multiplier = CONF.nova_prio[
            '%s_weight_multiplier' % self.policy.replace('-', '_')]

    def weight_multiplier(self, host_state):
        """Return the multiplier of the option: all hosts need the same."""
        return self._multiplier

    def weigh_objects(self, weighed_obj_list, weight_properties):
        """Return the weights of hosts, a list in the same order.

        All are zero if the request is of no group of the policy, if the
        multiplier is zero, or if the members cannot be read.
        """
        group = weight_properties.instance_group
        if (group is None or group.policy != self.policy or
                not self._multiplier):
            return [0.0] * len(weighed_obj_list)
        try:
            candidates, found = self._members.paths(
                weight_properties, [each.obj for each in weighed_obj_list])
            steps = iter(failure_domains.rank_hosts(
                [path for path in candidates if path], found, self.stack))
            return [float(next(steps)) if path else 0.0
                    for path in candidates]
        except Exception:
            failures.log_failure(type(self).__name__, 'all hosts weigh zero')
            return [0.0] * len(weighed_obj_list)

    def _weigh_object(self, host_state, weight_properties):
        """Return zero: a host alone is no better than another."""
        return 0.0


class SoftAffinityWeigher(_GroupWeigher):
    """Prefers hosts in the domains with the most members of the group."""

    policy = 'soft-affinity'
    stack = True


class SoftAntiAffinityWeigher(_GroupWeigher):
    """Prefers hosts in the domains with the fewest members of the group."""

    policy = 'soft-anti-affinity'
    stack = False
