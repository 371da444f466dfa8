# SPDX-License-Identifier: Apache-2.0

"""The tables of the commands, which fit the width of the terminal.

A table that is too wide is wrapped between words. If that is not enough, each
row becomes a list of its fields, as in ``psql``. No value is shortened.
"""

import itertools
import os
import re
import shutil
import textwrap

from cliff import columns as cliff_columns
from cliff.formatters import table

from nova_prio.cmd import colors

#: Width of a table without a terminal.
WIDTH = 100
#: Environment variable of cliff with the default of --max-width.
_WIDTH_VARIABLE = 'CLIFF_MAX_TERM_WIDTH'


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines after words and after commas."""

    wordsep_simple_re = re.compile(r'(\s+|(?<=,)(?=\S))')


class TableFormatter(table.TableFormatter):
    """cliff's formatter of tables, with a width and with colors."""

    def emit_list(self, column_names, data, stdout, parsed_args):
        """Write the table of some rows."""
        rows = [list(row) for row in data]
        text = ''
        if rows or parsed_args.print_empty:
            text = format_table(column_names, rows, _get_width(
                parsed_args.max_width, stdout))
        colors.write(stdout, text + '\n')


class Tables:
    """A mix-in for commands of cliff that list rows."""

    def _load_formatter_plugins(self):
        """Return cliff's formatters, a ``stevedore.ExtensionManager``."""
        formatters = super()._load_formatter_plugins()
        formatters['table'].obj = TableFormatter()
        return formatters

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        if _WIDTH_VARIABLE not in os.environ:
            parser.set_defaults(max_width=None)
        return parser


def is_for_reading(parsed_args):
    """Return whether the output is a table with all columns in order.

    The columns of such a table may differ from those of other formats.

    :param parsed_args: arguments of a command of :class:`Tables`
    """
    return (parsed_args.formatter == 'table' and not parsed_args.columns and
            not parsed_args.sort_columns)


def _get_width(max_width, stream):
    """Return the width of a table, or None for no limit.

    :param max_width: of the command line, or None
    """
    if max_width is not None:
        return max_width if max_width > 0 else None
    return shutil.get_terminal_size().columns if stream.isatty() else WIDTH


def format_table(columns, rows, width=WIDTH):
    """Return the table of some rows, without a line end.

    :param columns: list of the names of the columns
    :param rows: list of lists of values; numbers are aligned to the right, if
        the first row has a number
    :param width: maximum number of characters of a line, or None
    """
    is_right = [isinstance(value, (int, float)) and
                not isinstance(value, bool)
                for value in (rows[0] if rows else columns)]
    cells = [list(map(_format, row)) for row in [columns, *rows]]
    longest = _measure(cells, str.splitlines)
    # The borders and spaces of N columns.
    free = (width or sum(longest) + 3 * len(columns) + 1) - (
        3 * len(columns) + 1)
    if sum(longest) <= free:
        return _draw(cells, longest, is_right)
    widths = _measure(cells, _Wrapper.wordsep_simple_re.split)
    free -= sum(widths)
    if free < 0:
        return _list_fields(cells, width)
    # The columns that need least get their full width.
    for left, (needed, column) in zip(range(len(widths), 0, -1), sorted(
            (longest[column] - widths[column], column)
            for column in range(len(widths)))):
        added = min(needed, free // left)
        widths[column] += added
        free -= added
    return _draw(cells, widths, is_right, has_dividers=True)


def _format(value):
    """Return a value as text."""
    if isinstance(value, cliff_columns.FormattableColumn):
        value = value.human_readable()
    return str(value)


def _measure(cells, split):
    """Return the length of the longest part in each column, a list.

    :param split: function, text to list of its parts
    """
    return [max(len(part) for cell in column for part in ['', *split(cell)])
            for column in zip(*cells)]


def _list_fields(cells, width):
    """Return a table with a line for each field that is not empty.

    :param cells: list of lists of texts, the first with the field names
    """
    names, *rows = cells
    name_width = max(map(len, names))
    groups = [['Field', 'Value']]
    for row in rows:
        fields = [(name, line) for name, value in zip(names, row) if value
                  for name, line in itertools.zip_longest(
                      [name], _wrap(value, width - name_width - 7),
                      fillvalue='')]
        groups.append(['\n'.join(lines)
                       for lines in zip(*fields or [('', '')])])
    return _draw(groups, _measure(groups, str.splitlines), [False, False],
                 has_dividers=True)


def _wrap(text, width):
    """Return the lines of a text, a list."""
    wrapper = _Wrapper(max(width, 1), break_on_hyphens=False)
    return [line for part in text.splitlines()
            for line in wrapper.wrap(part) or ['']] or ['']


def _draw(cells, widths, is_right, has_dividers=False):
    """Return a table as text.

    :param cells: list of lists of texts, the first with the header
    :param widths: of the columns
    :param is_right: whether each column is aligned to the right
    :param has_dividers: whether to draw a line after each row
    """
    border = '+%s+' % '+'.join('-' * (width + 2) for width in widths)
    lines = [border]
    for number, row in enumerate(cells):
        for parts in itertools.zip_longest(
                *map(_wrap, row, widths), fillvalue=''):
            lines.append('| %s |' % ' | '.join(
                part.rjust(width) if right else part.ljust(width)
                for part, width, right in zip(parts, widths, is_right)))
        if number == 0 or has_dividers:
            lines.append(border)
    return '\n'.join(lines if has_dividers else [*lines, border])
