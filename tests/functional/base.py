# SPDX-License-Identifier: Apache-2.0

"""Base class of the functional tests."""

import contextlib
import functools
import logging

import fixtures
from lxml import etree
from nova.api.validation import validators
from nova import context
from nova import objects
from nova.policies import base as base_policies
from nova.policies import servers as servers_policies
from nova.tests.functional.api import client
from oslo_utils import importutils

from nova_prio.compute import start_gate
from nova_prio.model import looks
from nova_prio.objects import host_report
from nova_prio.objects import migration_states
from nova_prio.scheduler import request_filter
from nova_prio_scenario import cloud

FAKE_MIGRATE = 'nova.tests.fixtures.libvirt.Domain.migrateToURI3'
# Arguments of a validator, the id of its schema first -> validator. It keeps
# its schema, so that the id stays that of the schema.
_VALIDATORS = {}


def make_validator(schema, *args, make=validators._SchemaValidator):
    """Return Nova's validator for a schema of its API, made once.

    Nova makes a class and a validator for each request, which takes a
    thirtieth of the processor time of these tests.
    """
    key = id(schema), *args
    if key not in _VALIDATORS:
        _VALIDATORS[key] = make(schema, *args)
    return _VALIDATORS[key]


def keep_pools():
    """Do not end the pools of threads, in place of Nova's function."""


def leave_unfinished(task_state, status):
    """Return a step of a migration in which nova-compute is killed.

    The records of the instance and of the migration keep these values.
    """
    def step(*args, **kwargs):
        migration, = (each for each in (*args, *kwargs.values())
                      if isinstance(each, objects.Migration))
        migration.status = status
        migration.save()
        instance = migration.instance
        instance.task_state = task_state
        instance.save()

    return step


class FunctionalTest(cloud.Cloud):
    """A cloud with some flavors, and methods to read results as a user.

    A test fails if the start gate refuses a guest, unless ``refuses_starts``.
    """

    refuses_starts = False

    def setUp(self):
        # Nova's own tests validate the responses of its API. The validation
        # takes a twentieth of the processor time of these tests.
        self.flags(response_validation='ignore', group='api')
        self.stub_out('nova.api.validation.validators._SchemaValidator',
                      make_validator)
        # All services of this process share the pools of threads of Nova 34. A
        # service that stops late would end them in the next test.
        pools = importutils.try_import('nova.thread_pool_factory')
        if pools is not None:
            pools.shutdown_all_executors = keep_pools
        super().setUp()
        # Nova's tests format the messages for debugging, and keep none.
        logging.getLogger().setLevel(logging.INFO)
        logging.getLogger('nova_prio').setLevel(logging.DEBUG)
        # Two recounts are sufficient to end a lease.
        self.useFixture(fixtures.MockPatchObject(
            looks, 'LOOK_SECONDS', 0))
        # Tests check and correct what has changed less than a second ago, and
        # do not wait as long as Nova may prepare a live migration.
        self.useFixture(fixtures.MockPatchObject(
            migration_states, 'QUIET_SECONDS', -86400))
        if not self.refuses_starts:
            self._watch_start_gate()
        # A change of aggregates counts for the next request.
        self.useFixture(fixtures.MockPatchObject(
            request_filter, 'KEEP_SECONDS', 1e-6))

    def allow_moves_between_cells(self):
        """Let cold moves go to another cell; Nova's default policy does not.

        No disks exist for a snapshot.
        """
        self.policy.set_rules(
            {servers_policies.CROSS_CELL_RESIZE: base_policies.RULE_ADMIN_API},
            overwrite=False)
        self.useFixture(fixtures.MockPatch(
            'nova.virt.libvirt.driver.LibvirtDriver.snapshot'))

    def _watch_start_gate(self):
        """Fail the test at its end if the start gate has refused a guest."""
        refusals = []
        format_refusal = start_gate.format_refusal

        def record(*args):
            refusals.append(format_refusal(*args))
            return refusals[-1]

        self.useFixture(fixtures.MockPatchObject(
            start_gate, 'format_refusal', record))
        self.addCleanup(lambda: self.assertEqual([], refusals))

    @functools.cached_property
    def high(self):
        """Return a flavor with high priority."""
        return self.flavor(**{'hw:cpu_priority': 'high'})

    @functools.cached_property
    def low(self):
        """Return a flavor with low priority."""
        return self.flavor(**{'hw:cpu_priority': 'low'})

    @functools.cached_property
    def plain(self):
        """Return a flavor without a priority."""
        return self.flavor()

    def flavor(self, vcpus=4, **extra_specs):
        """Create a flavor; return its id."""
        return self._create_flavor(vcpu=vcpus, memory_mb=256, disk=1,
                                   extra_spec=extra_specs or None)

    def image(self, **properties):
        """Create an image with the given properties; return its id."""
        return self.glance.create(None, {
            'name': 'i', 'container_format': 'bare', 'disk_format': 'raw',
            'min_disk': 0, 'min_ram': 0, 'status': 'active',
            'visibility': 'public', 'size': 1,
            'properties': properties})['id']

    def start_seed_host(self, name='mix1', **kwargs):
        """Start the host of the example in the design."""
        options = dict(cpus=12, dedicated='0-7', shared='8-11', ratio=2.0,
                       mix=True, aggregate={'priority_mix': 'true'})
        self.start_host(name, **{**options, **kwargs})

    def share_disks(self, total=10000):
        """Create a provider that shares disks; return its UUID.

        The hosts must be in one aggregate: a request for a priority asks for
        providers in it.

        :param total: in GB
        """
        shared = self._post_resource_provider('shared')['uuid']
        self._set_inventory(shared, {
            'resource_class': 'DISK_GB', 'total': total})
        self._set_provider_traits(shared, ['MISC_SHARES_VIA_AGGREGATE'])
        aggregate, = self.api.api_get('/os-aggregates').body['aggregates']
        self._set_aggregate(shared, aggregate['uuid'])
        return shared

    def boot(self, flavor, state='ACTIVE', **kwargs):
        """Create a server and wait for its state; return the server."""
        return self._create_server(
            flavor_id=flavor, networks='none', expected_state=state, **kwargs)

    def boot_with_hint(self, flavor, hint, state='ACTIVE', count=1,
                       key='os:scheduler_hints', api=None, **kwargs):
        """Create servers with a priority hint; return one of them.

        :param state: state that each server must reach
        :param api: API client; by default that of the administrator
        :param kwargs: other attributes of the server
        """
        api = api or self.api
        body = {'server': self._build_server(
            flavor_id=flavor, networks='none'), key: {'priority': hint}}
        body['server'].update(min_count=count, max_count=count,
                              return_reservation_id=True, **kwargs)
        return self.wait_for_request(api.post_server(body), api, state)[0]

    def wait_for_request(self, answer, api=None, state='ACTIVE'):
        """Wait for all servers of a request; return them.

        :param answer: that of Nova, if the body of the request has
            ``return_reservation_id``
        :param api: API client; by default that of the administrator
        :param state: state that each server must reach
        """
        servers = (api or self.api).get_servers(search_opts={
            'reservation_id': answer['reservation_id']})
        return [self._wait_for_state_change(server, state)
                for server in servers]

    def no_guest_migrates(self):
        """Return a context where libvirt fails all live migrations."""
        return fixtures.MonkeyPatch(
            FAKE_MIGRATE, lambda domain, *args, **kwargs: domain.fail_job())

    def live_migrate_to(self, uuid, host):
        """Live-migrate a server to a host; the helper of Nova 32 cannot."""
        server = {'id': uuid}
        self.api.post_server_action(uuid, {'os-migrateLive': {
            'host': host, 'block_migration': 'auto'}})
        self._wait_for_migration_status(server, ['completed'])
        self._wait_for_state_change(server, 'ACTIVE')

    def reset_state(self, server):
        """Set a server to ACTIVE, as an operator does."""
        self.api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}})

    def migrations_of(self, server_id):
        """Return the migrations of a server from the API."""
        found = self.api.api_get(
            '/os-migrations?instance_uuid=' + server_id).body['migrations']
        return sorted(found, key=lambda migration: migration['id'])

    def soon(self, check, *args):
        """Call a check until it passes, for ten seconds; return its result."""
        return self._wait_for_assert(
            lambda: check(*args), max_retries=100, sleep=0.1)

    def refusal(self, call, *args, **kwargs):
        """Call the API, which must answer with 400; return the error text."""
        error = self.assertRaises(
            client.OpenStackApiException, call, *args, **kwargs)
        self.assertEqual(400, error.response.status_code)
        return error.response.json()['badRequest']['message']

    def extra_specs(self, server):
        """Return the extra specs of the flavor in the details of a server."""
        return self.api.get_server(server['id'])['flavor']['extra_specs']

    def host_of(self, server):
        """Return the host of a server."""
        return self.api.get_server(server['id'])['OS-EXT-SRV-ATTR:host']

    def domain(self, server):
        """Return the domain XML that a driver generated last, parsed."""
        return etree.fromstring(self.guest_xml(server['id']))

    def cpus_of_vcpus(self, server):
        """Return the CPU set of each vCPU, a list of str."""
        return [pin.get('cpuset') for pin in self.domain(server).findall(
            'cputune/vcpupin')]

    def resources(self, host, of='inventories'):
        """Return inventories or usages of a host from Placement."""
        return self.placement.get('/resource_providers/%s/%s' % (
            self.compute_rp_uuids[host], of)).body[of]

    def traits(self, host):
        """Return the traits of a host from Placement."""
        return self.placement.get(
            '/resource_providers/%s/traits' % self.compute_rp_uuids[host],
            version='1.6').body['traits']

    @contextlib.contextmanager
    def record(self, host):
        """Yield the compute node of a host, as the scheduler reads it."""
        cell = self.host_mappings[host].cell_mapping
        with context.target_cell(
                context.get_admin_context(), cell) as cctxt:
            yield objects.ComputeNode.get_by_host_and_nodename(
                cctxt, host, host)

    def report(self, host):
        """Return the CapacityReport that nova-compute saved last."""
        with self.record(host) as node:
            return host_report.HostReport.from_stats(node.stats)
