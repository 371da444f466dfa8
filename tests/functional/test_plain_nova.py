# SPDX-License-Identifier: Apache-2.0

"""Ordinary instances, compared with a Nova without this package."""

import re

import nova.conf
from nova.tests.functional.api import client
import tenacity
import testtools

from nova_prio_scenario import cloud

CONF = nova.conf.CONF

FLAVORS = {
    'floating': {},
    'shared': {'hw:cpu_policy': 'shared'},
    'pinned': {'hw:cpu_policy': 'dedicated'},
    'numa': {'hw:numa_nodes': '2'},
    'mixed': {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0-1'},
    'threads': {'hw:cpu_policy': 'dedicated',
                'hw:cpu_thread_policy': 'require'},
    'too large': {'hw:numa_nodes': '4'},
}


class PlainCloud(cloud.Cloud):
    """Nova's own filter and weighers, without this package."""

    driver = cloud.STOCK_DRIVER

    def _configure(self):
        self.flags(instances=-1, cores=-1, ram=-1, group='quota')
        self.flags(enabled_filters=[
            *CONF.filter_scheduler.enabled_filters, 'NUMATopologyFilter'],
            group='filter_scheduler')


class PriorityCloud(cloud.Cloud):
    """All services load this package. No host is a priority host."""

    driver = cloud.PRIORITY_DRIVER


class OrdinaryInstances(testtools.TestCase):

    def _play(self, cloud_class):
        """Boot each flavor twice; return all data that can be compared."""
        with cloud_class.running() as running:
            for name, cpus, options in (
                    ('large', 16, dict(dedicated='0-3,8-11',
                                       shared='4-7,12-15', cells=2,
                                       threads=2)),
                    ('small', 8, dict(dedicated='0-1', shared='2-7'))):
                running.start_host(name, cpus, driver=running.driver,
                                   **options)
            seen = {'servers': [self._boot(running, name, number)
                                for name in FLAVORS for number in range(2)]}
            for name, uuid in running.compute_rp_uuids.items():
                seen[name] = {
                    of: running.placement.get(
                        '/resource_providers/%s/%s' % (uuid, of)).body[of]
                    for of in ('inventories', 'usages')}
            return seen

    @staticmethod
    def _boot(running, name, number):
        flavor = running._create_flavor(
            name='%s %d' % (name, number), vcpu=4, memory_mb=256, disk=1,
            extra_spec=FLAVORS[name])
        try:
            server = running.api.post_server({'server': running._build_server(
                name='%s %d' % (name, number), flavor_id=flavor,
                networks='none')})
        except client.OpenStackApiException as error:
            return name, error.response.status_code
        server = tenacity.Retrying(
            retry=tenacity.retry_if_result(
                lambda found: found['status'] == 'BUILD'),
            wait=tenacity.wait_fixed(0.1), stop=tenacity.stop_after_delay(30),
        )(running.api.get_server, server['id'])
        host = server['OS-EXT-SRV-ATTR:host']
        if host is None:
            return name, server['status']
        xml = running.guest_xml(server['id'])
        for text, stand_in in (
                (server['id'], 'SERVER'), (flavor, 'FLAVOR'),
                (CONF.instances_path, 'INSTANCES'),
                (server['OS-EXT-SRV-ATTR:instance_name'], 'INSTANCE'),
                (r'<nova:creationTime>.*</nova:creationTime>', 'CREATED')):
            xml = re.sub(text, stand_in, xml)
        return name, server['status'], host, xml

    def test_hosts_xml_and_inventory_equal_stock_nova(self):
        self.maxDiff = None
        plain = self._play(PlainCloud)
        ours = self._play(PriorityCloud)
        self.assertEqual(plain, ours)
        placed = [server for server in plain['servers'] if len(server) == 4]
        self.assertLess(8, len(placed))
        self.assertLess(len(placed), len(plain['servers']))
