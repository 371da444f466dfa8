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

"""What the resource tracker has counted of a host, kept during a recount."""

import copy


class Books:
    """The numbers of a tracker as they are now.

    Nova begins a recount with an empty host. Where a read of the database
    fails then, or two instances seem to have one CPU, it stays at what it has
    counted so far, and gives the CPUs of all others away.
    """

    def __init__(self, tracker, nodename):
        """Keep them.

        :param tracker: nova_prio.compute.tracker.PriorityResourceTracker that
            has counted the node before
        :param nodename: name of the compute node
        """
        self._nodename = nodename
        self._node = tracker.compute_nodes[nodename].obj_clone()
        self._stats = copy.deepcopy(tracker.stats[nodename])
        self._instances = set(tracker.tracked_instances)
        self._migrations = dict(tracker.tracked_migrations)
        self._ledger = copy.deepcopy(tracker.driver.ledger)

    def restore(self, tracker):
        """Let a tracker have them again."""
        tracker.compute_nodes[self._nodename] = self._node
        tracker.stats[self._nodename] = self._stats
        tracker.tracked_instances = self._instances
        tracker.tracked_migrations = self._migrations
        tracker.driver.ledger = self._ledger
