# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio uninstall-check``."""

import collections

from nova_prio.cmd import controller
from nova_prio.cmd import report

COLUMNS = ('Kind', 'Name', 'Left', 'Remedy')


class UninstallCheck(report.Report):
    """List the leftovers of this package in a cloud, and how to remove them.

    Leftovers are: flavors that ask for a priority, or for both resources:PCPU
    and resources:VCPU; instances of any state that have a priority; options in
    the given files, or in the default files of the services, and in their
    default directories; hosts that run the compute driver; metadata of host
    aggregates; traits in Placement. This command reads Nova's databases: run
    it where nova-manage runs. If [api_database] connection is not set, as on a
    compute host, it checks only the options. Exit status: 0 if nothing is
    left, 3 if there are leftovers, 1 if a check failed.
    """

    def act(self, context, parsed_args):
        """List the leftovers; return the exit status."""
        from nova_prio.admin import config_files
        from nova_prio.admin import uninstall
        conf = controller.get_conf()
        rows = list(uninstall.find_leftovers(
            context, conf, config_files.find_paths(conf)))
        self.show(parsed_args, COLUMNS, rows)
        counts = collections.Counter(row.kind for row in rows)
        kinds = ', '.join('%s %d' % (kind, number)
                          for kind, number in counts.items())
        if uninstall.UNREAD in counts:
            return self.end(report.FAILED, (
                'Not all could be checked (%s). Follow the remedies of the '
                'rows of kind "unread".' % kinds))
        if rows:
            return self.end(report.FOUND, (
                'Leftovers: %s. Remove them in the order of the list, and run '
                'this command again.' % kinds))
        return self.end(report.CLEAN, (
            'There are no leftovers: the package can be uninstalled.'))
