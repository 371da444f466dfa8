# SPDX-License-Identifier: Apache-2.0

"""The base classes of the commands that read Nova's databases."""

import contextlib
import math

from cliff import columns
from osc_lib import exceptions

from nova_prio.admin import config_files
from nova_prio.cmd import colors
from nova_prio.cmd import controller
from nova_prio.cmd import tables
from nova_prio.model import maturity

#: Exit statuses, as those of ``nova-manage placement audit``: nothing to do,
#: a check or repair failed, the operator must act.
CLEAN, FAILED, FOUND = 0, 1, 3
#: Column with the name of the instance whose UUID another column has.
INSTANCE_NAME = 'Instance Name'
#: Exit status to the color of the last line; green for all others.
_COLORS = {FAILED: colors.RED, FOUND: colors.YELLOW}


def refuse(argument, value, allowed):
    """Raise CommandError for an argument with a wrong value.

    :param allowed: the values allowed, as the end of a sentence
    """
    raise exceptions.CommandError(
        "%s is '%s'; allowed are %s." % (argument, value, allowed))


def format_count(number, noun):
    """Return a number with its noun, in the plural if necessary."""
    text = '%d %s' % (number, noun)
    return text if number == 1 else text + 's'


def get_aggregate_hosts(context, argument, name,
                        allowed='names of host aggregates with hosts'):
    """Return the names of the hosts of a host aggregate, sorted.

    :param context: nova.context.RequestContext
    :param argument: the argument of the command that has the name
    :param name: name of the aggregate
    :param allowed: what the error says is allowed
    :raises CommandError: if there is no such aggregate, or it has no hosts
    """
    # Nova is imported late, so that the help is fast.
    from nova import objects
    for aggregate in objects.AggregateList.get_all(context):
        if aggregate.name == name and aggregate.hosts:
            return sorted(aggregate.hosts)
    refuse(argument, name, allowed)


def check_columns(parsed_args, columns):
    """Raise CommandError if --column names a column that does not exist.

    Call this before the first change: cliff checks it only after the changes.

    :param columns: names of all columns
    """
    for column in set(parsed_args.columns).difference(columns):
        refuse('--column', column, ', '.join(columns))


def get_number(parsed_args, name, least, most=math.inf, parse=int):
    """Return the number that an option gives, or None if it is not given.

    :param name: name of the option in ``parsed_args``
    :param parse: function that returns the number of a text, or raises
        ValueError
    :raises CommandError: if the number is not from ``least`` to ``most``
    """
    value = getattr(parsed_args, name)
    if value is None:
        return None
    # If the text is no number, go on with the refusal below.
    with contextlib.suppress(ValueError):
        number = parse(value)
        if least <= number <= most:
            return number
    kind = 'whole numbers' if parse is int else 'numbers'
    end = 'on' if most == math.inf else 'to %s' % most
    refuse('--' + name.replace('_', '-'), value,
           '%s from %s %s' % (kind, least, end))


def add_name(text, name):
    """Return a text that ends with a UUID, and the name in parentheses.

    :param name: None or '' if the name is unknown
    """
    return '%s (%s)' % (text, name) if name else text


def place_names(columns, rows, uuid_column):
    """Return columns and rows, with the names of instances beside the UUIDs.

    :param columns: names of the columns, the last one INSTANCE_NAME, which
        the result does not have
    :param uuid_column: name of the column whose texts may end with a UUID
    """
    place = columns.index(uuid_column)
    named_rows = []
    for row in rows:
        values = list(row[:-1])
        values[place] = add_name(row[place], row[-1])
        named_rows.append(values)
    return columns[:-1], named_rows


def warn_of_silent_cells(app, cells):
    """Log a warning for each cell that does not answer.

    :param app: the ``main.NovaPrio`` of the command
    :param cells: UUIDs of these cells
    """
    from nova_prio.admin import host_inventory
    for cell in cells:
        app.LOG.warning(host_inventory.SILENT_CELL, cell)


def check_is_this_host(host):
    """Raise CommandError if a host is not the host of this process."""
    this_host = controller.get_conf().host
    if host != this_host:
        raise exceptions.CommandError(
            "HOST '%s' cannot be checked from this host, '%s': this command "
            'needs [api_database] connection to check other hosts. Run it on '
            '%s, or on a controller.' % (host, this_host, host))


def find_outcome(states, outcomes):
    """Return the exit status and the last line for the states of the rows.

    :param states: set of the states of the rows
    :param outcomes: list of (state, exit status, last line). The first
        outcome applies whose state is None or among ``states``.
    :returns: (exit status, last line)
    """
    for state, status, last_line in outcomes:
        if state is None or state in states:
            return status, last_line


class Report(tables.Lister):
    """A command that reads Nova's databases and prints a list.

    A subclass defines :meth:`act`, which calls :meth:`show` and :meth:`end`,
    and keeps no state.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        # The help ends with a line about how stable the command is.
        parser = maturity.mark(super().get_parser(prog_name))
        config_files.add_options(parser)
        return parser

    def run(self, parsed_args):
        """Run the command; return the exit status."""
        return self.take_action(parsed_args)

    def take_action(self, parsed_args):
        """Configure Nova, and act; return the exit status."""
        with (controller.configure_nova(parsed_args) as context,
              controller.report_errors()):
            return self.act(context, parsed_args)

    def show(self, parsed_args, columns, rows, uuid_column=None):
        """Print the list to standard output.

        :param uuid_column: name of a column with UUIDs of instances, or None.
            In a table for reading, their names are in this column too, and the
            last column, INSTANCE_NAME, is left out: the table is less wide.
        """
        if uuid_column and tables.is_for_reading(parsed_args):
            columns, rows = place_names(columns, rows, uuid_column)
        self.formatter = self._formatter_plugins[parsed_args.formatter].obj
        self.produce_output(parsed_args, columns, rows)
        # The lines on standard error must follow the list.
        self.app.stdout.flush()

    def end(self, status, last_line):
        """Print the last line to standard error; return the exit status.

        :param last_line: tells the operator the next step
        """
        self.app.LOG.warning('%s', last_line, extra={
            'color': _COLORS.get(status, colors.GREEN)})
        return status


class AmountsColumn(columns.FormattableColumn):
    """A text, or a dict of amounts, which -f json prints as a dict."""

    def human_readable(self):
        """Return the text for a table."""
        if isinstance(self._value, str):
            return self._value
        from nova_prio.admin.audit import finding
        return finding.format_amounts(self._value) if self._value else 'none'


def format_line(line):
    """Return the values of ``verify.COLUMNS`` of a VerifyLine, a list."""
    amounts = [AmountsColumn(value) for value in (
        line.plan, line.placement, line.compute, line.libvirt)]
    return [line.item] + amounts + [line.state, line.remedy]
