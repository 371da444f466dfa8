# SPDX-License-Identifier: Apache-2.0

"""The tables of the commands."""

import io
import types

from cliff import lister
import pytest

from nova_prio.cmd import tables


class Listing(tables.Tables, lister.Lister):
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
    assert cell in show(('State',), [['failed']], *arguments, stream=Terminal)
    assert '| failed |' in show(('State',), [['failed']])
