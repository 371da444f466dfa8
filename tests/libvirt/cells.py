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


"""A host of two NUMA cells with two CPUs each, on two CPUs of one cell."""

from tests.libvirt import topology
from tests.libvirt import two_hosts

#: NUMA cell -> its CPUs.
CELLS = {0: (0, 2), 1: (1, 3)}

folded = topology.folded


class Host(topology.Host, two_hosts.Host):
    """A host with these cells, that takes in guests of another."""

    cells = CELLS
