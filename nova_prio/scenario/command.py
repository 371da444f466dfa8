# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio scenario play``."""

import contextlib
import io
import json
import os
import signal
import tempfile
import warnings

from cliff import command

from nova_prio.scenario import document
from nova_prio.scenario import render
from nova_prio.scenario import result

#: Environment variable with the file that is played if none is named.
DEFAULT_FILE = 'NOVA_PRIO_SCENARIO'
#: Exit status if the file cannot be played.
BAD_FILE = 2
#: Exit status if an expectation did not come true, or Nova failed.
FAILED = 1
#: Exit status if a signal ended the play.
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: A shell takes the place of the process: no thread of Nova goes on writing
#: files, and nothing that eventlet has replaced in Python's library is used.
LAST_COMMANDS = 'echo Interrupted. >&2; rm -rf "$0"; exit %d' % INTERRUPTED


class Play(command.Command):
    """Play a scenario on a stock Nova in this process and show the result.

    Progress goes to standard error, the result to standard output. The exit
    status is 0 when the scenario was played to its end, 1 when something
    failed or a step did not end as it expects, 2 when the file is wrong,
    and 130 when a signal ended it.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        default = os.environ.get(DEFAULT_FILE)
        parser.add_argument(
            'file', metavar='FILE', nargs='?' if default else None,
            default=default,
            help='the scenario, YAML; - for standard input (default: what '
                 'the environment variable %s names)' % DEFAULT_FILE)
        parser.add_argument(
            '--format', choices=('text', 'json'), default='text',
            help='how the result is shown (default: text)')
        return parser

    def take_action(self, parsed_args):
        """Play the file; return the exit status."""
        try:
            scenario = document.load(parsed_args.file)
            played = self._play(scenario)
        except document.BadScenario as error:
            for problem in error.problems:
                self._progress(problem)
            return BAD_FILE
        except Exception as error:
            if self.app.options.debug:
                raise
            told = isinstance(error, (result.PlayFailed, ImportError))
            self._progress('The scenario could not be played: %s%s' % (
                '' if told else type(error).__name__ + ': ',
                ' '.join(str(error).split())))
            return FAILED
        if parsed_args.format == 'json':
            shown = json.dumps(played.document(), indent=2) + '\n'
        else:
            shown = render.text(played)
        self.app.stdout.write(shown)
        for surprise in played.surprises:
            self._progress(surprise)
        return FAILED if played.surprises else 0

    def _progress(self, line):
        self.app.stderr.write(line + '\n')
        self.app.stderr.flush()

    def _play(self, scenario):
        with _ends_process(), _silence():
            if scenario.description:
                self._progress(scenario.description)
            # Nova's test code takes the process over when it is imported,
            # and the module cloud has to be the first that imports it.
            from nova_prio.scenario import cloud
            from nova_prio.scenario import player
            from nova_prio.scenario import refusals
            with refusals.to_start(result.PlayFailed), cloud.Cloud.running(
                    scenario.affinity_domains) as running:
                self._progress('Nova and Placement started')
                return player.Player(running, scenario, self._progress).play()


class _Nowhere(io.TextIOBase):
    """A stream that forgets; handlers of Nova keep it beyond the play."""

    def write(self, text):
        return len(text)


@contextlib.contextmanager
def _silence():
    """Keep what Nova logs, warns of and prints off the terminal."""
    with contextlib.redirect_stdout(_Nowhere()), \
            contextlib.redirect_stderr(_Nowhere()), \
            warnings.catch_warnings():
        yield


@contextlib.contextmanager
def _ends_process():
    """Let SIGINT and SIGTERM end the process with :data:`INTERRUPTED`.

    Nova waits for threads of its own, and would let an exception in the main
    thread pass unnoticed, or hold it up for a minute. All temporary files are
    in one directory, which is removed at the end or by a signal.
    """
    with tempfile.TemporaryDirectory(
            prefix='nova-prio-', ignore_cleanup_errors=True) as directory:
        def end(number, frame):
            for each in SIGNALS:
                signal.signal(each, signal.SIG_IGN)
            try:
                os.execv('/bin/sh', ['sh', '-c', LAST_COMMANDS, directory])
            finally:
                os._exit(INTERRUPTED)

        before = {each: signal.signal(each, end) for each in SIGNALS}
        tempdir, tempfile.tempdir = tempfile.tempdir, directory
        try:
            yield
        finally:
            tempfile.tempdir = tempdir
            for each, handler in before.items():
                signal.signal(each, handler)
