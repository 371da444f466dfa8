# SPDX-License-Identifier: Apache-2.0

"""The tables of the commands."""

import contextlib
import io
import types

import pytest

from nova_prio.admin.audit import finding
from nova_prio.admin.explain import answers
from nova_prio.admin.host import plan_format
from nova_prio.admin.host import verify
from nova_prio.cmd import audit
from nova_prio.cmd import capacity
from nova_prio.cmd import capacity_gain
from nova_prio.cmd import explain
from nova_prio.cmd import gain_answers
from nova_prio.cmd import host_disable
from nova_prio.cmd import host_plan
from nova_prio.cmd import main
from nova_prio.cmd import tables
from nova_prio.model import provider_rows
from nova_prio_scenario import result
from nova_prio_scenario import result_text

HOST = 'compute-rack-12.east.example.a'  # 30 characters
UUID = '4b341f5e-1c9e-4d3c-9f6b-1f0a6d2a8c11'
AMOUNTS = 'DISK_GB=20 MEMORY_MB=8192 PCPU=4 VCPU=4'
INVENTORY = ('allocation_ratio=16.0 max_unit=128 min_unit=1 reserved=64 '
             'step_size=1 total=128')
SENTENCE = ('Restart nova-compute, or run this command again with an option '
            'that repairs the difference between Nova and Placement.')
ROW = provider_rows.Row(sold=1024, sellable=1024, left=1024)

#: Command to columns and a row with long values.
ROWS = {
    'audit': (audit.COLUMNS[:-1], audit._make_row(
        finding.Finding('wrong_allocation', UUID, AMOUNTS, AMOUNTS, AMOUNTS,
                        AMOUNTS, host=HOST), 'to be fixed', SENTENCE)),
    'capacity show': (
        ['Aggregate', 'Hosts', *capacity.TABLE, 'Units'],
        [HOST, 1000, *[capacity._format_row(ROW)] * 3, '1000.5 (100 %)',
         1000]),
    'capacity gain': (
        [*capacity_gain.COLUMNS, *capacity_gain.UNITS, capacity_gain.NOTE],
        [HOST, True, *[1000] * 6, 'CPUs, memory', SENTENCE]),
    'capacity gain --what-if': (gain_answers.COLUMNS, [
        100, 1000.0, False, 4096, 4096, 10000, 10000, 'CPUs', 100]),
    'explain': (explain.COLUMNS, [
        HOST, answers.PRIORITY_FILTER, SENTENCE, 12, -1234.5, 0.25]),
    'host disable': (host_disable.COLUMNS, [
        UUID, 'web-1', 'high', 128, 1048576, 'pinned outside', HOST]),
    'host plan': (plan_format.COLUMNS[:-1], [
        plan_format.PINNED_OUTSIDE, UUID, INVENTORY, INVENTORY]),
    'host verify': (verify.COLUMNS, [
        'inventory MEMORY_MB', *[INVENTORY] * 4, 'differs', SENTENCE]),
}


def words(*values):
    """Return the words of values, a set; a comma ends a word."""
    return {word for value in values
            for word in str(value).replace(',', ', ').split()}


class Listing(tables.Lister):
    """A command that lists the rows of the test."""

    def take_action(self, parsed_args):
        return self.app.columns, self.app.rows


@pytest.fixture
def show():
    """Return a function that returns the output of a command."""
    def run(columns, rows, *arguments, stream=io.StringIO):
        stdout = stream()
        command = Listing(types.SimpleNamespace(
            stdout=stdout, columns=columns, rows=rows), None)
        command.run(command.get_parser('list').parse_args(arguments))
        return stdout.getvalue()
    return run


class Terminal(io.StringIO):

    def isatty(self):
        return True


@pytest.mark.parametrize('arguments, cell', [
    ([], '| \x1b[31mfailed\x1b[0m |'), (['-f', 'csv'], '"failed"')])
def test_only_a_table_has_colors(arguments, cell, show, monkeypatch):
    monkeypatch.delenv('NO_COLOR', raising=False)
    monkeypatch.setenv('TERM', 'xterm')
    table = ('Host', 'State'), [['a', 'failed']]
    assert cell in show(*table, *arguments, stream=Terminal)
    assert '| failed |' in show(*table)


@pytest.mark.parametrize('command', ROWS)
def test_table_of_a_command_fits_100_columns(command):
    columns, row = ROWS[command]
    assert len(columns) == len(row)
    text = tables.format_table(columns, [row, row])
    assert max(map(len, text.splitlines())) <= 100
    # Nothing is lost.
    assert words(*columns, *row) <= words(text)


@pytest.mark.parametrize('cpus', [
    [[cpu] for cpu in range(0, 128, 2)], list(range(0, 128, 3))])
def test_table_of_a_scenario_fits_100_columns(cpus):
    server = result.Server(
        'web-server-with-a-long-name-12', UUID, 'high', 'VERIFY_RESIZE', HOST,
        cpus, '/high_prio_machine')
    for server.name in 'db-1', server.name:
        text = result_text.format_servers([server])
        assert max(map(len, text.splitlines())) <= 100
        assert {server.name, HOST, 'VERIFY_RESIZE', '126'} <= words(text)


def test_table_that_fits_is_not_wrapped():
    assert tables.format_table(
        ['Host', 'Free', 'Mix'], [['a', 10, True], ['b c', 8, '']]) == (
            '+------+------+------+\n'
            '| Host | Free | Mix  |\n'
            '+------+------+------+\n'
            '| a    |   10 | True |\n'
            '| b c  |    8 |      |\n'
            '+------+------+------+')


def test_wide_table_is_wrapped_after_words_and_commas():
    assert tables.format_table(
        ['Low Sold', 'Why'], [[10, 'is full'], [8, '0,1,2,3']], 15) == (
            '+------+------+\n'
            '|  Low | Why  |\n'
            '| Sold |      |\n'
            '+------+------+\n'
            '|   10 | is   |\n'
            '|      | full |\n'
            '+------+------+\n'
            '|    8 | 0,1, |\n'
            '|      | 2,3  |\n'
            '+------+------+')


def test_wider_table_lists_the_fields_of_each_row(show):
    rows = [['a' * 10, '', 'c d'], ['b' * 10, 1, 'two lines\nof text']]
    assert show(('Host', 'Units', 'Note'), rows, '--max-width', '25') == (
        '+-------+------------+\n'
        '| Field | Value      |\n'
        '+-------+------------+\n'
        '| Host  | aaaaaaaaaa |\n'
        '| Note  | c d        |\n'
        '+-------+------------+\n'
        '| Host  | bbbbbbbbbb |\n'
        '| Units | 1          |\n'
        '| Note  | two lines  |\n'
        '|       | of text    |\n'
        '+-------+------------+\n')


@pytest.mark.parametrize('arguments, stream, width', [
    ([], io.StringIO, 100), ([], Terminal, 70),
    (['--max-width', '60'], Terminal, 60), (['--max-width', '0'], Terminal,
                                            len('| Text | |') + 203)])
def test_width_is_that_of_the_terminal_or_the_option(
        arguments, stream, width, show, monkeypatch):
    monkeypatch.setenv('COLUMNS', '70')
    monkeypatch.setenv('NO_COLOR', '1')
    text = show(('Text',), [['word ' * 41]], *arguments, stream=stream)
    assert width - 6 < max(map(len, text.splitlines())) <= width


def test_table_without_rows_is_empty(show):
    assert show(('Host',), []) == '\n'
    assert '| Host |' in show(('Host',), [], '--print-empty')


def test_host_plan_lists_the_steps_below_the_table(monkeypatch, capsys):
    """The machine-readable formats have the steps as rows."""
    rows = [
        plan_format.PlanRow(plan_format.OPTION, 'cpu_shared_set', '', '8-11'),
        plan_format.PlanRow(plan_format.HOST, UUID, 'x', 'y', SENTENCE)]
    monkeypatch.setattr(
        host_plan, '_read_rows',
        lambda *_, must_know_cpus: (rows, {UUID: 'web-1'}))
    monkeypatch.setattr('nova_prio.cmd.controller.configure_nova',
                        lambda _: contextlib.nullcontext())
    arguments = ['host', 'plan', HOST, '--dedicated', '0-7', '--shared',
                 '8-11', '--ratio', '2.0']
    assert main.main(arguments) == 0
    text, _ = capsys.readouterr()
    table, remedies, steps = text.split('\n\n')
    assert '| verdict | ' + HOST in table
    assert 'Remedy' not in table
    assert remedies.startswith(
        'Remedies:\n* host %s (web-1): Restart' % UUID)
    assert steps.startswith(
        'Steps:\n1. Run "nova-prio-host prepare" on %s as root.\n2. ' % HOST)
    assert 'Keep this plan' not in steps
    assert max(map(len, text.splitlines())) <= 100
    assert words(SENTENCE) <= words(remedies)
    main.main([*arguments, '-f', 'csv'])
    text, _ = capsys.readouterr()
    assert '"step","1","","","Run' in text
