# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio report``."""

import contextlib
import socket
import sys
import time

import tqdm

from nova_prio.cmd import controller
from nova_prio.cmd import output_file
from nova_prio.cmd import report

COLUMNS = ('File', 'Content', 'State')


class SupportReport(report.Report):
    """Write a support bundle, to attach to the report of a bug.

    The bundle has versions, the configuration, the reports of the hosts, the
    findings of the audit, and log lines, each as a text in a tar.gz archive.
    Passwords and tokens are masked. The file can be read only by its owner.
    The command changes nothing. Run it where nova-manage runs, and on the
    affected compute host: a part without its source is omitted, and the column
    State tells why.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--output', metavar='FILE', required=True,
            help='write this file, with a name that ends in .tar.gz; an '
            'existing file is replaced')
        return parser

    @contextlib.contextmanager
    def configure(self, parsed_args):
        """Configure Nova if that is possible.

        An error of the configuration is one more reason for a bundle.
        """
        self.context, self._problem = None, ''
        with contextlib.ExitStack() as stack:
            try:
                self.context = stack.enter_context(
                    controller.configure_nova(parsed_args, must_match=False))
            except Exception as error:
                # The text of the error may have values of options.
                self._problem = (
                    "Nova's configuration cannot be read (%s): run "
                    '"nova-prio-status upgrade check" to see the cause.'
                    % type(error.__cause__ or error).__name__)
            yield

    def take_action(self, parsed_args):
        """Write the bundle; return the names of the columns, and the rows."""
        from nova_prio.admin.support import bundle
        from nova_prio.admin.support import parts
        from nova_prio.admin.support import source
        sources = self.context and source.Source(
            self.conf, self.context, lambda: self.placement)
        files = list(tqdm.tqdm(
            bundle.collect(sources, self._problem), total=len(parts.ALL),
            unit=' files', leave=False, disable=None, file=sys.stderr))
        archive = bundle.make_archive(
            files, socket.gethostname(), time.time())
        output_file.write(
            '--output', parsed_args.output, archive, mode=0o600)
        self.last_line = (
            '%s is written. Look through its files before you send it.'
            % parsed_args.output)
        return COLUMNS, [file[:3] for file in files]
