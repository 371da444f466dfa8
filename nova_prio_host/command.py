# SPDX-License-Identifier: Apache-2.0

"""The command line of ``nova-prio-host``.

:mod:`nova_prio_host.hierarchies` explains the terms of cgroups.
"""

import argparse
import contextlib
import io
import json
import pathlib
import re
import shlex
import sys

from nova_prio_host import hierarchies
from nova_prio_host import host
from nova_prio_host import host_metrics

# Weights of cgroup v2. 100 is the default of the kernel, so high-priority
# guests weigh no more than the services of the host.
HIGH_WEIGHT = 100
LOW_WEIGHT = hierarchies.IDLE
MOST_WEIGHT = 10000
COMMANDS = ('prepare', 'check', 'metrics')
#: Options that the configuration file cannot have: prepare does not take them.
NOT_IN_FILE = ('--json', '--output')
#: Suffix of a memory size -> number of bytes.
SUFFIXES = {'': 1, 'K': 2 ** 10, 'M': 2 ** 20, 'G': 2 ** 30, 'T': 2 ** 40}


def parse_number(text, least=1, most=None, word=None):
    """Return the whole number in an argument, or the allowed word.

    :param most: the largest number, None for any
    :param word: a text that is allowed beside numbers, None for none
    :raises argparse.ArgumentTypeError: if the text is not allowed
    """
    if text == word:
        return text
    if re.fullmatch('[0-9]{1,9}', text):
        number = int(text)
        if number >= least and (most is None or number <= most):
            return number
    end = 'on' if most is None else 'to %d' % most
    and_word = ', and ' + word if word else ''
    raise argparse.ArgumentTypeError(
        '%r is given; allowed are whole numbers from %d %s%s' % (
            text, least, end, and_word))


def parse_weight(text):
    """Return the weight in an argument, a number.

    :raises argparse.ArgumentTypeError: if the text is no weight
    """
    return parse_number(text, most=MOST_WEIGHT)


def parse_low_weight(text):
    """Return the weight of low priority in an argument, a number or IDLE.

    :raises argparse.ArgumentTypeError: if the text is neither of them
    """
    return parse_number(text, most=MOST_WEIGHT, word=hierarchies.IDLE)


def parse_memory_size(text):
    """Return the number of bytes in an argument such as 8G.

    :raises argparse.ArgumentTypeError: if the text is no memory size
    """
    match = re.fullmatch('([0-9]+)([KMGT]?)', text)
    if not match:
        raise argparse.ArgumentTypeError(
            '%r is given; allowed are numbers of bytes, with an optional '
            'suffix K, M, G or T, such as 8G' % text)
    number, suffix = match.groups()
    return int(number) * SUFFIXES[suffix]


def build_parser():
    """Return the parser of the command line and of the configuration file."""
    parser = argparse.ArgumentParser(
        prog='nova-prio-host', description='Prepare, check or measure the '
        'cgroups of a host for guests of high and low priority.',
        epilog='Maturity: stable. Options are also read from /%s. Options on '
        'the command line override them.' % host.CONFIGURATION)
    parser.add_argument('command', choices=COMMANDS)
    parser.add_argument(
        '--high-weight', type=parse_weight, default=HIGH_WEIGHT,
        metavar='WEIGHT',
        help='CPU weight of all high-priority guests together against the '
        'rest of the host, 1 to 10000 (default: %(default)s, as the services '
        'of the host)')
    parser.add_argument(
        '--low-weight', type=parse_low_weight, default=LOW_WEIGHT,
        metavar='WEIGHT',
        help='CPU weight of all low-priority guests together, idle or 1 to '
        '10000 (default: %(default)s)')
    parser.add_argument(
        '--io-weight', type=parse_weight, metavar='WEIGHT',
        help='I/O weight of all low-priority guests together, 1 to 10000; '
        'the default of the kernel is 100 (default: not set)')
    for kind, condition in (
            ('low', 'while other cgroups use more than their share'),
            ('min', 'in any case')):
        parser.add_argument(
            '--memory-' + kind, type=parse_memory_size, metavar='BYTES',
            help='memory that the kernel does not reclaim from high-priority '
            'guests %s, such as 64G; cgroup v2 only (default: not set)'
            % condition)
    parser.add_argument(
        '--root', type=pathlib.Path, default=pathlib.Path('/'), metavar='DIR',
        help='root directory of the file system of the host (default: /)')
    parser.add_argument(
        '--json', action='store_true',
        help='with check: print the problems as a JSON list to standard '
        'output')
    parser.add_argument(
        '--output', type=pathlib.Path, metavar='FILE',
        help='with metrics: write this file, such as one for the textfile '
        'collector of node_exporter (default: standard output)')
    return parser


def read_options(path, parser):
    """Return the options in the configuration file, a list of words.

    :param path: pathlib.Path of the file
    :param parser: argparse.ArgumentParser, which exits at a wrong line
    """
    options = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.partition('#')[0].split()
        for index, word in enumerate(words):
            # Only the first word cannot be a value.
            is_misplaced_value = index == 0 and not word.startswith('--')
            if word.split('=')[0] in NOT_IN_FILE or is_misplaced_value:
                parser.error(
                    'line %d: %r is given; allowed are options of prepare, '
                    'which begin with --' % (number, word))
        options += words
    return options


def format_prepare(argv):
    """Return the command line that prepares the host with the given options.

    The remedies name this command, so that it solves the problems.

    :param argv: list of the arguments of any command
    """
    words = ['nova-prio-host', 'prepare']
    for word in argv:
        if word not in COMMANDS and word != '--json':
            words.append(word)
    return shlex.join(words)


def run(argv):
    """Run the command.

    :param argv: list of arguments without the name of the program
    :returns: (argparse.Namespace of the options, list of the problems as str)
    """
    parser = build_parser()
    options = parser.parse_args(argv)
    if options.json and options.command != 'check':
        parser.error('argument --json: allowed only with check')
    if options.output and options.command != 'metrics':
        parser.error('argument --output: allowed only with metrics')
    if not options.root.is_dir():
        parser.error('argument --root: %s is not a directory' % options.root)
    try:
        path = options.root / host.CONFIGURATION
        if path.exists():
            parser.prog += ' (with %s)' % path
            # The last value of an option counts, that of the command line.
            words = read_options(path, parser) + list(argv)
            options = parser.parse_args(words)
        options.to_prepare = format_prepare(argv)
        if options.command == 'metrics':
            # One of the metrics is the number of problems.
            host_metrics.write(options)
            return options, []
        cgroup_host = host.CgroupHost(options)
        if options.command == 'prepare':
            problems = cgroup_host.prepare()
        else:
            problems = cgroup_host.check()
    except OSError as error:
        problems = ['%s: %s.' % (error.filename, error.strerror)]
    return options, problems


def find_problems(argv=('check',)):
    """Return the problems of the host and of the arguments, a list of str.

    :param argv: list or tuple of arguments without the name of the program
    """
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            _, problems = run(argv)
            return problems
        except SystemExit:
            # argparse prints the usage before the error.
            return errors.getvalue().splitlines()[-1:]


def main(argv=None):
    """Run the command; return 0, or 1 if there are problems.

    :param argv: list of arguments without the name of the program, None for
        those of this process
    """
    if argv is None:
        argv = sys.argv[1:]
    options, problems = run(argv)
    if options.json:
        print(json.dumps(problems, indent=2))
    else:
        for problem in problems:
            print(problem, file=sys.stderr)
    return 1 if problems else 0
