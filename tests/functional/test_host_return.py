# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host return``."""

import fixtures

from nova_prio.admin.host import readiness
from nova_prio.admin.moves import services
from nova_prio.cmd import report
from tests.functional import maintenance


class HostReturn(maintenance.Maintenance):

    def setUp(self):
        self.flags(report_interval=1)
        self.stub_out('nova.servicegroup.api.INITIAL_REPORTING_DELAY', 0)
        super().setUp()
        for name, value in (('INTERVAL_SECONDS', 0.1),
                            ('TIMEOUT_SECONDS', 10)):
            self.useFixture(fixtures.MockPatchObject(readiness, name, value))

    def do_return(self, *arguments, status=report.CLEAN):
        """Run "host return"; return dict, item -> row."""
        return {row['Item']: row for row in self.command(
            'return', 'mix1', *arguments, status=status)}

    def test_host_that_agrees_is_enabled(self):
        server = self.boot(self.high, az='nova:mix1')
        self.drain('mix1')
        self.assert_service('mix1', 'disabled', services.REASON)
        self.assertEqual({}, self.do_return('--dry-run'))
        self.assertIn('Nothing was changed. All values agree: run', self.said)
        self.assert_service('mix1', 'disabled', services.REASON)
        self.do_return()
        self.assertIn('Host mix1: enabled nova-compute.', self.said)
        self.assert_service('mix1', 'enabled')
        self._live_migrate(server)
        self.assertEqual('mix1', self.host_of(server))
        self.do_return()
        self.assertNotIn('enabled nova-compute', self.said)

    def test_host_that_differs_stays_disabled(self):
        self.start_host('stock1', driver='libvirt.LibvirtDriver')
        self.drain('mix1', 'stock1')
        options = self._host_options['mix1']
        before = options[None, 'compute_driver']
        options[None, 'compute_driver'] = 'libvirt.LibvirtDriver'
        self.restart_compute_service('mix1')
        rows = self.do_return('stock1', status=report.FOUND)
        self.assertEqual({'mix1'}, {row['Host'] for row in rows.values()})
        self.assertIn('report', rows)
        self.assertIn('Not all values agree on mix1: correct', self.said)
        self.assert_service('mix1', 'disabled', services.REASON)
        self.assert_service('stock1', 'enabled')
        options[None, 'compute_driver'] = before
        self.restart_compute_service('mix1')
        self.do_return()
        self.assert_service('mix1', 'enabled')

    def test_host_whose_compute_is_not_started_stays_disabled(self):
        self.drain('mix1')
        self.computes['mix1'].stop()
        self.hosts_down.add('mix1')
        self.useFixture(fixtures.MockPatchObject(
            readiness, 'TIMEOUT_SECONDS', 3))
        rows = self.do_return(status=report.FOUND)
        self.assertEqual('no heartbeat', rows['nova-compute']['Compute'])
        self._force_down('mix1', True)
        rows = self.do_return(status=report.FOUND)
        self.assertEqual('down', rows['nova-compute']['Compute'])
        self.assert_service('mix1', 'disabled', services.REASON)

    def test_reason_of_an_operator_needs_force(self):
        self.admin_api.put_service(self.get_service('mix1')['id'], {
            'status': 'disabled', 'disabled_reason': 'broken fan'})
        self.command('return', 'mix1', status=report.FAILED)
        self.assertIn("was disabled with the reason 'broken fan'; allowed",
                      self.said)
        self.assert_service('mix1', 'disabled', 'broken fan')
        self.do_return('--force')
        self.assert_service('mix1', 'enabled')
