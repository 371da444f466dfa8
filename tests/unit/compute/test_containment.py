# SPDX-License-Identifier: Apache-2.0

import logging

import pytest

from nova_prio.compute import containment


def fail(steps, step='count', error=None, **kwargs):
    with steps.contain(step, **kwargs) as outcome:
        raise error or ValueError('boom')
    return outcome


def test_error_ends_the_step_and_refuses_until_the_step_succeeds():
    steps = containment.Steps()
    outcome = fail(steps)
    assert 'cannot count (ValueError: boom)' in outcome.problem
    assert outcome.problem == steps.problem
    assert steps.has_failed('count')
    with steps.contain('count') as outcome:
        pass
    assert (None, '') == (outcome.problem, steps.problem)
    assert not steps.has_failed('count')


def test_error_without_refusal_is_reported_to_the_caller_only():
    steps = containment.Steps()
    assert fail(steps, refuse_on_error=False).problem
    assert '' == steps.problem


def test_failure_until_recount_outlives_a_success():
    steps = containment.Steps()
    fail(steps, refuse_until_recount=True)
    with steps.contain('count', refuse_until_recount=True):
        pass
    assert steps.problem
    steps.begin_recount()
    fail(steps, refuse_until_recount=True)
    steps.end_recount()
    assert steps.problem, 'the step has failed again since'
    steps.begin_recount()
    steps.end_recount()
    assert '' == steps.problem


def test_exceptions_in_passes_are_raised():
    steps = containment.Steps()
    with pytest.raises(KeyError):
        fail(steps, error=KeyError('x'), reraised=(KeyError,))
    assert '' == steps.problem


def test_system_exit_is_raised():
    with pytest.raises(SystemExit):
        fail(containment.Steps(), error=SystemExit(1))


def test_each_type_of_error_is_logged_once_with_traceback(caplog):
    steps = containment.Steps()
    with caplog.at_level(logging.INFO):
        for error in (ValueError, ValueError, KeyError, ValueError):
            fail(steps, error=error('x'))
    assert 2 == len(caplog.records)
    assert all(record.exc_info for record in caplog.records)


def test_problem_has_one_line_and_a_bounded_length():
    problem = fail(containment.Steps(), error=ValueError('x\ny' * 999)).problem
    assert '\n' not in problem
    assert len(problem) < 300
