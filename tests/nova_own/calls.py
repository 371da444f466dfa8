# SPDX-License-Identifier: Apache-2.0

"""Count the tests that call functions of nova_prio; a plug-in of pytest."""

import pathlib
import sys
import threading

import pytest

import nova_prio

PACKAGE = str(pathlib.Path(nova_prio.__file__).parent)
#: Property of a report: whether the test has called a function of nova_prio.
PROPERTY = 'calls nova_prio'


class Detector:
    """A trace function that waits for the first call of nova_prio.

    Tracing makes a test slower. It ends with that call, in other threads with
    their next call of any function.
    """

    def __init__(self):
        self.has_called = False

    def __call__(self, frame, event, argument):
        """Note a call, and do not trace the lines of the function."""
        if frame.f_code.co_filename.startswith(PACKAGE):
            self.has_called = True
        if self.has_called:
            stop_tracing()


def stop_tracing():
    """Trace this thread and new ones no more."""
    sys.settrace(None)
    threading.settrace(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Note whether a test, or a thread that it starts, calls nova_prio."""
    detector = Detector()
    threading.settrace(detector)
    sys.settrace(detector)
    try:
        return (yield)
    finally:
        stop_tracing()
        item.user_properties.append((PROPERTY, detector.has_called))


def pytest_terminal_summary(terminalreporter):
    """Print how many tests have called nova_prio."""
    has_called = [
        value for reports in terminalreporter.stats.values()
        for report in reports if getattr(report, 'when', None) == 'call'
        for name, value in report.user_properties if name == PROPERTY]
    terminalreporter.write_line(
        '%d of %d tests call functions of nova_prio.' % (
            sum(has_called), len(has_called)))
