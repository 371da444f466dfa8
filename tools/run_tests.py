# SPDX-License-Identifier: Apache-2.0

"""Run tox environments, three at a time: ``run_tests.py ENVIRONMENT...``.

Run it at the root of the checkout, with the Python of an environment that has
tox. ``.test-results`` gets a log for each environment, beside the results of
its tests: JUnit XML (``*.xml``) from pytest, and CSV (``*.csv``) from stestr.

It prints the progress, and at the end a table and ``N passed, N failed``,
with ``, N skipped`` if there were any. The status is 1 if an environment or a
test failed, if a test was skipped, or if results cannot be read.
"""

import collections
from concurrent import futures
import csv
import os
import pathlib
import re
import subprocess
import sys
import time
from xml.etree import ElementTree

RESULTS = pathlib.Path('.test-results')
#: Most environments wait for services half of the time.
AT_A_TIME = 3
#: Beginnings of the names of environments that take two places: their tests
#: have two workers, or guests that starve beside much other work.
LARGE = 'functional', 'libvirt', 'migration'
PROGRESS_SECONDS = 30
# Outcomes in the words of pytest, of stestr, and of its CSV.
OUTCOMES = {
    'passed': 'passed', 'ok': 'passed', 'success': 'passed',
    'xfail': 'passed',
    'skipped': 'skipped', 'skip': 'skipped',
}
_LOG_LINE = re.compile(
    r'^\[gw\d+\] \[ *\d+%\] (\w+) |(\w+) +\[ *\d+%\]$'
    r'| \.\.\. (ok|FAILED|ERROR|SKIPPED)', re.M)


class Run:
    """A run of one environment."""

    def __init__(self, environment):
        self.environment = environment
        self.started = self.ended = None
        self.has_succeeded = False
        self.cpu_seconds = 0  # of the processes, without daemons
        self.count = collections.Counter()  # of the results
        self.log = RESULTS / (environment + '.log')

    def run(self):
        """Run the environment, which may fail."""
        with self.log.open('wb') as log:
            # Others read the log as soon as the run has started.
            self.started = time.monotonic()
            process = subprocess.Popen(
                [pathlib.Path(sys.executable).with_name('tox'), 'run',
                 '-e', self.environment],
                stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, 'PYTEST_ADDOPTS':
                     os.environ.get('PYTEST_ADDOPTS', '') + ' -v'})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self.count = self._count_results()
        # A skipped test has not passed.
        self.has_succeeded = process.returncode == 0 and not (
            self.count['failed'] or self.count['skipped'])
        self.ended = time.monotonic()

    @property
    def seconds(self):
        """The duration so far."""
        return (self.ended or time.monotonic()) - self.started

    def count_in_log(self):
        """Count the tests so far: Counter, outcome -> int."""
        words = (next(filter(None, match.groups())) for match in
                 _LOG_LINE.finditer(self.log.read_text(errors='replace')))
        return collections.Counter(map(find_outcome, words))

    def _count_results(self):
        """Count the results of the tests: Counter, outcome -> int.

        An environment without tests, such as pep8, has no results.
        """
        for suffix, reader in (('.xml', from_junit), ('.csv', from_csv)):
            path = RESULTS / (self.environment + suffix)
            if not path.exists():
                continue
            try:
                count = reader(path)
            except (ElementTree.ParseError, KeyError, OSError) as error:
                print('%s cannot be counted: %r' % (path, error))
                return collections.Counter(failed=1)
            if not count:
                print('%s: no test was run' % path)
                count['failed'] += 1
            return count
        return collections.Counter()


def find_outcome(word):
    """Return passed, failed or skipped for the word of a test runner."""
    return OUTCOMES.get(word.lower(), 'failed')


def from_junit(path):
    """Count the test cases of a JUnit XML file: Counter, outcome -> int."""
    count = collections.Counter()
    for case in ElementTree.parse(path).iter('testcase'):
        outcomes = {child.tag for child in case}
        if outcomes & {'failure', 'error'}:
            count['failed'] += 1
        elif 'skipped' in outcomes:
            count['skipped'] += 1
        else:
            count['passed'] += 1
    return count


def from_csv(path):
    """Count the tests of a subunit2csv file: Counter, outcome -> int."""
    with open(path, newline='') as rows:
        return collections.Counter(
            find_outcome(row['status']) for row in csv.DictReader(rows))


def format_seconds(seconds):
    """Return a duration as minutes and seconds, such as 3:07."""
    return '%d:%02d' % divmod(round(seconds), 60)


def format_count(count):
    """Return a count as text, such as "3 passed, 0 failed"."""
    line = '%d passed, %d failed' % (count['passed'], count['failed'])
    if count['skipped']:
        line += ', %d skipped' % count['skipped']
    return line


def submit(pool, runs):
    """Let a pool run all environments in order; return the futures, a list.

    :param pool: futures.Executor
    """
    running = []
    for run in runs:
        running.append(pool.submit(run.run))
        if run.environment.startswith(LARGE):
            # This takes the second place until the run has ended.
            pool.submit(running[-1].exception)
    return running


def wait_for(runs, running):
    """Print the progress until all runs have ended.

    :param running: futures of the runs
    """
    since = time.monotonic()
    while running:
        done, running = futures.wait(
            running, PROGRESS_SECONDS, futures.FIRST_COMPLETED)
        for future in done:
            future.result()
        print('%s  %s, %d waiting' % (
            format_seconds(time.monotonic() - since),
            '; '.join('%s: %s (%s)' % (
                run.environment, format_count(run.count_in_log()),
                format_seconds(run.seconds))
                for run in runs if run.started and not run.ended)
            or 'nothing runs', sum(not run.started for run in runs)),
            flush=True)


def print_table(runs):
    """Print a line for each run and the total; return the exit status."""
    total = collections.Counter()
    print('%-18s %-6s %7s %7s %7s %7s %7s' % (
        'environment', 'result', 'passed', 'failed', 'skipped', 'time',
        'cpu'))
    for run in runs:
        total += run.count
        print('%-18s %-6s %7s %7s %7s %7s %7s' % (
            run.environment, 'ok' if run.has_succeeded else 'FAILED',
            # An environment without tests has no count.
            *(run.count[outcome] if run.count else '-'
              for outcome in ('passed', 'failed', 'skipped')),
            format_seconds(run.seconds), format_seconds(run.cpu_seconds)))
    failed = [run.environment for run in runs if not run.has_succeeded]
    print('; failed: '.join([
        format_count(total), *([', '.join(failed)] if failed else [])]))
    return int(bool(failed))


def main(environments):
    """Run the environments, the first ones first; return the exit status."""
    RESULTS.mkdir(exist_ok=True)
    runs = [Run(environment) for environment in environments]
    with futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        try:
            wait_for(runs, submit(pool, runs))
        except BaseException:
            # Ctrl-C, for example: start no other environment.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for run in runs:
        if not run.has_succeeded:
            print('\nThe end of %s:' % run.log)
            print(*run.log.read_text(errors='replace').splitlines()[-60:],
                  sep='\n')
    print()
    return print_table(runs)


if __name__ == '__main__':
    sys.exit(main(','.join(sys.argv[1:]).split(',')))
