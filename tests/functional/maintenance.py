# SPDX-License-Identifier: Apache-2.0

"""Base class of the tests that maintain hosts."""

import fixtures

from nova_prio.admin.moves import execution
from nova_prio.cmd import report
from tests import commands
from tests.functional import base
from tests.functional import sdk_connection


def let_commands_move(cloud):
    """Let guests migrate, and commands move them without a wait.

    :param cloud: a ``FunctionalTest``
    """
    cloud.let_guests_migrate()
    cloud.useFixture(fixtures.MockPatchObject(
        execution, 'INTERVAL_SECONDS', 0.05))
    cloud.enterContext(
        sdk_connection.connect(cloud, cloud.api_fixture.admin_api))


class Maintenance(base.FunctionalTest):
    """Hosts whose guests can migrate, and the commands that maintain them."""

    def setUp(self):
        super().setUp()
        let_commands_move(self)
        self.flags(connection='sqlite://', group='api_database')
        for name in 'mix1', 'mix2':
            self.start_seed_host(name)

    def command(self, *arguments, status=report.CLEAN):
        """Run a command on a host; return its rows, by instance."""
        for name in sorted(set(self.computes) - self.hosts_down):
            self.update_host(name)
        # Starting a host sets the option [DEFAULT] host of this process.
        self.flags(host='controller')
        found, rows, self.said = commands.run('host', *arguments)
        self.assertEqual(status, found, (rows, self.said))
        return rows

    def drain(self, *arguments, status=report.CLEAN):
        """Run "host drain"; return dict, UUID -> row."""
        rows = self.command('drain', *arguments, status=status)
        return {row['Instance']: row for row in rows or ()}

    def assert_service(self, host, status, reason=None):
        """Compare the nova-compute service of a host."""
        service = self.get_service(host)
        self.assertEqual((status, reason), (
            service['status'], service['disabled_reason']))

    def add_trait(self, host, trait):
        """Add a trait to the resource provider of a host."""
        self.placement.put('/traits/' + trait, None, version='1.6')
        url = '/resource_providers/%s/traits' % self.compute_rp_uuids[host]
        body = self.placement.get(url, version='1.6').body
        self.placement.put(url, {**body, 'traits': [*body['traits'], trait]},
                           version='1.6')
