# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio uninstall-check``."""

import collections

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

    def act(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin import config_files
        from nova_prio.admin import uninstall
        rows = list(uninstall.find_leftovers(
            self.context, self.conf, config_files.find_paths(self.conf)))
        found = collections.Counter(row.kind for row in rows)
        kinds = ', '.join('%s %d' % pair for pair in found.items())
        if not rows:
            self.said = 'Nothing is left here: the package can be uninstalled.'
        elif found[uninstall.UNREAD]:
            self.status, self.said = report.FAILED, (
                'Not all could be looked at (%s). See to what is listed as '
                '"unread" first, and run this again.' % kinds)
        else:
            self.status, self.said = report.FOUND, (
                'Left are: %s. Take them away in the order of the list, from '
                'its top, and run this again.' % kinds)
        return COLUMNS, rows
