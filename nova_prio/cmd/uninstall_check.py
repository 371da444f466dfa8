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


"""The command ``nova-prio uninstall-check``."""

import collections

from cliff import lister

from nova_prio.cmd import controller

COLUMNS = ('Kind', 'Name', 'Left', 'Remedy')

#: Exit statuses, those of ``nova-prio audit``.
CLEAN, FAILED, FOUND = 0, 1, 3


class UninstallCheck(lister.Lister):
    """List what is left of this package in a cloud, and how to take it away.

    These are: flavors that ask for a priority, or for both resources:PCPU and
    resources:VCPU; instances of any state that have a priority; options in
    the given files; hosts that run the compute driver; metadata of host
    aggregates; traits in Placement. It reads Nova's databases: run it where
    nova-manage runs. Where their configuration is missing, as on a compute
    host, it looks at the options alone. Exit status: 0 where nothing is left,
    3 where something is, 1 where not all could be looked at.
    """

    def get_parser(self, prog_name):
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        controller.add_arguments(parser)
        return parser

    def run(self, parsed_args):
        """List what is left, say what to do next; return the exit status."""
        self._kinds = collections.Counter()
        failed = super().run(parsed_args)
        if failed:
            return failed
        # After the list, beside it where that is for programs.
        self.app.stdout.flush()
        from nova_prio import remnants
        kinds = ', '.join('%s %d' % pair for pair in self._kinds.items())
        if not self._kinds:
            status, said = CLEAN, (
                'Nothing is left here: the package can be uninstalled.')
        elif self._kinds[remnants.UNREAD]:
            status, said = FAILED, (
                'Not all could be looked at (%s). See to what is listed as '
                '"unread" first, and run this again.' % kinds)
        else:
            status, said = FOUND, (
                'Left are: %s. Take them away in the order of the list, from '
                'its top, and run this again.' % kinds)
        self.app.LOG.warning('%s', said)
        return status

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        with controller.nova(parsed_args) as context:
            import nova.conf

            from nova_prio import remnants
            conf = nova.conf.CONF
            rows = list(remnants.find(
                context, conf, remnants.paths_of(conf)))
        self._kinds.update(row.kind for row in rows)
        return COLUMNS, rows
