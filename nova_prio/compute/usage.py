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

"""Who uses how many floating vCPUs of a host, by class."""

from nova_prio import capacity

#: Roles in which an instance counts on a host: it lives there, or it is on
#: its way there or away, where its other flavor counts.
RESIDENT = 'resident'
MOVE = 'move'


class UsageLedger:
    """The demand of every instance that counts on a host.

    A demand is recorded by instance and role, so that counting one twice, or
    taking away what was never counted, changes nothing.
    """

    def __init__(self):
        self._demands = {}

    def clear(self):
        """Forget everything; a recount follows."""
        self._demands.clear()

    def add(self, uuid, role, demand):
        """Record the ``capacity.Demand`` of an instance in a role.

        An instance that comes to live on the host has ended the move that
        brought it: Nova does not say so before its next recount.
        """
        if role == RESIDENT:
            self._demands.pop((uuid, MOVE), None)
        self._demands[uuid, role] = demand

    def remove(self, uuid, role, demand):
        """Take a demand away; what was never counted changes nothing.

        Nova takes a move's usage away where the instance was resident when it
        was counted, and the other way round: the demand tells which is meant.
        """
        other = MOVE if role == RESIDENT else RESIDENT
        for key in (uuid, role), (uuid, other):
            if self._demands.get(key) == demand:
                del self._demands[key]
                return
        self._demands.pop((uuid, role), None)

    @property
    def low_shared(self):
        """Floating vCPUs of the low-priority instances."""
        return sum(demand.shared for demand in self._demands.values()
                   if demand.priority == capacity.LOW)

    @property
    def ordinary_shared(self):
        """Floating vCPUs of all other instances."""
        return sum(demand.shared for demand in self._demands.values()
                   if demand.priority != capacity.LOW)

    @property
    def largest_shared(self):
        """Floating vCPUs of the instance that has most of them; 0 if none."""
        return max((demand.shared for demand in self._demands.values()),
                   default=0)

    @property
    def largest_low(self):
        """The same among the low-priority instances."""
        return max((demand.shared for demand in self._demands.values()
                    if demand.priority == capacity.LOW), default=0)
