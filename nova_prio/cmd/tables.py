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
        """Add the options of tables; emit_list chooses the default width."""
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
    # The widths of the columns if no line is broken, and if each is broken
    # after each word.
    full_widths, least_widths = [], []
    for number, name in enumerate(columns):
        lines, words = [], []
        for text in [name] + [row[number] for row in texts]:
            lines += text.splitlines()
            words += _Wrapper.wordsep_simple_re.split(text)
        full_widths.append(_measure_longest(lines))
        least_widths.append(_measure_longest(words))
    available = width - _TABLE_BORDER - _COLUMN_BORDER * len(columns)
    is_wrapped = 0 < width and available < sum(full_widths)
    widths = full_widths
    if is_wrapped:
        spare = available - sum(least_widths)
        if spare < 0:
            return _list_fields(columns, texts, width, paint)
        widths = _share(spare, least_widths, full_widths)
    drawn_rows = []
    for row in texts:
        cells = [_wrap(text, width) for text, width in zip(row, widths)]
        # The whole text of a cell decides the color of its wrapped lines. The
        # first column has names, which must not be taken for states: only the
        # others have colors.
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


def _measure_longest(texts):
    """Return the number of characters of the longest text, 0 without texts."""
    return max((len(text) for text in texts), default=0)


def _share(spare, least_widths, full_widths):
    """Return the widths of the columns, which share the spare characters.

    All columns get equal parts, but none gets more than its full width.

    :param spare: number of characters beyond the least widths
    """
    widths = list(least_widths)
    needs = sorted((full_widths[column] - least, column)
                   for column, least in enumerate(least_widths))
    # Begin with the columns that need least: one that needs less than its part
    # leaves more to the later ones.
    for position, (needed, column) in enumerate(needs):
        equal_part = spare // (len(needs) - position)
        added = min(needed, equal_part)
        widths[column] += added
        spare -= added
    return widths


def _wrap(text, width):
    """Return the lines of a text after wrapping, a list.

    :param width: maximum number of characters of a line
    :returns: [''] for an empty text
    """
    wrapper = _Wrapper(max(width, 1), break_on_hyphens=False)
    lines = []
    for part in text.splitlines():
        lines += wrapper.wrap(part) or ['']
    return lines or ['']


def _paint(lines, text, paint):
    """Return the lines of a cell in its color.

    A line may be only a part of the text, so it cannot decide the color.

    :param lines: list, the text of the cell after it is wrapped
    :param text: the whole text of the cell, which decides the color
    :param paint: function that returns a text in a color
    """
    # A state has its color. None leaves another text as it is.
    color = _COLORS.get(text)
    if isinstance(text, ColoredText):
        color = text.color
    return [paint(line, color) for line in lines]


def _list_fields(columns, rows, width, paint):
    """Return a table with a line for each field that is not empty.

    The table has two columns, the names of the fields and their values.

    :param rows: list of lists of texts
    :param paint: function that returns a text in a color
    """
    longest_name = _measure_longest(columns)
    value_width = (
        width - longest_name - _TABLE_BORDER - 2 * _COLUMN_BORDER)
    # The rows of the table: the lines of each of the two columns.
    drawn_rows = []
    for row in rows:
        names, values = [], []
        for name, text in zip(columns, row):
            if text:
                lines = _wrap(text, value_width)
                # The name is beside the first line of the value.
                names += [name] + [''] * (len(lines) - 1)
                values += _paint(lines, text, paint)
        drawn_rows.append([names, values])
    header = [['Field'], ['Value']]
    return _draw(header, drawn_rows, is_wrapped=True, are_right=[False, False])


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
        # PrettyTable would draw the lines of a wrapped header side by side, so
        # draw the header as the first row.
        drawn.header = False
        drawn.hrules = _LINE_AFTER_EACH_ROW
        drawn.add_row(names)
    for row in rows:
        drawn.add_row(['\n'.join(lines) for lines in row])
    return drawn.get_string()
