# SPDX-License-Identifier: Apache-2.0

"""The results of bursts of creates: ``python -m benchmarks.bursts RESULTS``.

RESULTS is the file of test results that ``tox -e live-all`` writes. In it,
tests/live/test_load.py and tests/live/test_plain_load.py record the bursts.
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


def read_table(path):
    """Return the Table of bursts, with the sums over all hosts.

    Each row of each host may be oversold. An ordinary instance counts in the
    low row and in the ordinary row, so only the more oversold of these two
    rows counts.

    :param path: file of results in the XML format of JUnit
    :raises OSError: if the file cannot be read
    :raises ElementTree.ParseError: if the file is not XML
    :raises ValueError: if the file has no record of a burst
    """
    rows = []
    for case in ElementTree.parse(path).iter('testcase'):
        for record in case.iterfind("properties/property[@name='hosts']"):
            number = int(re.search(r'\d+', case.get('name'))[0])
            is_plain = 'plain' in case.get('classname')
            rows.append((number, is_plain, json.loads(record.get('value'))))
    if not rows:
        raise ValueError('the file has no record of a burst')
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
    """Return the sold and the sellable CPUs of a row on all hosts, a str."""
    return '%d of %d' % tuple(
        sum(rows[row] for rows in hosts[name].values())
        for name in ('sold', 'sellable'))


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
        found = read_table(arguments.results)
    except (OSError, ElementTree.ParseError, ValueError) as error:
        parser.error('Cannot read %s: %s' % (arguments.results, error))
    print(tables.as_text(found))
    if arguments.tables:
        tables.write(found, arguments.tables / 'bursts.csv')


if __name__ == '__main__':
    sys.exit(main())
