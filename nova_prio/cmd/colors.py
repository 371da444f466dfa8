# SPDX-License-Identifier: Apache-2.0

"""Colors for the output of the commands on a terminal; pure.

Colors are added to finished text, because a table counts their codes as
characters.
"""

import os
import re

RED, GREEN, YELLOW, MAGENTA, CYAN = 31, 32, 33, 35, 36

#: Text of a whole table cell to its color: the states of Nova's servers, of
#: audit, explain, host plan and host verify, and a service that refuses hosts.
_CELLS = {
    **dict.fromkeys(('ACTIVE', 'fixed', 'ok', 'passes', 'ready'), GREEN),
    **dict.fromkeys(('SHUTOFF', 'VERIFY_RESIZE', 'in motion', 'to be fixed'),
                    YELLOW),
    **dict.fromkeys((
        'ERROR', 'REFUSED', 'cell', 'differs', 'failed', 'found',
        'not ready', 'nova-compute', 'Placement', 'PriorityFilter',
        'request filter', 'unread'), RED)}
_BORDER = re.compile(r'[+-]+$')
_CELL = re.compile(r'(?<=\| )[^|]*[^| ](?= *\|)')
#: The row of the map of a host, without the numbers of its CPUs.
_ROWS = {'high': CYAN, 'low': MAGENTA}
_ROW = re.compile(r'(high|low) +[|\w~.][|\w~. ]*$')
_REFUSAL = re.compile(r'.*\bstep \d+ \(.*?\):')
_REFUSED_STEP = re.compile(r'(?<=[:,] )(?:\d+ )?refused(?=,|$)')
#: A cell of capacity show, and the line below a map.
_SOLD_CELL = re.compile(r'(\d+)/(\d+) \(\d+\)$')
_SOLD = re.compile(r'(\d+) of (\d+) (?:high|low|ordinary|PCPU|VCPU)\b')


def is_wanted(stream):
    """Return whether output to a stream should have colors.

    See https://no-color.org for NO_COLOR.
    """
    return (stream.isatty() and not os.environ.get('NO_COLOR') and
            os.environ.get('TERM') != 'dumb')


def paint(text, color):
    """Return a text in a color."""
    return '\x1b[%dm%s\x1b[0m' % (color, text)


def write(stream, text):
    """Write a text to a stream, with colors if they are wanted."""
    stream.write(highlight(text) if is_wanted(stream) else text)


def highlight(text):
    """Return the text of tables, maps and progress with colors."""
    lines = []
    borders = 0  # A table has its header between the first two borders.
    for line in text.split('\n'):
        if _BORDER.match(line):
            borders += 1
        elif not line.startswith('|'):
            borders = 0
            line = _highlight_line(line)
        elif borders > 1:
            # The first cell is a name.
            end = line.index('|', 1)
            line = line[:end] + _CELL.sub(_highlight_cell, line[end:])
        lines.append(line)
    return '\n'.join(lines)


def _highlight_cell(match):
    """Return a cell of a table, painted if its text is a known state."""
    text = match.group()
    color = _CELLS.get(text)
    if color is None:
        return _SOLD_CELL.sub(_paint_if_oversold, text)
    return paint(text, color)


def _highlight_line(line):
    """Return a line outside of tables with colors."""
    row = _ROW.match(line)
    if row:
        return paint(line, _ROWS[row.group(1)])
    if line.startswith('['):
        return _REFUSED_STEP.sub(_paint_red, line)
    line = _REFUSAL.sub(_paint_red, line, count=1)
    return _SOLD.sub(_paint_if_oversold, line)


def _paint_if_oversold(match):
    """Return the text of a match of sold and sellable vCPUs."""
    sold, sellable = map(int, match.groups())
    return _paint_red(match) if sold > sellable else match.group()


def _paint_red(match):
    """Return the text of a match in red."""
    return paint(match.group(), RED)
