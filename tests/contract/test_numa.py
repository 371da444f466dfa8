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

from nova import objects
from nova.virt import hardware
import pytest

from tests.unit import nova_objects


@pytest.mark.parametrize('mask, finds_a_place', [('7', False), ('3,7', True)])
def test_isolated_emulator_threads_go_with_dedicated_vcpus_of_node_0(
        mask, finds_a_place):
    """Without any there, no host is large enough."""
    host = objects.NUMATopology(cells=[
        nova_objects.numa_cell(number, range(first, first + 8),
                               range(first + 8, first + 16))
        for number, first in enumerate((0, 16))])
    flavor = nova_objects.flavor(
        8, hw__cpu_policy='mixed', hw__cpu_dedicated_mask=mask,
        hw__numa_nodes='2', hw__emulator_threads_policy='isolate')
    found = hardware.numa_fit_instance_to_host(
        host, provider_mapping=None,
        instance_topology=hardware.numa_get_constraints(
            flavor, objects.ImageMeta.from_dict({})))
    assert finds_a_place is (found is not None)
