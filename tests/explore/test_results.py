# SPDX-License-Identifier: Apache-2.0

"""The results of the explorer in a file."""

import json

import pytest

from tests.explore import results

STOP = 'migrate:high:delete_it:Instance.save#1'
OTHER = 'migrate:high:delete_it:Instance.save#2'
SWEEP = 'migrate:high:sweep:0'
ALONE = 'migrate:high:nothing:None'
VIOLATION = 'AssertionError: oversold'


def read_again(path):
    """Return the State of a file, as the next run has it."""
    state = results.State(path)
    state.forget_violations()
    return state


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'state'


def test_file_keeps_all(path):
    state = results.State(path)
    state.set_seed('4711')
    state.add(STOP, results.CLEAN)
    state.add(OTHER, results.NOT_REACHED)
    state.add(SWEEP, results.CLEAN)
    state.add_stops(SWEEP, [['audit', 'Instance.save#1']])
    state.add_points('migrate', 'high', ['Instance.save#1'])
    found = read_again(path)
    assert '4711' == found.seed
    assert state.results == found.results
    assert state.stops == found.stops
    assert state.points == found.points


def test_violations_are_forgotten_when_read(path):
    state = results.State(path)
    state.add(STOP, results.CLEAN)
    state.add(OTHER, VIOLATION)
    state.add(SWEEP, VIOLATION)
    state.add_stops(SWEEP, [['audit', 'Instance.save#1']])
    found = read_again(path)
    assert {STOP: results.CLEAN} == found.results
    assert {} == found.stops


def test_points_of_an_operation_that_fails_alone_are_forgotten(path):
    state = results.State(path)
    state.add(ALONE, VIOLATION)
    state.add_points('migrate', 'high', [])
    state.add_points('migrate', 'low', ['Instance.save#1'])
    assert {('migrate', 'low'): ['Instance.save#1']} == read_again(path).points


def test_result_after_a_repair_counts(path):
    results.State(path).add(STOP, VIOLATION)
    read_again(path).add(STOP, results.CLEAN)
    assert {STOP: results.CLEAN} == read_again(path).results


def test_newest_seed_counts_and_is_written_once(path):
    state = results.State(path)
    for seed in '1', '1', '2':
        state.set_seed(seed)
    assert '2' == results.State(path).seed
    assert 2 == len(path.read_text().splitlines())


def test_reading_writes_nothing(path):
    results.State(path).forget_violations()
    assert not path.exists()


@pytest.mark.parametrize('line', [
    b'oops', b'', b'5', b'[]', b'{"case": "migrate:high:delete_it:x"',
    b'{"result": "clean"}', b'{"case": "migrate", "result": "clean"}',
    b'{"case": 1}', b'\xff'])
def test_line_of_something_else(path, line):
    path.write_bytes(json.dumps(
        {'case': STOP, 'result': results.CLEAN}).encode() + b'\n' + line +
        b'\n')
    with pytest.raises(ValueError, match='^Line 2 of %s is not' % path):
        results.State(path)


def test_table():
    state = results.State()
    state.add(STOP, results.CLEAN)
    state.add(OTHER, results.NOT_REACHED)
    state.add('migrate:low:delete_it:Instance.save#1', VIOLATION)
    state.add(SWEEP, results.CLEAN)
    state.add_stops(SWEEP, [['audit', 'Instance.save#1']])
    state.add(ALONE, results.CLEAN)
    table = state.format_coverage().splitlines()
    assert ['migrate:audit 1 stops, 0 not reached, 0 violations (high)',
            'migrate:delete_it 2 stops, 1 not reached, 1 violations '
            '(high, low)'] == [' '.join(line.split()) for line in table]
