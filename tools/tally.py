# SPDX-License-Identifier: Apache-2.0

"""Count the tests of a run: ``tally.py DIRECTORY``.

The directory holds the files of the test runners: JUnit XML (``*.xml``) from
pytest and CSV (``*.csv``) from stestr by way of ``subunit2csv``. The last line
is ``N passed, N failed``, with ``, N skipped`` if there were any. The status
is 1 if a test failed or was skipped, if none was run, or if a file cannot be
read.
"""

import collections
import csv
import pathlib
import sys
from xml.etree import ElementTree

# Status of a test in subunit to its outcome here.
SUBUNIT = {
    'success': 'passed',
    'xfail': 'passed',
    'skip': 'skipped',
}


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
            SUBUNIT.get(row['status'], 'failed')
            for row in csv.DictReader(rows))


def main(directory):
    """Print the count per file and in all; return the exit status."""
    total = collections.Counter()
    readers = {'.xml': from_junit, '.csv': from_csv}
    for path in sorted(pathlib.Path(directory).glob('*')):
        try:
            count = readers[path.suffix](path)
        except (ElementTree.ParseError, KeyError, OSError) as error:
            print('%s cannot be counted: %r' % (path.name, error))
            count = collections.Counter(failed=1)
        if not count['passed'] + count['failed']:
            print('%s: no test was run' % path.stem)
            count['failed'] += 1
        print('%-16s %5d passed %5d failed %5d skipped' % (
            path.stem, count['passed'], count['failed'], count['skipped']))
        total += count
    line = '%d passed, %d failed' % (total['passed'], total['failed'])
    if total['skipped']:
        line += ', %d skipped' % total['skipped']
    print(line)
    return 0 if set(total) == {'passed'} else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
