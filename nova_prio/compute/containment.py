# SPDX-License-Identifier: Apache-2.0

"""Contain the errors of this package inside a service of Nova.

Nova calls this package in the middle of its own work. An error in a step of
this package must not fail that work: it is logged, and it may refuse priority
instances.
"""

import contextlib
import typing

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: The longest error message that a refusal repeats, in characters.
_MAX_TEXT = 160


class _Failure(typing.NamedTuple):
    problem: str
    until_recount: bool


class Outcome:
    """The result of a step; ``problem`` is a sentence, or None."""

    problem = None


class Steps:
    """The steps of this package in one service, and those that failed."""

    def __init__(self):
        # Step -> _Failure, of the steps that priority instances depend on.
        self._failed = {}
        # (step, type of the error), of the errors that are in the log.
        self._logged = set()

    @property
    def problem(self):
        """Why no priority instance may be admitted, a sentence, or ''."""
        return min((failure.problem for failure in
                    list(self._failed.values())), default='')

    @contextlib.contextmanager
    def contain(self, step, refuses=True, until_recount=False, passes=()):
        """Return a context in which an error ends the step and no more.

        The first error of a type is logged with its traceback.

        :param step: what the step does, a verb and its object
        :param refuses: whether ``problem`` names a failure of the step, until
            the step succeeds
        :param until_recount: whether ``problem`` names it until ``forget``
            instead: a later success does not make up for the failure
        :param passes: tuple of exceptions that are answers, not errors
        :returns: a context manager that yields an Outcome
        """
        outcome = Outcome()
        try:
            yield outcome
        except passes:
            raise
        except Exception as error:
            outcome.problem = _sentence(step, error)
            if refuses:
                self._failed[step] = _Failure(outcome.problem, until_recount)
            self._log(step, error, refuses)
        else:
            if refuses and not until_recount:
                self._failed.pop(step, None)

    def has_failed(self, step):
        """Return whether ``problem`` may name a step."""
        return step in self._failed

    def until_recount(self):
        """Return the failures that last until a recount, for ``forget``."""
        return {step: failure for step, failure in list(self._failed.items())
                if failure.until_recount}

    def forget(self, failures):
        """Forget failures, unless the step has failed again since.

        :param failures: dict, as ``until_recount`` returned it
        """
        for step, failure in failures.items():
            if self._failed.get(step) is failure:
                del self._failed[step]

    def _log(self, step, error, refuses):
        kind = step, type(error)
        if kind in self._logged:
            LOG.debug('nova_prio cannot %s: %r', step, error)
            return
        self._logged.add(kind)
        LOG.exception(
            'nova_prio cannot %s. Nova goes on without it%s. This message '
            'appears once; report the error with its traceback.', step,
            ' and refuses priority instances' if refuses else '')


def _sentence(step, error):
    """Return what failed and why, on one line of bounded length."""
    text = ' '.join(('%s: %s' % (type(error).__name__, error)).split())
    if len(text) > _MAX_TEXT:
        text = text[:_MAX_TEXT] + '...'
    return ('nova-prio cannot %s (%s); see the log of the service on this '
            'host' % (step, text))
