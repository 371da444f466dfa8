# SPDX-License-Identifier: Apache-2.0

"""Random operations on three hosts, each followed by a comparison.

The fuzz is a loop with a seeded generator, not a state machine of hypothesis.
Hypothesis would start a new cloud, which takes seconds, for each example and
for each step of shrinking. It also expects equal outcomes of equal draws, but
Nova's scheduler may choose another host. Instead an operation is a line of
text, and a sequence of lines can be played again. A sequence that fails is
made shorter in new clouds.
"""

import collections
import logging
import os
import random
import sys
import time

from nova.tests.functional.api import client
import pytest

from tests.fuzz import base
from tests.fuzz import cloud as fuzz_cloud
from tests.fuzz import comparison
from tests.fuzz import operations
from tests.fuzz import settings
from tests.fuzz import shrinking

SEED = 'NOVA_PRIO_FUZZ_SEED'
#: Number of the operations to draw.
OPERATIONS = 'NOVA_PRIO_FUZZ_OPERATIONS'
#: File with the operations to play in place of drawn ones.
REPLAY = 'NOVA_PRIO_FUZZ_REPLAY'
CONTINUE = 'NOVA_PRIO_FUZZ_CONTINUE'
LOG = 'NOVA_PRIO_FUZZ_LOG'
#: Seconds in which a failing sequence is made shorter; 0 for never.
SHRINK = 'NOVA_PRIO_FUZZ_SHRINK'
#: Relative frequency of operations; 1 for all others.
WEIGHTS = {
    'create': 8, 'create_many': 2, 'delete': 3, 'resize': 3, 'migrate': 2,
    'confirm': 4, 'revert': 4, 'live_migrate': 4, 'fail_live_migrate': 4,
    'abort_running': 2, 'abort_queued': 2, 'evacuate': 8, 'host_up': 3,
    'unshelve': 2, 'start': 3, 'resume': 2, 'unpause': 2, 'recount': 0.3}


def print_line(text):
    """Print a line; no fixture captures it."""
    print(text, file=sys.__stdout__, flush=True)


class Fuzz:
    """Play operations and return the differences."""

    def __init__(self, cloud, seed):
        self._cloud = cloud
        self._random = random.Random(seed)
        self._operations = operations.Operations(cloud)
        self.played = []
        self.seconds = collections.defaultdict(list)

    def draw(self):
        """Return a random operation that is possible now, a list of str."""
        possible = {
            operation: arguments for operation, arguments
            in self._operations.possible('s%d' % len(self.played)).items()
            if arguments}
        operation, = self._random.choices(
            list(possible), [WEIGHTS.get(each, 1) for each in possible])
        return [operation, *_list(self._random.choice(possible[operation]))]

    def is_possible(self, operation, arguments):
        """Return whether an operation is possible now."""
        possible = self._operations.possible(arguments[0])[operation]
        return arguments in map(_list, possible)

    def play(self, operation, arguments):
        """Play an operation; return the differences after it."""
        self.played.append(' '.join([operation, *arguments]))
        logging.getLogger('nova_prio').info('FUZZ %s', self.played[-1])
        started = time.monotonic()
        found = []
        try:
            getattr(self._operations, operation)(*arguments)
            self._cloud.wait_for_watchers()
        except (base.UnexpectedOutcome, fuzz_cloud.NotSettled,
                client.OpenStackApiException) as error:
            found.append('%s: %s' % (type(error).__name__, error))
        self._cloud.reset_jobs()
        found += comparison.find_differences(self._cloud)
        self.seconds[operation].append(time.monotonic() - started)
        return found

    def recount(self):
        """Let all hosts recount; return the remaining differences."""
        for host in self._cloud.model.up:
            self._cloud.update_host(host)
        return comparison.find_differences(self._cloud)

    def print_differences(self, found):
        """Print the last operation and all differences."""
        print_line('operation %d: %s' % (len(self.played), self.played[-1]))
        for difference in found:
            print_line('    ' + difference)

    def summarize(self):
        """Print the number and the mean time of each operation."""
        print_line('%d operations' % len(self.played))
        for operation, seconds in sorted(self.seconds.items()):
            print_line('%-24s %4d times, %.2f s' % (
                operation, len(seconds), sum(seconds) / len(seconds)))


def _list(arguments):
    return [arguments] if isinstance(arguments, str) else list(arguments)


def _log_to(path):
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter(
        '%(asctime)s %(levelname)s %(name)s %(message)s'))
    for name in 'nova', 'nova_prio':
        logging.getLogger(name).addHandler(handler)


def _select_possible(fuzz, lines):
    """Yield the operations that are possible, and print the others.

    :param lines: list of lists of str
    """
    for operation, *arguments in lines:
        if fuzz.is_possible(operation, arguments):
            yield operation, *arguments
        else:
            print_line('skipped, not possible: %s' % ' '.join(
                [operation, *arguments]))


def _replay(lines):
    """Play lines in a new cloud up to the first difference.

    :returns: the lines that were played, or None without a difference
    """
    with fuzz_cloud.FuzzCloud.running() as cloud:
        fuzz = Fuzz(cloud, seed=None)
        for line in lines:
            operation, *arguments = line.split()
            if (fuzz.is_possible(operation, arguments) and
                    fuzz.play(operation, arguments)):
                return fuzz.played
    return None


def _play(fuzz, lines):
    """Play operations; return those with differences, a list of str.

    :param lines: iterable of lists of str
    """
    differing = []
    for operation, *arguments in lines:
        found = fuzz.play(operation, arguments)
        if found:
            differing.append(fuzz.played[-1])
            fuzz.print_differences(found)
            if not os.environ.get(CONTINUE):
                break
            found = fuzz.recount()
            if found:
                print_line('  and after a recount:')
                fuzz.print_differences(found)
                break
    return differing


def test_accounting_placement_and_guests_agree_after_each_operation(
        record_testsuite_property):
    try:
        number = settings.read_number(OPERATIONS, 1000, least=1)
        seconds = settings.read_number(SHRINK, 0)
        replayed = settings.read_operations(REPLAY)
    except ValueError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    seed = os.environ.get(SEED) or str(random.SystemRandom().randrange(10**6))
    record_testsuite_property(SEED, seed)
    print_line('%s=%s' % (SEED, seed))
    differing = None
    with fuzz_cloud.FuzzCloud.running() as cloud:
        if os.environ.get(LOG):
            _log_to(os.environ[LOG])
        fuzz = Fuzz(cloud, seed)
        if replayed:
            lines = _select_possible(fuzz, replayed)
        else:
            lines = (fuzz.draw() for _ in range(number))
        try:
            differing = _play(fuzz, lines)
        finally:
            fuzz.summarize()
            if differing != []:
                print_line('The operations, for %s:' % REPLAY)
                print_line('\n'.join(fuzz.played))
    if not fuzz.played:
        pytest.fail('No operation of %s=%s was possible' % (
            REPLAY, os.environ[REPLAY]), pytrace=False)
    if differing and seconds:
        print_line('Fewer operations, for %s:' % REPLAY)
        print_line('\n'.join(shrinking.shrink(
            fuzz.played, _replay, seconds)))
    assert not differing, '%s=%s' % (SEED, seed)
