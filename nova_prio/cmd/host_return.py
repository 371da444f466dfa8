# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host return``."""

from osc_lib import exceptions

from nova_prio.cmd import changes
from nova_prio.cmd import controller
from nova_prio.cmd import nova_api
from nova_prio.cmd import report


class ReturnHost(report.Report):
    """Let hosts take instances again, after "host drain".

    Wait for a heartbeat of nova-compute, and compare the state of each host as
    "host verify" does. If all values of a host agree, enable its nova-compute
    service through Nova's API. Otherwise, list the differences with their
    remedies. This command reads Nova's databases: run it where nova-manage
    runs. Exit status: 0 if all hosts are enabled, 3 if something differs, 1 if
    a check failed.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        nova_api.add_cloud_option(parser)
        changes.add_options(parser)
        parser.add_argument('hosts', nargs='+', metavar='HOST',
                            help='name of a compute host')
        parser.add_argument(
            '--force', action='store_true',
            help='also enable a service that was disabled with another reason '
            'than that of "host drain"')
        return parser

    def act(self, context, parsed_args):
        """List the differences, and enable the hosts without differences.

        :returns: exit status
        """
        from nova_prio.admin.host import readiness
        from nova_prio.admin.host import verify
        from nova_prio.admin.moves import services as nova_services
        nova = nova_api.connect(parsed_args)
        # Name of a host -> its service nova-compute
        services = {host: nova_services.read_service(nova, host)
                    for host in parsed_args.hosts}
        for host, service in services.items():
            if not (service.is_enabled or parsed_args.force or
                    service.reason == nova_services.REASON):
                raise exceptions.CommandError(
                    "HOST is '%s', whose nova-compute was disabled with the "
                    "reason '%s'; allowed are hosts that \"host drain\" has "
                    'disabled. Settle the reason, then give --force.'
                    % (host, service.reason))
        # The hosts whose nova-compute has written no heartbeat.
        silent = readiness.wait_for_heartbeats(context, services)
        placement = controller.make_placement_client()
        rows, states, differing = [], set(), []
        for host in services:
            is_silent = host in silent
            # A VerifyLine for each value that differs or cannot be read.
            lines = readiness.find_differences(
                context, placement, host, is_silent)
            for line in lines:
                rows.append([host] + report.format_line(line))
                states.add(line.state)
            if lines:
                differing.append(host)
        self.show(parsed_args, ('Host',) + verify.COLUMNS, rows)
        to_enable = [host for host, service in services.items()
                     if host not in differing and not service.is_enabled]
        if to_enable and not parsed_args.dry_run:
            changes.confirm(
                self.app, parsed_args, 'Enable the nova-compute services of '
                '%s?' % ', '.join(to_enable))
            for host in to_enable:
                nova_services.enable(nova, services[host])
                changes.log_change(
                    self.app, 'Host %s: enabled nova-compute.', host)
        if differing:
            status = report.FOUND
            if verify.UNREAD in states:
                status = report.FAILED
            return self.end(status, (
                'Not all values agree on %s: correct them from the top, and '
                'run this command again.' % ', '.join(differing)))
        if to_enable and parsed_args.dry_run:
            return self.end(report.CLEAN, (
                'Nothing was changed. All values agree: run this command '
                'without --dry-run to enable %s.' % ', '.join(to_enable)))
        return self.end(report.CLEAN, (
            'All values agree, and %s can take instances.'
            % ', '.join(services)))
