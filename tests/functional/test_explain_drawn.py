# SPDX-License-Identifier: Apache-2.0

"""``nova-prio explain`` and nova-scheduler agree on drawn requests.

So do the units of ``capacity show --flavor``, and ``room plan`` without moves.
What is said about moves of servers, by ``explain``, ``host drain``,
``capacity show --after-loss`` and ``room plan``, is compared with real moves.

The environment variable ``NOVA_PRIO_EXPLAIN_REQUESTS`` sets the number of
requests, and ``NOVA_PRIO_EXPLAIN_SEED`` repeats a drawing.
"""

import contextlib
import os
import random
from unittest import mock

import fixtures
from nova import context
from nova import exception
from nova import objects
from nova.scheduler.client import query
from nova.scheduler import host_manager
from nova.tests.functional.api import client
from oslo_utils import uuidutils

from nova_prio.admin.explain import requests
from nova_prio.cmd import report
from nova_prio.model import flavor_specs
from nova_prio.objects import migration_states
from nova_prio.placement import refused_providers
from nova_prio_scenario import cloud
from tests import commands
from tests.functional import devices
from tests.functional import huge_pages
from tests.functional import maintenance
from tests.functional import test_explain

REQUESTS = int(os.environ.get('NOVA_PRIO_EXPLAIN_REQUESTS') or 40)
SEED = os.environ.get('NOVA_PRIO_EXPLAIN_SEED')
#: Number of requests on one drawing of aggregates.
PERIOD = 20
#: Every so many requests, other promises than those of explain are tested.
PROMISES = 4
#: Most servers at the same time.
SERVERS = 8


class DrawnCloud(test_explain.Explained, devices.FunctionsOnHosts,
                 huge_pages.Hosts):
    """Drawn hosts and flavors."""

    ADDITIONAL_FILTERS = [*devices.FunctionsOnHosts.ADDITIONAL_FILTERS,
                          'AggregateMultiTenancyIsolation']
    # A request takes some seconds.
    TIMEOUT_SCALING_FACTOR = max(1, REQUESTS // 50)
    AGGREGATES = (
        {'priority_mix': 'true'}, {'priority': 'true'}, None,
        {'priority_ordinary': 'false'},
        {'priority_mix': 'true', 'priority_ordinary': 'false'},
        {'priority_mix': 'true', 'filter_tenant_id': 'another-project'})

    def setUp(self):
        # Otherwise, nova-scheduler remembers guests that have left a host,
        # until nova-compute corrects it, every two minutes.
        self.flags(track_instance_changes=False, group='filter_scheduler')
        super().setUp()
        self.seed = int(SEED or random.randrange(10 ** 6))
        self.random = random.Random(self.seed)
        self.servers = []
        self.hosts = ['host%d' % number for number in range(5)]
        for name in self.hosts[:-1]:
            self.start_drawn_host(name)
        self.start_host('host4', cpus=8, ratio=2.0,
                        aggregate=self.AGGREGATES[0],
                        driver='libvirt.LibvirtDriver')
        self.placement.put('/traits/CUSTOM_GOLD', None, version='1.6')
        for name in self.hosts[1:3]:
            url = '/resource_providers/%s/traits' % self.compute_rp_uuids[name]
            body = self.placement.get(url, version='1.6').body
            self.placement.put(url, {
                **body, 'traits': [*body['traits'], 'CUSTOM_GOLD']},
                version='1.6')
            self.add_tokens(name)
        # The hosts that nova-scheduler had left after its filters, for the
        # last request; None if no host came to its filters.
        self.filtered = None
        stock = host_manager.HostManager.get_filtered_hosts

        def get_filtered_hosts(*args, **kwargs):
            found = list(stock(*args, **kwargs))
            if self.filtered is None:
                self.filtered = {state.host for state in found
                                 if state.allocation_candidates}
            return found

        self.useFixture(fixtures.MonkeyPatch(
            'nova.scheduler.host_manager.HostManager.get_filtered_hosts',
            get_filtered_hosts))

    def add_tokens(self, host):
        """Nest a provider of a custom resource class in that of a host."""
        self.placement.put('/resource_classes/CUSTOM_TOKEN', None,
                           version='1.7')
        nested = self.placement.post('/resource_providers', {
            'name': host + '_tokens',
            'parent_provider_uuid': self.compute_rp_uuids[host]},
            version='1.20').body
        self._set_inventory(nested['uuid'], {
            'resource_class': 'CUSTOM_TOKEN', 'total': 2})

    def start_drawn_host(self, name):
        """Start a host with drawn CPUs in one or two NUMA cells."""
        cells = self.random.choice((1, 1, 2))
        threads = self.random.choice((1, 2))
        per_cell = self.random.choice((4, 6, 8))
        dedicated = self.random.randrange(threads, per_cell, threads)
        sets = [','.join('%d-%d' % (first + begin, first + end - 1)
                         for first in range(0, cells * per_cell, per_cell))
                for begin, end in ((0, dedicated), (dedicated, per_cell))]
        memory_mb, self.pages = self.random.choice(
            ((2048, 0), (8192, 0), (8192, 3)))
        self.start_host(
            name, cpus=cells * per_cell, cells=cells, threads=threads,
            dedicated=sets[0], shared=sets[1],
            ratio=self.random.choice((1.5, 2.0, 3.0)),
            mix=self.random.random() < 0.6,
            memory_mb=memory_mb,
            aggregate=self.random.choice(self.AGGREGATES))

    def draw_flavor(self):
        """Create a flavor; return its ID."""
        draw = self.random
        vcpus = draw.choice((1, 2, 2, 3, 4, 4, 6, 8, 12))
        specs = {}
        priority = draw.choice(('high', 'low', None))
        if priority:
            specs['hw:cpu_priority'] = priority
        policy = draw.choice((None, None, 'dedicated', 'mixed', 'PCPU'))
        if priority == 'low' and draw.random() < 0.9:
            # nova-api refuses low priority with dedicated CPUs.
            policy = None
        if policy == 'PCPU' and vcpus > 1:
            dedicated = draw.randrange(1, vcpus)
            specs['resources:PCPU'] = str(dedicated)
            specs['resources:VCPU'] = str(vcpus - dedicated)
        elif policy == 'mixed':
            specs.update({'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask':
                          '0-%d' % draw.randrange(vcpus)})
        elif policy == 'dedicated':
            specs['hw:cpu_policy'] = policy
        for name, value, chance in (
                ('hw:numa_nodes', '2', 0.15),
                ('hw:cpu_thread_policy', draw.choice(
                    ('require', 'isolate', 'prefer')), 0.1),
                ('hw:emulator_threads_policy', 'isolate', 0.03),
                ('hw:mem_page_size', draw.choice(
                    ('small', 'large', 'any', '1GB')), 0.2)):
            if draw.random() < chance:
                specs[name] = value
        for name, value, chance in (
                ('trait:CUSTOM_GOLD', draw.choice(
                    ('required', 'forbidden')), 0.15),
                ('trait:CUSTOM_NONE', 'required', 0.02),
                ('resources:CUSTOM_NONE', '1', 0.02),
                ('resources:CUSTOM_TOKEN', '1', 0.1),
                ('pci_passthrough:alias', 'function:1', 0.1),
                ('resources:MEMORY_MB', str(draw.choice(
                    (64, 700, 4000))), 0.1)):
            if draw.random() < chance:
                specs[name] = value
        return self._create_flavor(
            vcpu=vcpus, memory_mb=draw.choice((128, 512, 1024, 1536)), disk=0,
            ephemeral=0, swap=0, extra_spec=specs or None), specs

    def create_server(self, flavor, hints, **attributes):
        """Create a server; return whether it got a host.

        :param attributes: other attributes of the server
        :returns: None if nova-api refuses the request
        """
        body = {'server': self._build_server(
            flavor_id=flavor, networks='none'), 'os:scheduler_hints': hints}
        body['server'].update(attributes)
        answer = self.api.api_post('/servers', body, check_response_status=[
            202, 400])
        if answer.status == 400:
            return None
        server = self.soon(self.get_created, answer.body['server']['id'])
        self.servers.append(server)
        return server['status'] == 'ACTIVE'

    def get_created(self, server_id):
        """Return a server that is no longer being created."""
        server = self.api.get_server(server_id)
        self.assertIn(server['status'], ('ACTIVE', 'ERROR'))
        return server

    def delete_some(self):
        """Delete a server if there are many."""
        if len(self.servers) > SERVERS:
            self._delete_server(self.servers.pop(
                self.random.randrange(len(self.servers))))


class Drawn(DrawnCloud):
    """Requests for new servers."""

    def draw_aggregates(self):
        """Move one host to another aggregate."""
        host = self.random.choice(self.hosts)
        for aggregate in self.api.api_get('/os-aggregates').body['aggregates']:
            if host in aggregate['hosts']:
                self.api.post_aggregate_action(
                    aggregate['id'], {'remove_host': {'host': host}})
        metadata = self.random.choice(self.AGGREGATES)
        if metadata:
            self._join_aggregate(host, metadata)

    def ask_scheduler(self, flavor, hint, number=1):
        """Ask nova-scheduler for hosts; return whether all instances fit."""
        admin = context.get_admin_context()
        uuids = [uuidutils.generate_uuid() for _ in range(number)]
        spec = requests.build_request(
            admin, cloud.CONF, objects.Flavor.get_by_flavor_id(admin, flavor),
            hint, None)
        spec.project_id, spec.user_id = 'project', 'user'
        spec.instance_uuid, spec.num_instances = uuids[0], number
        try:
            query.SchedulerQueryClient().select_destinations(
                admin, spec, uuids, return_objects=True,
                return_alternates=True)
        except exception.NoValidHost:
            return False
        for uuid in uuids:
            self.placement.delete('/allocations/' + uuid)
        return True

    def check_promises(self, flavor, where):
        """Compare the units, and a plan without moves, with nova-scheduler."""
        _, rows, said = commands.run('capacity', 'show', '--flavor', flavor)
        if rows is None:
            # nova-api would refuse the flavor.
            return
        units = sum(row['Units'] for row in rows)
        if units:
            self.promises += 1
            self.assertTrue(self.ask_scheduler(flavor, {}, units),
                            '%s: %d units: %s' % (where, units, rows))
        number = self.random.choice((1, 2, 4))
        status, rows, said = commands.run(
            'room', 'plan', '--flavor', flavor, '--count', str(number))
        if status == 0 and not rows:
            self.assertTrue(self.ask_scheduler(flavor, {}, number),
                            '%s: %d of %s' % (where, number, said))

    def check_request(self, number):
        """Draw a request, and compare both answers."""
        if number % PERIOD == 0:
            self.draw_aggregates()
        self.delete_some()
        flavor, specs = self.draw_flavor()
        hint = self.random.choice(({}, {}, {}, {}, {'priority': 'low'},
                                   {'priority': 'high'}))
        by_api = self.random.random() < 0.2
        arguments = ['--flavor', flavor, *(
            ['--hint', hint[flavor_specs.HINT]] if hint else [])]
        # Every second request reads the summaries, as in a large cloud.
        with mock.patch.object(refused_providers, '_FEW', number % 2 * 20):
            status, rows, said = commands.run('explain', *arguments)
        self.counts[status] += 1
        passing = {row['Host'] for row in rows or ()
                   if row['Result'] == 'passes'}
        where = 'seed %d, request %d, %s %s: %s %s' % (
            self.seed, number, specs, hint, rows, said)
        self.filtered = None
        if status == 1:
            # nova-api would refuse the request.
            self.assertIsNone(self.create_server(flavor, hint), where)
            return
        self.assertEqual(self.hosts, sorted(row['Host'] for row in rows))
        self.assertEqual(0 if passing else 3, status, where)
        self.assertFalse([row for row in rows if not (
            row['Reason'] or row['Result'] == 'passes') or
            row['Reason'] == 'no reason found'], where)
        if by_api:
            has_host = self.create_server(flavor, hint)
        else:
            has_host = self.ask_scheduler(flavor, hint)
        self.assertEqual(bool(passing), has_host, where)
        self.assertEqual(passing, self.filtered or set(), where)
        if number % PROMISES == 0:
            self.check_promises(flavor, where)

    def test_explanation_and_scheduler_agree(self):
        self.counts = dict.fromkeys((0, 1, 3), 0)
        self.promises = 0
        for number in range(REQUESTS):
            self.check_request(number)
        # Each outcome must occur, else the drawing tests little.
        self.assertTrue(self.counts[0] and self.counts[3], self.counts)


class DrawnMoves(DrawnCloud):
    """Moves of servers, which Nova then makes."""

    AGGREGATES = (
        {'priority_mix': 'true'},
        {'priority_mix': 'true', 'availability_zone': 'zone'},
        {'priority': 'true'}, {'availability_zone': 'zone'}, None)

    def setUp(self):
        super().setUp()
        maintenance.let_commands_move(self)
        self.groups = [self.api.post_server_groups(
            {'name': policy, 'policy': policy})['id']
            for policy in ('affinity', 'anti-affinity', 'soft-affinity')]
        self.images = [
            self.image(**properties) for properties in (
                {'hw_cpu_policy': 'dedicated'},
                {'trait:CUSTOM_GOLD': 'required'},
                {'hw_mem_page_size': 'small'}, {'hw_numa_nodes': 2})]

    def draw_server(self):
        """Create a server; return a text about it, and whether it has a host.

        :returns: (text, None) if nova-api refuses the request
        """
        flavor, specs = self.draw_flavor()
        draw = self.random
        hints, attributes = {}, {}
        if draw.random() < 0.4:
            hints['group'] = draw.choice(self.groups)
        if draw.random() < 0.3:
            attributes['availability_zone'] = draw.choice(('zone', 'nova'))
        if draw.random() < 0.3:
            attributes['imageRef'] = draw.choice(self.images)
        return ('%s %s %s' % (specs, hints, attributes),
                self.create_server(flavor, hints, **attributes))

    def check_move(self, server, where):
        """Compare ``explain`` with a live migration, or with a failed build.

        :param server: the server as the API showed it
        """
        status, rows, said = commands.run('explain', server['id'])
        passing = {row['Host'] for row in rows or ()
                   if row['Result'] == 'passes'}
        where = '%s: %s %s' % (where, rows, said)
        self.assertEqual(0 if passing else 3, status, where)
        self.counts[status] += 1
        host = server['OS-EXT-SRV-ATTR:host']
        if host is None:
            self.assertEqual(set(), passing, where)
            return
        self.filtered = None
        # In these tests, the API waits for nova-conductor, and fails with it.
        with contextlib.suppress(client.OpenStackApiException):
            self.api.post_server_action(server['id'], {'os-migrateLive': {
                'host': None, 'block_migration': 'auto'}})
        found = self.soon(self.get_at_rest, server['id'])
        self.assertEqual(passing, self.filtered or set(), where)
        self.assertEqual(bool(passing),
                         found['OS-EXT-SRV-ATTR:host'] != host, where)

    def get_at_rest(self, server_id, status='ACTIVE'):
        """Return a server with a status, without a task or a migration."""
        server = self.api.get_server(server_id)
        self.assertEqual((status, None), (
            server['status'], server['OS-EXT-STS:task_state']))
        self.assertFalse([
            migration for migration in self.migrations_of(server_id)
            if migration['status'] in migration_states.OPEN_STATUSES])
        return server

    def check_drain(self, host):
        """If a dry run says that all servers can leave, all of them leave."""
        status, _, said = commands.run('host', 'drain', host, '--dry-run')
        if status == report.CLEAN:
            self.promises += 1
            found, rows, said = commands.run('host', 'drain', host, '--yes')
            self.assertEqual(report.CLEAN, found, '%s %s' % (rows, said))
            self.host_enable(host)

    def check_loss(self, host):
        """If the guests fit after a loss, all of them are evacuated."""
        guests = [server for server in self.api.get_servers()
                  if server['OS-EXT-SRV-ATTR:host'] == host]
        status, rows, said = commands.run(
            'capacity', 'show', '--after-loss', '--host', host)
        if status != report.CLEAN or not rows or not guests:
            return
        self.promises += 1
        self.host_down(host)
        for server in guests:
            with contextlib.suppress(client.OpenStackApiException):
                self.api.post_server_action(server['id'], {'evacuate': {}})
            # Since microversion 2.95, Nova stops an evacuated server.
            found = self.soon(self.get_at_rest, server['id'], 'SHUTOFF')
            self.assertNotEqual(host, found['OS-EXT-SRV-ATTR:host'],
                                '%s %s %s' % (server, rows, said))
        self.host_up(host)
        for server in guests:
            self._start_server(server)

    def check_room(self, _):
        """If servers fit after moves, nova-scheduler finds their hosts."""
        flavor, specs = self.draw_flavor()
        number = self.random.choice((1, 2))
        status, rows, said = commands.run(
            'room', 'plan', '--flavor', flavor, '--count', str(number),
            '--apply', '--yes')
        if status == report.CLEAN:
            self.promises += 1
            for _ in range(number):
                self.assertTrue(
                    self.create_server(flavor, {}),
                    'seed %d: %s %s %s' % (self.seed, specs, rows, said))

    def test_promises_about_moves_are_kept(self):
        self.counts = dict.fromkeys((0, 3), 0)
        self.promises = 0
        for number in range(REQUESTS):
            self.delete_some()
            where, has_host = self.draw_server()
            where = 'seed %d, request %d, %s' % (self.seed, number, where)
            if has_host is not None:
                self.check_move(self.servers[-1], where)
            if number % PROMISES == PROMISES - 1:
                check = self.random.choice((
                    self.check_drain, self.check_loss, self.check_room))
                check(self.random.choice(self.hosts))
        self.assertTrue(all(self.counts.values()), self.counts)
