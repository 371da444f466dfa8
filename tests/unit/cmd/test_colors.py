# SPDX-License-Identifier: Apache-2.0

"""The colors of tables and maps, and when they are wanted."""

import io
import logging

import pytest

from nova_prio.cmd import capacity
from nova_prio.cmd import colors
from nova_prio.cmd import main
from nova_prio.cmd import tables
from nova_prio.model import provider_rows
from nova_prio_scenario import result
from nova_prio_scenario import result_text

RED, GREEN, YELLOW, CYAN, MAGENTA, END = (
    '\x1b[31m', '\x1b[32m', '\x1b[33m', '\x1b[36m', '\x1b[35m', '\x1b[0m')

COLUMNS = ['failed', 'Placement', 'Low']
HOST = {'name': 'mix-1', 'cpus': 2}
REPORT = {
    'state': 'up', 'status': 'enabled', 'dedicated': '0-1', 'shared': None,
    'domains': {}, 'inventory': {}, 'allocations': {}, 'classes': {
        'high': {'used': 8, 'sellable': 8}, 'low': {'used': 9, 'sellable': 8},
        'ordinary': {'used': 0, 'sellable': 8}}}
HIGH = result.Server('a', 'A', 'high', 'ACTIVE', 'mix-1', [[0]], None)
LOW = result.Server('b', 'B', 'low', 'ACTIVE', 'mix-1', [0, 1], None,
                    {3: 'step 3 (create): No valid host was found.'})


class Terminal(io.StringIO):

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Set the variables of a terminal with colors."""
    monkeypatch.delenv('NO_COLOR', raising=False)
    monkeypatch.setenv('TERM', 'xterm')


def sell(sold):
    """Return a cell with the sold vCPUs of 16."""
    return capacity._format_row(provider_rows.Row(sold, 16, 0))


def test_states_and_oversold_rows_of_a_table_have_colors():
    """The first column has names; the borders stay where they are."""
    rows = [['found', 'found', 1], ['in', 'ok', 2], ['a', 'in motion', 3]]
    text = tables.format_table(COLUMNS, rows, paint=colors.paint)
    plain = tables.format_table(COLUMNS, rows)
    for color, state in ((RED, '| found'), (GREEN, '| ok'),
                         (YELLOW, '| in motion')):
        painted = state.replace('| ', '| ' + color)
        assert ' %s%s' % (painted, END) in text
        text = text.replace(painted + END, state)
    assert plain == text


def test_oversold_row_is_red():
    assert '| %s18/16 (0)%s |' % (RED, END) in tables.format_table(
        ['Host', 'High'], [['a', sell(18)]], paint=colors.paint)
    assert '| 16/16 (0) |' in tables.format_table(
        ['Host', 'High'], [['a', sell(16)]], paint=colors.paint)


def test_wrapped_state_is_painted_in_each_line():
    text = tables.format_table(
        ['Host', 'State'], [['a', 'to be fixed']], 16, colors.paint)
    for line in 'to be', 'fixed':
        assert '| %s%s%s |' % (YELLOW, line, END) in text


def test_rows_and_refusals_of_a_scenario_have_colors():
    text = result_text.format_result(
        result.Result([HIGH, LOW], [REPORT]), [HOST], colors.paint)
    for color, part in (
            (GREEN, 'ACTIVE'), (RED, 'b, step 3 (create):'),
            (CYAN, 'high      | A|  |'), (MAGENTA, 'low       |~~|~~|'),
            (RED, '9 of 8 low')):
        painted = color + part + END
        assert painted in text
        text = text.replace(painted, part)
    assert '\x1b' not in text
    assert text == result_text.format_result(
        result.Result([HIGH, LOW], [REPORT]), [HOST])


@pytest.mark.parametrize('outcomes, shown', [
    (['stopped'], 'stopped'), (['refused'], RED + 'refused' + END),
    (['active', 'refused', 'refused'],
     '1 active, %s2 refused%s' % (RED, END))])
def test_refused_steps_are_red(outcomes, shown):
    assert result_text.summarize(outcomes, colors.paint) == shown


@pytest.mark.parametrize('stream, name, value, is_colored', [
    (Terminal, 'TERM', 'xterm', True), (io.StringIO, 'TERM', 'xterm', False),
    (Terminal, 'TERM', 'dumb', False), (Terminal, 'NO_COLOR', '0', False),
    (Terminal, 'NO_COLOR', '', True)])
def test_colors_are_for_terminals(stream, name, value, is_colored,
                                  monkeypatch):
    monkeypatch.setenv(name, value)
    text = colors.get_painter(stream())('refused', colors.RED)
    assert ('\x1b' in text) == is_colored


def test_warnings_are_yellow_and_errors_red():
    for level, color in (logging.WARNING, YELLOW), (logging.ERROR, RED):
        record = logging.LogRecord('x', level, '', 1, 'text %d', (1,), None)
        assert main.ColorFormatter().format(record) == (
            color + 'text 1' + END)


def test_message_may_name_its_color():
    record = logging.LogRecord('x', logging.WARNING, '', 1, 'text', (), None)
    record.color = colors.GREEN
    assert main.ColorFormatter().format(record) == GREEN + 'text' + END
