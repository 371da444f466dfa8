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

"""The scheduler weighers of the soft policies of server groups."""

import nova.conf
from nova.scheduler import weights

from nova_prio.scheduler import domains
from nova_prio.scheduler import failures
from nova_prio.scheduler import members

CONF = nova.conf.CONF


class _GroupWeigher(weights.BaseHostWeigher):
    """Weighs a host by the steps that it is better than the worst one.

    A step is worth the multiplier. All other weighers give a host at most
    their own multiplier more than another: where this one's is larger than
    the sum of theirs, the group's policy decides first.
    """

    # Between these, Nova leaves weights as they are; it does not cut off what
    # lies beyond.
    minval = 0
    maxval = 1

    #: The policy of the groups that are weighed, and the name of the option
    #: with the multiplier.
    policy = None
    multiplier = None
    stack = None

    def __init__(self):
        *keys, _host = CONF.nova_prio.affinity_domains
        self._members = members.Members(
            keys, CONF.nova_prio.affinity_same_priority)
        self._multiplier = CONF.nova_prio[self.multiplier]

    def weight_multiplier(self, host_state):
        """Return the multiplier of the option.

        It is the same for all hosts: those of a group are compared by it.
        """
        return self._multiplier

    def weigh_objects(self, weighed_obj_list, weight_properties):
        """Return the weights of hosts.

        :param weighed_obj_list: list of nova.scheduler.weights.WeighedHost
        :param weight_properties: nova.objects.RequestSpec
        :returns: list of float, in the same order; all zero if the request
            is of no group of the policy, if the multiplier is zero, or if the
            members cannot be read
        """
        group = weight_properties.instance_group
        if (group is None or group.policy != self.policy or
                not self._multiplier):
            return [0.0] * len(weighed_obj_list)
        try:
            candidates, found = self._members.paths(
                weight_properties, [each.obj for each in weighed_obj_list])
            steps = iter(domains.steps(
                [path for path in candidates if path], found, self.stack))
            return [float(next(steps)) if path else 0.0
                    for path in candidates]
        except Exception:
            failures.log(type(self).__name__, 'all hosts weigh zero')
            return [0.0] * len(weighed_obj_list)

    def _weigh_object(self, host_state, weight_properties):
        """Return zero: a host alone is no better than another."""
        return 0.0


class SoftAffinityWeigher(_GroupWeigher):
    """Prefers hosts in the domains with the most members of the group.

    For groups with the policy ``soft-affinity``.
    """

    policy = 'soft-affinity'
    multiplier = 'soft_affinity_weight_multiplier'
    stack = True


class SoftAntiAffinityWeigher(_GroupWeigher):
    """Prefers hosts in the domains with the fewest members of the group.

    For groups with the policy ``soft-anti-affinity``.
    """

    policy = 'soft-anti-affinity'
    multiplier = 'soft_anti_affinity_weight_multiplier'
    stack = False
