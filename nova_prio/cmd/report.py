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


"""What those commands share whose list ends with what to do next."""

from cliff import lister

from nova_prio.cmd import controller

#: Exit statuses, those of ``nova-prio audit``: all is well, not all could be
#: looked at, something is to be done.
CLEAN, FAILED, FOUND = 0, 1, 3


class Report(lister.Lister):
    """A list, and a last line beside it.

    ``take_action`` of a subclass sets ``status``, the exit status, and
    ``said``, the last line.
    """

    status = CLEAN

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        controller.add_arguments(parser)
        return parser

    def conclude(self, parsed_args):
        """Do what is left to do once the list is shown."""

    def run(self, parsed_args):
        """List what there is, say what to do next; return the status."""
        failed = super().run(parsed_args)
        if failed:
            return failed
        # After the list, beside it where that is for programs.
        self.app.stdout.flush()
        self.conclude(parsed_args)
        self.app.LOG.warning('%s', self.said)
        return self.status
