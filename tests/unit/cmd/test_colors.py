# SPDX-License-Identifier: Apache-2.0

"""The colors of finished text, and when they are wanted."""

import io
import logging

import pytest

from nova_prio.cmd import colors
from nova_prio.cmd import main

RED, GREEN, YELLOW, CYAN, MAGENTA, END = (
    '\x1b[31m', '\x1b[32m', '\x1b[33m', '\x1b[36m', '\x1b[35m', '\x1b[0m')

TEXT = """\
+--------+-----------+-------------+
| failed | Placement | Low         |
+--------+-----------+-------------+
| found  | found     | 1           |
| in the | Placement | 16/16 (0)   |
| motion | ok        | 18/16 (0)   |
+--------+-----------+-------------+

s, step 3 (create): No valid host was found.
  mix-1: refused by ComputeFilter

host mix-1: 12 CPUs, dedicated 0-1
CPU       | 0| 1|
high      | A|  |
low       |~~|~~|
pinned    A high
sold      8 of 8 high (0 left), 9 of 8 low (0 left), 0 of 8 ordinary (0 left)
"""


class Terminal(io.StringIO):

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Set the variables of a terminal with colors."""
    monkeypatch.delenv('NO_COLOR', raising=False)
    monkeypatch.setenv('TERM', 'xterm')


def paint_all(text, *colored):
    """Return a text with each (color, part) painted once."""
    for color, part in colored:
        assert part in text
        text = text.replace(part, color + part + END, 1)
    return text


def test_states_rows_and_refusals_have_colors():
    head, rest = TEXT.split('| found  |')
    assert colors.highlight(TEXT) == head + '| found  |' + paint_all(
        rest, (RED, 'found'), (RED, 'Placement'), (GREEN, 'ok'),
        (RED, '18/16 (0)'), (RED, 's, step 3 (create):'),
        (CYAN, 'high      | A|  |'),
        (MAGENTA, 'low       |~~|~~|'), (RED, '9 of 8 low'))


@pytest.mark.parametrize('line, shown', [
    ('[1/2] stop s: stopped', '[1/2] stop s: stopped'),
    ('[2/2] create s (f): refused', '[2/2] create s (f): %srefused%s'
     % (RED, END)),
    ('[2/2] create s (f): 1 active, 2 refused',
     '[2/2] create s (f): 1 active, %s2 refused%s' % (RED, END)),
    ('high      AABB CCDD ....',
     '%shigh      AABB CCDD ....%s' % (CYAN, END)),
    ('plain-1, step 3 (host-change): nova_prio: no',
     '%splain-1, step 3 (host-change):%s nova_prio: no' % (RED, END)),
])
def test_lines(line, shown):
    assert colors.highlight(line) == shown


@pytest.mark.parametrize('stream, name, value, is_colored', [
    (Terminal, 'TERM', 'xterm', True), (io.StringIO, 'TERM', 'xterm', False),
    (Terminal, 'TERM', 'dumb', False), (Terminal, 'NO_COLOR', '0', False),
    (Terminal, 'NO_COLOR', '', True)])
def test_colors_are_for_terminals(stream, name, value, is_colored,
                                  monkeypatch):
    monkeypatch.setenv(name, value)
    output = stream()
    colors.write(output, '[1/1] stop s: refused\n')
    assert ('\x1b' in output.getvalue()) == is_colored


def test_warnings_are_yellow_and_errors_red():
    for level, color in (logging.WARNING, YELLOW), (logging.ERROR, RED):
        record = logging.LogRecord('x', level, '', 1, 'text %d', (1,), None)
        assert main.ColorFormatter().format(record) == (
            color + 'text 1' + END)


def test_message_may_name_its_color():
    record = logging.LogRecord('x', logging.WARNING, '', 1, 'text', (), None)
    record.color = colors.GREEN
    assert main.ColorFormatter().format(record) == GREEN + 'text' + END
