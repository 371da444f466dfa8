# SPDX-License-Identifier: Apache-2.0

"""Sets up the cloud of a scenario, and reads the state of the cloud.

A host and a flavor of the scenario file are dicts with the keys of
``schema.HOST`` and ``schema.FLAVOR``.
"""

import uuid

from nova.tests.functional.api import client

from nova_prio.model import cpu_capacity
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
        """Set up the cloud; the class describes the parameters."""
        self._cloud = cloud
        self._document = document
        for position, host in enumerate(document.hosts):
            self._start_host(position, host)
            progress('host %s started' % host['name'])
        self.flavors = self._create_all('flavors', self._create_flavor)
        self.groups = self._create_all('server_groups', self._create_group)
        default_image = {'name': scenario.DEFAULT_IMAGE, 'properties': {}}
        self.images = {}
        for image in [default_image] + document.images:
            self.images[image['name']] = self._create_image(image)

    def _start_host(self, position, host):
        """Start a host of the file.

        :param position: position of the host in the file
        :param host: dict, the host in the scenario file
        """
        def make_error(message):
            """Return the BadScenario for a critical log message."""
            return self._blame(
                ('hosts', position), 'nova-compute of %s refuses to start: %s'
                % (host['name'], message))

        parameters = dict(host, driver=DRIVERS[host['driver']])
        with refusals.convert_refused_start(make_error):
            self._cloud.start_host(**parameters)

    def _create_flavor(self, flavor):
        """Create a flavor; return its id.

        :param flavor: dict, the flavor in the scenario file
        """
        return self._cloud._create_flavor(
            name=flavor['name'], vcpu=flavor['vcpus'],
            memory_mb=flavor['memory_mb'], disk=flavor['disk_gb'],
            ephemeral=0, extra_spec=flavor['extra_specs'] or None)

    def _create_group(self, group):
        """Create a server group; return its id.

        :param group: dict of ``name`` and ``policy``
        """
        return self._cloud.api.post_server_groups(group)['id']

    def _create_image(self, image):
        """Create an image; return its id.

        :param image: dict of ``name`` and ``properties``
        """
        glance = self._cloud.glance
        metadata = dict(glance.image1, id=str(uuid.uuid4()))
        metadata.update(image)
        return glance.create(None, metadata)['id']

    def _blame(self, path, sentence):
        """Return the BadScenario of a path in the file.

        :param path: tuple, see ``document``
        """
        return scenario.BadScenario(self._document.describe(path, sentence))

    def _create_all(self, key, create):
        """Create all items of a list of the file.

        :param key: key of the list
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
        if args['hint']:
            return args['hint']
        flavor = _find(self._document.flavors, args['flavor'])
        return flavor['extra_specs'].get('hw:cpu_priority')

    def build_server_body(self, names, args):
        """Return the body of a request for new servers.

        :param names: list of the names of the servers
        :param args: dict, the keys of the verb ``create``
        """
        server = {
            'name': names[0],
            'flavorRef': self.flavors[args['flavor']],
            'imageRef': self.images[args['image'] or scenario.DEFAULT_IMAGE],
            'networks': 'none',
        }
        if args['host'] and args['force']:
            server['availability_zone'] = 'nova:%s' % args['host']
        elif args['host']:
            server['host'] = args['host']
        if len(names) > 1:
            # Nova adds -1, -2, ... to the name.
            server.update(name=args['name'], min_count=len(names),
                          max_count=len(names), return_reservation_id=True)
        hints = {}
        if args['hint']:
            hints['priority'] = args['hint']
        if args['group']:
            hints['group'] = self.groups[args['group']]
        return {'server': server, 'os:scheduler_hints': hints}

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
            host = _find(self._document.hosts, server.host)
            server.cpus, server.partition = result.parse_guest(
                self._cloud.guest_xml(server.id), host['cpus'])

    def get_host(self, host):
        """Return a host as a dict, as ``--format json`` prints it.

        ``classes`` is a dict, name of a row to dict of ``sellable`` and
        ``used`` vCPUs; None with the stock driver. A row is the capacity of a
        host for servers of one class, 'high', 'low' or 'ordinary'.
        ``inventory`` (resource class to inventory) and ``allocations``
        (consumer to allocation) come from Placement. ``domains`` is a dict,
        key of aggregate metadata to value, the widest failure domain first. A
        failure domain has the hosts whose aggregates have the same value.
        ``status`` is that of the service nova-compute, enabled or disabled.
        ``dedicated``, ``shared``, ``ratio`` and ``mix`` are the options.

        :param host: dict, the host in the scenario file
        """
        cloud, name = self._cloud, host['name']
        provider = cloud.compute_rp_uuids[name]
        state = 'down' if name in cloud.hosts_down else 'up'
        shown = {
            'name': name,
            'state': state,
            'status': cloud.get_service(name)['status'],
        }
        shown.update(cloud.get_options(name, verbs.CHANGES))
        shown['domains'] = {
            key: host['aggregate'][key]
            for key in self._document.affinity_domains
            if key in host['aggregate']}
        shown['classes'] = self._get_classes(name)
        shown['inventory'] = cloud._get_provider_inventory(provider)
        shown['allocations'] = (
            cloud._get_allocations_by_provider_uuid(provider))
        return shown

    def _get_classes(self, name):
        """Return the ``classes`` of a host, as in :meth:`get_host`."""
        stats = self._get_node(name).stats
        report = host_report.HostReport.from_stats(stats)
        if report is None:
            return None
        return {
            row: {'sellable': getattr(report.sellable, row),
                  'used': getattr(report.used, row)}
            for row in cpu_capacity.Rows._fields}

    def get_pinned_cpus(self, host):
        """Return the CPUs that Nova counts as pinned, a frozenset.

        :param host: dict, the host in the scenario file
        """
        return demand.get_host_pins(self._get_node(host['name']).numa_topology)

    def _get_node(self, name):
        """Return the nova.objects.ComputeNode of a host."""
        node, = self._cloud.computes[name].manager.rt.compute_nodes.values()
        return node


def _find(items, name):
    """Return the item with a name.

    :param items: list of dicts
    """
    return next(item for item in items if item['name'] == name)


def get_message(error):
    """Return the message of an OpenStackApiException, in one line."""
    response = error.response
    try:
        part, = response.json().values()
        message = part['message']
    except (ValueError, KeyError, TypeError, AttributeError):
        message = response.text
    return 'HTTP %d: %s' % (response.status_code, ' '.join(message.split()))
