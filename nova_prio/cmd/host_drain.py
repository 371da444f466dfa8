# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host drain``."""

import functools
import sys
import time

from osc_lib import exceptions
import tqdm

from nova_prio.cmd import changes
from nova_prio.cmd import nova_api
from nova_prio.cmd import report
from nova_prio.cmd import tables
from nova_prio.model.planner import fleet
from nova_prio_host import command as host_command


class Drain(changes.Changes, nova_api.NovaAPI, report.Report):
    """Move all instances away from hosts, for maintenance.

    List where the instances can go, disable the nova-compute services, and
    send the instances away through Nova's API. Nova chooses their hosts. What
    Nova refuses is tried again after others have left. If Nova finds no host,
    instances of other hosts are moved out of the way. Running instances are
    live-migrated, stopped instances are cold-migrated. The hosts keep their
    traits, aggregates and options. The command can be interrupted and run
    again at any time. It lists the instances that are left, with the reason.
    If no instance can leave, it changes nothing. It reads Nova's databases:
    run it where nova-manage runs. Exit status: 0 if the hosts are empty, 3 if
    instances are left.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument('hosts', nargs='*', metavar='HOST',
                            help='name of a compute host')
        parser.add_argument(
            '--aggregate', metavar='NAME',
            help='drain the next hosts of this host aggregate')
        parser.add_argument(
            '--batch', default=1, metavar='N',
            type=functools.partial(host_command.parse_number, least=1),
            help='with --aggregate: drain at most N hosts, fewer if the '
            'others would not keep room for the high-priority guests of the '
            'largest host (default: %(default)s)')
        parser.add_argument(
            '--done', metavar='FILE',
            help='with --aggregate: omit the hosts that this file lists, one '
            'name in each line, and append the hosts that are empty; the file '
            'is created if it is missing')
        parser.add_argument(
            '--within', metavar='NAME',
            help='move all instances to hosts of this host aggregate: the '
            'command then names the best of these hosts for each instance')
        nova_api.add_timeout(parser)
        parser.add_argument(
            '--concurrency', default=1, metavar='N',
            type=functools.partial(host_command.parse_number, least=1),
            help='run at most N moves at once (default: %(default)s)')
        parser.add_argument(
            '--allow', action='append', default=[], choices=fleet.WAYS[1:],
            help='if an instance fits nowhere else: "cold" also cold-migrates '
            'running instances, which restarts the guest; "shelve" shelves '
            'instances, which ends the guest (repeat option to allow both)')
        return parser

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.moves import remaining
        end = time.monotonic() + parsed_args.timeout
        report.check_columns(parsed_args, remaining.COLUMNS)
        if bool(parsed_args.hosts) == bool(parsed_args.aggregate):
            raise exceptions.CommandError(
                'Given are %s; allowed is either HOST or --aggregate.' % (
                    'both HOST and --aggregate' if parsed_args.hosts else
                    'neither HOST nor --aggregate'))
        if bool(parsed_args.aggregate) != bool(parsed_args.done):
            raise exceptions.CommandError(
                '--aggregate and --done must be given together.')
        report.check_aggregate(self.context, '--within', parsed_args.within)
        self._drain, self._end, self._rows = None, '', []
        self._hosts, cloud = (
            self._choose_batch(parsed_args) if parsed_args.aggregate else
            (list(dict.fromkeys(parsed_args.hosts)), None))
        if self._hosts:
            self._drain = self._make_drain(parsed_args, self._hosts, cloud)
            self.warn_of_silent_cells(self._drain.cloud.silent_cells)
            if not parsed_args.aggregate:
                self._warn_of_missing_room()
            self._has_begun = self._drain.can_begin()
            if not self._has_begun:
                self._end = 'Nothing was changed: no instance can leave.'
            elif not parsed_args.dry_run:
                self._move(parsed_args, end)
            self._rows = list(remaining.list_rows(self._drain))
        return report.place_names(
            parsed_args, remaining.COLUMNS, self._rows, 'Instance')

    def _make_drain(self, parsed_args, hosts, cloud=None):
        """Return a planned Drain of hosts."""
        from nova_prio.admin.moves import drain as drain_module
        drain = drain_module.Drain(
            self.context, self.placement, hosts, parsed_args.allow,
            parsed_args.within)
        drain.refresh(cloud)
        drain.make_plan()
        return drain

    def _choose_batch(self, parsed_args):
        """Return the next hosts and the cloud; set the last line if none.

        :returns: (list of names, CloudFleet)
        """
        from nova_prio.admin.fleet import cloud as fleet_cloud
        from nova_prio.admin import host_inventory
        from nova_prio.admin.moves import batch
        from nova_prio.admin.moves import services
        aggregate, done = parsed_args.aggregate, _read_done(parsed_args.done)
        cloud = fleet_cloud.read_fleet(self.context, self.placement)
        members = batch.list_members(cloud, aggregate)
        if not members:
            report.refuse('--aggregate', aggregate,
                          'names of host aggregates with hosts')
        begun = {name for name, service in host_inventory.read_services(
            self.context).items()
            if service.disabled_reason == services.REASON}
        not_returned = sorted(begun.intersection(members, done))
        remedy = not_returned and (
            'Drained hosts that are not returned: %s. First run "nova-prio '
            'host return %s". ' % (
                ', '.join(not_returned), ' '.join(not_returned))) or ''
        if not set(members).difference(done):
            self.status = report.FOUND if remedy else report.CLEAN
            self.last_line = 'All %d hosts of aggregate %s are in %s%s' % (
                len(members), aggregate, parsed_args.done,
                '. ' + remedy if remedy else ': there is nothing to do.')
            return [], cloud
        hosts, problem = batch.choose_batch(
            cloud, aggregate, done, begun, parsed_args.batch,
            lambda hosts: self._make_drain(parsed_args, hosts, cloud).plan)
        if not hosts:
            self.status = report.FOUND
            self.last_line = (
                'Nothing was changed: no host of aggregate %s can be drained '
                'now. %s%s' % (aggregate, remedy, problem))
        elif problem:
            self.app.LOG.warning(
                'Hosts that are drained now: %d. More are not drained, for '
                'this reason: %s', len(hosts), problem)
        return list(hosts), cloud

    def _warn_of_missing_room(self):
        """Warn if the other hosts do not keep room for a lost host."""
        from nova_prio.admin.moves import batch
        for warning in batch.list_warnings(
                self._drain.cloud, self._hosts, self._drain.plan):
            self.app.LOG.warning('%s', warning)

    def _move(self, parsed_args, end):
        """Show the plan, ask, and drain the hosts."""
        from nova_prio.admin.moves import remaining
        rows = list(remaining.list_rows(self._drain))
        self._show_plan(rows)
        left = sum(row.state == remaining.LEFT for row in rows)
        self.confirm(
            parsed_args, 'Disable the nova-compute services of %s, and move '
            'these instances%s?' % (self._names, left and (
                ' except the %d that cannot leave now' % left) or ''))
        if parsed_args.done:
            _append_done(parsed_args.done, [])
        self._disable()
        self._run(parsed_args, end)
        if parsed_args.done:
            empty = self._drain.list_empty_hosts()
            _append_done(parsed_args.done, empty)
            for host in empty:
                self.log_change('Host %s: it is empty, and is added to %s.',
                                host, parsed_args.done)

    @property
    def _names(self):
        """The names of the hosts, for a sentence."""
        return ', '.join(self._hosts)

    def _show_plan(self, rows):
        """Print the plan to standard error."""
        from nova_prio.admin.moves import remaining
        if rows:
            self.app.stderr.write(tables.format_table(
                list(remaining.COLUMNS[:-1]), [
                    (report.add_name(row.uuid, row.name), *row[1:-1])
                    for row in rows]) + '\n')

    def _disable(self):
        """Disable the services; those that are disabled keep their reason."""
        from nova_prio.admin.moves import services
        for host in self._hosts:
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
                self._drain.refresh()

    def conclude(self, parsed_args):
        """Set the exit status and the last line."""
        if self._drain is None:
            return
        if parsed_args.dry_run:
            self._conclude_dry_run()
        elif self._drain.is_empty():
            self.last_line = (
                '%s: no instances. Next: maintain the host, then run '
                '"nova-prio host return %s"%s.' % (
                    self._names, ' '.join(self._hosts),
                    ', and run this command again for the next hosts'
                    if parsed_args.aggregate else ''))
        else:
            self.status = report.FOUND
            self.last_line = '%sInstances left on %s: %d. %s' % (
                self._end and self._end + ' ', self._names, len(self._rows),
                'Run this command again.' if self._has_begun and self._end
                else 'Act on each as its reason says, and run this command '
                'again.')

    def _conclude_dry_run(self):
        """Set the exit status and the last line of a plan."""
        from nova_prio.admin.moves import remaining
        planned = sum(row.state == remaining.PLANNED for row in self._rows)
        left = len(self._rows) - planned
        self.status = report.FOUND if left else report.CLEAN
        self.last_line = (
            'Nothing was changed. Hosts: %s; moves: %d; instances that would '
            'be left: %d. Run this command without --dry-run to %s.' % (
                self._names, planned, left,
                'move the others' if left else 'drain the hosts'))


def _read_done(path):
    """Return the names of hosts that a file lists, or [] without the file.

    :raises CommandError: if the file cannot be read
    """
    try:
        with open(path) as lines:
            return [line.strip() for line in lines if line.strip()]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise exceptions.CommandError(
            "--done is '%s', which cannot be read: %s." % (path, error)
        ) from error


def _append_done(path, hosts):
    """Append names of hosts to a file; create it if it is missing.

    :raises CommandError: if the file cannot be written
    """
    try:
        with open(path, 'a+') as lines:
            lines.seek(0)
            text = lines.read()
            # An operator may have edited the file.
            if text and not text.endswith('\n'):
                lines.write('\n')
            lines.writelines('%s\n' % host for host in hosts)
    except OSError as error:
        raise exceptions.CommandError(
            "--done is '%s', which cannot be written: %s." % (
                path, error.strerror)) from error
