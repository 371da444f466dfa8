# SPDX-License-Identifier: Apache-2.0

"""The scheduler weighers for the soft policies of server groups."""

import nova.conf
from nova.scheduler import weights

from nova_prio.scheduler import failure_domains
from nova_prio.scheduler import failures
from nova_prio.scheduler import server_groups

CONF = nova.conf.CONF


class _GroupWeigher(weights.BaseHostWeigher):
    """Weigh a host by the number of ranks that it is above the worst host.

    Each other weigher adds at most its own multiplier. If the multiplier of
    this weigher is larger than the sum of the other multipliers, the policy of
    the group decides first. The multiplier cannot be negative; zero switches
    the weigher off.
    """

    # With these limits, Nova normalizes no rank, not even a rank above 1.
    minval = 0
    maxval = 1

    #: Policy of the server groups that the weigher is for.
    policy = None
    #: Whether hosts with many members are better than hosts with few.
    prefers_many = None

    def __init__(self):
        """Read the options, once for each nova-scheduler."""
        # The last domain is always the host, which has no key of metadata.
        *keys, _host = CONF.nova_prio.affinity_domains
        self._members = server_groups.GroupMembers(
            keys, CONF.nova_prio.affinity_same_priority)
        self._multiplier = CONF.nova_prio[
            '%s_weight_multiplier' % self.policy.replace('-', '_')]

    def weight_multiplier(self, host_state):
        """Return the multiplier of the option, the same for all hosts."""
        return self._multiplier

    def weigh_objects(self, weighed_obj_list, weight_properties):
        """Return the ranks of the hosts, a list in the same order.

        All are zero if the request has no group with this policy, or if the
        members cannot be read. A host that cannot be read gets zero.
        """
        group = weight_properties.instance_group
        zeros = [0.0] * len(weighed_obj_list)
        if (group is None or group.policy != self.policy or
                not self._multiplier):
            return zeros
        try:
            # The path of a host is a tuple of its failure domains, such as
            # zone, rack and host; None if it cannot be read.
            host_states = [weighed.obj for weighed in weighed_obj_list]
            paths, member_paths = self._members.get_paths(
                weight_properties, host_states)
            readable = {path for path in paths if path is not None}
            # Path -> rank, which is 0 for the worst hosts: those with the
            # fewest members in their domains if the weigher prefers hosts with
            # many members, else those with the most.
            ranks = failure_domains.rank_hosts(
                readable, member_paths, self.prefers_many)
            return [float(ranks.get(path, 0)) for path in paths]
        except Exception:
            failures.log_failure(type(self).__name__, 'all hosts weigh zero')
            return zeros

    def _weigh_object(self, host_state, weight_properties):
        """Return zero: a rank needs other hosts to compare with."""
        return 0.0


class SoftAffinityWeigher(_GroupWeigher):
    """Prefer hosts in the domains with the most members of the group."""

    policy = 'soft-affinity'
    prefers_many = True


class SoftAntiAffinityWeigher(_GroupWeigher):
    """Prefer hosts in the domains with the fewest members of the group."""

    policy = 'soft-anti-affinity'
    prefers_many = False
