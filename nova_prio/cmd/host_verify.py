# SPDX-License-Identifier: Apache-2.0

"""The command ``nova-prio host verify``."""

import functools

from nova_prio.cmd import host_selection
from nova_prio.cmd import report
from nova_prio.virt import driver_alias


class Verify(host_selection.HostSelection, report.Report):
    """Compare the state of hosts with their plans.

    For each item, list the value in the plan, in Placement, in the report of
    nova-compute and, if this command runs on the host with the configuration
    of nova-compute, in libvirt. Differences are listed with a remedy, and so
    are the findings of the audit. Without --plan, the others are compared with
    each other. For several hosts, list one line for each host. This command
    reads Nova's databases: run it where nova-manage runs. Exit status: 0 if
    all values agree, 3 if something differs, 1 if a check failed.
    """

    takes_plan = True

    def take_action(self, parsed_args):
        """Return the names of the columns, and the rows."""
        from nova_prio.admin.host import verify
        hosts = self.select_hosts(parsed_args)
        if not host_selection.is_one_host(parsed_args):
            return self.report_results(self.run_on_hosts(
                parsed_args, hosts,
                functools.partial(self._verify, parsed_args)))
        host, = hosts
        lines, names = self._compare(parsed_args, self.context, host)
        # The first outcome whose state a line has; None stands for any state.
        self.set_outcome({line.state for line in lines}, (
            (verify.UNREAD, report.FAILED, 'Not all could be checked: correct '
             'the rows of state "unread", and run this command again.'),
            (verify.DIFFERS, report.FOUND, 'Not all values agree: correct the '
             'rows of state "differs" from the top, and run this command '
             'again.'),
            (None, report.CLEAN, 'All values agree: there is nothing to do.'
             if self._reads_guests(host) else
             'All values agree. The guests were not checked: to check them, '
             'run this command on %s, with two options --config-file: for '
             'the file with the databases and for that of nova-compute.'
             % host)))
        return report.place_names(
            parsed_args, (*verify.COLUMNS, report.INSTANCE_NAME), [
                (line.item, *map(report.AmountsColumn, (
                    line.plan, line.placement, line.compute, line.libvirt)),
                 line.state, line.remedy, names.get(line.consumer, ''))
                for line in lines], 'Item')

    def _verify(self, parsed_args, context, host):
        """Return the HostResult of one of several hosts."""
        from nova_prio.admin.host import verify
        lines, _ = self._compare(parsed_args, context, host)
        for state, status in ((verify.UNREAD, report.FAILED),
                              (verify.DIFFERS, report.FOUND)):
            remedies = [line.remedy for line in lines if line.state == state]
            if remedies:
                return host_selection.HostResult(
                    state, sum(line.state != verify.OK for line in lines),
                    remedies[0], status)
        return host_selection.HostResult(
            verify.OK, 0, 'There is nothing to do.'
            if self._reads_guests(host) else
            'The guests were not checked: run this command on the host.')

    def _reads_guests(self, host):
        """Return whether this command runs on a host as nova-compute does."""
        return (self.conf.host == host and
                self.conf.compute_driver == driver_alias.DRIVER)

    def _compare(self, parsed_args, context, host):
        """Return the VerifyLines of a host, and the names of its instances.

        :returns: (list of VerifyLine, dict: UUID of an instance -> its name)
        """
        from nova_prio.admin.audit import guests
        from nova_prio.admin.audit import run
        from nova_prio.admin.host import state
        from nova_prio.admin.host import verify
        plan = self.load_plan(parsed_args, host)
        view = state.read_state(context, self.placement, host)
        audit = run.CloudAudit(
            context, self.placement,
            host if self._reads_guests(host) else None,
            functools.partial(guests.read_guests, self.conf))
        # The host has one compute node, so the audit has one result.
        (findings, _), = audit.run([host])
        return list(verify.list_lines(
            view, findings, audit.summarize(view), plan)), (
                view.names)
