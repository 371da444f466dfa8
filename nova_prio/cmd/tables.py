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
_COLORS = {
    **dict.fromkeys(('ACTIVE', 'fixed', 'ok', 'passes', 'ready'),
                    colors.GREEN),
    **dict.fromkeys(('SHUTOFF', 'VERIFY_RESIZE', 'in motion', 'to be fixed'),
                    colors.YELLOW),
    **dict.fromkeys((
        'ERROR', 'REFUSED', 'cell', 'differs', 'failed', 'found',
        'not ready', 'nova-compute', 'Placement', 'PriorityFilter',
        'request filter', 'unread'), colors.RED)}


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
    texts = [[_format(value) for value in row] for row in rows]
    cells = [columns, *texts]
    widths = _measure(cells, str.splitlines)
    borders = _TABLE_BORDER + _COLUMN_BORDER * len(columns)
    is_wrapped = 0 < width < borders + sum(widths)
    if is_wrapped:
        least_widths = _measure(cells, _Wrapper.wordsep_simple_re.split)
        free = width - borders - sum(least_widths)
        if free < 0:
            return _list_fields(columns, texts, width, paint)
        widths = _share(free, least_widths, widths)
    lines = [[_wrap(text, width) for text, width in zip(row, widths)]
             for row in cells]
    for row, (_, *states) in zip(lines[1:], texts):
        row[1:] = [_paint(parts, state, paint)
                   for parts, state in zip(row[1:], states)]
    first_row = rows[0] if rows else columns
    return _draw(lines, [type(value) in (int, float) for value in first_row],
                 is_wrapped)


def _format(value):
    """Return a value as text, which keeps its color."""
    if isinstance(value, cliff_columns.FormattableColumn):
        value = value.human_readable()
    return value if isinstance(value, str) else str(value)


def _measure(cells, split):
    """Return the length of the longest part in each column, a list.

    :param split: function, text to list of its parts
    """
    return [max(len(part) for cell in column for part in ['', *split(cell)])
            for column in zip(*cells)]


def _share(free, least_widths, full_widths):
    """Return the widths of the columns, which share the free characters.

    The columns that need least get their full width.
    """
    widths = list(least_widths)
    needs = sorted(
        (full - least, column) for column, (least, full) in enumerate(
            zip(least_widths, full_widths)))
    for position, (needed, column) in enumerate(needs):
        added = min(needed, free // (len(needs) - position))
        widths[column] += added
        free -= added
    return widths


def _wrap(text, width):
    """Return the lines of a text, a list."""
    wrapper = _Wrapper(max(width, 1), break_on_hyphens=False)
    return [line for part in text.splitlines()
            for line in wrapper.wrap(part) or ['']] or ['']


def _paint(lines, text, paint):
    """Return the lines of a text in its color."""
    color = getattr(text, 'color', _COLORS.get(text))
    return [paint(line, color) for line in lines]


def _list_fields(columns, rows, width, paint):
    """Return a table with a line for each field that is not empty.

    :param rows: list of lists of texts
    """
    free = width - max(map(len, columns)) - (
        _TABLE_BORDER + 2 * _COLUMN_BORDER)
    groups = [[['Field'], ['Value']]]
    for row in rows:
        names, values = [], []
        for name, text in zip(columns, row):
            if text:
                lines = _wrap(text, free)
                names += [name] + [''] * (len(lines) - 1)
                values += _paint(lines, text, paint)
        groups.append([names, values])
    return _draw(groups, [False, False], is_wrapped=True)


def _draw(cells, is_right, is_wrapped):
    """Return a table as text.

    :param cells: list of rows, each a list with the lines of each column; the
        first row is the header
    :param is_right: whether each column is aligned to the right
    :param is_wrapped: whether to draw a line after each row
    """
    names, *rows = [['\n'.join(lines) for lines in row] for row in cells]
    drawn = prettytable.PrettyTable(names)
    for name, right in zip(names, is_right):
        drawn.align[name] = 'r' if right else 'l'
    if is_wrapped:
        # PrettyTable draws the lines of a header side by side.
        drawn.header = False
        drawn.hrules = _LINE_AFTER_EACH_ROW
        rows.insert(0, names)
    for row in rows:
        drawn.add_row(row)
    return drawn.get_string()
