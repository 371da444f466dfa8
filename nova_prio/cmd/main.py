# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio``; its subcommands are entry points."""

import argparse
from importlib import metadata
import logging
import sys

from cliff import app
from cliff import commandmanager

from nova_prio.cmd import colors

NAMESPACE = 'nova_prio.cli'


class Commands(commandmanager.CommandManager):
    """The subcommands; cliff leaves out those that cannot be imported."""

    def find_command(self, argv):
        """Return the class of a command, its name and the other arguments.

        :raises ValueError: if the command does not exist
        :raises SystemExit: if an option comes first, or a library that the
            command needs is missing
        """
        try:
            return super().find_command(argv)
        except ValueError:
            # cliff does not know a command that cannot be imported. Say why.
            for entry in metadata.entry_points(group=self.namespace):
                words = entry.name.split('_')
                if argv[:len(words)] == words:
                    _check_import(entry)
            if argv[0].startswith('-'):
                # cliff would take the option for a command, and guess which.
                print("'%s' is not a nova-prio command; give the options of a "
                      'command after it.' % argv[0], file=sys.stderr)
                raise SystemExit(2)
            raise


def _check_import(entry):
    """Exit with a text if the command of an entry point cannot be imported."""
    try:
        entry.load()
    except ImportError as error:
        extra = 'cli'
        if entry.name.startswith('scenario'):
            extra = ('scenario, or on Debian the packages that '
                     'python3-nova-prio suggests')
        raise SystemExit(
            'nova-prio %s needs a library that is not installed: %s. Install '
            'this package with its extra %s.' % (
                entry.name.replace('_', ' '), str(error).rstrip('.'), extra))


class ColorFormatter(logging.Formatter):
    """Paints a message in its ``color``, or errors red and others yellow."""

    def format(self, record):
        """Return the text of a log record."""
        color = colors.YELLOW
        if record.levelno >= logging.ERROR:
            color = colors.RED
        return colors.paint(super().format(record),
                            getattr(record, 'color', color))


class NovaPrio(app.App):
    """High and low CPU priority for the instances of an OpenStack Nova."""

    NAME = 'nova-prio'
    LOG = logging.getLogger(__name__)

    def __init__(self, **kwargs):
        """Prepare the program.

        :param kwargs: parameters of cliff's App
        """
        super().__init__(
            description=self.__doc__,
            version=metadata.version('nova-prio'),
            command_manager=Commands(NAMESPACE),
            deferred_help=True, **kwargs)

    def build_option_parser(self, description, version):
        """Return the parser of the options before the subcommand.

        Leave out the logging options of cliff: "scenario play" runs services
        of Nova in this process, and their logs must not reach the terminal.
        """
        parser = argparse.ArgumentParser(
            prog=self.NAME, description=description, add_help=False)
        parser.add_argument('--version', action='version',
                            version='%(prog)s ' + version)
        parser.add_argument('-h', '--help', dest='deferred_help',
                            action='store_true', help='show this help')
        parser.add_argument('--debug', action='store_true',
                            help='show the traceback of an error')
        return parser

    def configure_logging(self):
        """Print the messages of ``LOG``, and none of other loggers.

        With --debug, also print the warnings of other loggers, which Python
        prints if no logger has a handler for them.
        """
        handler = logging.StreamHandler(self.stderr)
        if colors.is_wanted(self.stderr):
            handler.setFormatter(ColorFormatter())
        self.LOG.handlers = [handler]
        if not self.options.debug:
            # A handler that prints nothing: Python then omits the warnings.
            logging.getLogger().addHandler(logging.NullHandler())
        self.LOG.propagate = False


def main(argv=None):
    """Run the command line; return the exit status, or an error text.

    :param argv: list of arguments without the name of the program; None for
        those of the process
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return NovaPrio().run(arguments or ['help'])
    except SystemExit as error:
        # argparse exits with 2 for wrong usage, cliff with None after the
        # help, and _check_import with a text.
        return error.code or 0


if __name__ == '__main__':
    sys.exit(main())
