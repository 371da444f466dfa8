# SPDX-License-Identifier: Apache-2.0

"""What the command nova-prio says where a part of it is not installed."""

import sys

import pytest

from nova_prio.cmd import main


@pytest.fixture
def without(monkeypatch):
    """A function that makes imports of a module fail, for a command's own."""
    def hide(name, of):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, of, raising=False)

    return hide


@pytest.mark.parametrize('argv', [
    ['audit'], ['audit', '--fix'], ['audit', '--help']])
def test_what_is_missing_is_named(argv, without):
    without('tqdm', 'nova_prio.cmd.audit')
    assert main.main(argv) == (
        'nova-prio audit needs what is not installed: import of tqdm halted; '
        'None in sys.modules. Install this package with its extra cli.')


def test_the_extra_of_scenario(monkeypatch):
    monkeypatch.setitem(sys.modules, 'nova_prio.scenario.command', None)
    assert main.main(['scenario', 'play', 'file']).endswith(
        'with its extra scenario.')


def test_other_commands_are_there(without, capsys):
    without('tqdm', 'nova_prio.cmd.audit')
    assert 0 == main.main(['capacity', 'show', '--help'])
    assert 'usage: nova-prio capacity show' in capsys.readouterr().out


def test_unknown_command(capsys):
    assert 2 == main.main(['audits'])
    assert "'audits' is not a nova-prio command" in capsys.readouterr().out
