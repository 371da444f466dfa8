# SPDX-License-Identifier: Apache-2.0

"""The command line, without a cloud."""

import pytest

from nova_prio.cmd import main


def test_play_prints_the_errors_of_the_file(tmp_path, capsys):
    path = tmp_path / 'bad.yaml'
    path.write_text('hosts: []\nsteps: x\n')
    assert main.main(['scenario', 'play', str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ''
    assert err.splitlines() == [
        "%s:1: key 'hosts': is empty; it must be a list of hosts" % path,
        "%s:2: key 'steps': 'x' is not a list of steps" % path]


def test_play_reports_a_missing_file(tmp_path, capsys):
    path = tmp_path / 'none.yaml'
    assert main.main(['scenario', 'play', str(path)]) == 2
    assert capsys.readouterr().err == (
        '%s: cannot be read: No such file or directory\n' % path)


def test_play_takes_the_file_from_the_environment(monkeypatch, capsys):
    monkeypatch.setenv('NOVA_PRIO_SCENARIO', '/none.yaml')
    assert main.main(['scenario', 'play', '--format', 'json']) == 2
    assert '/none.yaml: cannot be read' in capsys.readouterr().err


@pytest.mark.parametrize('arguments, message', [
    (['scenario', 'play'], 'arguments are required: FILE'),
    (['scenario', 'play', '--format', 'xml', 'x.yaml'],
     "invalid choice: 'xml'"),
    (['teleport'], "'teleport' is not a nova-prio command"),
    (['--teleport'], "'--teleport' is not a nova-prio command")])
def test_wrong_usage_exits_with_2(arguments, message, monkeypatch, capsys):
    monkeypatch.delenv('NOVA_PRIO_SCENARIO', raising=False)
    assert main.main(arguments) == 2
    assert message in ''.join(capsys.readouterr())


@pytest.mark.parametrize('arguments', [
    [], ['--help'], ['help', 'scenario', 'play'], ['--version']])
def test_help_and_version_exit_with_status_0(arguments, capsys):
    assert main.main(arguments) == 0
    out, err = capsys.readouterr()
    assert 'nova-prio' in out
    assert err == ''
