# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio metrics``."""

import itertools
import time
import types

from cliff import command
from osc_lib import exceptions
import prometheus_client

from nova_prio.cmd import output_file
from nova_prio.cmd import report


class Metrics(report.NovaCommand, command.Command):
    """Print the metrics of the cloud in the text format of Prometheus.

    The numbers of the hosts are those of "capacity show", and the findings
    those of "audit". This command reads Nova's databases and Placement: run it
    where nova-manage runs, on one controller of the cloud.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--output', metavar='FILE',
            help='write this file for the textfile collector of '
            'node_exporter, with a name that ends in .prom (default: '
            'standard output)')
        parser.add_argument(
            '--no-audit', action='store_true',
            help='omit the findings of the audit, which takes longer than all '
            'else')
        return parser

    def run(self, parsed_args):
        """Run the command; after an error, write a file that reports it."""
        try:
            return super().run(parsed_args)
        except exceptions.CommandError:
            # Without this file, the numbers of the last success would stay.
            if parsed_args.output is not None:
                from nova_prio.admin import metrics
                self._write(parsed_args, metrics.make_families(
                    metrics.describe_collection(False, time.time())))
            raise

    def take_action(self, parsed_args):
        """Print or write the metrics."""
        from nova_prio.admin import metrics
        families, silent_cells = metrics.collect(
            self.context, self.placement,
            None if parsed_args.no_audit else self._audit)
        self.warn_of_silent_cells(silent_cells)
        self._write(parsed_args, families)

    def _audit(self):
        """Return the findings of an audit, an iterator."""
        from nova_prio.admin.audit import run
        audit = run.CloudAudit(self.context, self.placement)
        return itertools.chain.from_iterable(
            findings for findings, _ in audit.run())

    def _write(self, parsed_args, families):
        """Write the families to --output, or print them.

        :param families: iterable of Metric of prometheus_client
        """
        collected = types.SimpleNamespace(collect=lambda: families)
        text = prometheus_client.generate_latest(collected)
        if parsed_args.output is None:
            self.app.stdout.write(text.decode())
        else:
            output_file.write('--output', parsed_args.output, text)
