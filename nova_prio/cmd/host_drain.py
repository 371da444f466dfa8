# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host drain``."""

import functools
import sys
import time

import tqdm

from nova_prio.cmd import changes
from nova_prio.cmd import nova_api
from nova_prio.cmd import report
from nova_prio.cmd import tables
from nova_prio_host import command as host_command

OPTIONAL_WAYS = 'cold', 'shelve'


class Drain(changes.Changes, nova_api.NovaAPI, report.Report):
    """Move all instances away from hosts, for maintenance.

    Plan the moves, disable the nova-compute services, and run the moves
    through Nova's API. If a move fails, plan again without this destination.
    Running instances are live-migrated, stopped instances are cold-migrated.
    The hosts keep their traits, aggregates and options. The command can be
    interrupted and run again at any time. It lists the instances that are
    left, with the reason. It reads Nova's databases: run it where nova-manage
    runs. Exit status: 0 if the hosts are empty, 3 if instances are left.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument('hosts', nargs='+', metavar='HOST',
                            help='name of a compute host')
        parser.add_argument(
            '--timeout', default=3600, metavar='SECONDS',
            type=functools.partial(host_command.parse_number, least=0),
            help='start no move after this time; Nova goes on with the '
            'running moves (default: %(default)s)')
        parser.add_argument(
            '--concurrency', default=1, metavar='N',
            type=functools.partial(host_command.parse_number, least=1),
            help='run at most N moves at once (default: %(default)s)')
        parser.add_argument(
            '--allow', action='append', default=[], choices=OPTIONAL_WAYS,
            help='if an instance fits nowhere else: "cold" also cold-migrates '
            'running instances, which restarts the guest; "shelve" shelves '
            'instances, which ends the guest (repeat option to allow both)')
        return parser

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.moves import drain as drain_module
        from nova_prio.admin.moves import remaining
        end = time.monotonic() + parsed_args.timeout
        self._drain = drain = drain_module.Drain(
            self.context, self.placement,
            list(dict.fromkeys(parsed_args.hosts)), parsed_args.allow)
        drain.refresh()
        self.warn_of_silent_cells(drain.cloud.silent_cells)
        self._end = ''
        if not parsed_args.dry_run:
            self._show_plan(list(remaining.list_rows(drain)))
            self.confirm(parsed_args, 'Disable the nova-compute services of '
                         '%s, and move these instances?' % self._names)
            self._disable()
            self._run(parsed_args, end)
            drain.refresh()
        self._rows = list(remaining.list_rows(drain))
        return remaining.COLUMNS, self._rows

    @property
    def _names(self):
        """The names of the hosts, for a sentence."""
        return ', '.join(self._drain.hosts)

    def _show_plan(self, rows):
        """Print the plan to standard error."""
        from nova_prio.admin.moves import remaining
        if rows:
            self.app.stderr.write(tables.format_table(
                list(remaining.COLUMNS), rows) + '\n')

    def _disable(self):
        """Disable the services; those that are disabled keep their reason."""
        from nova_prio.admin.moves import services
        for host in self._drain.hosts:
            service = services.read_service(self.nova, host)
            if service.is_enabled:
                services.disable(self.nova, service)
                self.log_change('Host %s: disabled nova-compute.', host)

    def _run(self, parsed_args, end):
        """Move the instances; an interrupt ends this."""
        total = len(self._drain.list_guests())
        # disable=None shows the progress on a terminal only.
        with tqdm.tqdm(total=total, unit=' instances', desc='have left',
                       leave=False, disable=None,
                       file=sys.stderr) as progress:
            def observe(sentence, has_left):
                """Log a change, and show the progress."""
                with tqdm.tqdm.external_write_mode(file=sys.stderr):
                    self.log_change('%s', sentence)
                progress.update(has_left)

            try:
                self._end = self._drain.run(
                    self.nova, end, observe, parsed_args.concurrency)
            except KeyboardInterrupt:
                self._end = 'Interrupted.'

    def conclude(self, parsed_args):
        """Set the exit status and the last line."""
        if parsed_args.dry_run:
            self._conclude_dry_run()
        elif self._drain.is_empty():
            self.last_line = (
                '%s: no instances. Next: maintain the host, then run '
                '"nova-prio host return %s".' % (
                    self._names, ' '.join(self._drain.hosts)))
        else:
            self.status = report.FOUND
            self.last_line = '%sInstances left on %s: %d. %s' % (
                self._end and self._end + ' ', self._names, len(self._rows),
                'Run this command again.' if self._end else
                'Act on each as its reason says, and run this command again.')

    def _conclude_dry_run(self):
        """Set the exit status and the last line of a plan."""
        planned = len(self._drain.plan.moves)
        left = len(self._rows) - planned
        self.status = report.FOUND if left else report.CLEAN
        self.last_line = (
            'Nothing was changed. Moves: %d; instances that would be left: '
            '%d. Run this command without --dry-run to %s.' % (
                planned, left, 'move the others' if left else 'move them'))
