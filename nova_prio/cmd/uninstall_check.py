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

from nova_prio.cmd import controller
from nova_prio.cmd import report

COLUMNS = ('Kind', 'Name', 'Left', 'Remedy')


class UninstallCheck(report.Report):
    """List what is left of this package in a cloud, and how to take it away.

    These are: flavors that ask for a priority, or for both resources:PCPU and
    resources:VCPU; instances of any state that have a priority; options in
    the given files; hosts that run the compute driver; metadata of host
    aggregates; traits in Placement. It reads Nova's databases: run it where
    nova-manage runs. Where their configuration is missing, as on a compute
    host, it looks at the options alone. Exit status: 0 where nothing is left,
    3 where something is, 1 where not all could be looked at.
    """

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        with controller.nova(parsed_args) as context:
            import nova.conf

            from nova_prio import conf_files
            from nova_prio import remnants
            conf = nova.conf.CONF
            rows = list(remnants.find(
                context, conf, conf_files.paths(conf)))
        found = collections.Counter(row.kind for row in rows)
        kinds = ', '.join('%s %d' % pair for pair in found.items())
        if not rows:
            self.said = 'Nothing is left here: the package can be uninstalled.'
        elif found[remnants.UNREAD]:
            self.status, self.said = report.FAILED, (
                'Not all could be looked at (%s). See to what is listed as '
                '"unread" first, and run this again.' % kinds)
        else:
            self.status, self.said = report.FOUND, (
                'Left are: %s. Take them away in the order of the list, from '
                'its top, and run this again.' % kinds)
        return COLUMNS, rows
