# SPDX-License-Identifier: Apache-2.0

"""The options and questions of the commands that change something."""

import functools
import time

from osc_lib import exceptions

from nova_prio_host import command as host_command


def add_options(parser, dry_run_help='change nothing'):
    """Add the options --dry-run and --yes."""
    parser.add_argument('--dry-run', action='store_true', help=dry_run_help)
    parser.add_argument(
        '--yes', action='store_true',
        help='do not ask for confirmation; without a terminal, the command '
        'never asks')


def add_timeout(parser, help_text):
    """Add the option --timeout, a number of seconds."""
    parser.add_argument(
        '--timeout', default=3600, metavar='SECONDS',
        type=functools.partial(host_command.parse_number, least=0),
        help=help_text + ' (default: %(default)s)')


def confirm(app, parsed_args, question):
    """Ask the operator on a terminal, unless --yes or --dry-run is given.

    Call this before the first change.

    :param app: the ``main.NovaPrio`` of the command
    :param question: names the change and its object, and ends with a question
        mark
    :raises CommandError: if the answer is not yes
    """
    if parsed_args.yes or parsed_args.dry_run or not app.stdin.isatty():
        return
    app.stderr.write(question + ' [y/N] ')
    app.stderr.flush()
    answer = app.stdin.readline().strip().lower()
    if answer not in ('y', 'yes'):
        raise exceptions.CommandError(
            "Nothing was changed: the answer was '%s', not 'y'." % answer)


def log_change(app, text, *args):
    """Print a line about a change, with the local time.

    Use the level WARNING, the lowest that the commands print.

    :param app: the ``main.NovaPrio`` of the command
    :param text: sentence with the object, the action and the cause; a format
        for ``args``
    """
    app.LOG.warning('%s ' + text, time.strftime('%Y-%m-%d %H:%M:%S'), *args)
