# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host return``."""

from osc_lib import exceptions

from nova_prio.cmd import changes
from nova_prio.cmd import nova_api
from nova_prio.cmd import report


class Return(changes.Changes, nova_api.NovaAPI, report.Report):
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
        parser.add_argument('hosts', nargs='+', metavar='HOST',
                            help='name of a compute host')
        parser.add_argument(
            '--force', action='store_true',
            help='also enable a service that was disabled with another reason '
            'than that of "host drain"')
        return parser

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.host import readiness
        from nova_prio.admin.host import verify
        from nova_prio.admin.moves import services
        self._services = {host: services.read_service(self.nova, host)
                          for host in parsed_args.hosts}
        for host, service in self._services.items():
            if not (service.is_enabled or parsed_args.force or
                    service.reason == services.REASON):
                raise exceptions.CommandError(
                    "HOST is '%s', whose nova-compute was disabled with the "
                    "reason '%s'; allowed are hosts that \"host drain\" has "
                    'disabled. Settle the reason, then give --force.'
                    % (host, service.reason))
        silent = readiness.wait_for_heartbeats(self.context, self._services)
        self._differences = {
            host: readiness.find_differences(
                self.context, self.placement, host, host in silent)
            for host in self._services}
        return ('Host', *verify.COLUMNS), [
            (host, line.item, *map(report.AmountsColumn, (
                line.plan, line.placement, line.compute, line.libvirt)),
             line.state, line.remedy)
            for host, lines in self._differences.items() for line in lines]

    def conclude(self, parsed_args):
        """Enable the services; set the exit status and the last line."""
        from nova_prio.admin.host import verify
        differing = [host for host, lines in self._differences.items()
                     if lines]
        ready = [host for host, service in self._services.items()
                 if host not in differing and not service.is_enabled]
        if ready and not parsed_args.dry_run:
            self._enable(parsed_args, ready)
        if differing:
            self.status = report.FAILED if any(
                line.state == verify.UNREAD for lines in
                self._differences.values() for line in lines) else report.FOUND
            self.last_line = (
                'Not all values agree on %s: correct them from the top, and '
                'run this command again.' % ', '.join(differing))
        elif ready and parsed_args.dry_run:
            self.last_line = (
                'Nothing was changed. All values agree: run this command '
                'without --dry-run to enable %s.' % ', '.join(ready))
        else:
            self.last_line = (
                'All values agree, and %s can take instances.'
                % ', '.join(self._services))

    def _enable(self, parsed_args, hosts):
        """Enable the services of hosts after a confirmation."""
        from nova_prio.admin.moves import services
        self.confirm(parsed_args, 'Enable the nova-compute services of %s?'
                     % ', '.join(hosts))
        for host in hosts:
            services.enable(self.nova, self._services[host])
            self.log_change('Host %s: enabled nova-compute.', host)
