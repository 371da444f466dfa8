# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host plan``."""

import contextlib
import decimal
import re
import textwrap

from osc_lib import exceptions

from nova_prio.cmd import controller
from nova_prio.cmd import report
from nova_prio.cmd import tables
from nova_prio.model import capacity
from nova_prio.model import sizing
from nova_prio_host import command as host_command


class Plan(report.Report):
    """Show the effect of other CPU sets, ratio and mix on a host.

    Nothing is changed. List as they are and as they would be: options,
    inventories and traits in Placement, capacity; each instance that would
    oversell a row, is pinned outside of the dedicated CPUs, keeps floating on
    the dedicated CPUs, or would share its CPUs with low-priority guests; each
    problem that must be solved first; the steps in their order. This command
    reads Nova's databases: run it where nova-manage runs, and again on the
    compute host, with or without the databases, for its kernel and guests.
    Keep the output of -f json for "host verify" and "host disable". Exit
    status: 0 if the host is ready, 3 if a problem must be solved first.
    """

    is_for_one_host = True

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
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
        return parser

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.host import plan
        from nova_prio.admin.host import plan_format
        planned_cpus = _parse_cpus(parsed_args)
        rows = list(self._list_rows(parsed_args.host, planned_cpus))
        *steps, verdict = plan.list_steps(parsed_args.host, planned_cpus, rows)
        readiness = verdict.planned
        if readiness == plan_format.NOT_READY:
            self.status = report.FOUND
        self.last_line = 'The host is %s. Next: %s' % (
            readiness, steps[0].remedy)
        # For reading, sentences are a list below the table.
        self._sentences = []
        columns, shown = plan_format.COLUMNS, [*rows, *steps, verdict]
        if tables.is_for_reading(parsed_args):
            columns, shown = columns[:-1], [*rows, verdict]
            self._sentences = [
                *_list('Remedies', (
                    ('* %s %s: ' % (row.part, row.name), row.remedy)
                    for row in rows if row.remedy)),
                *_list('Steps', (
                    ('%s. ' % step.name, step.remedy) for step in steps))]
        return columns, [
            (row.part, row.name, report.AmountsColumn(row.present),
             report.AmountsColumn(row.planned), row.remedy)[:len(columns)]
            for row in shown]

    def conclude(self, parsed_args):
        """Print the sentences that are not in the table."""
        for line in self._sentences:
            self.app.stdout.write(line + '\n')
        self.app.stdout.flush()

    def _list_rows(self, name, planned_cpus):
        """Yield the PlanRows for which this process has the data."""
        from nova_prio.admin.host import local_checks
        from nova_prio.admin.host import plan
        from nova_prio.admin.host import state
        is_this_host = self.conf.host == name
        has_databases = bool(self.conf.api_database.connection)
        if not has_databases:
            self.check_is_this_host(name)
        guests_by_uuid = None
        if is_this_host:
            guest_host, guests = controller.read_guests(self.conf)
            guests_by_uuid = {guest.uuid: guest for guest in guests}
            _check_cpus_exist(guest_host, planned_cpus)
        if has_databases:
            yield from plan.make_plan(
                state.read_state(self.context, self.placement, name),
                planned_cpus, guests_by_uuid)
        else:
            yield from local_checks.check_guests(
                guest_host, guests, planned_cpus)
        if is_this_host:
            yield from local_checks.check_host(
                self.conf, planned_cpus, host_command.find_problems())
        else:
            yield local_checks.NOT_SEEN


def _list(title, items):
    """Yield the lines of a list under a title; none without items.

    :param items: iterable of (label, sentence)
    """
    for number, (label, sentence) in enumerate(items):
        if number == 0:
            yield '\n%s:' % title
        yield textwrap.fill(
            label + sentence, tables.WIDTH, subsequent_indent='   ',
            break_long_words=False, break_on_hyphens=False)


def _parse_cpus(parsed_args):
    """Return the planned ``capacity.HostCPUs``, or raise CommandError."""
    from nova.virt import hardware
    cpus = capacity.HostCPUs(
        *(_parse_cpu_set('--' + name, getattr(parsed_args, name))
          for name in ('dedicated', 'shared')),
        report.get_number(parsed_args, 'ratio', decimal.Decimal('0.0001'),
                          sizing.MOST_RATIO, capacity.parse_ratio),
        parsed_args.mix)
    both = cpus.dedicated & cpus.shared
    problem = None
    if both:
        problem = ('--dedicated and --shared both hold CPUs %s; a CPU must be '
                   'in one of the two.' % hardware.format_cpu_spec(both))
    elif cpus.mix and not (cpus.dedicated and cpus.shared):
        problem = ('Mix needs --dedicated and --shared; give both, or '
                   '--no-mix.')
    elif not (cpus.dedicated or cpus.shared):
        problem = ('Neither --dedicated nor --shared is given; give one or '
                   'both.')
    elif cpus.mix and cpus.sellable.low < 1:
        problem = ('--ratio is %s, which leaves no sellable low-priority '
                   'vCPU; use a larger ratio, or more CPUs for --shared.'
                   % cpus.ratio)
    if problem:
        raise exceptions.CommandError(problem)
    return cpus


def _parse_cpu_set(option, text):
    """Return the CPU numbers of an option, or raise CommandError."""
    from nova import exception
    from nova.virt import hardware
    with contextlib.suppress(exception.Invalid, ValueError):
        # Check the numbers first: Nova expands even a huge range.
        if all(int(number) < sizing.MOST_CPUS
               for number in re.findall('[0-9]+', text)):
            return frozenset(hardware.parse_cpu_spec(text))
    report.refuse(option, text, 'CPU numbers below %d, such as 0-3,8'
                  % sizing.MOST_CPUS)


def _check_cpus_exist(guest_host, planned_cpus):
    """Raise CommandError for planned CPUs that a GuestHost does not have."""
    from nova.virt import hardware
    existing = frozenset().union(*guest_host.cells)
    unknown = (planned_cpus.dedicated | planned_cpus.shared) - existing
    # On some platforms, libvirt lists no NUMA cells.
    if existing and unknown:
        raise exceptions.CommandError(
            '--dedicated or --shared holds CPUs %s; allowed are the CPUs of '
            'the host: %s.' % (hardware.format_cpu_spec(unknown),
                               hardware.format_cpu_spec(existing)))
