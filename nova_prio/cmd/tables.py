# SPDX-License-Identifier: Apache-2.0

"""The tables of the commands, which fit the width of the terminal.

A table that is too wide is wrapped between words. If that is not enough, each
row becomes a list of its fields, as in ``psql``. No value is shortened.
"""

import os
import re
import shutil
import textwrap

from cliff import columns as cliff_columns
from cliff.formatters import table
from cliff import lister
import prettytable

from nova_prio.cmd import colors

#: Width of a table without a terminal.
WIDTH = 100
#: Environment variable of cliff with the default of --max-width.
_WIDTH_VARIABLE = 'CLIFF_MAX_TERM_WIDTH'
#: Widths of the borders and spaces of a table, and of one of its columns.
_TABLE_BORDER, _COLUMN_BORDER = 1, 3
#: The value of prettytable.ALL, which has another name in newer releases.
_LINE_AFTER_EACH_ROW = 1
#: Text of a whole cell to its color: the states of Nova's servers, of audit,
#: explain, host plan and host verify, and a service that refuses hosts.
_COLORS = dict.fromkeys(
    ('ACTIVE', 'fixed', 'ok', 'passes', 'ready'), colors.GREEN)
_COLORS.update(dict.fromkeys(
    ('SHUTOFF', 'VERIFY_RESIZE', 'in motion', 'to be fixed'), colors.YELLOW))
_COLORS.update(dict.fromkeys(
    ('ERROR', 'REFUSED', 'cell', 'differs', 'failed', 'found', 'not ready',
     'nova-compute', 'Placement', 'PriorityFilter', 'request filter',
     'unread'), colors.RED))


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines after words and after commas."""

    wordsep_simple_re = re.compile(r'(\s+|(?<=,)(?=\S))')


class TableFormatter(table.TableFormatter):
    """cliff's formatter of tables, with a width and with colors."""

    def add_argument_group(self, parser):
        """Add the options of tables; the default width is unknown yet."""
        super().add_argument_group(parser)
        if _WIDTH_VARIABLE not in os.environ:
            parser.set_defaults(max_width=None)

    def emit_list(self, column_names, data, stdout, parsed_args):
        """Write the table of some rows."""
        rows = list(data)
        width = parsed_args.max_width
        if width is None:
            width = WIDTH
            if stdout.isatty():
                width = shutil.get_terminal_size().columns
        text = ''
        if rows or parsed_args.print_empty:
            text = format_table(
                column_names, rows, width, colors.get_painter(stdout))
        stdout.write(text + '\n')


class Lister(lister.Lister):
    """A command of cliff that lists rows."""

    def _load_formatter_plugins(self):
        """Return cliff's formatters, a ``stevedore.ExtensionManager``."""
        formatters = super()._load_formatter_plugins()
        formatters['table'].obj = TableFormatter()
        return formatters


class ColoredText(str):
    """A text that a table shows in a color."""

    def __new__(cls, text, color):
        """Return the text; it has the attribute ``color``."""
        colored = super().__new__(cls, text)
        colored.color = color
        return colored


def is_for_reading(parsed_args):
    """Return whether the output is a table with all columns in order.

    The columns of such a table may differ from those of other formats.

    :param parsed_args: arguments of a :class:`Lister`
    """
    return (parsed_args.formatter == 'table' and not parsed_args.columns and
            not parsed_args.sort_columns)


def format_table(columns, rows, width=WIDTH, paint=colors.leave):
    """Return the table of some rows, without a line end.

    :param columns: list of the names of the columns
    :param rows: list of lists of values; numbers are aligned to the right, if
        the first row has a number
    :param width: maximum number of characters of a line; 0 for no limit
    :param paint: function that returns a text in a color
    """
    columns = list(columns)
    texts = []
    for row in rows:
        texts.append([_format(value) for value in row])
    full_widths, least_widths = [], []
    for number, name in enumerate(columns):
        column = [name] + [row[number] for row in texts]
        full_widths.append(_measure(column, str.splitlines))
        least_widths.append(
            _measure(column, _Wrapper.wordsep_simple_re.split))
    free = width - _TABLE_BORDER - _COLUMN_BORDER * len(columns)
    is_wrapped = 0 < width and free < sum(full_widths)
    widths = full_widths
    if is_wrapped:
        free -= sum(least_widths)
        if free < 0:
            return _list_fields(columns, texts, width, paint)
        widths = _share(free, least_widths, full_widths)
    drawn_rows = []
    for row in texts:
        cells = [_wrap(text, width) for text, width in zip(row, widths)]
        # The first column has names.
        for number, text in enumerate(row[1:], start=1):
            cells[number] = _paint(cells[number], text, paint)
        drawn_rows.append(cells)
    header = [_wrap(name, width) for name, width in zip(columns, widths)]
    first_row = rows[0] if rows else columns
    return _draw(header, drawn_rows, is_wrapped, are_right=[
        type(value) in (int, float) for value in first_row])


def _format(value):
    """Return a value as text, which keeps its color."""
    if isinstance(value, cliff_columns.FormattableColumn):
        value = value.human_readable()
    return value if isinstance(value, str) else str(value)


def _measure(texts, split):
    """Return the length of the longest part of some texts.

    :param split: function, text to list of its parts
    """
    longest = 0
    for text in texts:
        for part in split(text):
            longest = max(longest, len(part))
    return longest


def _share(free, least_widths, full_widths):
    """Return the widths of the columns, which share the free characters.

    The columns that need least get their full width.
    """
    widths = list(least_widths)
    needs = sorted((full_widths[column] - least, column)
                   for column, least in enumerate(least_widths))
    for position, (needed, column) in enumerate(needs):
        added = min(needed, free // (len(needs) - position))
        widths[column] += added
        free -= added
    return widths


def _wrap(text, width):
    """Return the lines of a text, a list."""
    wrapper = _Wrapper(max(width, 1), break_on_hyphens=False)
    lines = []
    for part in text.splitlines():
        lines += wrapper.wrap(part) or ['']
    return lines or ['']


def _paint(lines, text, paint):
    """Return the lines of a text in its color."""
    color = getattr(text, 'color', _COLORS.get(text))
    return [paint(line, color) for line in lines]


def _list_fields(columns, rows, width, paint):
    """Return a table with a line for each field that is not empty.

    :param rows: list of lists of texts
    """
    longest_name = max(len(name) for name in columns)
    free = width - longest_name - _TABLE_BORDER - 2 * _COLUMN_BORDER
    groups = []
    for row in rows:
        names, values = [], []
        for name, text in zip(columns, row):
            if text:
                lines = _wrap(text, free)
                names += [name] + [''] * (len(lines) - 1)
                values += _paint(lines, text, paint)
        groups.append([names, values])
    return _draw([['Field'], ['Value']], groups, is_wrapped=True,
                 are_right=[False, False])


def _draw(header, rows, is_wrapped, are_right):
    """Return a table as text.

    :param header: list with the lines of the name of each column
    :param rows: list of rows, each a list with the lines of each column
    :param is_wrapped: whether to draw a line after each row
    :param are_right: list, whether each column is aligned to the right
    """
    names = ['\n'.join(lines) for lines in header]
    drawn = prettytable.PrettyTable(names)
    for name, is_right in zip(names, are_right):
        drawn.align[name] = 'r' if is_right else 'l'
    if is_wrapped:
        # PrettyTable draws the lines of a header side by side.
        drawn.header = False
        drawn.hrules = _LINE_AFTER_EACH_ROW
        drawn.add_row(names)
    for row in rows:
        drawn.add_row(['\n'.join(lines) for lines in row])
    return drawn.get_string()
