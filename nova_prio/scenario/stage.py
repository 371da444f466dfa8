# SPDX-License-Identifier: Apache-2.0

"""The cloud of a scenario before the first step, and after the last one."""

import uuid

from nova.tests.functional.api import client

from nova_prio.objects import host_report
from nova_prio.scenario import cloud as embedded
from nova_prio.scenario import document as scenario
from nova_prio.scenario import refusals
from nova_prio.scenario import result

DRIVERS = {'prio': embedded.PRIORITY_DRIVER, 'stock': embedded.STOCK_DRIVER}


class Stage:
    """The hosts, flavors, images and server groups of one scenario.

    ``flavors``, ``images`` and ``groups`` are dicts, name -> id.

    :param cloud: :class:`nova_prio.scenario.cloud.Cloud`, running
    :param document: :class:`nova_prio.scenario.document.Document`
    :param progress: callable, called with one line for each host
    :raises nova_prio.scenario.document.BadScenario: if Nova refuses a host,
        flavor or server group of the file
    """

    def __init__(self, cloud, document, progress):
        self._cloud = cloud
        self._document = document
        for position, host in enumerate(document.hosts):
            with refusals.to_start(lambda said: self._bad(
                    ('hosts', position), 'nova-compute of %s does not start: '
                    '%s' % (host['name'], said))):
                cloud.start_host(**dict(host, driver=DRIVERS[host['driver']]))
            progress('host %s started' % host['name'])
        self.flavors = self._created('flavors', lambda flavor: (
            cloud._create_flavor(
                name=flavor['name'], vcpu=flavor['vcpus'],
                memory_mb=flavor['memory_mb'], disk=flavor['disk_gb'],
                ephemeral=0, extra_spec=flavor['extra_specs'] or None)))
        self.groups = self._created('server_groups', lambda group: (
            cloud.api.post_server_groups(group)['id']))
        default = {'name': scenario.DEFAULT_IMAGE, 'properties': {}}
        self.images = {image['name']: cloud.glance.create(None, dict(
            cloud.glance.image1, id=str(uuid.uuid4()), **image))['id']
            for image in [default, *document.images]}

    def _bad(self, path, sentence):
        return scenario.BadScenario([self._document.problem(path, sentence)])

    def _created(self, key, create):
        """Create all items of a list; return a dict, name -> id."""
        found = {}
        for position, item in enumerate(getattr(self._document, key)):
            try:
                found[item['name']] = create(item)
            except client.OpenStackApiException as error:
                raise self._bad((key, position), 'Nova refuses it: %s' % (
                    answer(error))) from error
        return found

    def asked_priority(self, args):
        """Return the priority that a new server asks for: high, low or None.

        :param args: dict, the keys of the verb ``create``
        """
        return args['hint'] or next(
            flavor['extra_specs'].get('hw:cpu_priority')
            for flavor in self._document.flavors
            if flavor['name'] == args['flavor'])

    def server_body(self, names, args):
        """Return the body of a request for new servers.

        :param names: list of their names
        :param args: dict, the keys of the verb ``create``
        """
        server = {
            'name': args['name'] if len(names) > 1 else names[0],
            'flavorRef': self.flavors[args['flavor']],
            'imageRef': self.images[args['image'] or scenario.DEFAULT_IMAGE],
            'networks': 'none',
        }
        if args['host'] and args['force']:
            server['availability_zone'] = 'nova:%s' % args['host']
        elif args['host']:
            server['host'] = args['host']
        if len(names) > 1:
            server.update(min_count=len(names), max_count=len(names),
                          return_reservation_id=True)
        hints = {'priority': args['hint'],
                 'group': args['group'] and self.groups[args['group']]}
        return {'server': server, 'os:scheduler_hints': {
            key: value for key, value in hints.items() if value}}

    def _placement(self, *path):
        return self._cloud.placement.get(
            '/'.join(('/resource_providers', *path)), version='1.20').body

    def providers(self):
        """Return the providers in Placement, a list of Provider."""
        return [
            refusals.Provider(item['name'], item['uuid'], **{
                part: kind(self._placement(item['uuid'], part)[part])
                for part, kind in (
                    ('inventories', dict), ('usages', dict),
                    ('traits', frozenset), ('aggregates', frozenset))})
            for item in self._placement()['resource_providers']]

    def seen(self, server):
        """Return a server, brought up to date from Nova and its guest.

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
        """Return a host as compute and Placement report it now.

        :param host: dict, the host as the document has it
        :returns: :class:`nova_prio.scenario.result.Host`
        """
        name = host['name']
        provider = self._cloud.compute_rp_uuids[name]
        inventory, allocations = (
            self._placement(provider, part)[part]
            for part in ('inventories', 'allocations'))
        node, = self._cloud.computes[name].manager.rt.compute_nodes.values()
        reported = host_report.HostReport.from_stats(node.stats)
        return result.Host(
            name, host['cpus'],
            *(result.parse_cpus(host[key]) if host[key] else frozenset()
              for key in ('dedicated', 'shared')),
            classes=None if reported is None else {
                row: {'sellable': getattr(reported.sellable, row),
                      'used': getattr(reported.used, row)}
                for row in result.ROWS},
            inventory=inventory, allocations=allocations,
            state='down' if name in self._cloud.hosts_down else 'up',
            domains={key: host['aggregate'][key]
                     for key in self._document.affinity_domains
                     if key in host['aggregate']})


def answer(error):
    """Return the message of an error answer of Nova's API, in one line."""
    response = error.response
    try:
        message, = (part['message'] for part in response.json().values())
    except (ValueError, KeyError, TypeError, AttributeError):
        message = response.text
    return 'HTTP %d: %s' % (response.status_code, ' '.join(message.split()))
