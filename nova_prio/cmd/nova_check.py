# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio-status nova check``: does this Nova suit?

For an image before it is rolled out: with Nova and this package, and neither
a configuration nor a database.
"""

import argparse
import json
import logging
import sys
import warnings

from oslo_utils import importutils
import prettytable

#: Exit statuses, those of ``upgrade check``.
SUITS, UNTESTED, UNSUITABLE = range(3)

_COLUMNS = ('Service', 'Contract', 'Finding')


def build_parser():
    """Return the parser of what stands after ``nova``."""
    parser = argparse.ArgumentParser(
        prog='nova-prio-status nova',
        description='Try whether the Nova that is installed here does what '
        'this package relies on, before an image is rolled out. Exit status: '
        '0 where it does, 1 where it does but the package is not tested with '
        'this release of Nova, 2 where it does not.')
    parser.add_argument('check', choices=['check'])
    parser.add_argument(
        '-f', '--format', choices=['table', 'json'], default='table',
        help='the format of what is found (default: table)')
    return parser


def main(argv):
    """Run the command line after ``nova``; return the exit status."""
    parsed = build_parser().parse_args(argv)
    # Nova logs what the findings say, and warns of its own libraries.
    logging.getLogger().addHandler(logging.NullHandler())
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        if importutils.try_import('nova') is None:
            print('There is no Nova beside this nova-prio; install both into '
                  'the same environment and run the command of that.',
                  file=sys.stderr)
            return UNSUITABLE
        status, found = _look()
    if parsed.format == 'json':
        print(json.dumps(found, indent=2))
    else:
        _print(found)
    return status


def list_contracts():
    """Return the Contracts about interfaces and behaviours, a tuple."""
    from nova_prio.admin import nova_check
    from nova_prio.compat import contract
    return (*contract.ALL, *nova_check.ALL)


def check_contract(relied_on):
    """Return why one of the contracts does not hold, or None."""
    from nova_prio.compat import contract
    try:
        return relied_on.mismatch()
    # The functions that Nova calls turn StartRefused into SystemExit.
    except (contract.StartRefused, SystemExit):
        return '%s would refuse to start' % relied_on.service
    except Exception as error:
        return 'it cannot be tried: %s: %s' % (
            type(error).__name__, ' '.join(str(error).split()))


def _look():
    """Return the exit status, and a dict of what is found."""
    from nova_prio.compat import contract
    from nova_prio.compat import hooks
    # As a service that has no file: what lies in the image does not count.
    hooks.register_options()([], project='nova', default_config_files=[],
                             default_config_dirs=[])
    everything = list_contracts()
    broken = [
        {'service': each.service, 'contract': each.name, 'finding': text}
        for each, text in zip(everything, map(check_contract, everything)) if text]
    release = contract.get_nova_release()
    is_tested = contract.is_tested(release)
    status = UNSUITABLE if broken else SUITS if is_tested else UNTESTED
    return status, {
        'nova_prio': contract.get_own_release(),
        'nova': release,
        'tested': is_tested,
        'tested_releases': list(contract.TESTED_RELEASES),
        'contracts': len(everything),
        'findings': broken,
        'next': _NEXT[status]}


_NEXT = {
    SUITS: 'Roll the image out: computes first, then schedulers, then nova-'
           'api.',
    UNTESTED: 'Install a release of nova-prio that is tested with this Nova; '
              'or roll the image out to one host, and look at its log.',
    UNSUITABLE: 'Do not roll the image out; install a release of nova-prio '
                'that supports this Nova.'}


def _print(found):
    if found['findings']:
        table = prettytable.PrettyTable(_COLUMNS)
        table.align = 'l'
        table.max_width = 60
        for row in found['findings']:
            table.add_row(list(row.values()))
        print(table)
    print('nova-prio %s, Nova %s, %s %s; of %d contracts %d do not hold.' % (
        found['nova_prio'], found['nova'],
        'which is among the tested' if found['tested'] else
        'which is not among the tested',
        ', '.join(map(str, found['tested_releases'])),
        found['contracts'], len(found['findings'])))
    print(found['next'])
