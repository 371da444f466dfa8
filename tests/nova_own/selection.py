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

"""Which of Nova's own tests concern the mixed CPU policy."""

import inspect
import re

#: Tests that speak of it, or of pinned CPUs, in their names or their code.
PINNED = 'mixed|pcpu|dedicated|cpu_policy|cpu_pinning'
ALL = ''

#: Nova's module -> (regular expression, the least number of tests it selects).
#: Not among them: functional.libvirt.test_numa_live_migration, about pinned
#: guests only. With Nova 34 the lock of Nova's CellDatabases fixture stops it
#: now and then: a migration runs the periodic tasks, which wait for a thread
#: that reads a cell, while the test asks the API, which switches cells.
MODULES = {
    'unit.api.openstack.compute.test_server_topology': (ALL, 4),
    'unit.api.validation.extra_specs.test_validators': (ALL, 5),
    'unit.compute.test_api': (PINNED, 4),
    'unit.compute.test_claims': (ALL, 35),
    'unit.compute.test_compute': (PINNED, 5),
    'unit.conductor.tasks.test_live_migrate': (PINNED, 4),
    'unit.limit.test_placement': (PINNED, 1),
    'unit.objects.test_instance': (PINNED, 2),
    'unit.objects.test_instance_numa': (ALL, 42),
    'unit.objects.test_numa': (ALL, 58),
    'unit.objects.test_request_spec': (PINNED, 2),
    'unit.policies.test_server_topology': (ALL, 4),
    'unit.scheduler.filters.test_numa_topology_filters': (ALL, 16),
    'unit.scheduler.test_utils': (PINNED, 8),
    'unit.test_metadata': (PINNED, 1),
    'unit.virt.libvirt.cpu.test_api': (ALL, 26),
    'unit.virt.libvirt.test_driver': (PINNED, 51),
    'unit.virt.test_hardware': (ALL, 190),
    'functional.libvirt.test_numa_servers': (
        r'^NUMAServersTest\..*(%s)|^\w+\.\w*(mixed|quota)' % PINNED, 16),
    'functional.libvirt.test_power_manage': (
        'MixedInstances|emulator_threads', 5),
}
PACKAGE = 'nova.tests.'

# Pinned guests on a host without cpu_dedicated_set, which hold VCPU: what
# [workarounds] disable_fallback_pcpu_query ends. Our scheduler demands it, and
# with it they fail without this package too. None is about the mixed policy.
_FALL_BACK = (
    'NUMAServersTest.test_create_server_with_dedicated_policy_fails',
    'NUMAServersTest.'
    'test_create_server_with_dedicated_policy_old_configuration',
    'NUMAServersTest.test_create_server_with_isolate_thread_policy_fails',
    'NUMAServersTest.'
    'test_create_server_with_isolate_thread_policy_old_configuration',
    'NUMAServersTest.'
    'test_create_server_with_numa_topology_and_cpu_topology_and_pinning',
)
# Nova expects it to fail.
_FAILS = (
    'TestUpdateProviderTree.'
    'test_update_provider_tree_for_shared_disk_gb_resource',)
LEFT_OUT = _FALL_BACK + _FAILS


def is_chosen(item):
    """Return whether a test is to be run."""
    module = item.module.__name__
    if not module.startswith(PACKAGE):
        return True
    test = '%s.%s' % (item.cls.__name__, item.name)
    if test.startswith(LEFT_OUT) or hasattr(item.function, 'needs_ddt'):
        return False
    pattern, _ = MODULES[module.removeprefix(PACKAGE)]
    source = inspect.getsource(inspect.unwrap(item.function))
    return bool(re.search(
        pattern, test + source, re.DOTALL | re.IGNORECASE))
