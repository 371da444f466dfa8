# SPDX-License-Identifier: Apache-2.0

"""The results of bursts of creates: ``python -m benchmarks.bursts RESULTS``.

RESULTS is what tests/live/test_load.py and tests/live/test_plain_load.py
recorded in one run, as ``tox -e live-all`` writes it.
"""

import argparse
import json
import pathlib
import re
import sys
from xml.etree import ElementTree

from benchmarks import tables

#: Rows of the capacity of a host.
HIGH, LOW, ORDINARY = 'high', 'low', 'ordinary'


def table(path):
    """Return the Table of bursts, the CPUs of all hosts together.

    What is oversold is what hosts sold beyond what they may, each class of
    each host by itself. Shared CPUs are in two rows, ordinary instances in
    both of them: the larger excess is counted.

    :param path: of results in the XML of JUnit
    :raises OSError: if there is no such file
    :raises ElementTree.ParseError: if that is no XML
    :raises ValueError: if it tells of no burst
    """
    rows = []
    for case in ElementTree.parse(path).iter('testcase'):
        for record in case.iterfind("properties/property[@name='hosts']"):
            number = int(re.search(r'\d+', case.get('name'))[0])
            is_plain = 'plain' in case.get('classname')
            rows.append((number, is_plain, json.loads(record.get('value'))))
    if not rows:
        raise ValueError('no burst is recorded there')
    return tables.Table(
        ('creates at once', 'Nova', 'dedicated CPUs', 'low and ordinary',
         'ordinary', 'oversold'),
        [(str(number), 'plain' if is_plain else 'with this package',
          *(_sold(hosts, row) for row in (HIGH, LOW, ORDINARY)),
          str(sum(each[HIGH] + max(each[LOW], each[ORDINARY])
                  for each in hosts['oversold'].values())))
         for number, is_plain, hosts in sorted(
             rows, key=lambda row: (row[0], not row[1]))])


def _sold(hosts, row):
    return '%d of %d' % tuple(
        sum(each[row] for each in hosts[what].values())
        for what in ('sold', 'sellable'))


def main():
    """Print the table, and write it to a file if one is given."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.bursts', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('results', type=pathlib.Path)
    parser.add_argument('--tables', type=pathlib.Path, metavar='DIRECTORY',
                        help='also write the table of the guide there')
    arguments = parser.parse_args()
    try:
        found = table(arguments.results)
    except (OSError, ElementTree.ParseError, ValueError) as error:
        parser.error('Cannot read %s: %s' % (arguments.results, error))
    print(tables.as_text(found))
    if arguments.tables:
        tables.write(found, arguments.tables / 'bursts.csv')


if __name__ == '__main__':
    sys.exit(main())
