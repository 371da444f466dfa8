# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio metrics``."""

import time
import types

from cliff import command
from osc_lib import exceptions
import prometheus_client

from nova_prio.admin import config_files
from nova_prio.cmd import controller
from nova_prio.cmd import output_file
from nova_prio.cmd import report
from nova_prio.model import maturity


class Metrics(command.Command):
    """Print the metrics of the cloud in the text format of Prometheus.

    The numbers of the hosts are those of "capacity show", and the findings
    those of "audit". This command reads Nova's databases and Placement: run it
    where nova-manage runs, on one controller of the cloud.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        # The help ends with a line about how stable the command is.
        parser = maturity.mark(super().get_parser(prog_name))
        config_files.add_options(parser)
        parser.add_argument(
            '--output', metavar='FILE',
            help='write this file for the textfile collector of '
            'node_exporter, with a name that ends in .prom (default: '
            'standard output)')
        parser.add_argument(
            '--flavor', action='append', default=[], metavar='FLAVOR',
            help='also count the new servers of this flavor (name or ID) that '
            'fit on each host, as "capacity show --flavor" does, which takes '
            'about a second for each flavor at 1,000 hosts: run the command '
            'at most every five minutes (repeat option to count multiple '
            'flavors)')
        parser.add_argument(
            '--no-audit', action='store_true',
            help='omit the findings of the audit, which takes longer than all '
            'else')
        return parser

    def take_action(self, parsed_args):
        """Print or write the metrics; after an error, write a report of it."""
        path = parsed_args.output
        try:
            with (controller.configure_nova(parsed_args) as context,
                  controller.report_errors()):
                # Nova is imported late: the help is fast, and these contexts
                # turn an error of Nova into a CommandError.
                from nova_prio.admin import cloud_metrics
                placement = controller.make_placement_client()
                # None omits the findings. The audit runs when they are read.
                findings = None
                if not parsed_args.no_audit:
                    findings = _audit(context, placement)
                requests = _build_requests(
                    self.app, context, parsed_args.flavor)
                families, silent_cells = cloud_metrics.collect(
                    context, placement, findings, requests)
                report.warn_of_silent_cells(self.app, silent_cells)
                data = _format(families)
        except exceptions.CommandError:
            # Replace the file by one that only says that the collection has
            # failed: the numbers of the last success are out of date.
            if path is not None:
                # The error may have come before the import above.
                from nova_prio.admin import cloud_metrics
                failure = cloud_metrics.describe_collection(
                    has_succeeded=False, started_at=time.time())
                output_file.write('--output', path, _format(
                    cloud_metrics.make_families(failure)))
            raise
        if path is None:
            self.app.stdout.write(data.decode())
        else:
            output_file.write('--output', path, data)


def _build_requests(app, context, flavors):
    """Return the requests for a new server of each flavor.

    The requests are for the metric of the servers that fit on each host. Log a
    warning for a flavor that does not exist or is refused. The command prints
    other metrics too, so raise no error.

    :param flavors: names and IDs of flavors
    :returns: dict, name of a flavor -> RequestSpec
    """
    from nova_prio.admin.explain import requests
    found = {}
    for wanted in flavors:
        try:
            with controller.report_errors():
                flavor = controller.find_flavor(context, wanted)
                found[flavor.name] = requests.build_request(
                    context, controller.get_conf(), flavor, hints={},
                    image=None)
        except exceptions.CommandError as error:
            app.LOG.warning("Flavor '%s' is omitted: %s", wanted, error)
    return found


def _audit(context, placement):
    """Yield the findings of an audit of all hosts."""
    from nova_prio.admin.audit import run
    for findings, _ in run.CloudAudit(context, placement).run():
        yield from findings


def _format(families):
    """Return the metrics in the text format of Prometheus, bytes.

    :param families: iterable of Metric of prometheus_client
    """
    # The library calls ``collect`` of a registry of metrics.
    registry = types.SimpleNamespace(collect=lambda: families)
    return prometheus_client.generate_latest(registry)
