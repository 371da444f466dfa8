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

"""The cloud of a scenario: what stands before the first step, and at the end.

Starts the hosts, creates what the steps refer to, and reads what Nova,
Placement and the guests say when all is done.
"""

import uuid

from nova.tests.functional.api import client

from nova_prio.objects import host_report
from nova_prio.scenario import candidates
from nova_prio.scenario import cloud as embedded
from nova_prio.scenario import cpu_set
from nova_prio.scenario import document as scenario
from nova_prio.scenario import last_words
from nova_prio.scenario import result
from nova_prio.scenario import source

DRIVERS = {'prio': embedded.PRIORITY_DRIVER, 'stock': embedded.STOCK_DRIVER}


class Stage:
    """The hosts, flavors, images and server groups of one scenario.

    ``flavors``, ``images`` and ``groups`` are dicts, name -> id.

    :param cloud: :class:`nova_prio.scenario.cloud.Cloud`, running
    :param document: :class:`nova_prio.scenario.document.Document`
    """

    def __init__(self, cloud, document):
        self._cloud = cloud
        self._document = document
        self.flavors = {}
        self.images = {}
        self.groups = {}

    def set_up(self, progress):
        """Start and create everything.

        :param progress: callable, called with one line for each host
        :raises nova_prio.scenario.source.BadScenario: where Nova refuses
            a host, flavor or server group of the file
        """
        for position, host in enumerate(self._document.hosts):
            self._start(position, host)
            progress('host %s started' % host['name'])
        for position, flavor in enumerate(self._document.flavors):
            self.flavors[flavor['name']] = self._accepted(
                ('flavors', position), self._cloud._create_flavor,
                name=flavor['name'], vcpu=flavor['vcpus'],
                memory_mb=flavor['memory_mb'], disk=flavor['disk_gb'],
                ephemeral=0, extra_spec=flavor['extra_specs'] or None)
        for image in [{'name': scenario.DEFAULT_IMAGE, 'properties': {}},
                      *self._document.images]:
            self.images[image['name']] = self._cloud.glance.create(
                None, dict(self._cloud.glance.image1, id=str(uuid.uuid4()),
                           name=image['name'],
                           properties=dict(image['properties'])))['id']
        for position, group in enumerate(self._document.server_groups):
            self.groups[group['name']] = self._accepted(
                ('server_groups', position),
                self._cloud.api.post_server_groups,
                {'name': group['name'], 'policy': group['policy']})['id']

    def _start(self, position, host):
        options = {key: host[key] for key in (
            'name', 'cpus', 'cells', 'threads', 'dedicated', 'shared',
            'ratio', 'mix', 'memory_mb', 'aggregate')}
        with last_words.listening() as said:
            try:
                self._cloud.start_host(
                    driver=DRIVERS[host['driver']], **options)
            except SystemExit as error:
                raise source.BadScenario([self._document.problem(
                    ('hosts', position),
                    'nova-compute of %s does not start: %s'
                    % (host['name'], said.text))]) from error

    def _accepted(self, path, call, *args, **kwargs):
        try:
            return call(*args, **kwargs)
        except client.OpenStackApiException as error:
            raise source.BadScenario([self._document.problem(
                path, 'Nova refuses it: %s' % answer(error))]) from error

    def asked_priority(self, args):
        """Return the priority that a request asks for: 'high', 'low' or None.

        :param args: dict, the keys of the verb ``create``
        """
        return args['hint'] or next(
            flavor['extra_specs'].get('hw:cpu_priority')
            for flavor in self._document.flavors
            if flavor['name'] == args['flavor'])

    def providers(self):
        """Return what Placement holds, as a list of candidates.Provider."""
        def read(provider_id, part):
            return self._cloud.placement.get(
                '/resource_providers/%s/%s' % (provider_id, part),
                version='1.30').body[part]

        return [
            candidates.Provider(
                name=item['name'], uuid=item['uuid'],
                inventories=read(item['uuid'], 'inventories'),
                usages=read(item['uuid'], 'usages'),
                traits=frozenset(read(item['uuid'], 'traits')),
                aggregates=frozenset(read(item['uuid'], 'aggregates')))
            for item in self._cloud.placement.get(
                '/resource_providers', version='1.30'
            ).body['resource_providers']]

    def seen(self, server):
        """Return a server with what Nova and its guest say of it now.

        :param server: :class:`nova_prio.scenario.result.Server`
        """
        if server.id is None or server.status == 'DELETED':
            return server
        shown = self._cloud.api.get_server(server.id)
        server.status = shown['status']
        server.priority = shown['flavor'].get('extra_specs', {}).get(
            'hw:cpu_priority')
        server.host = shown['OS-EXT-SRV-ATTR:host']
        if server.status == 'ACTIVE':
            server.cpus, server.partition = result.guest(
                self._cloud.guest_xml(server.id), next(
                    host['cpus'] for host in self._document.hosts
                    if host['name'] == server.host))
        return server

    def host(self, host):
        """Return what compute and Placement say of a host now.

        :param host: dict, the host as the document has it
        :returns: :class:`nova_prio.scenario.result.Host`
        """
        name = host['name']
        provider = '/resource_providers/%s/' % (
            self._cloud.compute_rp_uuids[name])
        found = result.Host(
            name, host['cpus'],
            *(cpu_set.parse(host[key]) if host[key] else frozenset()
              for key in ('dedicated', 'shared')),
            inventory=self._cloud.placement.get(
                provider + 'inventories').body['inventories'],
            allocations=self._cloud.placement.get(
                provider + 'allocations').body['allocations'],
            state='down' if name in self._cloud.hosts_down else 'up',
            domains={key: host['aggregate'][key]
                     for key in self._document.affinity_domains
                     if key in host['aggregate']})
        node, = self._cloud.computes[name].manager.rt.compute_nodes.values()
        reported = host_report.HostReport.from_stats(node.stats)
        if reported is not None:
            found.classes = {
                row: {'sellable': getattr(reported.sellable, row),
                      'used': getattr(reported.used, row)}
                for row in result.ROWS}
        return found


def answer(error):
    """Return what an error answer of Nova's API says, in one line."""
    response = error.response
    try:
        message, = (part['message'] for part in response.json().values())
    except (ValueError, KeyError, TypeError, AttributeError):
        message = response.text
    return 'HTTP %d: %s' % (response.status_code, ' '.join(message.split()))
