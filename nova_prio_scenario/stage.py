# SPDX-License-Identifier: Apache-2.0

"""Sets up the cloud of a scenario, and reads its final state."""

import uuid

from nova.tests.functional.api import client

from nova_prio.model import capacity
from nova_prio.objects import host_report
from nova_prio.virt import demand
from nova_prio_scenario import cloud as embedded
from nova_prio_scenario import document as scenario
from nova_prio_scenario import refusals
from nova_prio_scenario import result
from nova_prio_scenario import verbs

#: Statuses of a server with a guest, which may be stopped.
GUEST_STATUSES = ('ACTIVE', 'SHUTOFF', 'VERIFY_RESIZE')
DRIVERS = {'prio': embedded.PRIORITY_DRIVER, 'stock': embedded.STOCK_DRIVER}


class Stage:
    """The hosts, flavors, images and server groups of one scenario.

    ``flavors``, ``images`` and ``groups`` are dicts, name to id.

    :param cloud: :class:`nova_prio_scenario.cloud.Cloud`, running
    :param document: :class:`nova_prio_scenario.document.Document`
    :param progress: callable, called with one line for each host
    :raises nova_prio_scenario.document.BadScenario: if Nova refuses a host,
        flavor or server group of the file
    """

    def __init__(self, cloud, document, progress):
        self._cloud = cloud
        self._document = document
        for position, host in enumerate(document.hosts):
            with refusals.convert_refused_start(lambda message: self._blame(
                    ('hosts', position), 'nova-compute of %s refuses to '
                    'start: %s' % (host['name'], message))):
                cloud.start_host(**dict(host, driver=DRIVERS[host['driver']]))
            progress('host %s started' % host['name'])
        self.flavors = self._create_all('flavors', lambda flavor: (
            cloud._create_flavor(
                name=flavor['name'], vcpu=flavor['vcpus'],
                memory_mb=flavor['memory_mb'], disk=flavor['disk_gb'],
                ephemeral=0, extra_spec=flavor['extra_specs'] or None)))
        self.groups = self._create_all('server_groups', lambda group: (
            cloud.api.post_server_groups(group)['id']))
        default = {'name': scenario.DEFAULT_IMAGE, 'properties': {}}
        self.images = {image['name']: cloud.glance.create(None, dict(
            cloud.glance.image1, id=str(uuid.uuid4()), **image))['id']
            for image in [default, *document.images]}

    def _blame(self, path, sentence):
        """Return the BadScenario of a path in the file."""
        return scenario.BadScenario(self._document.describe(path, sentence))

    def _create_all(self, key, create):
        """Create all items of a list of the file.

        :param create: function, item to the id that Nova gives it
        :returns: dict, name to id
        """
        ids = {}
        for position, item in enumerate(getattr(self._document, key)):
            try:
                ids[item['name']] = create(item)
            except client.OpenStackApiException as error:
                raise self._blame((key, position), 'Nova refuses %s: %s' % (
                    item['name'], get_message(error))) from error
        return ids

    def get_requested_priority(self, args):
        """Return the priority of a create request: high, low or None.

        :param args: dict, the keys of the verb ``create``
        """
        return args['hint'] or next(
            flavor['extra_specs'].get('hw:cpu_priority')
            for flavor in self._document.flavors
            if flavor['name'] == args['flavor'])

    def build_server_body(self, names, args):
        """Return the body of a request for new servers.

        :param names: list of the names of the servers
        :param args: dict, the keys of the verb ``create``
        """
        server = {
            # Nova adds -1, -2, ... to the name if it creates several servers.
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

    def update_server(self, server):
        """Update a result.Server from Nova and the XML of its guest."""
        if server.id is None or server.status == 'DELETED':
            return
        shown = self._cloud.api.get_server(server.id)
        server.status = shown['status']
        server.priority = shown['flavor'].get('extra_specs', {}).get(
            'hw:cpu_priority')
        server.host = shown['OS-EXT-SRV-ATTR:host']
        if server.status in GUEST_STATUSES:
            server.cpus, server.partition = result.parse_guest(
                self._cloud.guest_xml(server.id), next(
                    host['cpus'] for host in self._document.hosts
                    if host['name'] == server.host))

    def get_host(self, host):
        """Return a host as a dict, as ``--format json`` prints it.

        ``classes`` is a dict, name of a row (``nova_prio.model.capacity``) to
        dict of ``sellable`` and ``used`` vCPUs; None with the stock driver.
        ``inventory`` (resource class to inventory) and ``allocations``
        (consumer to allocation) come from Placement. ``domains`` is a dict,
        key of aggregate metadata to value, the widest failure domain first.
        ``status`` is that of the service nova-compute, enabled or disabled.
        ``dedicated``, ``shared``, ``ratio`` and ``mix`` are the options.

        :param host: dict, the host in the scenario file
        """
        cloud, name = self._cloud, host['name']
        provider = cloud.compute_rp_uuids[name]
        node = self._get_node(name)
        report = host_report.HostReport.from_stats(node.stats)
        return {
            'name': name,
            'state': 'down' if name in cloud.hosts_down else 'up',
            'status': cloud.get_service(name)['status'],
            **cloud.get_options(name, *verbs.CHANGES),
            'domains': {key: host['aggregate'][key]
                        for key in self._document.affinity_domains
                        if key in host['aggregate']},
            'classes': None if report is None else {
                row: {'sellable': sellable, 'used': used}
                for row, sellable, used in zip(
                    capacity.Rows._fields, report.sellable, report.used)},
            'inventory': cloud._get_provider_inventory(provider),
            'allocations': cloud._get_allocations_by_provider_uuid(provider),
        }

    def get_pinned_cpus(self, host):
        """Return the CPUs that Nova counts as pinned, a frozenset.

        :param host: dict, the host in the scenario file
        """
        return demand.get_host_pins(self._get_node(host['name']).numa_topology)

    def _get_node(self, name):
        """Return the nova.objects.ComputeNode of a host."""
        node, = self._cloud.computes[name].manager.rt.compute_nodes.values()
        return node


def get_message(error):
    """Return the message of an OpenStackApiException, in one line."""
    response = error.response
    try:
        message, = (part['message'] for part in response.json().values())
    except (ValueError, KeyError, TypeError, AttributeError):
        message = response.text
    return 'HTTP %d: %s' % (response.status_code, ' '.join(message.split()))
