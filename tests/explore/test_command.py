# SPDX-License-Identifier: Apache-2.0

"""The command of the explorer, without a cloud."""

import subprocess
import sys
from unittest import mock

import pytest

from tests.explore import __main__ as command
from tests.explore import cases
from tests.explore import explorer
from tests.explore import results

POINTS = ['Instance.save#%d' % number for number in range(1, 5)]
STOP = 'migrate:high:delete_it:Instance.save#2'
OTHER = 'migrate:high:audit:Instance.save#3'
MISSED = 'migrate:high:delete_it:Instance.save#9'
ENDS_AT_ONCE = '''
import os, signal, time
from tests.explore import __main__ as command, explorer

def play(*arguments):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except BaseException:
        time.sleep(60)

explorer.Explorer._prepare = lambda *arguments: None
explorer.Explorer._play = play
explorer.Explorer.close = lambda *arguments: time.sleep(60)
command.main(['migrate:high:delete_it:Instance.save#1'])
'''


class WithoutCloud(explorer.Explorer):
    """Plays operations that have all POINTS and that change nothing."""

    #: Each case that was played.
    played = []
    #: Disturbances that have a violation.
    bad = ()

    def _prepare(self, kind):
        self._cloud = mock.Mock()

    def _play(self, operation, kind, disturbance, choose):
        stops = [(choose(point), point) for point in POINTS]
        self._cloud.points.reached = POINTS
        self.played.append(':'.join((operation, kind, disturbance)))
        if disturbance in self.bad:
            raise AssertionError('oversold')
        return any(chosen for chosen, _ in stops)


@pytest.fixture(autouse=True)
def played(monkeypatch):
    """Return the list of what is played."""
    monkeypatch.setattr(explorer, 'Explorer', WithoutCloud)
    monkeypatch.setattr(WithoutCloud, 'played', [])
    monkeypatch.setattr(WithoutCloud, 'bad', ())
    monkeypatch.setattr(command.signal, 'signal', mock.Mock())
    return WithoutCloud.played


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / 'state')


@pytest.mark.parametrize('arguments, sentence', [
    (['migrat'], 'migrat selects no case'),
    (['migrate', STOP, 'hig'], 'hig selects no case'),
    (['migrate:high:sweep:x'], 'the number of a sweep'),
    (['--shard', '2/2'], '"2/2" is not NUMBER/COUNT'),
    (['--shard', '1'], '"1" is not NUMBER/COUNT'),
    (['--shard', '0/0'], '"0/0" is not NUMBER/COUNT'),
    (['--single-stops', '0'], '"0" is not a whole number'),
    (['--cases-per-cloud', 'all'], '"all" is not a whole number'),
    (['--table'], 'does not exist'),
])
def test_bad_input_starts_and_writes_nothing(
        tmp_path, path, played, capfd, arguments, sentence):
    with pytest.raises(SystemExit) as ended:
        command.main([*arguments, '--state', path])
    assert 2 == ended.value.code
    assert sentence in capfd.readouterr().err
    assert [] == played
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize('arguments, sentence', [
    (['--table'], '--table needs --state'),
    (['--state', '/nowhere/state'], '/nowhere does not exist'),
    (['--state', '/'], 'Is a directory'),
])
def test_bad_state(played, capfd, arguments, sentence):
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert 2 == ended.value.code
    assert sentence in capfd.readouterr().err
    assert [] == played


def test_full_cases_and_patterns_are_mixed(played, path):
    assert 0 == command.main([STOP, 'stop:low:delete_it', '--state', path,
                              'migrate:high:sweep:3', 'reboot:pinned:audit'])
    assert ['migrate:high:delete_it', 'migrate:high:sweep'] == played[:2]
    # A sweep goes on until each disturbance had its turn.
    count = len(cases.order_disturbances('reboot', 'pinned'))
    swept = -(-count // len(POINTS)) * ['reboot:pinned:sweep']
    assert swept + ['stop:low:nothing', 'stop:low:delete_it'] == played[2:]


def test_single_stops_are_drawn(played):
    assert 0 == command.main(['--single-stops', '3', 'migrate:high:audit'])
    assert 'migrate:high:nothing' == played[0]
    assert {'migrate:high:audit'} == set(played[1:])
    assert len(played) <= 4


@pytest.mark.parametrize('arguments', [
    [STOP, OTHER, 'migrate:high:sweep:1', 'migrate:high:nothing:None'],
    ['migrate:low*:kill_*'], ['rebuild:*:audit'],
    ['migrate', '--single-stops', '5', '--seed', '1']])
def test_shards_play_all_once(tmp_path, arguments):
    def play(name, *options):
        state = str(tmp_path / name)
        command.main([*arguments, '--seed', '7', '--state', state, *options])
        return {case for case in results.State(state).results
                if cases.parse(case)[1] != cases.NO_POINT or
                case in arguments}

    shards = [play('%d' % number, '--shard', '%d/3' % number)
              for number in range(3)]
    assert sum(map(len, shards)) == len(set().union(*shards))
    assert play('all') == set().union(*shards)


def test_case_is_not_reached(path, capfd, played):
    # Its result in the state does not hide that.
    for _ in range(2):
        assert 1 == command.main([MISSED, STOP, '--state', path])
        shown = capfd.readouterr().out
        assert '%s was not reached.' % MISSED in shown
        assert '\n'.join(POINTS) in shown.partition('was not reached')[2]
        assert '%s was not reached' % STOP not in shown
    assert 3 == len(played)


def test_case_without_disturbance_is_clean(path):
    case = 'migrate:high:nothing:None'
    assert 0 == command.main([case, '--state', path])
    assert {case: results.CLEAN} == results.State(path).results


def test_case_that_is_named_twice_is_played_once(played):
    command.main([MISSED, MISSED])
    assert 1 == len(played)


def test_violation_is_named_and_played_again(path, capfd, played,
                                             monkeypatch):
    monkeypatch.setattr(WithoutCloud, 'bad', ('audit',))
    assert 1 == command.main([OTHER, STOP, '--state', path])
    shown = capfd.readouterr().out
    assert 'violation: ' + OTHER in shown
    assert 'violation: ' + STOP not in shown
    monkeypatch.setattr(WithoutCloud, 'bad', ())
    assert 0 == command.main([OTHER, STOP, '--state', path])
    assert 'violation:' not in capfd.readouterr().out
    assert ['migrate:high:audit', 'migrate:high:delete_it',
            'migrate:high:audit'] == played


def test_operation_that_fails_alone_is_a_violation(monkeypatch, capfd):
    monkeypatch.setattr(WithoutCloud, 'bad', ('nothing',))
    assert 1 == command.main(['migrate:high:delete_it'])
    assert 'violation: migrate:high:nothing:None' in capfd.readouterr().out


def test_run_goes_on_with_its_seed(path, capfd, played):
    command.main(['migrate:high:delete_it', '--state', path])
    seed = results.State(path).seed
    assert '--seed %s\n' % seed in capfd.readouterr().out
    count = len(played)
    command.main(['migrate:high:delete_it', '--state', path])
    assert '--seed %s\n' % seed in capfd.readouterr().out
    assert count == len(played)
    command.main(['migrate:high:delete_it', '--state', path, '--seed', 'a'])
    assert 'a' == results.State(path).seed


def test_table_is_printed_and_nothing_is_played(path, capfd, played,
                                                monkeypatch):
    monkeypatch.setattr(WithoutCloud, 'bad', ('audit',))
    command.main([OTHER, '--state', path])
    capfd.readouterr()
    assert 0 == command.main(['--table', '--state', path])
    assert 'migrate:audit 1 stops, 0 not reached, 1 violations (high)' == (
        ' '.join(capfd.readouterr().out.split()))
    assert 1 == len(played)


def test_help_lists_the_names(capfd):
    with pytest.raises(SystemExit):
        command.main(['--help'])
    words = capfd.readouterr().out.split()
    assert {'migrate_live_again', 'low-two-cells',
            'split_source_read_need_far'} <= set(words)


def test_interrupt_ends_at_once():
    ended = subprocess.run([sys.executable, '-c', ENDS_AT_ONCE],
                           stdout=subprocess.PIPE, text=True, timeout=50)
    assert 130 == ended.returncode
    assert ended.stdout.endswith('\ninterrupted\n')
