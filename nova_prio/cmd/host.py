# SPDX-License-Identifier: Apache-2.0

"""The command nova-prio-host: make or check the cgroups of a host.

This and :mod:`nova_prio.virt.cgroups` need nothing but the standard library.
"""

import argparse
import contextlib
import io
import json
import pathlib
import re
import shlex
import sys

from nova_prio.virt.cgroups import hierarchies
from nova_prio.virt.cgroups import host

# In units of cgroup v2. The kernel's default is 100, so high-priority guests
# weigh no more than the host's own services.
HIGH_WEIGHT = 100
LOW_WEIGHT = hierarchies.IDLE
SUFFIXES = {'': 1, 'K': 2 ** 10, 'M': 2 ** 20, 'G': 2 ** 30, 'T': 2 ** 40}


def parse_weight(text, otherwise=''):
    """Return a weight of cgroup v2 from its text."""
    if not re.fullmatch('[0-9]{1,5}', text) or not 1 <= int(text) <= 10000:
        raise argparse.ArgumentTypeError(
            '%r is not a whole number from 1 to 10000%s' % (text, otherwise))
    return int(text)


def parse_low_weight(text):
    """Return a weight of cgroup v2, or idle, from its text."""
    return text if text == hierarchies.IDLE else parse_weight(
        text, ', nor idle')


def parse_memory_size(text):
    """Return a number of bytes from its text."""
    match = re.fullmatch('([0-9]+)([KMGT]?)', text)
    if not match:
        raise argparse.ArgumentTypeError(
            '%r is not a number of bytes, with K, M, G or T behind it for '
            'larger ones, such as 8G' % text)
    return int(match.group(1)) * SUFFIXES[match.group(2)]


def build_parser():
    """Return the parser of the command line, and of the file of options."""
    parser = argparse.ArgumentParser(
        prog='nova-prio-host', description='Make or check the cgroups of a '
        'host for guests of high and low priority.',
        epilog='Options are also read from /%s, as on the command line, '
        'which has the last word.' % host.CONFIGURATION)
    parser.add_argument('command', choices=('prepare', 'check'))
    parser.add_argument(
        '--high-weight', type=parse_weight, default=HIGH_WEIGHT, metavar='WEIGHT',
        help='CPU weight of all high-priority guests together against the '
        'rest of the host, 1 to 10000 (default: %(default)s, as the host\'s '
        'own services)')
    parser.add_argument(
        '--low-weight', type=parse_low_weight, default=LOW_WEIGHT, metavar='WEIGHT',
        help='CPU weight of all low-priority guests together, idle or 1 to '
        '10000 (default: %(default)s)')
    parser.add_argument(
        '--io-weight', type=parse_weight, metavar='WEIGHT',
        help='I/O weight of all low-priority guests together, 1 to 10000; '
        'the kernel\'s default is 100 (default: not set)')
    for kind, meaning in (('low', 'while others have more than their own'),
                          ('min', 'whatever happens')):
        parser.add_argument(
            '--memory-' + kind, type=parse_memory_size, metavar='BYTES',
            help='memory that is not taken from high-priority guests %s, '
            'such as 64G; cgroup v2 only (default: not set)' % meaning)
    parser.add_argument(
        '--root', type=pathlib.Path, default=pathlib.Path('/'), metavar='DIR',
        help='where the file system of the host begins (default: /)')
    parser.add_argument(
        '--json', action='store_true',
        help='with check: print what is wrong as a list to standard output')
    return parser


def read_options(path, parser):
    """Return the options that the file at a path gives."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.partition('#')[0].split()
        wrong = [word for place, word in enumerate(words)
                 if word == '--json' or not (place or word[:2] == '--')]
        if wrong:
            parser.error('line %d: %r is no option of prepare; these begin '
                         'with --' % (number, wrong[0]))
        found += words
    return found


def run(argv):
    """Do what the arguments say; return the options, and what is wrong."""
    parser = build_parser()
    options = parser.parse_args(argv)
    if options.json and options.command != 'check':
        parser.error('argument --json: goes with check alone')
    if not options.root.is_dir():
        parser.error('argument --root: %s is not a directory' % options.root)
    try:
        path = options.root / host.CONFIGURATION
        if path.exists():
            parser.prog += ' (with %s)' % path
            options = parser.parse_args([*read_options(path, parser), *argv])
        options.to_prepare = shlex.join(['nova-prio-host', 'prepare', *(
            word for word in argv
            if word not in ('check', 'prepare', '--json'))])
        wrong = getattr(host.CgroupHost(options), options.command)()
    except OSError as error:
        wrong = ['%s: %s.' % (error.filename, error.strerror)]
    return options, wrong


def find_problems(argv=('check',)):
    """Return what nova-prio-host finds wrong, wrong arguments included."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            return run(argv)[1]
        except SystemExit:
            # As argparse ends, after its usage.
            return said.getvalue().splitlines()[-1:]


def main(argv=None):
    """Run the command; return 0 if all is right, 1 if something is not."""
    options, wrong = run(sys.argv[1:] if argv is None else argv)
    if options.json:
        print(json.dumps(wrong, indent=2))
    else:
        for sentence in wrong:
            print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
