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

"""A host's NUMA topology as one class of instance may use it.

Nova fits the floating vCPUs of a guest NUMA cell by counting: on the shared
CPUs of the host cell, oversubscribed by the ratio, beside all floating vCPUs
that are there. What it is given here is a topology in which that count comes
to what the class has left.
"""

import copy

from nova import objects

from nova_prio import capacity


def of(host_topology, ratio, low_by_cell, demand):
    """Return the topology of a mix host as an instance may use it.

    The CPUs of its class stand in ``cpuset``, and ``cpu_usage`` leaves of
    them, at ``ratio``, the room of the rows that the instance draws from.
    Dedicated CPUs, pins and memory are as they were. Where Nova counts an
    instance of the same class on the result, the result stays right.

    :param host_topology: nova.objects.NUMATopology, whose values stay as
        they are
    :param ratio: CPU allocation ratio in force, a Decimal
    :param low_by_cell: dict, str of the cell's id -> vCPUs of the
        low-priority guests on it
    :param demand: ``capacity.Demand`` of the instance
    :returns: nova.objects.NUMATopology
    """
    return objects.NUMATopology(cells=[
        _cell(cell, ratio, low_by_cell.get(str(cell.id), 0), demand.priority)
        for cell in host_topology.cells])


def without(host_topology, cpus):
    """Return the topology of a host on which some CPUs are not to be pinned.

    :param host_topology: nova.objects.NUMATopology, whose values stay as
        they are
    :param cpus: frozenset of CPU numbers, which seem to be pinned
    :returns: nova.objects.NUMATopology
    """
    cells = []
    for cell in host_topology.cells:
        view = copy.copy(cell)
        view.pinned_cpus = cell.pinned_cpus | (cell.pcpuset & cpus)
        cells.append(view)
    return objects.NUMATopology(cells=cells)


def _cell(cell, ratio, low, priority):
    cpus = capacity.HostCPUs(
        frozenset(cell.pcpuset), frozenset(cell.cpuset), ratio, mix=True)
    left = capacity.room(cpus.sellable, capacity.used(
        0, low, max(cell.cpu_usage - low, 0)))
    if priority == capacity.LOW:
        usable, room = cpus.floating, left.low
    else:
        usable, room = cpus.shared, min(left.low, left.ordinary)
    # All but the two is shared with the original: deep copies take long.
    view = copy.copy(cell)
    view.cpuset = set(usable)
    # Nova's limit, in the floating point that Nova counts in.
    view.cpu_usage = int(len(usable) * float(ratio)) - room
    return view
