# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host plan``."""

import argparse
import functools
import io
import os
import textwrap

from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import cpu_options
from nova_prio.cmd import host_selection
from nova_prio.cmd import output_file
from nova_prio.cmd import report
from nova_prio.cmd import tables
from nova_prio_host import command as host_command


class PlanHost(report.Report):
    """Show the effect of other CPU sets, ratio and mix on hosts.

    Nothing is changed. List as they are and as they would be: options,
    inventories and traits in Placement, capacity; each instance that would
    oversell a row, is pinned outside of the dedicated CPUs, keeps floating on
    the dedicated CPUs, or would share its CPUs with low-priority guests; each
    problem that must be solved first; the steps in their order. This command
    reads Nova's databases: run it where nova-manage runs. On the compute host,
    with or without the databases, it also checks the kernel and the guests.
    Keep the output of -f json for "host verify" and "host disable". For
    several hosts, give --output-dir. Exit status: 0 if all hosts are ready, 3
    if a problem must be solved first, 1 if a host cannot be planned.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        host_selection.add_options(parser)
        for name in ('dedicated', 'shared'):
            parser.add_argument(
                '--' + name, default='', metavar='CPUS',
                help='planned value of [compute] cpu_%s_set' % name)
        parser.add_argument(
            '--ratio', required=True, metavar='RATIO',
            help='planned value of [DEFAULT] cpu_allocation_ratio')
        parser.add_argument(
            '--no-mix', dest='mix', action='store_false',
            help='plan without cpu_priority_mix_enable')
        parser.add_argument(
            '--output-dir', metavar='DIR',
            help='write the plan of each host that is ready to DIR/HOST.json, '
            'and list one line for each host; a host whose plan exists is not '
            'planned again')
        return parser

    def act(self, context, parsed_args):
        """List the plan of one host, or write the plans of several.

        :returns: exit status
        """
        planned_cpus = cpu_options.parse_cpus(parsed_args)
        hosts = host_selection.select_hosts(self.app, context, parsed_args)
        directory = parsed_args.output_dir
        # Without the databases, as on a compute host, only the guests and the
        # kernel of this host are checked, and Placement is not read.
        placement = None
        if controller.get_conf().api_database.connection:
            placement = controller.make_placement_client()
        if directory is None:
            if not host_selection.is_one_host(parsed_args):
                raise exceptions.CommandError(
                    '--output-dir is not given; several hosts need it, '
                    'because each plan is written to a file.')
            return self._show_plan(
                parsed_args, planned_cpus, placement, context)
        with output_file.report_errors(
                '--output-dir', directory,
                'is no directory and cannot be made'):
            os.makedirs(directory, exist_ok=True)
        save = functools.partial(
            self._save_plan, planned_cpus, directory, placement)
        return host_selection.show_results(self, parsed_args, hosts, save)

    def _show_plan(self, parsed_args, planned_cpus, placement, context):
        """List the plan of one host; return the exit status.

        A PlanRow is a line of the plan: what it is about (``part`` and
        ``name``), the present and the planned value, and a remedy or ''.

        :param planned_cpus: ``cpu_capacity.HostCPUs``
        :param placement: SchedulerReportClient, or None without databases
        """
        from nova_prio.admin.host import plan_format
        host = parsed_args.hosts[0]
        # The CPUs were chosen for this one host. If it lacks some of them,
        # only the check on the host itself raises an error.
        rows, names = _read_rows(
            placement, context, host, planned_cpus, must_know_cpus=False)
        result = _add_steps(rows, host, planned_cpus)
        if tables.is_for_reading(parsed_args):
            # For reading, remedies and steps are lists below the table. Each
            # item is (label, sentence).
            others, remedies, steps = [], [], []
            for row in rows:
                if row.part == plan_format.STEP:
                    steps.append(('%s. ' % row.name, row.remedy))
                    continue
                # A row about an instance has its UUID as its name.
                name = report.add_name(row.name, names.get(row.name))
                others.append(row._replace(name=name))
                if row.remedy:
                    remedies.append(
                        ('* %s %s: ' % (row.part, name), row.remedy))
            columns, shown = _format_rows(others, names)
            # Leave out the last columns: the remedy and the instance name.
            self.show(parsed_args, columns[:-2], [row[:-2] for row in shown])
            self._print_list('Remedies', remedies)
            self._print_list('Steps', steps)
        else:
            columns, shown = _format_rows(rows, names)
            self.show(parsed_args, columns, shown)
        return self.end(result.status, 'The host is %s. Next: %s' % (
            result.state, result.next_step))

    def _print_list(self, title, items):
        """Print a list under a title; nothing without items.

        :param items: list of (label, sentence). The label ends with a space,
            such as '1. '.
        """
        lines = [textwrap.fill(
            label + sentence, tables.WIDTH, subsequent_indent='   ',
            break_long_words=False, break_on_hyphens=False)
            for label, sentence in items]
        if lines:
            self.app.stdout.write('\n%s:\n%s\n' % (title, '\n'.join(lines)))
            self.app.stdout.flush()

    def _save_plan(self, planned_cpus, directory, placement, context, host):
        """Write the plan of a host, if it is ready; return its HostResult.

        If the file exists, compare its options with the planned ones instead.

        :param planned_cpus: ``cpu_capacity.HostCPUs``
        :param directory: where the plan of each host is a file
        :param placement: SchedulerReportClient, or None without databases
        """
        from nova_prio.admin.host import plan_format
        path = plan_format.get_path(directory, host)
        if os.path.exists(path):
            return _check_saved_plan(path, host, planned_cpus)
        rows, names = _read_rows(
            placement, context, host, planned_cpus, must_know_cpus=True)
        result = _add_steps(rows, host, planned_cpus)
        # No problem must be solved before the first step.
        if result.status == report.CLEAN:
            columns, shown = _format_rows(rows, names)
            text = io.StringIO()
            # cliff's formatter of -f json, with its default options.
            formatter = self._formatter_plugins['json'].obj
            formatter.emit_list(
                columns, shown, text, argparse.Namespace(noindent=False))
            output_file.write('--output-dir', path, text.getvalue())
            return result._replace(next_step='Follow the steps of %s.' % path)
        return result


def _add_steps(rows, host, planned_cpus):
    """Add the steps of the operator to a plan, and sum it up as a HostResult.

    A problem, a row that ``is_blocking``, must be solved first.

    :param rows: list of PlanRow, which this extends
    :returns: HostResult with the number of problems and the first step
    """
    from nova_prio.admin.host import plan_rows
    problems = sum(row.is_blocking for row in rows)
    steps = plan_rows.list_steps(host, planned_cpus, rows)
    rows += steps
    # The last row is no step: its planned value says whether the host is ready
    # to be changed, 'ready' or 'not ready'.
    first_step, readiness = steps[0], steps[-1]
    status = report.FOUND if problems else report.CLEAN
    return host_selection.HostResult(
        state=readiness.planned, amount=problems,
        next_step=first_step.remedy, status=status)


def _read_rows(placement, context, host, planned_cpus, must_know_cpus):
    """Return the PlanRows for which this process has the data, and names.

    :param placement: SchedulerReportClient, or None if the configuration has
        no databases
    :param must_know_cpus: whether to raise CommandError if Nova knows that the
        host does not have the planned CPUs
    :returns: (list of PlanRow, dict: UUID of an instance -> its name)
    """
    from nova_prio.admin.host import local_checks
    from nova_prio.admin.host import plan_rows
    from nova_prio.admin.host import state
    conf = controller.get_conf()
    rows, names = [], {}
    is_this_host = conf.host == host
    # Without the databases, only the guests of this host can be read.
    if not placement:
        report.check_is_this_host(host)
    guest_host = guests = guests_by_uuid = None
    if is_this_host:
        # The CPUs of this host, a ``GuestHost``, and its running guests.
        guest_host, guests = controller.read_guests(conf)
        guests_by_uuid = {guest.uuid: guest for guest in guests}
        existing = set()
        for cell_cpus in guest_host.cells:
            existing |= cell_cpus
        cpu_options.check_cpus_exist(existing, planned_cpus)
    if placement:
        view = state.read_state(context, placement, host)
        names = view.names
        if must_know_cpus and not is_this_host:
            cpu_options.check_cpus_exist(
                state.find_existing_cpus(view), planned_cpus)
        rows += plan_rows.make_plan(view, planned_cpus, guests_by_uuid)
    else:
        rows += local_checks.check_guests(guest_host, guests, planned_cpus)
    if is_this_host:
        rows += local_checks.check_host(
            conf, planned_cpus, guests, host_command.find_problems())
    else:
        # A row that says what could not be checked from here.
        rows.append(local_checks.NOT_SEEN)
    return rows, names


def _format_rows(rows, names):
    """Return the columns and rows of a plan for the formatters of cliff.

    :param rows: list of PlanRow
    :param names: dict, UUID of an instance -> its name
    :returns: (tuple of names of columns, list of tuples of values)
    """
    from nova_prio.admin.host import plan_format
    columns = plan_format.COLUMNS + (report.INSTANCE_NAME, )
    # The name of a row about an instance is its UUID.
    return columns, [
        (row.part, row.name, report.AmountsColumn(row.present),
         report.AmountsColumn(row.planned), row.remedy,
         names.get(row.name, '')) for row in rows]


def _check_saved_plan(path, host, planned_cpus):
    """Return the HostResult of a host whose plan exists; never plan it again.

    The plan in the file is from before the host was changed, and is needed to
    undo the change.

    :raises CommandError: if the file is a plan of the host with other terms
    :raises nova_prio.admin.host.HostRefused: if it is no plan of the host
    """
    from nova_prio.admin.host import plan_format
    saved = plan_format.load_plan(path, host)
    if saved.planned_cpus != planned_cpus:
        options = ['%s = %s' % option for option in
                   plan_format.format_options(saved.planned_cpus).items()]
        raise exceptions.CommandError(
            '%s is a plan with other terms (%s); give the same terms, or '
            'another --output-dir.' % (path, ', '.join(options)))
    # The amount is the number of problems. A ready host has none. That of
    # another host is not in the file.
    if saved.is_ready:
        return host_selection.HostResult(
            plan_format.READY, amount=0,
            next_step='%s exists: follow its steps.' % path)
    return host_selection.HostResult(
        plan_format.NOT_READY, status=report.FOUND,
        next_step='%s is a plan of a host that was not ready: delete the '
        'file, and run this command again.' % path)
