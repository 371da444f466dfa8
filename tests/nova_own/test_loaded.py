# SPDX-License-Identifier: Apache-2.0

"""nova_prio is loaded, and Nova still has the selected tests."""

from nova.scheduler.filters import numa_topology_filter
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_numa_servers
import pytest

from nova_prio.scheduler.filters import priority_filter
from tests.nova_own import loaded
from tests.nova_own import selection


class LoadedTest(test_numa_servers.NUMAServersTestBase):
    """The hosts of Nova's own test class use the classes of nova_prio."""

    microversion = 'latest'

    def setUp(self):
        super().setUp()
        self.flags(cpu_shared_set='0-1', cpu_dedicated_set='2-3',
                   group='compute')
        self.start_compute('host', fakelibvirt.HostInfo(
            cpu_nodes=1, cpu_sockets=1, cpu_cores=4, cpu_threads=1))

    def test_services_use_priority_classes(self):
        manager = self.computes['host'].manager
        self.assertEqual('PriorityLibvirtDriver',
                         type(manager.driver).__name__)
        self.assertIn('PriorityResourceTracker', [
            each.__name__ for each in type(manager.rt).__mro__])
        hosts = self.scheduler.manager.host_manager
        enabled = {type(each).__name__: type(each).__module__
                   for each in hosts.enabled_filters}
        self.assertEqual('nova_prio.scheduler.filters.priority_filter',
                         enabled['PriorityFilter'])
        self.assertNotIn('NUMATopologyFilter', enabled)
        self.assertIn('PriorityWeighter',
                      [type(weigher).__name__ for weigher in hosts.weighers])

    def test_api_folds_resources_vcpu_and_pcpu(self):
        server = self._create_server(
            networks='none', flavor_id=self._create_flavor(vcpu=3, extra_spec={
                'resources:PCPU': '2', 'resources:VCPU': '1'}))
        usages = self.placement.get(
            '/resource_providers/%s/usages'
            % self.compute_rp_uuids['host']).body['usages']
        self.assertEqual((2, 1), (usages['PCPU'], usages['VCPU']))
        self.assertEqual(
            'mixed', self.admin_api.get_server(server['id'])['flavor'][
                'extra_specs']['hw:cpu_policy'])
        self.assertTrue(self.mock_filter.called)
        self.assertTrue(issubclass(
            numa_topology_filter.NUMATopologyFilter,
            priority_filter.PriorityFilter))


@pytest.mark.parametrize('name', selection.MODULES)
def test_module_has_enough_selected_tests(name):
    found = [each for each in loaded.SELECTED if each.startswith(name + '.')]
    assert selection.MODULES[name].at_least <= len(found)


def test_each_failing_test_exists():
    assert set(selection.FAILING) <= loaded.SELECTED
