# SPDX-License-Identifier: Apache-2.0

"""The options and questions of the commands that change something."""

import time

from osc_lib import exceptions


class Changes:
    """A mix-in for commands that change something.

    It must come before ``report.NovaCommand`` in the bases of a command.
    """

    dry_run_help = 'change nothing'

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--dry-run', action='store_true', help=self.dry_run_help)
        parser.add_argument(
            '--yes', action='store_true',
            help='do not ask for confirmation; without a terminal, the '
            'command never asks')
        return parser

    def confirm(self, parsed_args, question):
        """Ask the operator on a terminal, unless --yes is given.

        Call this before the first change.

        :param question: names the change and its object, and ends with a
            question mark
        :raises CommandError: if the answer is not yes
        """
        if parsed_args.yes or not self.app.stdin.isatty():
            return
        self.app.stderr.write(question + ' [y/N] ')
        self.app.stderr.flush()
        answer = self.app.stdin.readline().strip().lower()
        if answer not in ('y', 'yes'):
            raise exceptions.CommandError(
                "Nothing was changed: the answer was '%s', not 'y'." % answer)

    def log_change(self, text, *args):
        """Print a line about a change, with the local time.

        :param text: sentence with the object, the action and the cause; a
            format for ``args``
        """
        self.app.LOG.warning(
            '%s ' + text, time.strftime('%Y-%m-%d %H:%M:%S'), *args)
