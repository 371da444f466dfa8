# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The command ``nova-prio scenario play``."""

import contextlib
import io
import json
import os
import warnings

from cliff import command

from nova_prio.scenario import document
from nova_prio.scenario import interrupt
from nova_prio.scenario import last_words
from nova_prio.scenario import render
from nova_prio.scenario import result
from nova_prio.scenario import source

#: Environment variable with the file that is played where none is named.
DEFAULT_FILE = 'NOVA_PRIO_SCENARIO'
#: Exit status of a file that cannot be played.
BAD_FILE = 2
#: Exit status where an expectation did not come true, or Nova failed.
FAILED = 1


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
        except source.BadScenario as error:
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
        with interrupt.ends_process(), _silence(), \
                last_words.listening() as said:
            if scenario.description:
                self._progress(scenario.description)
            # Nova's test code takes the process over when it is imported.
            from nova_prio.scenario import cloud
            from nova_prio.scenario import player
            try:
                with cloud.Cloud.running(
                        scenario.affinity_domains) as running:
                    self._progress('Nova and Placement started')
                    return player.Player(
                        running, scenario, self._progress).play()
            except SystemExit as error:
                raise result.PlayFailed(said.text) from error


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
