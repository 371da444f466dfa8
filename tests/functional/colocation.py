# SPDX-License-Identifier: Apache-2.0


"""Base class of the tests that enable and disable co-location."""

import json
import pathlib

import fixtures

from nova_prio.cmd import report
from tests import commands
from tests.functional import base

OURS, STOCK = 'prio.PriorityLibvirtDriver', 'libvirt.LibvirtDriver'


class Colocation(base.FunctionalTest):
    """A stock host, and the commands that enable and disable co-location."""

    def setUp(self):
        super().setUp()
        self.flags(connection='sqlite://', group='api_database')
        self.flags(allow_resize_to_same_host=True)
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)

    def command(self, *arguments, status=report.CLEAN, here='controller'):
        """Run a command on a host; return its rows."""
        # Starting a host sets the option [DEFAULT] host of this process.
        self.flags(host=here)
        found, rows, self.said = commands.run('host', *arguments)
        self.assertEqual(status, found, (rows, self.said))
        return rows

    def plan(self, *arguments, host='mix1', **kwargs):
        """Save a plan; return its rows: dict, (part, name) to row."""
        rows = self.command('plan', host, *arguments, **kwargs) or []
        self.kept = self.directory / 'plan.json'
        self.kept.write_text(json.dumps(rows))
        return {(row['Part'], row['Name']): row for row in rows}

    def do(self, dedicated='0-7', shared='8-11', ratio='2.0', mix=True,
           driver=OURS, name='mix1'):
        """Apply a plan to a host."""
        self._host_options[name].update({
            (None, 'compute_driver'): driver,
            (None, 'cpu_allocation_ratio'): float(ratio),
            (None, 'cpu_priority_mix_enable'): mix,
            ('compute', 'cpu_dedicated_set'): dedicated,
            ('compute', 'cpu_shared_set'): shared})
        self.restart_compute_service(name)
        # The first update sets the ratio. The second heals the allocations.
        self.update_host(name)
        self.update_host(name)

    def start_stock_host(self, **kwargs):
        self.start_seed_host(**{
            'dedicated': None, 'shared': None, 'ratio': 16.0, 'mix': False,
            'driver': STOCK, **kwargs})
