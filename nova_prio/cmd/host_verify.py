# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host verify``."""

import functools

from nova_prio.cmd import report
from nova_prio.virt import driver_alias


class Verify(report.Report):
    """Compare the state of a host with its plan.

    For each item, list the value in the plan, in Placement, in the report of
    nova-compute and, if this command runs on the host with the configuration
    of nova-compute, in libvirt. Differences are listed with a remedy, and so
    are the findings of the audit. Without --plan, the others are compared with
    each other. This command reads Nova's databases: run it where nova-manage
    runs. Exit status: 0 if all values agree, 3 if something differs, 1 if a
    check failed.
    """

    is_for_one_host = True
    takes_plan = True

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.audit import guests
        from nova_prio.admin.audit import run
        from nova_prio.admin.host import state
        from nova_prio.admin.host import verify
        host = parsed_args.host
        plan = self.load_plan(parsed_args)
        is_this_host = (self.conf.host == host and
                        self.conf.compute_driver == driver_alias.DRIVER)
        host_state = state.read_state(self.context, self.placement, host)
        audit = run.CloudAudit(
            self.context, self.placement, host if is_this_host else None,
            functools.partial(guests.read_guests, self.conf))
        # The host has one compute node, so the audit has one result.
        (findings, _), = audit.run([host])
        lines = list(verify.list_lines(
            host_state, findings, audit.summarize(host_state.view), plan))
        # The first outcome whose state a line has; None stands for any state.
        self.set_outcome({line.state for line in lines}, (
            (verify.UNREAD, report.FAILED, 'Not all could be checked: correct '
             'the rows of state "unread", and run this command again.'),
            (verify.DIFFERS, report.FOUND, 'Not all values agree: correct the '
             'rows of state "differs" from the top, and run this command '
             'again.'),
            (None, report.CLEAN, 'All values agree: there is nothing to do.'
             if is_this_host else
             'All values agree. The guests were not checked: to check them, '
             'run this command on %s, with two options --config-file: for '
             'the file with the databases and for that of nova-compute.'
             % host)))
        return verify.COLUMNS, [
            (line.item, *map(report.AmountsColumn, (
                line.plan, line.placement, line.compute, line.libvirt)),
             line.state, line.remedy) for line in lines]
