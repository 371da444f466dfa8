# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio scenario play``."""

import contextlib
import json
import os
import signal
import tempfile
import warnings

from cliff import command

from nova_prio.cmd import colors
from nova_prio.cmd import output_file
from nova_prio.model import maturity
from nova_prio_scenario import document
from nova_prio_scenario import result
from nova_prio_scenario import result_text

#: Environment variable with the default of FILE.
DEFAULT_FILE = 'NOVA_PRIO_SCENARIO'
#: Exit statuses: Nova failed, or a step did not end as expected; the file has
#: errors; a signal ended the player.
FAILED, BAD_FILE, INTERRUPTED = 1, 2, 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: A shell replaces the process, so that no thread of Nova continues to write
#: files, and no function that eventlet replaced in Python's library runs. $0
#: is the directory of temporary files.
LAST_COMMANDS = 'echo Interrupted. >&2; rm -rf "$0"; exit %d' % INTERRUPTED


class Play(command.Command):
    """Play a scenario on a stock Nova in this process and show the result.

    Progress goes to standard error, the result to standard output. The exit
    status is 0 if all steps were played and ended as expected, 1 if Nova
    failed or a step did not end as expected, 2 if the file has errors, and
    130 if a signal ended the player.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = maturity.mark(super().get_parser(prog_name))
        default = os.environ.get(DEFAULT_FILE)
        # FILE may be omitted only if it has a default.
        nargs = '?' if default else None
        parser.add_argument(
            'file', metavar='FILE', nargs=nargs, default=default,
            help='the scenario, YAML; - for standard input (default: the '
                 'value of the environment variable %s)' % DEFAULT_FILE)
        parser.add_argument(
            '--format', choices=('text', 'json'), default='text',
            help='format of the result (default: text)')
        parser.add_argument(
            '--html', metavar='OUT',
            help='also write a page with the hosts after each step to this '
            'file, which a browser shows')
        return parser

    def take_action(self, parsed_args):
        """Play the file; return the exit status."""
        try:
            scenario = document.load(parsed_args.file)
            played, page = self._play(scenario, bool(parsed_args.html))
        except document.BadScenario as error:
            self._show_progress(str(error))
            return BAD_FILE
        except Exception as error:
            if self.app.options.debug:
                raise
            message = ' '.join(str(error).split())
            # The texts of these errors are sentences.
            if not isinstance(error, (result.PlayFailed, ImportError)):
                message = '%s: %s' % (type(error).__name__, message)
            self._show_progress('Cannot play the scenario: %s' % message)
            return FAILED
        if parsed_args.format == 'json':
            self.app.stdout.write(
                json.dumps(played.to_dict(), indent=2) + '\n')
        else:
            stdout = self.app.stdout
            stdout.write(result_text.format_result(
                played, scenario.hosts, colors.get_painter(stdout)))
        for surprise in played.surprises:
            self._show_progress(surprise)
        if page is not None:
            output_file.write('--html', parsed_args.html, page)
        return FAILED if played.surprises else 0

    def _show_progress(self, line):
        """Write a line to standard error."""
        self.app.stderr.write(line + '\n')
        self.app.stderr.flush()

    def _play(self, scenario, makes_page):
        """Play a Document; return the Result, and the HTML of a page or None.

        :param scenario: document.Document
        :param makes_page: whether to return a page
        :raises document.BadScenario: if Nova refuses a part of the file
        :raises result.PlayFailed: if Nova fails
        """
        # All temporary files of Nova go to this directory.
        with tempfile.TemporaryDirectory(
                prefix='nova-prio-', ignore_cleanup_errors=True
                ) as directory, _silence():
            tempfile.tempdir = directory
            _end_process_on_signal(directory)
            if scenario.description:
                self._show_progress(scenario.description)
            # The import of Nova's test code changes the process, and the
            # module cloud must be the first that imports it.
            from nova_prio_scenario import cloud
            recorder = None
            if makes_page:
                from nova_prio.admin.page import templates
                from nova_prio_scenario import page
                recorder = page.Recorder(scenario)
            from nova_prio_scenario import player
            from nova_prio_scenario import refusals
            with refusals.convert_refused_start(result.PlayFailed), (
                    cloud.Cloud.running(scenario.affinity_domains)) as running:
                self._show_progress('Nova and Placement started')
                scenario_player = player.Player(
                    running, scenario, progress=self._show_progress,
                    recorder=recorder,
                    paint=colors.get_painter(self.app.stderr))
                played = scenario_player.play()
            if recorder is None:
                return played, None
            return played, templates.render(recorder.make_page(played))


@contextlib.contextmanager
def _silence():
    """Keep logs, warnings and output of Nova off the terminal."""
    # The stream is never closed, because log handlers of Nova keep it.
    stream = open(os.devnull, 'w')
    with contextlib.redirect_stdout(stream), \
            contextlib.redirect_stderr(stream), \
            warnings.catch_warnings():
        yield


def _end_process_on_signal(directory):
    """End the process with :data:`INTERRUPTED` on SIGINT and SIGTERM.

    Nova waits for its threads, and would ignore an exception in the main
    thread or delay it for a minute.

    :param directory: the directory of all temporary files, to be removed
    """
    def end(number, frame):
        """End the process; the parameters are those of a signal handler."""
        for name in SIGNALS:
            signal.signal(name, signal.SIG_IGN)
        try:
            os.execv('/bin/sh', ['sh', '-c', LAST_COMMANDS, directory])
        finally:
            os._exit(INTERRUPTED)

    for name in SIGNALS:
        signal.signal(name, end)
