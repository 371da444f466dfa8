# SPDX-License-Identifier: Apache-2.0

"""The commands ``nova-prio host disable`` and ``nova-prio host enable``."""

import argparse
import contextlib
import sys
import time

from cliff import command
from osc_lib import exceptions
import tqdm

from nova_prio.cmd import controller
from nova_prio.cmd import host_verify
from nova_prio.cmd import report

COLUMNS = ('Instance', 'Priority', 'VCPUs', 'Memory MB', 'Reason', 'Fits On')

#: How often those that are left are counted while they are waited for.
INTERVAL_SECONDS = 5


class Disable(report.Report):
    """Take co-location back from a host, step by step.

    First, priority instances are kept off it, those that have to leave are
    listed with a host that each would fit on, and they are waited for: migrate
    or delete them. Then set the options of nova-compute as they were, restart
    it, and call this again: traits are taken from the host, and with --plan
    its allocation ratios are those of before. It can be interrupted and called
    again at any time; "host enable" undoes the first part. It reads Nova's
    databases: run it where nova-manage runs. Exit status: 0 where all is
    taken back, 3 where something is left to do.
    """

    of_host = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--dry-run', action='store_true', help='change nothing')
        parser.add_argument(
            '--plan', metavar='FILE',
            help='what "host plan -f json" wrote before the host was changed')
        parser.add_argument(
            '--timeout', type=_seconds, default=3600, metavar='SECONDS',
            help='how long those that have to leave are waited for; 0 not to '
            'wait (default: %(default)s)')
        return parser

    def run(self, parsed_args):
        """Do what can be done; return the exit status."""
        with controller.configure_nova(parsed_args) as self.context, (
                controller.report_errors()):
            self._plan = host_verify.load_plan_of_host(
                parsed_args.host, parsed_args.plan)
            return super().run(parsed_args)

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.host import drain
        view = self._count(parsed_args.host, not parsed_args.dry_run)
        fits = drain.find_destinations(
            self.context, self.placement, view, self._left)
        return COLUMNS, [_row(each, fits.get(each.uuid, ''))
                         for each in self._left]

    def _count(self, host, to_close=False):
        """Look who is left, and let nobody come if asked to; return the view.

        An older nova-compute, or somebody, may open the host again.
        """
        from nova_prio.admin.host import drain
        view, self._is_marked, self._is_up = self.look(host)
        if to_close and _is_ours(view):
            drain.disable(self.context, self.placement, view)
        self._left = list(drain.list_remaining(self.context, view, self._plan))
        return view

    def conclude(self, parsed_args):
        """Wait, or take back; say what is left to do."""
        from nova_prio.admin.host import drain
        from nova_prio.virt import demand
        host, dry_run = parsed_args.host, parsed_args.dry_run
        self.status = report.FOUND
        try:
            if self._left and not dry_run:
                self._wait(host, parsed_args.timeout)
        except KeyboardInterrupt:
            self.app.stderr.write('\n')
        view = self._count(host)
        if self._left:
            self.said = (
                'To leave %s: %d. See to each as its reason asks (migrate, '
                'delete, confirm), and run this again%s.' % (
                    host, len(self._left), '; nothing was changed' if dry_run
                    else ': no priority instance comes to it any more'))
            if not self._is_up:
                self.said += ' Its nova-compute is down: start it first.'
        elif _is_ours(view) and not drain.is_restored(view, self._plan):
            self.said = 'None has to leave %s. Next: %s' % (
                host, 'run this without --dry-run.' if dry_run
                else 'set the options of nova-compute there as they were%s, '
                'restart it, and run this again.' % _options(self._plan))
            if self._plan is None and any(
                    map(demand.get_instance_pins, view.instances)):
                self.said += (' Pinned instances are there, which need the '
                              'dedicated CPUs: --plan tells which have to '
                              'leave for that.')
        else:
            self._take_back(view, dry_run)

    def _wait(self, host, timeout):
        """Wait until none is left, or for as long as is asked for."""
        from nova_prio.placement import allocations
        until = time.monotonic() + timeout
        with tqdm.tqdm(total=len(self._left), unit=' instances', desc='left',
                       leave=False, disable=None, file=sys.stderr) as progress:
            while self._left and time.monotonic() < until:
                time.sleep(min(INTERVAL_SECONDS,
                               max(until - time.monotonic(), 0)))
                # Placement may be restarted meanwhile.
                with contextlib.suppress(allocations.PlacementRefused,
                                         *allocations.CLIENT_ERRORS):
                    self._count(host, to_close=True)
                progress.total = max(progress.total, len(self._left))
                progress.n = progress.total - len(self._left)
                progress.refresh()

    def _take_back(self, view, dry_run):
        """Take traits and allocation ratios back, where that is all."""
        from nova_prio.admin.host import drain
        inventories, others = view.inventories, []
        if self._plan:
            inventories, others = drain.restore_inventories(view, self._plan)
        if dry_run:
            self.said = ('Nothing was changed. Traits would be taken from %s, '
                         'and its allocation ratios would be %s.' % (
                             view.name, _ratios(inventories)))
            return
        drain.undo_colocation(self.context, self.placement, view, inventories,
                              self._plan)
        if others:
            self.said = (
                'Traits and allocation ratios are taken back, but '
                'nova-compute reports other amounts of %s than before: set '
                'its options as they were%s, restart it, and run this '
                'again.' % (
                    ', '.join(others), _options(self._plan)))
            return
        self.status = report.CLEAN
        self.said = '%s is as before. Its allocation ratios are %s%s. %s' % (
            view.name, _ratios(inventories), '' if self._plan else
            ': --plan would give it those of before',
            'There is nothing to do.'
            if _is_ours(view) or not self._is_marked else
            'Take it out of the host aggregate for priority instances.')


def _is_ours(view):
    """Return whether nova-compute runs our driver there."""
    return bool(view.report or view.problem)


def _seconds(text):
    """Return a number of seconds from 0 on; for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(
            "'%s' is given; allowed are whole seconds from 0 on" % text)
    return int(text)


def _row(left, fits_on):
    """Return what is shown of one that has to leave."""
    from nova_prio.model import flavor_specs
    flavor = left.instance and left.instance.flavor
    return (left.uuid, *(
        (flavor_specs.get_priority(flavor.extra_specs) or '', flavor.vcpus,
         flavor.memory_mb) if flavor else ('', '', '')), left.why, fits_on)


def _options(plan):
    """Return the options of before, as part of a sentence, or ''."""
    if plan is None:
        return ''
    from nova_prio.admin.host import plan_format
    return ' (%s)' % ', '.join(
        '%s = %s' % (name, value or '<not set>')
        for (part, name), value in plan.now.items() if part == plan_format.OPTION)


def _ratios(inventories):
    return ', '.join('%s %s' % (name, there['allocation_ratio'])
                     for name, there in sorted(inventories.items())
                     if name in ('MEMORY_MB', 'VCPU'))


class Enable(report.FromNova, command.Command):
    """Let a host admit priority instances again, which "disable" ended."""

    of_host = True

    def act(self, parsed_args):
        """Do it."""
        from nova_prio.admin.host import drain
        host = parsed_args.host
        view, _, is_up = self.look(host)
        if not _is_ours(view):
            raise exceptions.CommandError(
                "HOST is '%s', whose nova-compute reports no priority "
                'CPUs; allowed are hosts with our compute driver.' % host)
        drain.enable(self.context, self.placement, view)
        if not is_up:
            self.app.LOG.warning('The nova-compute of %s is down: start it.',
                                 host)
        self.app.LOG.warning(
            '%s admits priority instances. Run "nova-prio host verify %s" to '
            'see that all is as it should be.', host, host)
