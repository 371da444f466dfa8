# SPDX-License-Identifier: Apache-2.0

"""The commands ``openstack priority``, with the real openstacksdk."""

import contextlib
import io
import json
import types

from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.api import client as nova_client
from openstack import exceptions

from nova_prio_osc import capacity
from nova_prio_osc import server as server_commands
from tests.functional import base
from tests.functional import sdk_connection

OTHER_PROJECT = '0' * 32


class OpenStackClient(base.FunctionalTest):

    def setUp(self):
        super().setUp()
        # Nova's default policy; Nova's test environment disables it.
        self.flags(enforce_new_defaults=True, group='oslo_policy')
        self.useFixture(nova_fixtures.RealPolicyFixture())
        self.admin = self.api_fixture.admin_api
        self.member = self.api_fixture.api
        self.member.microversion = self.api.microversion
        self.start_seed_host('mix1')

    def list(self, command, *arguments, user=None):
        """Run a command; return its rows, each a dict."""
        out = io.StringIO()
        with (sdk_connection.connect(self, user or self.admin) as connection,
              contextlib.redirect_stdout(out)):
            runner = command(types.SimpleNamespace(
                stdout=out, client_manager=types.SimpleNamespace(
                    sdk_connection=connection)), None)
            runner.run(runner.get_parser('openstack').parse_args(
                [*arguments, '-f', 'json']))
        return json.loads(out.getvalue())

    def capacity(self, *arguments, **kwargs):
        """Return dict, host -> list of its values."""
        return {name: values for name, *values in (
            row.values() for row in self.list(
                capacity.ListCapacity, *arguments, **kwargs))}

    def servers(self, *arguments, **kwargs):
        """Return dict, server ID -> row, a dict."""
        return {row['ID']: row for row in self.list(
            server_commands.ListServer, *arguments, **kwargs)}

    def projects(self, *arguments, **kwargs):
        """Return the rows of the projects, each a list of its values."""
        return [list(row.values()) for row in self.list(
            server_commands.ListProject, *arguments, **kwargs)]

    def boot_in_other_project(self, flavor):
        """Create a server in another project; return its ID."""
        other = nova_client.TestOpenStackClient(
            'other', self.api_fixture.base_url, project_id=OTHER_PROJECT,
            roles=['reader', 'member'])
        other.microversion = self.api.microversion
        server = other.post_server({'server': self._build_server(
            flavor_id=flavor, networks='none')})
        return self._wait_for_state_change(server, 'ACTIVE')['id']

    def test_capacity_is_that_of_placement(self):
        self.start_seed_host('off1', mix=False)
        self.start_host('stock1', cpus=4, driver='libvirt.LibvirtDriver')
        self.boot(self.high, az='nova:mix1')
        self.boot(self.low, az='nova:mix1')
        self.boot(self.plain, az='nova:off1')
        hosts = {'mix1': [True, True, 4, 8, 4, 4, 16, 12],
                 'off1': [False, True, 0, 8, 8, 4, 8, 4]}
        self.assertEqual(hosts, self.capacity())
        self._create_aggregate('empty')
        self.assertEqual({}, self.capacity('--aggregate', 'empty'))
        self.assertEqual(
            hosts, self.capacity('--aggregate', 'priority_mix=true'))

    def test_units_can_be_created(self):
        self.start_seed_host('off1', mix=False)
        self.boot(self.high, az='nova:mix1')
        wide = self.flavor(12, **{'hw:cpu_priority': 'low'})
        for flavor, mix, off in (
                (self.high, 1, 2), (self.low, 4, 2), (wide, 1, 0),
                (self.flavor(3, **{'resources:PCPU': '2',
                                   'resources:VCPU': '1'}), 2, 4),
                (self.flavor(3, **{
                    'hw:cpu_policy': 'mixed',
                    'hw:cpu_dedicated_mask': '^0',
                    'hw:emulator_threads_policy': 'isolate'}), 1, 2)):
            self.assertEqual(
                {'mix1': mix, 'off1': off},
                {name: values[-1] for name, values in self.capacity(
                    '--flavor', flavor).items()})
            for host, most in ('mix1', mix), ('off1', off):
                servers = [self.boot(flavor, az='nova:' + host)
                           for _ in range(most)]
                self.boot(flavor, 'ERROR', az='nova:' + host)
                for server in servers:
                    self._delete_server(server)

    def test_disabled_host_has_no_units_of_priority_flavors(self):
        provider = '/resource_providers/%s/traits' % (
            self.compute_rp_uuids['mix1'])
        record = self.placement.get(provider, version='1.6').body
        self.placement.put(
            '/traits/CUSTOM_CPU_PRIORITY_DISABLED', None, version='1.6')
        record['traits'].remove('CUSTOM_CPU_PRIORITY')
        record['traits'].append('CUSTOM_CPU_PRIORITY_DISABLED')
        self.placement.put(provider, record, version='1.6')
        for flavor, units in (self.low, 0), (self.plain, 4):
            self.assertEqual(
                {'mix1': [True, False, 0, 8, 8, 0, 16, 16, units]},
                self.capacity('--flavor', flavor))

    def test_servers_have_class_and_vcpus(self):
        mixed = self.flavor(3, **{'resources:PCPU': '2',
                                  'resources:VCPU': '1'})
        hinted = self.boot_with_hint(self.flavor(2), 'low')
        servers = {
            self.boot(self.high)['id']: ['high', 'high', 4, 0],
            self.boot(self.low)['id']: ['low', 'low', 0, 4],
            self.boot(mixed)['id']: ['', 'ordinary', 2, 1],
            hinted['id']: ['low', 'low', 0, 2]}
        columns = ('Priority', 'Class', 'Dedicated vCPUs', 'Shared vCPUs')
        listed = self.servers()
        self.assertEqual(servers, {
            uuid: [row[column] for column in columns]
            for uuid, row in listed.items()})
        self.assertEqual({'mix1'}, {row['Host'] for row in listed.values()})
        self.assertEqual({}, self.servers('--host', 'other'))
        # As Nova does, the client hides the host from a member.
        self.assertEqual({''}, {row['Host'] for row in self.servers(
            user=self.member).values()})

    def test_projects_are_listed_with_their_vcpus(self):
        mine = self.boot(self.high)
        other = self.boot_in_other_project(self.low)
        self.boot_in_other_project(self.low)
        self.boot(self.flavor(64), 'ERROR')
        project = self.member.project_id
        rows = [[OTHER_PROJECT, 'low', 2, 0, 8], [project, 'high', 1, 4, 0]]
        self.assertEqual(rows, self.projects('--all-projects'))
        self.assertEqual(rows[1:], self.projects())
        self.assertEqual(rows[1:], self.projects(user=self.member))
        self.assertIn(other, self.servers('--all-projects'))
        self.assertNotIn(other, self.servers())
        self.api.post_server_action(mine['id'], {'shelve': None})
        self._wait_for_state_change(mine, 'SHELVED_OFFLOADED')
        self.assertEqual(rows[:1], self.projects('--all-projects'))

    def test_member_gets_the_policy_error_of_the_api(self):
        for call, words in (
                (self.capacity, 'placement/traits'),
                (self.servers, 'detail:get_all_tenants'),
                (self.projects, 'detail:get_all_tenants')):
            arguments = [] if call == self.capacity else ['--all-projects']
            error = self.assertRaises(
                exceptions.ForbiddenException, call, *arguments,
                user=self.member)
            self.assertIn(words, str(error))

    def test_unknown_names_are_refused(self):
        for option in '--aggregate', '--flavor':
            error = self.assertRaises(
                exceptions.NotFoundException, self.capacity, option, 'none')
            self.assertIn('none', str(error))
