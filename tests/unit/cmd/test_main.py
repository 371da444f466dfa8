# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio`` if a library is not installed."""

import sys

import pytest

from nova_prio.cmd import main


@pytest.fixture
def without(monkeypatch):
    """Return a function that makes a module fail to import a library."""
    def hide(library, module):
        monkeypatch.setitem(sys.modules, library, None)
        monkeypatch.delitem(sys.modules, module, raising=False)

    return hide


@pytest.mark.parametrize('argv', [
    ['audit'], ['audit', '--fix'], ['audit', '--help']])
def test_missing_library_is_named(argv, without):
    without('tqdm', 'nova_prio.cmd.audit')
    assert main.main(argv) == (
        'nova-prio audit needs a library that is not installed: import of '
        'tqdm halted; None in sys.modules. Install this package with its '
        'extra cli.')


def test_missing_extra_of_scenario_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'nova_prio_scenario.play', None)
    assert main.main(['scenario', 'play', 'file']).endswith(
        'with its extra scenario, or on Debian the packages that '
        'python3-nova-prio suggests.')


def test_other_commands_work_without_a_library(without, capsys):
    without('tqdm', 'nova_prio.cmd.audit')
    assert 0 == main.main(['capacity', 'show', '--help'])
    assert 'usage: nova-prio capacity show' in capsys.readouterr().out


def test_version_is_that_of_the_start_lines(capsys, monkeypatch):
    monkeypatch.setattr('importlib.metadata.version',
                        {'nova-prio': '1.0.0.dev7'}.get)
    assert 0 == main.main(['--version'])
    assert 'nova-prio 1.0.0.dev7\n' == capsys.readouterr().out


def test_option_before_the_command_is_refused(capsys):
    assert 2 == main.main(['--config-file=nova.conf', 'audit'])
    assert ("'--config-file=nova.conf' is not a nova-prio command; give the "
            'options of a command after it.\n', '') == (
        capsys.readouterr()[::-1])


def test_unknown_command_is_refused(capsys):
    assert 2 == main.main(['audits'])
    assert "'audits' is not a nova-prio command" in capsys.readouterr().out
