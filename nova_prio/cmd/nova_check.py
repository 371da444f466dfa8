# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-status nova check``: check the installed Nova.

Run this command in an image before the image is rolled out. It needs Nova and
this package, but no configuration and no database.
"""

import argparse
import json
import logging
import sys
import warnings

from oslo_utils import importutils
import prettytable


def build_parser():
    """Return the parser of the arguments after ``nova``."""
    parser = argparse.ArgumentParser(
        prog='nova-prio-status nova',
        description='Check whether the installed Nova has the interfaces and '
        'the behavior that this package relies on, before an image is rolled '
        'out. Exit status: 0 if Nova matches, 1 if Nova matches but the '
        'package is not tested with this release, 2 if Nova does not match.')
    parser.add_argument('check', choices=['check'])
    parser.add_argument(
        '-f', '--format', choices=['table', 'json'], default='table',
        help='output format (default: table)')
    return parser


def main(argv):
    """Run the command; return the exit status.

    :param argv: list of the arguments after ``nova``
    """
    parsed = build_parser().parse_args(argv)
    # Keep Nova's log lines off standard error: the findings repeat them.
    logging.getLogger().addHandler(logging.NullHandler())
    # Operators cannot act on the warnings of Nova's libraries.
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        if importutils.try_import('nova') is None:
            print('Nova is not installed beside this nova-prio; install both '
                  'into the same environment, and run the command there.',
                  file=sys.stderr)
            return 2
        from nova_prio.admin import nova_report
        status, result = nova_report.check_nova()
    if parsed.format == 'json':
        print(json.dumps(result, indent=2))
    else:
        _print_table(result)
    return status


def _print_table(result):
    """Print the result of ``nova_report.check_nova``, a dict.

    A contract is a property of Nova that the package relies on.
    """
    findings = result['findings']
    if findings:
        table = prettytable.PrettyTable(['Service', 'Contract', 'Finding'])
        table.align = 'l'
        table.max_width = 60
        for finding in findings:
            table.add_row(list(finding.values()))
        print(table)
    print('nova-prio %s, Nova %s, which is %samong the tested %s; of %d '
          'contracts %d do not hold.' % (
              result['nova_prio'], result['nova'],
              '' if result['tested'] else 'not ',
              ', '.join(map(str, result['tested_releases'])),
              result['contracts'], len(findings)))
    # The next step of the operator, a sentence.
    print(result['next'])
