# SPDX-License-Identifier: Apache-2.0

"""The commands ``nova-prio host disable`` and ``nova-prio host enable``."""

import functools
import sys

from cliff import command
from osc_lib import exceptions
import tqdm

from nova_prio.cmd import report
from nova_prio_host import command as host_command

COLUMNS = ('Instance', 'Priority', 'VCPUs', 'Memory MB', 'Reason', 'Fits On')


class Disable(report.Report):
    """Remove co-location from a host, step by step.

    First, disable the host for priority instances, list the instances that
    must leave with a host that each fits on, and wait for them: migrate or
    delete them. Then restore the options of nova-compute, restart
    nova-compute, and run this command again: it removes the traits from the
    host and, with --plan, restores its allocation ratios. The command can be
    interrupted and repeated at any time; "host enable" undoes the first step.
    It reads Nova's databases: run it where nova-manage runs. Exit status: 0 if
    all is restored, 3 if the operator must act.
    """

    is_for_one_host = True
    takes_plan = True

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--dry-run', action='store_true', help='change nothing')
        parser.add_argument(
            '--timeout', default=3600, metavar='SECONDS',
            type=functools.partial(host_command.parse_number, least=0),
            help='wait as long as this for the instances that must leave; 0 '
            'not to wait (default: %(default)s)')
        return parser

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.host import destinations
        from nova_prio.admin.host import removal
        self._removal = removal.Removal(
            self.context, self.placement, parsed_args.host,
            self.load_plan(parsed_args))
        # Without --dry-run, this also disables the host.
        self._removal.refresh(must_disable=not parsed_args.dry_run)
        remaining = self._removal.remaining
        hosts_by_uuid = destinations.find_destinations(
            self.context, self.placement, self._removal.state.view, remaining)
        return COLUMNS, [
            (each.uuid, *each.describe(), each.reason,
             hosts_by_uuid.get(each.uuid, '')) for each in remaining]

    def conclude(self, parsed_args):
        """Wait for the instances, or restore the host; set the last line."""
        from nova_prio.virt import demand
        removal, dry_run = self._removal, parsed_args.dry_run
        self.status = report.FOUND
        if removal.remaining and not dry_run:
            self._wait(parsed_args.timeout)
        removal.refresh()
        if removal.remaining:
            self.last_line = (
                'Instances that must leave %s: %d. Act on each as its reason '
                'says (migrate, delete, confirm), and run this command '
                'again; %s.' % (
                    parsed_args.host, len(removal.remaining),
                    'nothing was changed' if dry_run else
                    'the host is disabled for priority instances'))
            if not removal.state.is_up:
                self.last_line += ' Its nova-compute is down: start it first.'
        elif removal.has_planned_options:
            self.last_line = 'No instance has to leave %s. Next: %s' % (
                parsed_args.host, 'run this command without --dry-run.'
                if dry_run else 'restore the options of nova-compute%s, '
                'restart it, and run this command again.'
                % self._format_options())
            if removal.plan is None and any(map(
                    demand.get_instance_pins, removal.state.view.instances)):
                self.last_line += (
                    ' The host has pinned instances, which need the dedicated '
                    'CPUs: use --plan to list the ones that must leave.')
        else:
            self._restore(dry_run)

    def _wait(self, timeout_seconds):
        """Wait until no instance remains, an interrupt, or the timeout."""
        removal = self._removal
        try:
            with tqdm.tqdm(total=len(removal.remaining), unit=' instances',
                           desc='have left', leave=False, disable=None,
                           file=sys.stderr) as progress:
                for remaining in removal.wait(timeout_seconds):
                    # An instance may still arrive during the wait.
                    progress.total = max(progress.total, remaining)
                    progress.n = progress.total - remaining
                    progress.refresh()
        except KeyboardInterrupt:
            self.app.stderr.write('\n')

    def _restore(self, dry_run):
        """Restore traits and allocation ratios; set status and last line."""
        removal, host_name = self._removal, self._removal.state.view.name
        inventories, differing_classes = removal.get_old_inventories()
        ratios = ', '.join(
            '%s %s' % (name, inventories[name]['allocation_ratio'])
            for name in ('MEMORY_MB', 'VCPU') if name in inventories)
        if dry_run:
            self.last_line = (
                'Nothing was changed. This command would remove the traits '
                'from %s, and set its allocation ratios to %s.'
                % (host_name, ratios))
            return
        removal.restore(inventories)
        if differing_classes:
            self.last_line = (
                'Traits and allocation ratios are restored, but nova-compute '
                'reports other amounts of %s than before the plan: restore '
                'its options%s, restart it, and run this command again.'
                % (', '.join(differing_classes), self._format_options()))
            return
        self.status = report.CLEAN
        # Without the plan, the ratios are the defaults.
        self.last_line = '%s is restored. Its allocation ratios are %s%s. ' % (
            host_name, ratios, '' if removal.plan else
            '; use --plan to restore the old ones')
        # If the host still runs our driver, it ran it before the plan, too.
        if (removal.state.in_priority_aggregate and
                not removal.state.has_our_driver):
            self.last_line += ('Remove it from the host aggregate for '
                               'priority instances.')
        else:
            self.last_line += 'There is nothing to do.'

    def _format_options(self):
        """Return the options before the plan in parentheses, or ''."""
        plan = self._removal.plan
        return ' (%s)' % ', '.join(
            '%s = %s' % (name, value or '<not set>')
            for name, value in plan.old_options.items()) if plan else ''


class Enable(report.NovaCommand, command.Command):
    """Enable a host for priority instances again, after "host disable"."""

    is_for_one_host = True

    def take_action(self, parsed_args):
        """Enable the host."""
        from nova_prio.admin.host import removal
        from nova_prio.admin.host import state
        host_state = state.read_state(
            self.context, self.placement, parsed_args.host)
        if not host_state.has_our_driver:
            raise exceptions.CommandError(
                "HOST is '%s', whose nova-compute reports no priority CPUs; "
                'allowed are hosts with the compute driver of nova-prio.'
                % parsed_args.host)
        removal.set_disabled(
            self.context, self.placement, host_state.view, is_disabled=False)
        if not host_state.is_up:
            self.app.LOG.warning('The nova-compute of %s is down: start it.',
                                 parsed_args.host)
        self.app.LOG.warning(
            '%s is enabled for priority instances. Run "nova-prio host verify '
            '%s" to check its state.', parsed_args.host, parsed_args.host)
