# SPDX-License-Identifier: Apache-2.0

"""Contain the errors of this package inside nova-compute.

Nova calls the hooks of this package in the middle of its own work, which must
not fail because of an error of this package. Such an error ends one step, is
logged, and may refuse priority instances.

A recount is one run of the periodic task of nova-compute, which counts the
resources of the host from zero.
"""

import contextlib
import textwrap
import types
import typing

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: The longest error message that a refusal repeats, in characters.
_MAX_TEXT = 160


class _Failure(typing.NamedTuple):
    """A failed step; ``problem`` is a sentence.

    ``recount`` is None if the failure lasts until the step succeeds. If it
    lasts until a recount, it is the number of the last recount before the
    failure.
    """

    problem: str
    recount: int | None


class Steps:
    """The steps of this package in one service, and which of them failed."""

    def __init__(self):
        """Know of no failed step."""
        # Step -> _Failure, of the failed steps that priority instances depend
        # on.
        self._failed = {}
        self._logged = set()  # of (step, type of the error)
        self._recounts = 0  # number of the recounts that have begun

    @property
    def problem(self):
        """Why the host refuses all priority instances: a sentence or ''."""
        # Another thread may change the dict: copy it. Of several sentences,
        # always return the same one.
        return min((failure.problem for failure
                    in list(self._failed.values())), default='')

    @contextlib.contextmanager
    def contain(self, step, refuse_on_error=True,
                refuse_until_recount=False, reraised=()):
        """Return a context in which an error ends only the step.

        A step is an action of this package in the middle of Nova's work. The
        error of a step is logged and not raised. If ``refuse_on_error`` is
        true, the host then refuses priority instances, until the step succeeds
        or, if ``refuse_until_recount`` is true, until Nova has counted the
        resources of the host from zero, which is a recount.

        :param step: action of the step, a verb and its object
        :param refuse_on_error: whether the host refuses priority instances
            after an error
        :param refuse_until_recount: whether the refusal lasts until a recount
            has finished that begins after the error
        :param reraised: tuple of exceptions that pass through unrecorded, as
            they answer the caller
        :returns: a context manager, which yields an object; if the step fails,
            its ``problem`` is a sentence
        """
        outcome = types.SimpleNamespace(problem=None)
        try:
            yield outcome
        except reraised:
            raise
        except Exception as error:
            outcome.problem = _format_problem(step, error)
            if refuse_on_error:
                # With None, the failure lasts until the step succeeds.
                recount = self._recounts if refuse_until_recount else None
                self._failed[step] = _Failure(outcome.problem, recount)
            self._log(step, error, refuse_on_error)
        else:
            if refuse_on_error and not refuse_until_recount:
                self._failed.pop(step, None)

    def has_failed(self, step):
        """Return whether ``problem`` may report this step."""
        return step in self._failed

    def begin_recount(self):
        """Note that a recount begins."""
        self._recounts += 1

    def end_recount(self):
        """Forget the failures that last until the recount that ends now.

        A recount counts the resources of the host from zero. A failure during
        this recount lasts until the next one.
        """
        for step, failed in list(self._failed.items()):
            # ``recount`` is the number of the last recount before the failure.
            # If it is None, the failure lasts until the step succeeds.
            if failed.recount is not None and failed.recount < self._recounts:
                del self._failed[step]

    def _log(self, step, error, refuse_on_error):
        """Log an error with its traceback, once for each step and type.

        :param step: action that failed, a verb and its object
        :param refuse_on_error: whether the host now refuses priority instances
        """
        kind = step, type(error)
        if kind in self._logged:
            LOG.debug('nova_prio cannot %s: %r', step, error)
            return
        self._logged.add(kind)
        effect = ' and refuses priority instances' if refuse_on_error else ''
        LOG.exception(
            'nova_prio cannot %s. Nova continues without this step%s. This '
            'message appears once; report the error with its traceback.', step,
            effect)


def _format_problem(step, error):
    """Return a sentence on one line, of bounded length."""
    text = textwrap.shorten('%s: %s' % (type(error).__name__, error),
                            _MAX_TEXT, placeholder=' ...')
    return ('nova-prio cannot %s (%s); see the log of the service on this '
            'host' % (step, text))
