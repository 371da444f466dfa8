# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host drain``."""

import sys
import time

from osc_lib import exceptions
import tqdm

from nova_prio.cmd import changes
from nova_prio.cmd import controller
from nova_prio.cmd import nova_api
from nova_prio.cmd import output_file
from nova_prio.cmd import report
from nova_prio.cmd import tables
from nova_prio.model.planner import fleet
from nova_prio_host import command as host_command


class DrainHost(report.Report):
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
        nova_api.add_cloud_option(parser)
        changes.add_options(parser)
        parser.add_argument('hosts', nargs='*', metavar='HOST',
                            help='name of a compute host')
        parser.add_argument(
            '--aggregate', metavar='NAME',
            help='drain the next hosts of this host aggregate')
        parser.add_argument(
            '--batch', default=1, metavar='N',
            type=host_command.parse_number,
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
        changes.add_timeout(parser, nova_api.TIMEOUT_HELP)
        parser.add_argument(
            '--concurrency', default=1, metavar='N',
            type=host_command.parse_number,
            help='run at most N moves at once (default: %(default)s)')
        parser.add_argument(
            '--allow', action='append', default=[],
            choices=(fleet.COLD, fleet.SHELVE),
            help='if an instance fits nowhere else: "cold" also cold-migrates '
            'running instances, which restarts the guest; "shelve" shelves '
            'instances, which ends the guest (repeat option to allow both)')
        return parser

    def act(self, context, parsed_args):
        """Drain the hosts, and list what is left; return the exit status."""
        from nova_prio.admin.moves import batch
        from nova_prio.admin.moves import drain as drain_module
        from nova_prio.admin.moves import drain_rows
        end = time.monotonic() + parsed_args.timeout
        report.check_columns(parsed_args, drain_rows.COLUMNS)
        _check_arguments(parsed_args)
        if parsed_args.within is not None:
            report.get_aggregate_hosts(context, '--within', parsed_args.within)
        drain = drain_module.Drain(
            context, controller.make_placement_client(),
            hosts=list(dict.fromkeys(parsed_args.hosts)),
            allowed=frozenset(parsed_args.allow), within=parsed_args.within)
        if parsed_args.aggregate:
            # None if there are hosts to drain.
            ending = _choose_batch(self.app, context, parsed_args, drain)
            if ending is not None:
                status, last_line = ending
                self.show(parsed_args, drain_rows.COLUMNS, [], 'Instance')
                return self.end(status, last_line)
        else:
            drain.refresh()
        report.warn_of_silent_cells(self.app, drain.cloud.silent_cells)
        # With --aggregate, _choose_batch has checked the room on other hosts.
        if not parsed_args.aggregate:
            for warning in batch.list_warnings(drain):
                self.app.LOG.warning('%s', warning)
        # Whether all instances have left, or at least one may leave now.
        has_begun = drain.can_begin()
        problem = ''
        if not has_begun:
            problem = 'Nothing was changed: no instance can leave. '
        elif not parsed_args.dry_run:
            problem = _move(self.app, parsed_args, drain, end)
        rows = list(drain_rows.list_rows(drain))
        # In a table, the name is beside the UUID in the column "Instance".
        self.show(parsed_args, drain_rows.COLUMNS, rows, 'Instance')
        names = ', '.join(drain.hosts)
        if parsed_args.dry_run:
            status, last_line = _conclude_dry_run(names, rows)
            return self.end(status, last_line)
        if drain.is_empty():
            next_hosts = ''
            if parsed_args.aggregate:
                next_hosts = ', and run this command again for the next hosts'
            return self.end(report.CLEAN, (
                '%s: no instances. Next: maintain the host, then run '
                '"nova-prio host return %s"%s.' % (
                    names, ' '.join(drain.hosts), next_hosts)))
        advice = ('Act on each as its reason says, and run this command '
                  'again.')
        if has_begun and problem:
            advice = 'Run this command again.'
        return self.end(report.FOUND, '%sInstances left on %s: %d. %s' % (
            problem, names, len(rows), advice))


def _check_arguments(parsed_args):
    """Raise CommandError unless either hosts or an aggregate are given."""
    if bool(parsed_args.hosts) == bool(parsed_args.aggregate):
        given = 'neither HOST nor --aggregate'
        if parsed_args.hosts:
            given = 'both HOST and --aggregate'
        raise exceptions.CommandError(
            'Given are %s; allowed is either HOST or --aggregate.' % given)
    # --done is the file of the hosts that earlier calls have drained. Without
    # it, each call for an aggregate would choose the same hosts again.
    if bool(parsed_args.aggregate) != bool(parsed_args.done):
        raise exceptions.CommandError(
            '--aggregate and --done must be given together.')


def _choose_batch(app, context, parsed_args, drain):
    """Read the cloud, and let a drain select the next hosts of an aggregate.

    :param drain: ``drain.Drain``
    :returns: None if hosts are selected, else (exit status, last line)
    """
    from nova_prio.admin import host_inventory
    from nova_prio.admin.moves import batch
    from nova_prio.admin.moves import services
    aggregate, done = parsed_args.aggregate, _read_done(parsed_args.done)
    drain.refresh()
    members = drain.cloud.list_members(aggregate)
    if not members:
        # This raises CommandError.
        report.refuse('--aggregate', aggregate,
                      'names of host aggregates with hosts')
    # Names of the hosts that "host drain" has disabled, and that "host return"
    # has not enabled since.
    begun = set()
    for name, service in host_inventory.read_services(context).items():
        if service.disabled_reason == services.REASON:
            begun.add(name)
    not_returned = sorted(
        name for name in begun if name in members and name in done)
    remedy = ''
    if not_returned:
        remedy = ('Drained hosts that are not returned: %s. First run '
                  '"nova-prio host return %s". ' % (
                      ', '.join(not_returned), ' '.join(not_returned)))
    if not set(members).difference(done):
        all_done = 'All hosts of aggregate %s (%d) are in %s' % (
            aggregate, len(members), parsed_args.done)
        if remedy:
            return report.FOUND, '%s. %s' % (all_done, remedy)
        return report.CLEAN, all_done + ': there is nothing to do.'
    # This sets ``drain.hosts``. The problem is why they are not more.
    problem = batch.choose_batch(
        drain, aggregate, done, begun, parsed_args.batch)
    if drain.hosts:
        if problem:
            app.LOG.warning(
                'Hosts that are drained now: %d. More are not drained, for '
                'this reason: %s', len(drain.hosts), problem)
        return None
    return report.FOUND, (
        'Nothing was changed: no host of aggregate %s can be drained now. '
        '%s%s' % (aggregate, remedy, problem))


def _move(app, parsed_args, drain, end):
    """Show the plan, ask, and drain the hosts.

    :param end: time of ``time.monotonic`` after which no move starts
    :returns: why instances are left, a sentence and a space, after which the
        caller adds others; '' if no more instance can be moved
    """
    from nova_prio.admin.moves import drain_rows
    from nova_prio.admin.moves import services
    rows = list(drain_rows.list_rows(drain))
    if rows:
        columns, named_rows = report.place_names(
            drain_rows.COLUMNS, rows, 'Instance')
        app.stderr.write(tables.format_table(columns, named_rows) + '\n')
    staying = sum(row.state == drain_rows.LEFT for row in rows)
    exclusion = ''
    if staying:
        exclusion = ' except the %d that cannot leave now' % staying
    changes.confirm(
        app, parsed_args, 'Disable the nova-compute services of %s, and move '
        'these instances%s?' % (', '.join(drain.hosts), exclusion))
    if parsed_args.done:
        # If the file cannot be written, this raises before the first move.
        _append_done(parsed_args.done, hosts=[])
    nova = nova_api.connect(parsed_args)
    for host in drain.hosts:
        service = services.read_service(nova, host)
        # A service that is disabled keeps its reason.
        if service.is_enabled:
            services.disable(nova, service)
            changes.log_change(app, 'Host %s: disabled nova-compute.', host)
    problem = _run(app, drain, nova, end, parsed_args.concurrency)
    if parsed_args.done:
        empty = drain.list_empty_hosts()
        _append_done(parsed_args.done, empty)
        for host in empty:
            changes.log_change(
                app, 'Host %s: it is empty, and is added to %s.', host,
                parsed_args.done)
    if problem:
        problem += ' '
    return problem


def _run(app, drain, nova, end, concurrency):
    """Move the instances; Ctrl-C ends this, but not the running moves.

    :param end: time of ``time.monotonic`` after which no move starts
    :returns: why instances are left, a sentence, or ''
    """
    from nova_prio.admin.moves import drain_run
    from nova_prio.admin.moves import servers
    # disable=None shows the progress on a terminal only.
    with tqdm.tqdm(total=len(drain.list_guests()), unit=' instances',
                   desc='have left', leave=False, disable=None) as progress:
        def observe(sentence, has_left):
            """Log a change; has_left is whether one more has left."""
            with tqdm.tqdm.external_write_mode(file=sys.stderr):
                changes.log_change(app, '%s', sentence)
            progress.update(int(has_left))

        try:
            return drain_run.DrainRun(
                drain, servers=servers.Servers(nova), end=end,
                observe=observe, concurrency=concurrency).run()
        except KeyboardInterrupt:
            # The caller lists the instances that are left now.
            drain.refresh()
            return 'Interrupted.'


def _conclude_dry_run(names, rows):
    """Return the exit status and the last line of a plan.

    :param names: text with the names of the hosts
    :param rows: list of ``drain_rows.DrainRow``, one for each instance that
        must leave
    """
    from nova_prio.admin.moves import drain_rows
    planned = sum(row.state == drain_rows.PLANNED for row in rows)
    left = len(rows) - planned
    status, rest = report.CLEAN, 'drain the hosts'
    if left:
        status, rest = report.FOUND, 'move the others'
    return status, (
        'Nothing was changed. Hosts: %s; moves: %d; instances that would be '
        'left: %d. Run this command without --dry-run to %s.' % (
            names, planned, left, rest))


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
    # The first context raises CommandError for an error of the file.
    with output_file.report_errors('--done', path), open(path, 'a+') as lines:
        lines.seek(0)
        text = lines.read()
        # An editor may have left the last line without an end.
        if text and not text.endswith('\n'):
            lines.write('\n')
        lines.writelines('%s\n' % host for host in hosts)
